"""Regression metrics, equal to their formulas."""

import math

import numpy as np
import pytest

from cloze.metrics.regression import pearson, root_mean_squared_error, spearman


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks; equal values have their mean rank."""
    return np.array([(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values])


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    return float((a @ b) / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.slow
@pytest.mark.protected
def test_a_thousand_random_cases():
    rng = np.random.default_rng(3)
    for _ in range(1000):
        count = int(rng.integers(2, 40))
        values = rng.integers(0, 6, count) * rng.choice([1.0, 0.2, 1e6])
        predictions = np.round(values + rng.normal(size=count), int(rng.integers(0, 4)))
        error = root_mean_squared_error(list(values), list(predictions))
        assert error == pytest.approx(np.linalg.norm(values - predictions) / np.sqrt(count))
        if len(set(values)) == 1 or len(set(predictions)) == 1:
            assert math.isnan(pearson(list(values), list(predictions)))
            assert math.isnan(spearman(list(values), list(predictions)))
            continue
        assert pearson(list(values), list(predictions)) == pytest.approx(_correlation(values, predictions))
        expected = _correlation(_ranks(values), _ranks(predictions))
        assert spearman(list(values), list(predictions)) == pytest.approx(expected)


@pytest.mark.parametrize("metric", [pearson, spearman])
@pytest.mark.parametrize("predictions", [[0.3, 0.3, 0.3], [1.0, math.nan, 3.0], [1.0]])
def test_constant_values_nan_and_one_value_have_no_correlation(metric, predictions):
    values = [1.0, 2.0, 3.0][: len(predictions)]
    assert math.isnan(metric(values, predictions))
    assert math.isnan(metric(predictions, values))


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("start", [0.0, 1.0, 5.0])
def test_small_and_close_numbers_are_correlated(unit, start):
    steps = np.array([0.0, 1.0, 3.0, 2.0])
    values = unit * (start + steps * 2.0**-44)
    predictions = [0.1, 0.2, 0.5, 0.4]
    expected = _correlation(steps, np.array(predictions))
    assert pearson(list(values), predictions) == pytest.approx(expected, rel=1e-3)
    assert spearman(list(values), predictions) == pytest.approx(1.0)


def test_numbers_of_values_and_predictions_must_match():
    with pytest.raises(ValueError, match="2 values and 1 predictions"):
        pearson([1.0, 2.0], [1.0])
