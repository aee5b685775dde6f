"""Google's BERT tokenizer in plain Python: slow, and exact for every text.

`cloze.tokenization.tokenizer`, the default, differs from it only for rare Unicode:
docs/reference/tokenizer.md lists where. The results follow the Unicode version of the Python that runs it.

Source: google-research/bert tokenization.py @eedf571.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from cloze.tokenization.special_tokens import CONTINUATION, UNK
from cloze.tokenization.unicode import is_chinese, is_punctuation, is_white_space


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
    spaced = "".join(_clean(text))
    # Lower-casing depends on the whole word (a final sigma), so it comes before the split at punctuation.
    words = [word.lower() if lowercase else word for word in spaced.split()]
    if lowercase and strip_accents:
        words = list(map(_strip_accents, words))
    return " ".join(part for word in words for part in _split_at_punctuation(word)).split()


def _clean(text: str) -> Iterator[str]:
    """Drop control characters, turn white space into spaces, and put spaces around Chinese characters."""
    for character in text:
        if is_white_space(character):
            yield " "
        elif character in "\x00\ufffd" or unicodedata.category(character) in ("Cc", "Cf"):
            continue
        elif is_chinese(character):
            yield f" {character} "
        else:
            yield character


def _strip_accents(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word)
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


def _split_at_punctuation(word: str) -> Iterator[str]:
    rest = ""
    for character in word:
        if is_punctuation(character):
            yield from (rest, character)
            rest = ""
        else:
            rest += character
    yield rest
