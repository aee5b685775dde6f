"""Google's tokenizer, re-derived in plain Python: slow, and right in every corner.

It answers what the released BERT models were trained on. The default, `cloze.text.tokenizer`, differs from it
on exotic Unicode only; docs/tokenizer.md says where. The answers follow the Unicode version of the Python
that runs it.

Source: google-research/bert tokenization.py @eedf571.
"""

import string
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from cloze.text.pieces import CONTINUATION, UNK

_CHINESE_BLOCKS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


@dataclass(frozen=True)
class ReferenceTokenizer:
    """Google's `FullTokenizer`: the same pieces for every text.

    >>> tokenizer = ReferenceTokenizer(("[UNK]", "un", "##aff", "##able", "!"))
    >>> tokenizer.tokenize("Unaffable! Ünaffable? ")
    ['un', '##aff', '##able', '!', 'un', '##aff', '##able', '[UNK]']

    Args:
        pieces: the vocabulary; a piece's id is its index.
        lowercase: lower-case the text and remove accents.
        max_input_chars_per_word: longer words become [UNK].
    """

    pieces: Sequence[str]
    lowercase: bool = True
    max_input_chars_per_word: int = 200

    def tokenize(self, text: str) -> list[str]:
        """Cut a text into pieces."""
        return [piece for word in split_words(text, lowercase=self.lowercase) for piece in self._cut(word)]

    def ids(self, text: str) -> list[int]:
        """Cut a text into pieces and return their ids."""
        return [self._id_of[piece] for piece in self.tokenize(text)]

    @cached_property
    def _id_of(self) -> dict[str, int]:
        return {piece: index for index, piece in enumerate(self.pieces)}

    def _cut(self, word: str) -> list[str]:
        """Take the longest piece that fits, again and again; a word with a rest is unknown as a whole."""
        if len(word) > self.max_input_chars_per_word:
            return [UNK]
        pieces = []
        start = 0
        while start < len(word):
            prefix = CONTINUATION if start else ""
            candidates = (prefix + word[start:end] for end in range(len(word), start, -1))
            piece = next((candidate for candidate in candidates if candidate in self._id_of), None)
            if piece is None:
                return [UNK]
            pieces.append(piece)
            start += len(piece) - len(prefix)
        return pieces


def split_words(text: str, *, lowercase: bool) -> list[str]:
    r"""Clean a text and cut it at white space, around punctuation and around Chinese characters.

    >>> split_words("Où\x00 est-il?", lowercase=True)
    ['ou', 'est', '-', 'il', '?']
    """
    spaced = "".join(_clean(text))
    # Lower-casing looks at the whole word (a final sigma), so it comes before the cut at punctuation.
    words = [_strip_accents(word.lower()) if lowercase else word for word in spaced.split()]
    return " ".join(part for word in words for part in _split_at_punctuation(word)).split()


def _clean(text: str) -> Iterator[str]:
    """Drop control characters, make all white space a space, put spaces around Chinese characters."""
    for character in text:
        if _is_white_space(character):
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
        if _is_punctuation(character):
            yield from (rest, character)
            rest = ""
        else:
            rest += character
    yield rest


def _is_white_space(character: str) -> bool:
    return character in " \t\n\r" or unicodedata.category(character) == "Zs"


def _is_punctuation(character: str) -> bool:
    """Whether it stands alone: Unicode's punctuation, and ASCII's symbols ("$"), whatever Unicode says."""
    return character in string.punctuation or unicodedata.category(character).startswith("P")


def is_chinese(character: str) -> bool:
    """Whether it is a word to BERT: the Chinese characters of all languages, not kana or hangul."""
    return any(first <= ord(character) <= last for first, last in _CHINESE_BLOCKS)
