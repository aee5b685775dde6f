"""Masking for the masked language model, drawn whenever a sequence is read.

Shapes: T tokens in the packed batch, B sequences, L tokens of the longest, P masked positions, W chosen words.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.config import Range, Settings
from cloze.data.hashing import mix, uniform
from cloze.tokenization.unicode import SCRIPTS_WITHOUT_SPACES

Targets: TypeAlias = Literal["masked", "next", "previous"]
"""Predicted tokens: the masked ones, or at each position the next or the previous token."""

_MIN_SHARE_WITHOUT_SPACES = 0.05
SELECT, REPLACE, RANDOM_TOKEN = 1, 2, 3
"""Keys of the three random numbers of a token: its order of selection, its kind of replacement, a random token."""
_LAST = np.uint64(2**64 - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskingConfig(Settings):
    """How many tokens are predicted, and what replaces them.

    Source: Devlin et al. 2019, 3.1 (task 1) and A.1.
    """

    masked_lm_prob: Annotated[float, Range("[1e-6, 1)")] = 0.15
    """Share of a sequence's tokens that are predicted."""
    initial_masked_lm_prob: Annotated[float | None, Range("[1e-6, 1)")] = None
    """That share at the beginning of a run, from which it changes linearly to `masked_lm_prob`. None: it is constant.
    Held-out text is always masked at `masked_lm_prob`."""
    mask_token_prob: Annotated[float, Range("[0, 1]")] = 0.8
    """Share of the predicted tokens that [MASK] replaces."""
    random_token_prob: Annotated[float, Range("[0, 1]")] = 0.1
    """Share of the predicted tokens that a random token replaces; the rest stay as they are."""
    whole_word: bool = False
    """Mask all tokens of a word or none."""

    def _check(self) -> None:
        if self.mask_token_prob + self.random_token_prob > 1 + 1e-9:
            raise ValueError("mask_token_prob and random_token_prob add up to more than 1")

    def at(self, progress: float) -> "MaskingConfig":
        """Return the rates after a share `progress` in [0, 1] of a run."""
        if self.initial_masked_lm_prob is None:
            return self
        share = progress * self.masked_lm_prob + (1 - progress) * self.initial_masked_lm_prob
        return replace(self, masked_lm_prob=share, initial_masked_lm_prob=None)


