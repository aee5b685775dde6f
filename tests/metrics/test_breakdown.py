"""Scores by class, equal to scikit-learn's, and by kind of question."""

import json

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from cloze.metrics.breakdown import Breakdown, class_breakdown
from cloze.metrics.classification import macro_f1
from cloze.metrics.squad import question_breakdown, question_type

NAMES = ("precision", "recall", "f1")


def assert_equal_scores(breakdown, expected):
    rows = [[part.scores[name] for name in NAMES] + [part.support] for part in breakdown.parts.values()]
    assert np.array(rows) == pytest.approx(np.array(expected).T)


@pytest.mark.parametrize("seed", range(20))
def test_class_scores_and_confusion_equal_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    classes = [f"class {i}" for i in range(rng.integers(2, 9))]
    count = int(rng.integers(1, 60))
    gold, predicted = (rng.choice(classes, count).tolist() for _ in range(2))
    found = class_breakdown(gold, predicted, classes)
    names = [name for name in classes if name in {*gold, *predicted}]
    assert list(found.parts) == names
    expected = precision_recall_fscore_support(gold, predicted, labels=names, zero_division=0.0)
    assert_equal_scores(found, expected)
    assert found.matrix(names) == confusion_matrix(gold, predicted, labels=names).tolist()
    assert found.means["f1"] == pytest.approx(macro_f1(gold, predicted))
    errors = sum(part.errors for part in found.parts.values())
    assert errors == 2 * sum(a != b for a, b in zip(gold, predicted, strict=True))
    assert Breakdown.from_dict(json.loads(json.dumps({"accuracy": 1.0, **found.to_dict()}))) == found


@pytest.mark.parametrize("seed", range(5))
def test_label_scores_equal_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    classes = list("abcd")
    gold, predicted = (rng.random((30, 4)) < 0.4 for _ in range(2))
    sets = [
        [frozenset(classes[i] for i in np.flatnonzero(row)) for row in rows] for rows in (gold, predicted)
    ]
    found = class_breakdown(*sets, classes)
    assert_equal_scores(found, precision_recall_fscore_support(gold, predicted, zero_division=0.0))
    assert found.confusion is None


def test_classes_that_are_left_out_are_summed():
    found = class_breakdown(list("aabbccdd"), list("abbbcdda"))
    assert found.worst(found.classes, 2) == ["a", "d"]
    assert found.matrix(["a", "d"]) == [[1, 0, 1], [1, 1, 0], [0, 1, 3]]
    assert found.confused_pairs(1) == [("a", "b", 1)]


def test_questions_are_told_apart_by_their_first_question_word():
    questions = ("Who's there?", "To whom?", "HOW MANY?", "How?", "Name it.")
    assert [*map(question_type, questions)] == ["who", "who", "how many", "how", "other"]


def test_question_scores_are_means_in_percent():
    questions = {"1": "Who ran?", "2": "Who sat?", "3": "Where?"}
    answers = {"1": ["Ada"], "2": ["the tall Ada"], "3": []}
    found = question_breakdown(questions, answers, {"1": "Ada", "2": "Ada", "3": ""})
    half, full = {"exact": 50.0, "f1": pytest.approx(250 / 3)}, {"exact": 100.0, "f1": 100.0}
    some, none = {**half, "support": 2, "errors": 1}, {**full, "support": 1, "errors": 0}
    by_type = {"who": some, "where": none, "has an answer": some, "has no answer": none}
    assert found.to_dict() == {"by_question_type": by_type}
