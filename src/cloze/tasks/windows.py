"""A text that is longer than the model reads at once, in windows that overlap.

Shapes: P pieces of the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Window:
    """Neighbouring pieces of a text."""

    start: int
    length: int


def cut_windows(num_pieces: int, size: int, stride: int) -> list[Window]:
    """Cut a text into windows of `size` pieces; each begins `stride` pieces after the one before.

    >>> cut_windows(7, size=4, stride=2)
    [Window(start=0, length=4), Window(start=2, length=4), Window(start=4, length=3)]

    Source: google-research/bert run_squad.py:301 @eedf571.

    Differs: a text without pieces has one window, empty; there it has none.
    """
    windows = [Window(0, min(num_pieces, size))]
    while windows[-1].start + windows[-1].length < num_pieces:
        start = windows[-1].start + min(windows[-1].length, stride)
        windows.append(Window(start, min(num_pieces - start, size)))
    return windows


def window_of_most_context(windows: Sequence[Window]) -> npt.NDArray[np.int64]:
    """Return for each piece the number of the window that shows most of what is around it.

    That is the distance to the nearer end of the window; where it is the same, the longer window, then the first.

    >>> window_of_most_context(cut_windows(7, size=4, stride=2)).tolist()
    [0, 0, 0, 1, 1, 2, 2]

    Shapes: [P].

    Source: google-research/bert run_squad.py:429 @eedf571.
    """
    num_pieces = windows[-1].start + windows[-1].length
    best_P = np.zeros(num_pieces, np.int64)
    highest_P = np.full(num_pieces, -np.inf)
    # one by one: a table of all windows by all pieces is too large for a novel
    for number, window in enumerate(windows):
        inside = slice(window.start, window.start + window.length)
        left = np.arange(window.length)
        score = np.minimum(left, left[::-1]) + 0.01 * window.length
        is_better = score > highest_P[inside]
        highest_P[inside] = np.where(is_better, score, highest_P[inside])
        best_P[inside] = np.where(is_better, number, best_P[inside])
    return best_P
