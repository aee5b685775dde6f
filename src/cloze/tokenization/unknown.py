"""Words that a vocabulary does not know: each becomes [UNK], so that texts that differ in nothing else are equal."""

import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from cloze.errors import DataWarning
from cloze.tokenization.tokenizer import Tokenizer

_REMEDY = (
    "Write them in known words, choose another model, or extend its WordPiece vocabulary and pre-train on"
)
_MAX_EXAMPLE = 30


@dataclass(frozen=True, slots=True)
class UnknownWords:
    """How many of some texts have unknown words.

    >>> print((UnknownWords(8, 2, "😍") + UnknownWords(2, 0)).describe("texts"))
    2 of 10 texts (20%) have words that the vocabulary does not know, such as '😍': the model reads each as [UNK]
    """

    texts: int = 0
    """Texts that were read."""
    unknown: int = 0
    """Those with an unknown word."""
    example: str = ""
    """The first unknown word."""

    def __add__(self, other: "UnknownWords") -> "UnknownWords":
        texts, unknown = self.texts + other.texts, self.unknown + other.unknown
        return UnknownWords(texts, unknown, self.example or other.example)

    def describe(self, name: str) -> str:
        """Return the share of the texts, which are called `name`, and an example."""
        percent = 100 * self.unknown / self.texts
        share = "under 0.01" if percent < 0.01 else f"{percent:.{0 if percent >= 1 else 2}f}"
        share = f"{self.unknown:,} of {self.texts:,} {name} ({share}%)"
        such = f", such as {self.example[:_MAX_EXAMPLE]!r}" if self.example else ""
        return f"{share} have words that the vocabulary does not know{such}: the model reads each as [UNK]"

    def warn(self, name: str, *, where: object = None, stacklevel: int = 2) -> None:
        """Warn of the unknown words, if there are any, with the remedy; `name` is what the texts are called."""
        if not self.unknown:
            return
        place = "" if where is None else f"{where}: "
        warnings.warn(DataWarning(f"{place}{self.describe(name)}. {_REMEDY}"), stacklevel=stacklevel + 1)


NONE_UNKNOWN = UnknownWords()


def count_unknown(
    tokenizer: Tokenizer, texts: Sequence[str], token_ids: Iterable[Collection[int]]
) -> UnknownWords:
    """Return how many texts have unknown words, given the token ids of each."""
    unknown_id = tokenizer.unknown_id
    unknown = [text for text, ids in zip(texts, token_ids, strict=True) if unknown_id in ids]
    example = next((word for text in unknown for word in unknown_words(tokenizer, text)), "")
    return UnknownWords(len(texts), len(unknown), example)


def unknown_words(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the unknown words of a text."""
    encoding = tokenizer.encode(text)
    return [
        text[start:end]
        for token_id, (start, end) in zip(encoding.input_ids, encoding.offsets, strict=True)
        if token_id == tokenizer.unknown_id
    ]
