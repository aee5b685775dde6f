"""A look at text before anything is written: what would be read and how, and whether all of it can be."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from cloze.corpus.cleaning import CleaningConfig, CleaningCounts, clean
from cloze.corpus.documents import Document
from cloze.corpus.readers import read_documents
from cloze.corpus.sources import Stretch, total_bytes
from cloze.errors import InputError
from cloze.executor import Workers, map_unordered
from cloze.progress import SILENT, Progress


@dataclass(frozen=True, slots=True)
class Survey:
    """What is in a text."""

    documents: int = 0
    """After cleaning, as all the counts."""
    lines: int = 0
    """Sentences or paragraphs, as the text has it."""
    characters: int = 0
    cleaning: CleaningCounts = CleaningCounts()

    def __add__(self, other: "Survey") -> "Survey":
        return Survey(
            self.documents + other.documents,
            self.lines + other.lines,
            self.characters + other.characters,
            self.cleaning + other.cleaning,
        )


def survey(
    stretches: Sequence[Stretch],
    cleaning: CleaningConfig,
    *,
    workers: Workers = 1,
    progress: Progress = SILENT,
) -> Survey:
    """Read and clean all of a text, and write nothing.

    Raises:
        InputError: something cannot be read, the first thing in the order of the text.
    """
    total = total_bytes(stretches)
    found = Survey()
    outcomes: dict[int, Survey | InputError] = {}
    with progress.bar("reading", total=total, unit="bytes") as bar:
        work = partial(_survey, cleaning=cleaning)
        numbered = enumerate(stretches)
        waited_for = 0
        for number, outcome in map_unordered(work, numbered, workers=1 if total is None else workers):
            outcomes[number] = outcome
            bar.advance(stretches[number].size_bytes)
            while (next_outcome := outcomes.pop(waited_for, None)) is not None:
                if isinstance(next_outcome, InputError):
                    raise next_outcome
                found += next_outcome
                waited_for += 1
                bar.show(documents=f"{found.documents:,}")
    return found


def _survey(numbered: tuple[int, Stretch], *, cleaning: CleaningConfig) -> tuple[int, Survey | InputError]:
    number, stretch = numbered
    try:
        return number, _read_all(stretch, cleaning)
    except InputError as error:  # not raised here, since one in an earlier stretch may still come
        return number, error


def _read_all(stretch: Stretch, cleaning: CleaningConfig) -> Survey:
    documents = lines = characters = 0
    counts = CleaningCounts()
    with SILENT.bar("reading", total=None) as bar:
        for document in read_documents(stretch, bar):
            cleaned, done = clean(document, cleaning)
            counts += done
            if cleaned is not None:
                documents += 1
                lines += len(cleaned.lines)
                characters += sum(map(len, cleaned.lines))
    return Survey(documents, lines, characters, counts)


def first_document(stretches: Sequence[Stretch]) -> Document | None:
    """Return the document that comes first, not cleaned; None where there is none.

    Raises:
        InputError: it cannot be read.
    """
    with SILENT.bar("reading", total=None) as bar:
        return next((document for stretch in stretches for document in read_documents(stretch, bar)), None)