def mask_tokens(
    input_ids_T: npt.NDArray[np.int64],
    cu_seqlens: npt.NDArray[np.int32],
    maskable_T: npt.NDArray[np.bool_],
    keys_B: npt.NDArray[np.uint64],
    config: MaskingConfig,
    *,
    max_predictions_per_seq: int | None,
    is_continuation: npt.NDArray[np.bool_],
    mask_id: int,
    continues_T: npt.NDArray[np.bool_] | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Choose the tokens to predict and mask them.

    Args:
        input_ids_T: the packed tokens; not changed.
        cu_seqlens: the start of each sequence, and T.
        maskable_T: False at [CLS] and [SEP].
        keys_B: a random number per sequence, from which all others are derived.
        max_predictions_per_seq: maximum per sequence; None for no limit.
        is_continuation: for each token of the vocabulary, whether it continues a word.
        continues_T: whether each token continues a word; None follows `is_continuation`.

    Returns:
        The masked tokens [T]; the chosen positions in ascending order [P]; the original tokens there [P].

    Source: Devlin et al. 2019, 3.1 (task 1); google-research/bert create_pretraining_data.py:342-415 @eedf571; a random
        token is any of the vocabulary, including special and unused ones.
    """
    lengths_B = np.diff(cu_seqlens)
    quota_B = num_predictions(lengths_B, config, max_predictions_per_seq)
    position_L = np.arange(lengths_B.max(initial=0))
    is_real_BL = position_L < lengths_B[:, None]
    random_BL = hash_positions(position_L, keys_B)
    priority_BL = mix(SELECT, after=random_BL)
    if config.whole_word:
        if continues_T is None:
            continues_T = is_continuation[input_ids_T]
        size_BL = _unpack(_word_sizes(maskable_T, continues_T), is_real_BL)
        is_chosen_BL = _choose_words(size_BL, priority_BL, quota_B)
    else:
        maskable_BL = _unpack(maskable_T, is_real_BL)
        priority_BL = np.where(maskable_BL, priority_BL, _LAST)
        last_B = np.minimum(quota_B, priority_BL.shape[1]) - 1
        highest_B = np.take_along_axis(np.sort(priority_BL, axis=1), last_B[:, None], axis=1)
        is_chosen_BL = (priority_BL <= highest_B) & maskable_BL

    sequence_P, position_P = np.nonzero(is_chosen_BL)
    positions_P = cu_seqlens[sequence_P] + position_P
    random_P = random_BL[is_chosen_BL]
    draw_P = uniform(REPLACE, after=random_P)
    random_id_P = (uniform(RANDOM_TOKEN, after=random_P) * len(is_continuation)).astype(np.int64)
    masked_lm_ids = input_ids_T[positions_P]
    masked_T = input_ids_T.copy()
    masked_T[positions_P] = np.select(
        [draw_P < config.mask_token_prob, draw_P < config.mask_token_prob + config.random_token_prob],
        [np.int64(mask_id), random_id_P],
        masked_lm_ids,
    )
    return masked_T, positions_P, masked_lm_ids


def hash_positions(
    position_L: npt.NDArray[np.integer], keys_B: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint64]:
    """Return the hash of each token, [B, L], from which its random numbers are derived."""
    return mix(position_L, after=mix(keys_B)[:, None])


def num_predictions(
    lengths_B: npt.NDArray[np.integer], config: MaskingConfig, max_predictions_per_seq: int | None
) -> npt.NDArray[np.int64]:
    """Return the number of predictions of each sequence, whose length includes [CLS] and [SEP].

    Source: google-research/bert create_pretraining_data.py:357 @eedf571.
    """
    quota_B: npt.NDArray[np.int64] = np.maximum(1, np.rint(lengths_B * config.masked_lm_prob)).astype(
        np.int64
    )
    return quota_B if max_predictions_per_seq is None else np.minimum(quota_B, max_predictions_per_seq)


def _unpack(values_T: npt.NDArray[Any], is_real_BL: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Pad packed values with zeros to a row per sequence."""
    values_BL = np.zeros(is_real_BL.shape, values_T.dtype)
    values_BL[is_real_BL] = values_T
    return values_BL


def _word_sizes(
    maskable_T: npt.NDArray[np.bool_], is_continuation_T: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the number of tokens of each word at its first token, and 0 elsewhere."""
    is_head_T = maskable_T & ~(is_continuation_T & np.roll(maskable_T, 1))
    bounds = np.flatnonzero(is_head_T | ~maskable_T)
    sizes_T = np.zeros(len(maskable_T), np.int64)
    sizes_T[bounds] = np.diff(bounds, append=len(maskable_T))
    sizes_T[~maskable_T] = 0
    return sizes_T


def _choose_words(
    size_BL: npt.NDArray[np.int64], priority_BL: npt.NDArray[np.uint64], quota_B: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Choose whole words in order of priority; a word that would exceed the quota is skipped.

    The rest of a quota only shrinks, so a word that exceeds it once is out. Each round takes the words up to the next
    one that exceeds the rest.
    """
    order_BL = np.argsort(np.where(size_BL > 0, priority_BL, _LAST), axis=1)
    rest_BL = np.take_along_axis(size_BL, order_BL, axis=1)
    is_taken_BL = np.zeros(size_BL.shape, np.bool_)
    left_B = quota_B[:, None]
    while rest_BL.any():
        rest_BL[rest_BL > left_B] = 0
        now_BL = (np.cumsum(rest_BL, axis=1) <= left_B) & (rest_BL > 0)
        left_B = left_B - np.sum(rest_BL, axis=1, where=now_BL, keepdims=True)
        rest_BL[now_BL] = 0
        is_taken_BL |= now_BL
    sequence_W, rank_W = np.nonzero(is_taken_BL)
    head_W = order_BL[sequence_W, rank_W]
    size_W = size_BL[sequence_W, head_W]
    within_P = np.arange(size_W.sum()) - np.repeat(np.cumsum(size_W) - size_W, size_W)
    is_chosen_BL = np.zeros(size_BL.shape, np.bool_)
    is_chosen_BL[np.repeat(sequence_W, size_W), np.repeat(head_W, size_W) + within_P] = True
    return is_chosen_BL


def describe_whole_words(tokens: Sequence[str], shares_V: npt.NDArray[np.floating]) -> str | None:
    """Return what a whole word is in text without spaces between words; None if there is little of it.

    `shares_V` are the shares of the tokens in the text.
    """
    starts = re.compile(f"(?:##)?[{SCRIPTS_WITHOUT_SPACES}]")
    without_spaces_V = np.array([starts.match(token) is not None for token in tokens])
    share = float(shares_V[without_spaces_V].sum())
    if share < _MIN_SHARE_WITHOUT_SPACES:
        return None
    return (
        f"whole-word masking: {share:.0%} of the tokens are of scripts without spaces, where a word is one Chinese "
        "character or all text between spaces. cloze corpus --segmenter takes words from a function"
    )
