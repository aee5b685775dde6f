"""Scores of entities in tagged words: those of the CoNLL shared tasks' own program, in percent.

A tag is a mark and a type, "B-PER", or "O" outside of entities. An entity counts as found where its first word, its
last word and its type are all right.

Source:
    conlleval, version 2004-01-26 (Tjong Kim Sang and Buchholz 2000; Tjong Kim Sang and De Meulder 2003).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cloze.errors import InputError

_BOUNDARY = "-X-"


class Entity(NamedTuple):
    """Neighbouring words, from `start` to before `end`."""

    type: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Entities of one type, or of all: those there are, those predicted, and those that are both."""

    gold: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        """The share of the predicted that is correct, in percent; 0 where nothing is predicted."""
        return 100 * self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of those there are that is found, in percent; 0 where there are none."""
        return 100 * self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """`2 precision recall / (precision + recall)`, in percent; 0 where both are."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0


@dataclass(frozen=True, slots=True)
class EntityScores:
    """What conlleval prints: `str` gives its words."""

    num_words: int
    num_correct_tags: int
    by_type: dict[str, Counts]

    @property
    def all_types(self) -> Counts:
        """The sums over all types."""
        counts = self.by_type.values()
        return Counts(
            sum(c.gold for c in counts), sum(c.predicted for c in counts), sum(c.correct for c in counts)
        )

    @property
    def accuracy(self) -> float:
        """The share of words whose tag is right, in percent."""
        return 100 * self.num_correct_tags / self.num_words if self.num_words else 0.0

    def __str__(self) -> str:
        total = self.all_types
        lines = [
            f"processed {self.num_words} tokens with {total.gold} phrases; "
            f"found: {total.predicted} phrases; correct: {total.correct}."
        ]
        if self.num_words:
            lines.append(f"accuracy: {self.accuracy:6.2f}%; {_percentages(total)}")
        for name, counts in self.by_type.items():
            lines.append(f"{name:>17}: {_percentages(counts)}  {counts.predicted}")
        return "".join(f"{line}\n" for line in lines)


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities that the tags of a sentence mark, whatever their scheme, and however broken it is.

    >>> entities(["I-PER", "I-PER", "B-PER", "O", "S-LOC", "I-ORG"])
    [Entity(type='PER', start=0, end=2), Entity(type='PER', start=2, end=3), Entity(type='LOC', start=4, end=5), \
Entity(type='ORG', start=5, end=6)]

    An entity begins at B and S, after O, after E and S, and where the type changes; it ends where another begins,
    and before O.

    Differs:
        conlleval knows no S, and to it E before B of the same type is one entity; both would spoil IOBES.
    """
    found = []
    start, mark_before, type_before = 0, "O", ""
    for i, tag in enumerate([*tags, "O"]):
        mark, _, type_ = tag.partition("-")
        starts = mark in ("B", "S") or mark_before in ("O", "E", "S") or type_ != type_before
        if mark_before != "O" and (starts or mark == "O"):
            found.append(Entity(type_before, start, i))
        if starts:
            start = i
        mark_before, type_before = mark, type_
    return found


def entity_scores(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> EntityScores:
    """Compare the tags of sentences with what they should be.

    Raises:
        ValueError: there are not as many predictions as sentences, or as many tags as words.
    """
    num_words = num_correct_tags = 0
    there: Counter[str] = Counter()
    claimed: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for true_tags, predicted_tags in zip(gold, predicted, strict=True):
        num_words += len(true_tags)
        num_correct_tags += sum(a == b for a, b in zip(true_tags, predicted_tags, strict=True))
        true, found = entities(true_tags), entities(predicted_tags)
        there.update(entity.type for entity in true)
        claimed.update(entity.type for entity in found)
        correct.update(entity.type for entity in set(true) & set(found))
    return EntityScores(
        num_words,
        num_correct_tags,
        {name: Counts(there[name], claimed[name], correct[name]) for name in sorted(there | claimed)},
    )


def conlleval(lines: Iterable[str], *, where: object = "predictions") -> EntityScores:
    """Score lines as conlleval reads them: the last column is predicted, the one before it is right.

    Columns are one space apart, or one tab; blanks at the end are none, as to Perl. An empty line ends a sentence,
    and so does one that begins with -X-. A line for -DOCSTART- is a word like any other, as it is to the program.

    Differs:
        A tag without a type ("B") counts as in the program, which prints the line of such tags twice.

    Args:
        lines: as a file gives them.
        where: the name of the file.

    Raises:
        InputError: a line has fewer than two columns, or not as many as the first.
    """
    gold: list[list[str]] = [[]]
    predicted: list[list[str]] = [[]]
    width = None
    for number, line in enumerate(lines, 1):
        line = line.rstrip()
        cells = line.split("\t" if "\t" in line else " ")
        if not line.strip() or cells[0] == _BOUNDARY:
            gold.append([])
            predicted.append([])
            continue
        width = width or len(cells)
        if len(cells) != width or width < 2:
            what = f"{len(cells)} columns, the first line has {width}" if width > 1 else "one column"
            remedy = "Give the tag that is right and the predicted one in the last two columns"
            raise InputError(what, where=f"{where}:{number}", remedy=remedy)
        gold[-1].append(cells[-2])
        predicted[-1].append(cells[-1])
    return entity_scores(gold, predicted)


def _percentages(counts: Counts) -> str:
    return f"precision: {counts.precision:6.2f}%; recall: {counts.recall:6.2f}%; FB1: {counts.f1:6.2f}"
