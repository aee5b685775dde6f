"""Masking for the masked-word task, drawn anew whenever a sequence is read.

Shapes: T tokens in the packed batch, B sequences, L tokens of the longest, P masked positions, W chosen words.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.corpus.hashing import mix, uniform

Targets: TypeAlias = Literal["masked", "next", "previous"]
"""Which pieces are predicted, and where: those that are hidden, or at each place the one after or before it."""

_SELECT, _REPLACE, _RANDOM_PIECE = 1, 2, 3  # which of a token's random numbers is meant
_LAST = np.uint64(2**64 - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskingConfig:
    """How many pieces are predicted, and what stands in their place.

    Source: Devlin et al. 2019, 3.1 (task 1) and A.1.
    """

    masked_lm_prob: float = 0.15
    """Share of a sequence's pieces that are predicted."""
    initial_masked_lm_prob: float | None = None
    """That share at the beginning of a run; from there it falls on a line to `masked_lm_prob`. None: it is the same
    throughout. Held-out text is always masked as at the end."""
    mask_token_prob: float = 0.8
    """Of these, the share that [MASK] replaces."""
    random_token_prob: float = 0.1
    """Of these, the share that a random piece replaces; the rest stay as they are."""
    whole_word: bool = False
    """Choose words, with all their pieces."""

    def __post_init__(self) -> None:
        if not 0 < self.masked_lm_prob < 1:
            raise ValueError(f"masked_lm_prob {self.masked_lm_prob} is not between 0 and 1")
        if self.initial_masked_lm_prob is not None and not 0 < self.initial_masked_lm_prob < 1:
            raise ValueError(f"initial_masked_lm_prob {self.initial_masked_lm_prob} is not between 0 and 1")
        if not (self.mask_token_prob >= 0 and self.random_token_prob >= 0):  # NaN is neither
            raise ValueError("mask_token_prob and random_token_prob must not be negative")
        if self.mask_token_prob + self.random_token_prob > 1 + 1e-9:
            raise ValueError("mask_token_prob and random_token_prob add up to more than 1")

    def at(self, progress: float) -> "MaskingConfig":
        """Return the rates when a share `progress` in [0, 1] of a run is over."""
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
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Choose the pieces to predict and hide them.

    Args:
        input_ids_T: the packed pieces; not changed.
        cu_seqlens: where each sequence begins, and T.
        maskable_T: False at [CLS] and [SEP].
        keys_B: a random number for each sequence, from which all others follow.
        config: rates.
        max_predictions_per_seq: the most of a sequence; None sets no limit.
        is_continuation: for each piece of the vocabulary, whether it goes on a word.
        mask_id: the piece [MASK].

    Returns:
        The pieces with the chosen ones hidden [T]; the chosen positions in ascending order [P]; the pieces that
        stood there [P].

    Source: Devlin et al. 2019, 3.1 (task 1); google-research/bert create_pretraining_data.py:342-415 @eedf571; a random
        piece is any of the vocabulary file, special and unused ones too.
    """
    lengths_B = np.diff(cu_seqlens)
    quota_B = predictions_due(lengths_B, config, max_predictions_per_seq)
    place_L = np.arange(lengths_B.max(initial=0))
    is_real_BL = place_L < lengths_B[:, None]
    random_BL = mix(place_L, after=mix(keys_B)[:, None])
    priority_BL = mix(_SELECT, after=random_BL)
    if config.whole_word:
        size_BL = _unpack(_word_sizes(maskable_T, is_continuation[input_ids_T]), is_real_BL)
        is_chosen_BL = _choose_words(size_BL, priority_BL, quota_B)
    else:
        is_chosen_BL = _choose_pieces(_unpack(maskable_T, is_real_BL), priority_BL, quota_B)

    sequence_P, place_P = np.nonzero(is_chosen_BL)
    positions_P = cu_seqlens[sequence_P] + place_P
    random_P = random_BL[is_chosen_BL]
    draw_P = uniform(_REPLACE, after=random_P)
    any_piece_P = (uniform(_RANDOM_PIECE, after=random_P) * len(is_continuation)).astype(np.int64)
    masked_lm_ids = input_ids_T[positions_P]
    masked_T = input_ids_T.copy()
    masked_T[positions_P] = np.select(
        [draw_P < config.mask_token_prob, draw_P < config.mask_token_prob + config.random_token_prob],
        [np.int64(mask_id), any_piece_P],
        masked_lm_ids,
    )
    return masked_T, positions_P, masked_lm_ids


def neighbours(
    input_ids_T: npt.NDArray[np.int64], is_text_T: npt.NDArray[np.bool_], targets: Literal["next", "previous"]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the pieces of the text are predicted by what looks one way: beside each of them.

    Returns:
        The positions in ascending order [P]: the one before each piece of the text, or the one after it, which are of
        the same sequence, since that begins with [CLS] and ends with [SEP]; the pieces to be named there [P].

    Source: Devlin et al. 2019, 5.1 ("trained using a standard left-to-right language model").
    """
    text_P = np.flatnonzero(is_text_T)
    return text_P + (-1 if targets == "next" else 1), input_ids_T[text_P]


def predictions_due(
    lengths_B: npt.NDArray[np.integer], config: MaskingConfig, max_predictions_per_seq: int | None
) -> npt.NDArray[np.int64]:
    """Return how many pieces of each sequence are to be predicted, [CLS] and [SEP] counted in its length.

    Source: google-research/bert create_pretraining_data.py:357 @eedf571.
    """
    quota_B: npt.NDArray[np.int64] = np.maximum(1, np.rint(lengths_B * config.masked_lm_prob)).astype(
        np.int64
    )
    return quota_B if max_predictions_per_seq is None else np.minimum(quota_B, max_predictions_per_seq)


def _unpack(values_T: npt.NDArray[Any], is_real_BL: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Give each sequence a row, with zeros after its end: what is sorted by row needs no number of its sequence."""
    values_BL = np.zeros(is_real_BL.shape, values_T.dtype)
    values_BL[is_real_BL] = values_T
    return values_BL


def _choose_pieces(
    maskable_BL: npt.NDArray[np.bool_], priority_BL: npt.NDArray[np.uint64], quota_B: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Take the pieces of lowest priority number, up to each sequence's quota."""
    priority_BL = np.where(maskable_BL, priority_BL, _LAST)
    last_B = np.minimum(quota_B, priority_BL.shape[1]) - 1
    highest_B = np.take_along_axis(np.sort(priority_BL, axis=1), last_B[:, None], axis=1)
    return (priority_BL <= highest_B) & maskable_BL


def _word_sizes(
    maskable_T: npt.NDArray[np.bool_], is_continuation_T: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return at the first piece of each word the number of its pieces, and 0 elsewhere."""
    is_head_T = maskable_T & ~(is_continuation_T & np.roll(maskable_T, 1))
    bounds = np.flatnonzero(is_head_T | ~maskable_T)
    sizes_T = np.zeros(len(maskable_T), np.int64)
    sizes_T[bounds] = np.diff(bounds, append=len(maskable_T))
    sizes_T[~maskable_T] = 0
    return sizes_T


def _choose_words(
    size_BL: npt.NDArray[np.int64], priority_BL: npt.NDArray[np.uint64], quota_B: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Take whole words in order of priority; one that would exceed the quota is passed over.

    What is left of a quota only shrinks, so a word that exceeds it once can be forgotten. Each round takes, of the
    words not forgotten, those up to the next one that exceeds what is then left.
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
