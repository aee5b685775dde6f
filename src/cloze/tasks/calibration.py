"""Whether probabilities say how often answers are right: the calibration error, and the temperature that lowers it.

Shapes: N examples, C classes.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cloze.tasks.arrays import softmax

NUM_BINS = 15
"""Guo et al. 2017."""
MIN_EXAMPLES = 50
"""With fewer no temperature is fitted."""
_MIN_TEMPERATURE, _MAX_TEMPERATURE = 0.1, 10.0
_SEED = 0

Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Calibration:
    """A temperature, and the expected calibration error with temperature 1 and with it."""

    temperature: float
    error_before: float
    error: float


def fit_temperature(logits: Numbers, targets: Integers) -> float:
    """Return the temperature, from 0.1 to 10, with the lowest negative log-likelihood of the targets.

    The likelihood is concave in 1/temperature, so its derivative is bisected.
    """
    target_logit_N = np.take_along_axis(logits, targets[:, None], 1)[:, 0]
    low, high = 1 / _MAX_TEMPERATURE, 1 / _MIN_TEMPERATURE
    for _ in range(60):
        scale = (low + high) / 2
        expected_N = (softmax(logits * scale) * logits).sum(-1)
        if float((expected_N - target_logit_N).mean()) < 0:
            low = scale
        else:
            high = scale
    return 2 / (low + high)


def calibration_error(logits: Numbers, targets: Integers, temperature: float = 1.0) -> float:
    """Return the expected calibration error with a temperature that was not fitted on the examples.

    It is the mean difference between confidence and accuracy in bins of equal width, weighted by their examples.

    Source: Guo et al. 2017, "On calibration of modern neural networks", 2.
    """
    confidence_N = softmax(logits / temperature).max(-1)
    bins_N = np.clip(np.ceil(confidence_N * NUM_BINS).astype(int) - 1, 0, NUM_BINS - 1)
    gaps_N = (logits.argmax(-1) == targets) - confidence_N
    sums = np.bincount(bins_N, weights=gaps_N, minlength=NUM_BINS)
    return float(np.abs(sums).sum() / len(targets))


def cross_fitted_error(logits: Numbers, targets: Integers) -> float:
    """Return the expected calibration error of each half of the examples with the temperature of the other half."""
    halves = np.array_split(np.random.default_rng(_SEED).permutation(len(targets)), 2)
    scaled_NC = np.empty_like(logits)
    for half, other in (halves, halves[::-1]):
        scaled_NC[half] = logits[half] / fit_temperature(logits[other], targets[other])
    return calibration_error(scaled_NC, targets)
