"""Rows whose label is probably wrong: confident learning by hand, and as cleanlab does it."""

import numpy as np

from cloze.tasks.label_errors import find_label_errors


def test_small_example_by_hand():
    """Thresholds: 0.55 = (0.9 + 0.6 + 0.15) / 3 of the first class, 0.6 = (0.8 + 0.7 + 0.3) / 3 of the second."""
    first = np.array([0.9, 0.6, 0.15, 0.2, 0.3, 0.7])
    labels = np.array([0, 0, 0, 1, 1, 1])
    errors = find_label_errors(np.stack([first, 1 - first], axis=1), labels)
    assert [(error.row, error.label) for error in errors] == [(2, 1), (5, 0)]
    np.testing.assert_allclose([error.margin for error in errors], [-0.7, -0.4])


def test_no_row_is_suspected_of_the_label_that_it_is_answered_with():
    """The third row reaches the threshold of the rare class, not that of its own, which is answered."""
    probabilities = np.array([[0.95, 0.05], [0.95, 0.05], [0.6, 0.4], [0.7, 0.3]])
    assert find_label_errors(probabilities, np.array([0, 0, 0, 1])) == []
    assert find_label_errors(np.array([[0.9, 0.1]]), np.array([0])) == []


def test_rows_and_order_are_those_of_cleanlab():
    """`find_label_issues` of cleanlab 2.9.0: filter_by="confident_learning", ranked by "normalized_margin"."""
    random = np.random.default_rng(7)
    true = random.integers(0, 4, 60)
    labels = np.where(random.random(60) < 0.2, (true + 1) % 4, true)
    logits = random.normal(0, 1, (60, 4))
    logits[np.arange(60), true] += 2
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    errors = find_label_errors(probabilities, labels)
    assert [error.row for error in errors] == [16, 22, 40, 33, 53, 3, 49, 36, 45, 29, 17]
    assert all(error.label != labels[error.row] for error in errors)
