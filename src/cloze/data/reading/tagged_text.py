"""Sentences of tagged words, and the texts that they are from: the examples of tagging tasks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cloze.tokenization.unicode import replace_lone_surrogates

SENTENCES, DOCUMENT_PLACE = "sentences", "document"
"""Cells of rows of tagged words: the sentences, a tuple; and file and line of the document that they are from."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words, and their tags as in the file where they are known."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    file: str = "text"
    first_line: int | None = 1
    """None: `file` is the place of all words."""
    offsets: tuple[tuple[int, int], ...] | None = None
    """First character of each word and the one after its last, in plain text."""
    lines: tuple[int, ...] = ()
    """Lines of the words, if others are between them."""

    @classmethod
    def at(cls, places: Sequence[str], words: tuple[str, ...], tags: tuple[str, ...] | None) -> "Sentence":
        """Return the sentence of words at these places: lines of a file, or the row in memory of all."""
        file, _, line = places[0].rpartition(":")
        if not line.isdigit():
            return cls(words, tags, places[0], None)
        numbers = tuple(int(place.rpartition(":")[2]) for place in places)
        gaps = numbers if numbers[-1] - numbers[0] >= len(places) else ()
        return cls(words, tags, file, numbers[0], lines=gaps)

    def where(self, word: int) -> str:
        """Return file and line of a word."""
        if self.first_line is None:
            return self.file
        return f"{self.file}:{self.lines[word] if self.lines else self.first_line + word}"


@dataclass(frozen=True, slots=True)
class TaggedText:
    """An example of a tagging task: a sentence, or the sentences of a document."""

    sentences: tuple[Sentence, ...]
    text: str | None = None
    """The plain text that the words are from."""
    document: str | None = None
    """File and line of the document that a sentence is from."""

    def text_and_offsets(self) -> tuple[str, list[list[tuple[int, int]]]]:
        """Return the text, and the character offsets of the words of each sentence.

        The text of words in columns has a space between words and a line per sentence.
        """
        if self.text is not None:
            return self.text, [list(sentence.offsets or ()) for sentence in self.sentences]
        offsets: list[list[tuple[int, int]]] = []
        start = 0
        for sentence in self.sentences:
            offsets.append([])
            for word in sentence.words:
                offsets[-1].append((start, start + len(word)))
                start += len(word) + 1
        return "\n".join(" ".join(sentence.words) for sentence in self.sentences), offsets


def sentence_of_words(
    words: Iterable[str], tags: tuple[str, ...] | None = None, where: str = "words"
) -> TaggedText:
    """Return the example of words that are split already; without words it has no sentence."""
    checked = tuple(map(replace_lone_surrogates, words))
    return TaggedText((Sentence(checked, tags, where, None),) if checked else ())
