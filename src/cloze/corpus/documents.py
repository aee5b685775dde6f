"""A document as every format gives it, and parts: the documents that one worker takes at a time."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["sentences", "paragraphs"]
MAX_DOCUMENT_BYTES = 32_000_000
_PART_CHARACTERS = 4_000_000


@dataclass(frozen=True, slots=True)
class Document:
    """Text whose sentences follow one another."""

    lines: tuple[str, ...]
    """None of them empty, without white space around them."""
    where: str
    """Where it begins, as "file:line"."""
    kind: Kind
    """What a line is."""

    def sentences_of_lines(self, split: Callable[[str], list[str]]) -> list[list[str]]:
        """Return the sentences of each line; `split` cuts a paragraph into its own."""
        return [[line] if self.kind == "sentences" else split(line) for line in self.lines]


def in_parts(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Gather documents into parts of a few megabytes, the work of one worker at a time."""
    part: list[Document] = []
    size = 0
    for document in documents:
        part.append(document)
        size += sum(map(len, document.lines))
        if size >= _PART_CHARACTERS:
            yield part
            part, size = [], 0
    if part:
        yield part
