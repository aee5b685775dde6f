"""Classification metrics, equal to scikit-learn's or to their formulas."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from cloze.metrics.classification import METRICS, best_f1_threshold, is_constant

pytestmark = pytest.mark.protected


@pytest.mark.parametrize("seed", range(50))
def test_metrics_equal_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    names = [f"label {i}" for i in range(rng.integers(1, 7))]
    count = int(rng.integers(1, 40))
    gold = list(rng.choice(names, count))
    answers = list(rng.choice([*names, "never true"], count))
    assert METRICS["accuracy"](gold, answers) == pytest.approx(accuracy_score(gold, answers))
    assert METRICS["macro_f1"](gold, answers) == pytest.approx(f1_score(gold, answers, average="macro"))
    assert METRICS["majority_accuracy"](gold, answers) == max(map(gold.count, gold)) / count
    if len(set(gold)) > 1 < len(set(answers)):
        assert METRICS["matthews"](gold, answers) == pytest.approx(matthews_corrcoef(gold, answers))


def test_binary_metrics_on_a_thousand_random_cases():
    rng = np.random.default_rng(5)
    for _ in range(1000):
        count = int(rng.integers(1, 30))
        true, predicted = (rng.random(count) < rng.random() for _ in range(2))
        hits, false_alarms = np.sum(true & predicted), np.sum(~true & predicted)
        misses, rest = np.sum(true & ~predicted), np.sum(~true & ~predicted)
        gold, answers = ([str(int(x)) for x in values] for values in (true, predicted))
        stated = 2 * hits + false_alarms + misses
        assert METRICS["f1"](gold, answers) == pytest.approx(2 * hits / stated if stated else 0.0)
        margins = (hits + false_alarms) * (hits + misses) * (rest + false_alarms) * (rest + misses)
        expected = (hits * rest - false_alarms * misses) / np.sqrt(float(margins)) if margins else 0.0
        assert METRICS["matthews"](gold, answers) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(20))
def test_metrics_of_label_sets_equal_those_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    names = np.array(["a", "b", "c", "d"])
    true, predicted = (rng.random((17, 4)) < 0.4 for _ in range(2))
    seen = (true | predicted).any(0)
    gold, answers = ([frozenset(names[row]) for row in values] for values in (true, predicted))
    true, predicted = true[:, seen], predicted[:, seen]
    for average in ("micro", "macro"):
        expected = f1_score(true, predicted, average=average)
        assert METRICS[f"{average}_f1"](gold, answers) == pytest.approx(expected)
    assert METRICS["exact_match"](gold, answers) == pytest.approx(accuracy_score(true, predicted))
    empty = [frozenset[str]()] * 2
    assert {METRICS[name](empty, empty) for name in ("micro_f1", "macro_f1", "exact_match")} == {1.0}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("answers", [["a"], []])
def test_numbers_of_gold_and_predicted_answers_must_match(name, answers):
    with pytest.raises(ValueError, match=r"\d labels and \d predictions"):
        METRICS[name](["a"] * len(answers[1:]), answers)


@pytest.mark.parametrize("seed", range(30))
def test_best_threshold_has_the_best_f1(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 20))
    probabilities = rng.integers(1, 11, count) / 10  # with ties and 1
    is_gold = rng.random(count) < 0.3

    def f1(threshold):
        return f1_score(is_gold, probabilities > threshold, zero_division=0.0)

    threshold = best_f1_threshold(probabilities.tolist(), is_gold.tolist())
    assert 0 < threshold < 1
    candidates = [0.5, *(probabilities + 0.05), *(probabilities - 0.05)]
    assert f1(threshold) == pytest.approx(max(map(f1, candidates)))
    if f1(0.5) == f1(threshold):
        assert threshold == 0.5


def test_threshold_of_neighboring_numbers_divides_them():
    low = 0.7
    high = float(np.nextafter(low, 1))
    threshold = best_f1_threshold([low, high], [False, True])
    assert low <= threshold < high
    assert best_f1_threshold([0.2, 0.9], [False, False]) == 0.5


@pytest.mark.parametrize(
    ("gold", "answers", "expected"),
    [("ab", "aa", True), ("bb", "aa", True), ("aa", "aa", False), ("ab", "ab", False), ("b", "a", False)],
)
def test_answers_that_are_all_the_same(gold, answers, expected):
    assert is_constant(gold, answers) is expected
