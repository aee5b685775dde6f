"""Masking for the masked-word task, drawn anew whenever a sequence is read.

Shapes: T tokens in the packed batch, B sequences, P masked positions.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cloze.corpus.hashing import mix, uniform

_SELECT, _REPLACE, _RANDOM_PIECE = 1, 2, 3  # which of a token's random numbers is meant


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskingConfig:
    """How many pieces are predicted, and what stands in their place.

    Source: Devlin et al. 2019, 3.1 (task 1) and A.1.
    """

    masked_lm_prob: float = 0.15
    """Share of a sequence's pieces that are predicted."""
    mask_token_prob: float = 0.8
    """Of these, the share that [MASK] replaces."""
    random_token_prob: float = 0.1
    """Of these, the share that a random piece replaces; the rest stay as they are."""
    whole_word: bool = False
    """Choose words, with all their pieces."""

    def __post_init__(self) -> None:
        if not 0 < self.masked_lm_prob < 1:
            raise ValueError(f"masked_lm_prob {self.masked_lm_prob} is not between 0 and 1")
        if min(self.mask_token_prob, self.random_token_prob) < 0:
            raise ValueError("mask_token_prob and random_token_prob must not be negative")
        if self.mask_token_prob + self.random_token_prob > 1 + 1e-9:
            raise ValueError("mask_token_prob and random_token_prob add up to more than 1")


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

    Source: google-research/bert create_pretraining_data.py:342-415 @eedf571: the number chosen is
        min(max_predictions, max(1, round(masked_lm_prob * length))), [CLS] and [SEP] counted; a random piece is any
        of the vocabulary file, special and unused ones too.
    """
    lengths_B = np.diff(cu_seqlens)
    sequence_T = np.repeat(np.arange(len(lengths_B)), lengths_B)
    place_T = np.arange(len(input_ids_T)) - cu_seqlens[:-1].astype(np.int64)[sequence_T]
    quota_B = np.maximum(1, np.rint(lengths_B * config.masked_lm_prob)).astype(np.int64)
    if max_predictions_per_seq is not None:
        quota_B = np.minimum(quota_B, max_predictions_per_seq)
    priority_T = mix(keys_B[sequence_T], place_T, _SELECT)
    if config.whole_word:
        head_T = maskable_T & ~(is_continuation[input_ids_T] & np.roll(maskable_T, 1))
        positions_P = _choose_words(sequence_T, maskable_T, head_T, priority_T, quota_B)
    else:
        positions_P = _choose_pieces(sequence_T, maskable_T, priority_T, quota_B)

    masked_lm_ids = input_ids_T[positions_P]
    keys_P, place_P = keys_B[sequence_T[positions_P]], place_T[positions_P]
    draw_P = uniform(keys_P, place_P, _REPLACE)
    any_piece_P = (uniform(keys_P, place_P, _RANDOM_PIECE) * len(is_continuation)).astype(np.int64)
    masked_T = input_ids_T.copy()
    masked_T[positions_P] = np.select(
        [draw_P < config.mask_token_prob, draw_P < config.mask_token_prob + config.random_token_prob],
        [np.int64(mask_id), any_piece_P],
        masked_lm_ids,
    )
    return masked_T, positions_P, masked_lm_ids


def _choose_pieces(
    sequence_T: npt.NDArray[np.int64],
    maskable_T: npt.NDArray[np.bool_],
    priority_T: npt.NDArray[np.uint64],
    quota_B: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Take the pieces of lowest priority number, up to each sequence's quota."""
    positions = np.flatnonzero(maskable_T)
    positions = positions[np.lexsort((priority_T[positions], sequence_T[positions]))]
    counts_B = np.bincount(sequence_T[positions], minlength=len(quota_B))
    starts_B = np.cumsum(counts_B) - counts_B
    rank = np.arange(len(positions)) - starts_B[sequence_T[positions]]
    return np.sort(positions[rank < quota_B[sequence_T[positions]]])


def _choose_words(
    sequence_T: npt.NDArray[np.int64],
    maskable_T: npt.NDArray[np.bool_],
    head_T: npt.NDArray[np.bool_],
    priority_T: npt.NDArray[np.uint64],
    quota_B: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Take whole words in order of priority; one that would exceed the quota is passed over."""
    heads = np.flatnonzero(head_T)
    word_of = np.cumsum(head_T) - 1
    sizes = np.bincount(word_of[maskable_T], minlength=len(heads))
    order = np.lexsort((priority_T[heads], sequence_T[heads]))
    left = quota_B.tolist()
    chosen: list[int] = []
    for sequence, start, size in zip(
        sequence_T[heads[order]].tolist(), heads[order].tolist(), sizes[order].tolist(), strict=True
    ):
        if size <= left[sequence]:
            left[sequence] -= size
            chosen.extend(range(start, start + size))
    return np.sort(np.array(chosen, dtype=np.int64))
