"""The special tokens of every BERT vocabulary."""

import re
from collections.abc import Mapping
from types import MappingProxyType

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)
ROLES: Mapping[str, str] = MappingProxyType(
    {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
)
"""The special tokens by the settings of transformers that name them, as in `pad_token`."""
CONTINUATION = "##"
"""Prefix of a token that continues a word."""
UNUSED = re.compile(r"\[unused\d+\]")
"""A placeholder in the vocabulary for a word that is added later."""
