"""Functions of logits and vectors, in NumPy."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cloze.tasks.task_batch import Array


def softmax(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return probabilities over the last axis, in float64."""
    values = np.asarray(logits, np.float64)
    exponentials = np.exp(values - values.max(-1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = exponentials / exponentials.sum(-1, keepdims=True)
    return probabilities


def log_of_sum(logits: Array) -> npt.NDArray[np.float64]:
    """Return the logarithm of the sum of the exponentials over the last axis: a logit minus it is a log probability."""
    largest = logits.max(-1, keepdims=True)
    sums: npt.NDArray[np.float64] = (
        np.log(np.exp(logits - largest).sum(-1, dtype=np.float64)) + largest[..., 0]
    )
    return sums


def sigmoid(logits: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the probability of each logit, in float64."""
    probabilities: npt.NDArray[np.float64] = np.exp(-np.logaddexp(0, -np.asarray(logits, np.float64)))
    return probabilities


def normalize(vectors: Array) -> Array:
    """Return vectors scaled to length 1; one of zeros stays."""
    lengths = np.sqrt((vectors * vectors).sum(-1, keepdims=True))
    normalized: Array = vectors / np.maximum(lengths, np.float32(1e-12))
    return normalized


def split_rows(rows: Array, counts: Sequence[int]) -> list[Array]:
    """Return so many rows each."""
    return np.split(rows, np.cumsum(counts)[:-1])
