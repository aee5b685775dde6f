"""Google's BERT tokenizer in plain Python: slow, and exact for every text.

`cloze.tokenization.tokenizer`, the default, differs from it only for rare Unicode:
docs/reference/tokenizer.md lists where. The results follow the Unicode version of the Python that runs it.

Source: google-research/bert tokenization.py @eedf571.
"""

import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from cloze.tokenization.special_tokens import CONTINUATION, UNK
from cloze.tokenization.unicode import is_chinese


@dataclass(frozen=True)
class GoogleTokenizer:
    """Google's `FullTokenizer`: the same tokens for every text.

    >>> tokenizer = GoogleTokenizer(("[UNK]", "un", "##aff", "##able", "!"))
    >>> tokenizer.tokenize("Unaffable! Ünaffable? ")
    ['un', '##aff', '##able', '!', 'un', '##aff', '##able', '[UNK]']

    Differs: `strip_accents=False` keeps the accents of lower-cased text.
    """

    tokens: Sequence[str]
    lowercase: bool = True
    strip_accents: bool = True
    max_input_chars_per_word: int = 200

    def tokenize(self, text: str) -> list[str]:
        words = split_words(text, lowercase=self.lowercase, strip_accents=self.strip_accents)
        return [token for word in words for token in self._tokenize_word(word)]

    def ids(self, text: str) -> list[int]:
        return [self._id_of_token[token] for token in self.tokenize(text)]

    @cached_property
    def _id_of_token(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    def _tokenize_word(self, word: str) -> list[str]:
        """Match the longest token first, from left to right; a word with an unmatched rest is unknown."""
        if len(word) > self.max_input_chars_per_word:
            return [UNK]
        tokens = []
        start = 0
        while start < len(word):
            prefix = CONTINUATION if start else ""
            candidates = (prefix + word[start:end] for end in range(len(word), start, -1))
            token = next((candidate for candidate in candidates if candidate in self._id_of_token), None)
            if token is None:
                return [UNK]
            tokens.append(token)
            start += len(token) - len(prefix)
        return tokens


def split_words(text: str, *, lowercase: bool, strip_accents: bool = True) -> list[str]:
    r"""Clean a text and split it at white space, around punctuation and around Chinese characters.

    >>> split_words("Où\x00 est-il?", lowercase=True)
    ['ou', 'est', '-', 'il', '?']
    """
    cleaned = []
    for character in text:
        category = unicodedata.category(character)
        if character in " \t\n\r" or category == "Zs":
            cleaned.append(" ")
        elif character not in "\x00\ufffd" and category not in ("Cc", "Cf"):
            cleaned.append(f" {character} " if is_chinese(character) else character)
    # Lower-casing depends on the whole word (a final sigma), so it comes before the split at punctuation.
    words = [word.lower() if lowercase else word for word in "".join(cleaned).split()]
    if lowercase and strip_accents:
        decomposed = (unicodedata.normalize("NFD", word) for word in words)
        words = ["".join(c for c in word if unicodedata.category(c) != "Mn") for word in decomposed]
    return "".join(
        f" {c} " if c in string.punctuation or unicodedata.category(c).startswith("P") else c
        for c in " ".join(words)
    ).split()
