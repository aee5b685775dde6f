"""Entity metrics, equal to conlleval's output and to its rules in another form."""

import random
from collections import Counter
from pathlib import Path

import pytest

from cloze.metrics.classification import Counts
from cloze.metrics.conll import entities, entity_scores

GOLDEN = Path(__file__).parents[1] / "golden" / "ner"

BEGINS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"}
"""Prefixes of consecutive tags between which an entity of one type begins or ends."""


@pytest.mark.protected
def test_printout_equals_that_of_conlleval():
    sentences = (GOLDEN / "conlleval_input.txt").read_text("utf-8").strip().split("\n\n")
    columns = [[line.split()[-2:] for line in sentence.split("\n")] for sentence in sentences]
    scores = entity_scores(*([[row[side] for row in rows] for rows in columns] for side in (0, 1)))
    total = scores.all_types
    printout = (
        f"processed {scores.num_words} tokens with {total.gold} phrases; "
        f"found: {total.predicted} phrases; correct: {total.correct}.\n"
        f"accuracy: {scores.accuracy:6.2f}%; {percentages(total)}\n"
    )
    for name, counts in scores.by_type.items():
        printout += f"{name:>17}: {percentages(counts)}  {counts.predicted}\n"
    assert printout == (GOLDEN / "conlleval_output.txt").read_text("utf-8")


def percentages(counts: Counts) -> str:
    precision, recall, f1 = 100 * counts.precision, 100 * counts.recall, 100 * counts.f1
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"


def _step_by_step(pairs: list[tuple[str, str]]) -> tuple[Counter[str], Counter[str], Counter[str], int]:
    """Go through the words as conlleval does, with one flag: the entity that both are in is right so far."""
    gold, predicted, correct = Counter[str](), Counter[str](), Counter[str]()
    hits, right_so_far = 0, False
    before = ("O", ""), ("O", "")
    for words in [*pairs, ("O", "O")]:
        now = tuple((tag.partition("-")[0], tag.partition("-")[2]) for tag in words)
        begins, ends = [], []
        for (mark_a, type_a), (mark_b, type_b) in zip(before, now, strict=True):
            changes = type_a != type_b
            begins.append(mark_a + mark_b in BEGINS or (mark_b != "O" and changes))
            ends.append(mark_a + mark_b in ENDS or (mark_a != "O" and changes))
        if right_so_far and all(ends) and before[0][1] == before[1][1]:
            correct[before[0][1]] += 1
            right_so_far = False
        elif ends[0] != ends[1] or now[0][1] != now[1][1]:
            right_so_far = False
        if all(begins) and now[0][1] == now[1][1]:
            right_so_far = True
        gold.update([now[0][1]] * begins[0])
        predicted.update([now[1][1]] * begins[1])
        hits += words[0] == words[1]
        before = now
    return gold, predicted, correct, hits - 1


@pytest.mark.protected
def test_a_thousand_random_predictions_score_as_by_the_rules():
    chance = random.Random(1)
    for case in range(1000):
        marks = ("BI", "BI", "I", "B", "IE")[case % 5]
        types = ["PER", "LOC", "creative-work"][: chance.randint(1, 3)]
        tags = ["O"] * chance.randint(1, 4) + [f"{mark}-{type_}" for mark in marks for type_ in types]
        noise = chance.choice([0.1, 0.5, 1])
        sentences = [
            [chance.choice(tags) for _ in range(chance.randint(1, 9))] for _ in range(chance.randint(1, 6))
        ]
        guesses = [
            [chance.choice(tags) if chance.random() < noise else tag for tag in sentence]
            for sentence in sentences
        ]
        expected = [Counter[str](), Counter[str](), Counter[str]()]
        hits = 0
        for gold, predicted in zip(sentences, guesses, strict=True):
            *counts, own_hits = _step_by_step(list(zip(gold, predicted, strict=True)))
            expected = [a + b for a, b in zip(expected, counts, strict=True)]
            hits += own_hits
        scores = entity_scores(sentences, guesses)
        names = sorted(expected[0] | expected[1])
        assert scores.by_type == {name: Counts(*(counts[name] for counts in expected)) for name in names}
        assert scores.num_correct_tags == hits
        assert scores.num_words == sum(map(len, sentences))


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        *(
            (tags, [("PER", 1, 3), ("PER", 3, 4), ("LOC", 5, 6)])
            for tags in (
                "O I-PER I-PER B-PER O I-LOC",  # IOB1
                "O B-PER I-PER B-PER O B-LOC",  # IOB2
                "O B-PER E-PER S-PER O S-LOC",  # IOBES
            )
        ),
        ("B-A E-A B-A I-A E-A S-A S-A", [("A", 0, 2), ("A", 2, 5), ("A", 5, 6), ("A", 6, 7)]),
        ("B-A I-A U-A I-A", [("A", 0, 2), ("A", 2, 3), ("A", 3, 4)]),  # a unit within another entity
    ],
)
def test_entities_are_the_same_in_every_scheme(tags, expected):
    assert entities(tags.split()) == expected


def test_entities_end_with_the_sentence_and_no_words_score_zero():
    sides = ([["I-X"], ["I-X"], ["I-X"]], [["I-X"], ["I-X"], ["O"]])
    assert entity_scores(*sides).by_type == {"X": Counts(gold=3, predicted=2, correct=2)}
    nothing, no_entities = entity_scores([], []), entity_scores([["O"]], [["O"]])
    assert (nothing.accuracy, nothing.all_types.f1) == (0, 0)
    assert (no_entities.accuracy, no_entities.all_types.f1) == (100, 0)
    with pytest.raises(ValueError, match="shorter"):
        entity_scores([["O"]], [[]])
