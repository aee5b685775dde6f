"""The special tokens of every BERT vocabulary."""

import re

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNK, CLS, SEP, MASK)
CONTINUATION = "##"
"""Prefix of a token that continues a word."""
UNUSED = re.compile(r"\[unused\d+\]")
"""A placeholder in the vocabulary for a word that is added later."""
