"""Scores of answers from one tokenizer to another, by the characters of the tokens.

Shapes: L tokens of a sequence of the teacher, K of the student.
"""

import numpy as np
import numpy.typing as npt

from cloze.tasks.losses import softmax
from cloze.tasks.paragraphs import OffsetContext
from cloze.tasks.task_batch import Array

_MIN_PROBABILITY = 1e-10  # a logarithm that float16 has


def window_characters(context: OffsetContext, window: slice) -> tuple[int, int]:
    """Return the first character of a window and the one after its last."""
    if window.start == window.stop:
        return 0, 0
    return int(context.starts[window.start]), int(context.ends[window.stop - 1])


def align_scores(
    logits: Array,
    teacher_context: OffsetContext,
    teacher_first_token: int,
    context: OffsetContext,
    window: slice,
    first_token: int,
) -> Array:
    """Return a teacher's scores of first and last tokens for a window that it read as a whole paragraph.

    The probability of a token goes to the token with its first or last character, and that of [CLS], which is "no
    answer", to [CLS]. Tokens of the question and [SEP] get none.

    Args:
        logits: the teacher's, [L, 2].
        teacher_context: the text of the window.
        teacher_first_token: index of the window's first token in the teacher's sequence.
        context: the paragraph as the student reads it.
        window: the student's tokens of it.
        first_token: index of the window's first token in the student's sequence.

    Returns:
        Logarithms of probabilities, [K, 2].
    """
    probabilities_L2 = softmax(logits.T).T
    num_tokens = window.stop - window.start
    aligned_K2: npt.NDArray[np.float64] = np.zeros((first_token + num_tokens + 1, 2))
    aligned_K2[0] = probabilities_L2[0]
    if num_tokens:
        shift, _ = window_characters(context, window)
        first = np.searchsorted(context.starts[window], teacher_context.starts + shift, side="right") - 1
        last = np.searchsorted(context.ends[window], teacher_context.ends + shift, side="left")
        for column, tokens in enumerate((first, last)):
            places = first_token + np.clip(tokens, 0, num_tokens - 1)
            np.add.at(aligned_K2[:, column], places, probabilities_L2[teacher_first_token:-1, column])
    return np.log(np.maximum(aligned_K2, _MIN_PROBABILITY)).astype(np.float32)
