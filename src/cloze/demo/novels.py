"""The bundled novels: twelve by six authors, as sentences for pre-training and as passages to classify by author.

The two novels of an author share no characters, so that a classifier must learn style instead of names. Title pages,
which name the author, are cut off.
"""

import lzma
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import islice

from cloze.tokenization.sentences import split_sentences

DATA = resources.files(__package__) / "data"
_HEADING = re.compile(r"\W*(?i:chapter|part|phase|book) .{0,40}|[^a-z]*")


@dataclass(frozen=True, slots=True)
class Novel:
    """A bundled novel."""

    author: str
    title: str
    file: str
    first_words: str
    """First words of the story, after title page, preface and contents."""


@dataclass(frozen=True, slots=True)
class Novelist:
    """An author with a training novel and a test novel."""

    name: str
    train_novel: Novel
    test_novel: Novel


_NOVELS = (
    Novel("Brontë", "Shirley", "Cbronte_Shirley_1849", "Of late years an abundant shower"),
    Novel("Brontë", "Jane Eyre", "Cbronte_Jane_1847", "There was no possibility"),
    Novel("Burnett", "The Secret Garden", "Burnett_Garden_1911", "When Mary Lennox was sent"),
    Novel("Burnett", "A Little Princess", "Burnett_Princess_1905", "Once on a dark winter's day"),
    Novel("Conrad", "Nostromo", "Conrad_Nostromo_1904", "In the time of Spanish rule"),
    Novel("Conrad", "Almayer's Folly", "Conrad_Almayer_1895", '"Kaspar! Makan!"'),
    Novel("Dickens", "Great Expectations", "Dickens_Expectations_1861", "My father's family name"),
    Novel("Dickens", "Oliver Twist", "Dickens_Oliver_1839", "Among other public buildings"),
    Novel("Doyle", "The Lost World", "Doyle_Lost_1912", "Mr. Hungerton, her father"),
    Novel("Doyle", "The Hound of the Baskervilles", "Doyle_Hound_1902", "Mr. Sherlock Holmes, who was"),
    Novel("Hardy", "Tess of the d'Urbervilles", "Hardy_Tess_1891", "On an evening in the latter part of May"),
    Novel("Hardy", "Jude the Obscure", "Hardy_Jude_1895", "The schoolmaster was leaving"),
)
NOVELISTS = tuple(
    Novelist(train.author, train, test) for train, test in zip(_NOVELS[::2], _NOVELS[1::2], strict=True)
)


def read_chapters(novel: Novel, count: int | None = None) -> list[list[str]]:
    """Return the sentences of each chapter, or of the first `count`."""
    text = lzma.decompress((DATA / f"{novel.file}.txt.xz").read_bytes()).decode("utf-8-sig")
    chapters: list[list[str]] = [[]]
    for line in text[text.index(novel.first_words) :].splitlines():
        if _HEADING.fullmatch(line) and line.strip():
            chapters.append([])
        else:
            chapters[-1].append(line)
    joined = (" ".join(" ".join(lines).split()) for lines in chapters)
    return [split_sentences(chapter) for chapter in islice(filter(None, joined), count)]


def split_passages(sentences: Sequence[str], *, min_words: int) -> list[str]:
    """Join consecutive sentences to passages of at least `min_words` words; a shorter rest is left out."""
    passages: list[str] = []
    passage: list[str] = []
    words = 0
    for sentence in sentences:
        passage.append(sentence)
        words += len(sentence.split())
        if words >= min_words:
            passages.append(" ".join(passage))
            passage, words = [], 0
    return passages


def sample_passages(
    novel: Novel, count: int, min_words: int, *, max_chapters: int | None = None
) -> list[str]:
    """Return up to `count` passages of a novel, evenly spaced."""
    chapters = read_chapters(novel, max_chapters)
    passages = [text for chapter in chapters for text in split_passages(chapter, min_words=min_words)]
    count = min(count, len(passages))
    return [passages[i * len(passages) // count] for i in range(count)]
