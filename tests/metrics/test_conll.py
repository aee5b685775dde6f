"""Entity metrics, equal to conlleval's output and to its rules in another form."""

import random
from collections import Counter
from pathlib import Path

import pytest

from cloze.errors import InputError
from cloze.metrics.classification import Counts
from cloze.metrics.conll import Entity, conlleval, entities, entity_scores

GOLDEN = Path(__file__).parents[1] / "golden" / "ner"

BEGINS = {"BB", "IB", "OB", "OI", "EE", "EI", "OE"}
ENDS = {"BB", "BO", "IB", "IO", "EE", "EI", "EO"}
"""Prefixes of consecutive tags between which an entity of one type begins or ends."""


@pytest.mark.protected
def test_printout_equals_that_of_conlleval():
    with (GOLDEN / "conlleval_input.txt").open(encoding="utf-8") as lines:
        scores = conlleval(lines)
    assert str(scores) == (GOLDEN / "conlleval_output.txt").read_text("utf-8")


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
    "tags",
    [
        "O I-PER I-PER B-PER O I-LOC",  # IOB1
        "O B-PER I-PER B-PER O B-LOC",  # IOB2
        "O B-PER E-PER S-PER O S-LOC",  # IOBES
    ],
)
def test_entities_are_the_same_in_every_scheme(tags):
    assert entities(tags.split()) == [Entity("PER", 1, 3), Entity("PER", 3, 4), Entity("LOC", 5, 6)]


def test_adjacent_entities_of_one_type_in_iobes():
    assert entities(["B-A", "E-A", "B-A", "I-A", "E-A", "S-A", "S-A"]) == [
        Entity("A", 0, 2),
        Entity("A", 2, 5),
        Entity("A", 5, 6),
        Entity("A", 6, 7),
    ]


def test_units_begin_entities_within_others():
    assert entities(["B-A", "I-A", "U-A", "I-A"]) == [Entity("A", 0, 2), Entity("A", 2, 3), Entity("A", 3, 4)]


def test_entities_end_with_the_sentence():
    lines = ["a I-X I-X", "", "b I-X I-X", "-X- O O", "c I-X O"]
    assert conlleval(lines).by_type == {"X": Counts(gold=3, predicted=2, correct=2)}


def test_trailing_white_space_is_ignored():
    lines = ["a B-X B-X ", "b B-X O ", "c O O "]
    assert conlleval(lines).by_type == {"X": Counts(gold=2, predicted=1, correct=1)}


def test_empty_file_scores_zero():
    nothing = conlleval([])
    assert str(nothing) == "processed 0 tokens with 0 phrases; found: 0 phrases; correct: 0.\n"
    assert (nothing.accuracy, nothing.all_types.f1) == (0, 0)
    none_there = conlleval(["a O O\n"])
    assert (none_there.accuracy, none_there.all_types.f1) == (100, 0)


@pytest.mark.protected
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a O O", "b O"], r"out.txt:2: 2 columns, the first line has 3"),
        (["a"], r"out.txt:1: one column. Give the tag that is right and the predicted one"),
    ],
)
def test_invalid_lines_are_named(lines, message):
    with pytest.raises(InputError, match=message):
        conlleval(lines, where="out.txt")


def test_numbers_of_sentences_and_tags_must_match():
    with pytest.raises(ValueError, match="shorter"):
        entity_scores([["O"]], [[]])
