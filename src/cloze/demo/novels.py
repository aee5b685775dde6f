"""Twelve novels by six authors, as text for pre-training and as passages to tell the authors by.

The first book of each author is for learning, the second one for testing. Names of characters do not carry over
from one to the other, so what is learned has to be manner. Title pages, which name the author, are cut away.
"""

import lzma
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from cloze.text.sentences import split_sentences

_HEADING = re.compile(r"\W*(?i:chapter|part|phase|book) .{0,40}|[^a-z]*")


@dataclass(frozen=True, slots=True)
class Novel:
    """A book of the collection."""

    author: str
    title: str
    year: int
    file: str
    first_words: str
    """What the story begins with, after title page, preface and contents."""


@dataclass(frozen=True, slots=True)
class Novelist:
    """An author, with a book to learn from and one to be tested on."""

    name: str
    learned: Novel
    tested: Novel


def _novelist(name: str, learned: tuple[str, int, str, str], tested: tuple[str, int, str, str]) -> Novelist:
    return Novelist(name, Novel(name, *learned), Novel(name, *tested))


NOVELISTS = (
    _novelist(
        "Brontë",
        ("Shirley", 1849, "Cbronte_Shirley_1849", "Of late years an abundant shower"),
        ("Jane Eyre", 1847, "Cbronte_Jane_1847", "There was no possibility"),
    ),
    _novelist(
        "Burnett",
        ("The Secret Garden", 1911, "Burnett_Garden_1911", "When Mary Lennox was sent"),
        ("A Little Princess", 1905, "Burnett_Princess_1905", "Once on a dark winter's day"),
    ),
    _novelist(
        "Conrad",
        ("Nostromo", 1904, "Conrad_Nostromo_1904", "In the time of Spanish rule"),
        ("Almayer's Folly", 1895, "Conrad_Almayer_1895", '"Kaspar! Makan!"'),
    ),
    _novelist(
        "Dickens",
        ("Great Expectations", 1861, "Dickens_Expectations_1861", "My father's family name"),
        ("Oliver Twist", 1839, "Dickens_Oliver_1839", "Among other public buildings"),
    ),
    _novelist(
        "Doyle",
        ("The Lost World", 1912, "Doyle_Lost_1912", "Mr. Hungerton, her father"),
        ("The Hound of the Baskervilles", 1902, "Doyle_Hound_1902", "Mr. Sherlock Holmes, who was"),
    ),
    _novelist(
        "Hardy",
        ("Tess of the d'Urbervilles", 1891, "Hardy_Tess_1891", "On an evening in the latter part of May"),
        ("Jude the Obscure", 1895, "Hardy_Jude_1895", "The schoolmaster was leaving"),
    ),
)


def chapters(novel: Novel) -> list[list[str]]:
    """Return the sentences of each chapter."""
    file = resources.files(__package__) / "data" / f"{novel.file}.txt.xz"
    text = lzma.decompress(file.read_bytes()).decode("utf-8-sig")
    found: list[list[str]] = [[]]
    for line in text[text.index(novel.first_words) :].splitlines():
        if not line.strip():
            continue
        if not _HEADING.fullmatch(line):
            found[-1].append(line.strip())
        elif found[-1]:
            found.append([])
    joined = (" ".join(" ".join(lines).split()) for lines in found)
    return [split_sentences(chapter) for chapter in joined if chapter]


def passages(sentences: Sequence[str], *, min_words: int) -> list[str]:
    """Join neighbouring sentences to passages of at least `min_words` words; what is left over is not used."""
    found: list[str] = []
    part: list[str] = []
    words = 0
    for sentence in sentences:
        part.append(sentence)
        words += len(sentence.split())
        if words >= min_words:
            found.append(" ".join(part))
            part, words = [], 0
    return found
