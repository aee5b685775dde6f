"""Accuracy, macro F1 and the majority's share, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from cloze.metrics.classification import accuracy, macro_f1, majority_share


@pytest.mark.parametrize("seed", range(50))
def test_scores_are_those_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"label {i}" for i in range(rng.integers(1, 7))]
    count = int(rng.integers(1, 40))
    labels = list(rng.choice(names, count))
    predictions = list(rng.choice([*names, "never true"], count))
    assert accuracy(labels, predictions) == pytest.approx(accuracy_score(labels, predictions))
    assert macro_f1(labels, predictions) == pytest.approx(f1_score(labels, predictions, average="macro"))


def test_majority_share_is_that_of_the_most_frequent_label() -> None:
    assert majority_share(["b", "a", "b", "c"]) == 0.5
    assert majority_share([7]) == 1.0


def test_every_row_needs_a_prediction() -> None:
    with pytest.raises(ValueError, match="2 labels and 1 predictions"):
        accuracy(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="0 labels"):
        majority_share([])
