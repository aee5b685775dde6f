"""Entity metrics of conlleval, the program of the CoNLL shared tasks, in percent.

A tag is a prefix and a type, "B-PER", or "O" outside of entities. An entity is correct if its first word, its last word
and its type are.

Source: conlleval, version 2004-01-26 (Tjong Kim Sang and Buchholz 2000; Tjong Kim Sang and De Meulder 2003).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cloze.metrics.classification import Counts, sum_counts


class Entity(NamedTuple):
    """Consecutive words, from `start` to before `end`."""

    type: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EntityScores:
    """The counts of conlleval."""

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
    """Compare predicted with gold tags, sentence by sentence."""
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
