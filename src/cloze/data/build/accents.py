"""Count the letters of a text that lower-casing without accents changes.

BERT decomposes characters (NFD) and deletes nonspacing marks. That is harmless in English; it also deletes vowel signs
(Devanagari, Thai), makes one letter of two (Ukrainian, Japanese), and takes the syllables of Korean apart.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest

from cloze.data.build.cleaning import MAX_EXAMPLES, Counts

_MIN_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class ChangedWord:
    """A word before and after."""

    before: str
    after: str
    """With spaces between characters, if there are more of them than before."""


@dataclass(frozen=True, slots=True)
class AccentCounts(Counts):
    """Counts of letters and marks."""

    letters: int = 0
    changed: int = 0
    examples: tuple[ChangedWord, ...] = ()
    """The words with the most changed letters, of the first text that has any."""

    @classmethod
    def of_words(cls, words: Iterable[tuple[str, int]]) -> "AccentCounts":
        """Count the letters of words, each given with its number of occurrences."""
        letters = 0
        changes: list[tuple[int, str]] = []
        for word, count in words:
            if word.isascii():
                letters += count * (len(word) if word.isalpha() else sum(map(str.isalpha, word)))
                continue
            kinds = list(map(_change, word))
            letters += count * (len(kinds) - kinds.count(None))
            if changed := kinds.count(True):
                changes.append((-count * changed, word))
        examples = []
        for _, word in nsmallest(MAX_EXAMPLES, changes):
            after = strip_accents(word)
            examples.append(ChangedWord(word, " ".join(after) if len(after) > len(word) else after))
        return cls(letters, -sum(change for change, _ in changes), tuple(examples))

    def describe(self) -> list[str]:
        """Return a warning if a noticeable share of the letters changes."""
        if self.changed < max(1, _MIN_SHARE * self.letters):
            return []
        examples = ", ".join(f"{word.before} becomes {word.after}" for word in self.examples)
        return [
            f"warning: lower-casing removes accents and marks, which changes {self.changed / self.letters:.1%} of the "
            f"letters: {examples}. --keep-accents lower-cases without it, --cased keeps all"
        ]


def strip_accents(word: str) -> str:
    """Lower-case a word and remove accents, as an uncased tokenizer does."""
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


@lru_cache(maxsize=1 << 16)
def _change(character: str) -> bool | None:
    """Return whether a letter or mark changes other than in case; None for other characters."""
    if unicodedata.category(character)[0] not in "LM":
        return None
    return strip_accents(character) != character.lower()
