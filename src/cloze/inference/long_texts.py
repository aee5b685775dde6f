"""Texts with more tokens than a model reads, in windows that overlap by half.

Shapes: L tokens, W windows, D hidden.
"""

from collections.abc import Sequence

import numpy as np

from cloze.tasks.features import max_context_windows
from cloze.tasks.task_batch import Array


def join_tokens(hidden_of_window: Sequence[Array], windows: Sequence[slice]) -> Array:
    """Return the vector of each token from the window with the most context around it, [L, D].

    Args:
        hidden_of_window: [CLS], tokens and [SEP] of each window; [CLS] and [SEP] are taken from the first and the last.
        windows: the places of their tokens in the text.
    """
    best_L = max_context_windows(windows)
    inner = [
        hidden_of_window[number][1 + place - windows[number].start] for place, number in enumerate(best_L)
    ]
    return np.stack([hidden_of_window[0][0], *inner, hidden_of_window[-1][-1]])
