"""Classification metrics, equal to scikit-learn's or to their formulas."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from cloze.metrics.classification import (
    METRICS,
    accuracy,
    macro_f1,
    majority_accuracy,
    matthews,
    multilabel_scores,
    positive_f1,
)


@pytest.mark.protected
@pytest.mark.parametrize("seed", range(50))
def test_metrics_equal_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    names = [f"label {i}" for i in range(rng.integers(1, 7))]
    count = int(rng.integers(1, 40))
    labels = list(rng.choice(names, count))
    predictions = list(rng.choice([*names, "never true"], count))
    assert accuracy(labels, predictions) == pytest.approx(accuracy_score(labels, predictions))
    assert macro_f1(labels, predictions) == pytest.approx(f1_score(labels, predictions, average="macro"))


@pytest.mark.slow
@pytest.mark.protected
def test_binary_metrics_on_a_thousand_random_cases():
    rng = np.random.default_rng(5)
    for _ in range(1000):
        count = int(rng.integers(1, 30))
        true, predicted = (rng.random(count) < rng.random() for _ in range(2))
        hits, false_alarms = np.sum(true & predicted), np.sum(~true & predicted)
        misses, rest = np.sum(true & ~predicted), np.sum(~true & ~predicted)
        labels, predictions = ([str(int(x)) for x in values] for values in (true, predicted))
        stated = 2 * hits + false_alarms + misses
        assert positive_f1(labels, predictions) == pytest.approx(2 * hits / stated if stated else 0.0)
        margins = (hits + false_alarms) * (hits + misses) * (rest + false_alarms) * (rest + misses)
        expected = (hits * rest - false_alarms * misses) / np.sqrt(float(margins)) if margins else 0.0
        assert matthews(labels, predictions) == pytest.approx(expected)


def test_matthews_of_three_classes():
    assert matthews(["a", "b", "c"], ["a", "b", "c"]) == pytest.approx(1.0)
    assert matthews(["a", "b", "c"], ["c", "c", "c"]) == 0.0
    assert set(METRICS) == {"accuracy", "macro_f1", "f1", "matthews"}


@pytest.mark.protected
@pytest.mark.parametrize("seed", range(20))
def test_multilabel_scores_equal_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    names = np.array(["a", "b", "c", "d"])
    true, predicted = (rng.random((17, 4)) < 0.4 for _ in range(2))
    seen = (true | predicted).any(0)
    sets = [[frozenset(names[row]) for row in values] for values in (true, predicted)]
    scores = multilabel_scores(*sets)
    true, predicted = true[:, seen], predicted[:, seen]
    assert scores == pytest.approx(
        {
            "micro_f1": f1_score(true, predicted, average="micro"),
            "macro_f1": f1_score(true, predicted, average="macro"),
            "exact_match": accuracy_score(true, predicted),
        }
    )


def test_sets_without_labels():
    empty = [frozenset[str]()] * 2
    assert multilabel_scores(empty, empty) == {"micro_f1": 1.0, "macro_f1": 1.0, "exact_match": 1.0}
    with pytest.raises(ValueError, match="2 labels and 0 predictions"):
        multilabel_scores(empty, [])


def test_majority_accuracy():
    assert majority_accuracy(["b", "a", "b", "c"]) == 0.5
    assert majority_accuracy([7]) == 1.0


def test_numbers_of_labels_and_predictions_must_match():
    with pytest.raises(ValueError, match="2 labels and 1 predictions"):
        accuracy(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="0 labels"):
        majority_accuracy([])
