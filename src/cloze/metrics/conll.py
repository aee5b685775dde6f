"""Entity metrics of conlleval, the program of the CoNLL shared tasks, in percent.

A tag is a prefix and a type, "B-PER", or "O" outside of entities. An entity is correct if its first word, its last word
and its type are.

Source: conlleval, version 2004-01-26 (Tjong Kim Sang and Buchholz 2000; Tjong Kim Sang and De Meulder 2003).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cloze.errors import InputError
from cloze.metrics.classification import Counts, sum_counts

_BOUNDARY = "-X-"


class Entity(NamedTuple):
    """Consecutive words, from `start` to before `end`."""

    type: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EntityScores:
    """The result of conlleval; `str` returns its printout."""

    num_words: int
    num_correct_tags: int
    by_type: dict[str, Counts]

    @property
    def all_types(self) -> Counts:
        """The sums over all types."""
        return sum_counts(self.by_type.values())

    @property
    def accuracy(self) -> float:
        """Share of correct tags, in percent."""
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
    """Return the entities that the tags of a sentence mark, in any scheme, valid or not.

    >>> entities(["I-PER", "I-PER", "B-PER", "O", "S-LOC", "I-ORG"])
    [Entity(type='PER', start=0, end=2), Entity(type='PER', start=2, end=3), Entity(type='LOC', start=4, end=5), \
Entity(type='ORG', start=5, end=6)]

    An entity begins at B and S, after O, E and S, and where the type changes; it ends where another begins and at O.
    L and U of BILOU are E and S.

    Differs: conlleval ignores S, and continues an entity from E to B of the same type; both are wrong for IOBES.
    """
    marked = []
    start, prefix_before, type_before = 0, "O", ""
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, type_ = tag.partition("-")
        begins = prefix in ("B", "S", "U") or prefix_before in ("O", *"ESLU") or type_ != type_before
        if prefix_before != "O" and (begins or prefix == "O"):
            marked.append(Entity(type_before, start, i))
        if begins:
            start = i
        prefix_before, type_before = prefix, type_
    return marked


def entity_scores(gold: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> EntityScores:
    """Compare predicted with gold tags, sentence by sentence.

    Raises:
        ValueError: the numbers of sentences or words differ.
    """
    num_words = num_correct_tags = 0
    num_gold, num_predicted, num_correct = Counter[str](), Counter[str](), Counter[str]()
    for gold_tags, predicted_tags in zip(gold, predicted, strict=True):
        num_words += len(gold_tags)
        num_correct_tags += sum(a == b for a, b in zip(gold_tags, predicted_tags, strict=True))
        gold_entities, predicted_entities = entities(gold_tags), entities(predicted_tags)
        num_gold.update(entity.type for entity in gold_entities)
        num_predicted.update(entity.type for entity in predicted_entities)
        num_correct.update(entity.type for entity in set(gold_entities) & set(predicted_entities))
    by_type = {
        name: Counts(num_gold[name], num_predicted[name], num_correct[name])
        for name in sorted(num_gold | num_predicted)
    }
    return EntityScores(num_words, num_correct_tags, by_type)


def conlleval(lines: Iterable[str], *, where: object = "predictions") -> EntityScores:
    """Score lines whose last two columns are the gold and the predicted tag, as conlleval does.

    Columns are separated by one space or one tab; trailing white space is ignored. A sentence ends at an empty line and
    at one that begins with -X-. -DOCSTART- is a word like any other.

    Differs: conlleval prints the line of tags without a type ("B") twice.

    Raises:
        InputError: a line has fewer than two columns, or another number than the first.
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
    precision, recall, f1 = 100 * counts.precision, 100 * counts.recall, 100 * counts.f1
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"
