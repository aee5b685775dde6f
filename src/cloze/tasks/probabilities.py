"""Probabilities of logits, in float64."""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

Probabilities = NDArray[np.float64]


def softmax(logits: ArrayLike) -> Probabilities:
    """Return probabilities [..., C] that sum to 1 over the last axis of logits [..., C]."""
    probabilities: Probabilities = torch.from_numpy(np.asarray(logits, np.float64)).softmax(-1).numpy()
    return probabilities


def sigmoid(logits: ArrayLike) -> Probabilities:
    """Return the probability of each logit for itself, in their shape."""
    probabilities: Probabilities = torch.from_numpy(np.asarray(logits, np.float64)).sigmoid().numpy()
    return probabilities
