"""The number of masked tokens, their choice and their replacements follow the expected distributions."""

import numpy as np
import pytest

from cloze.data.hashing import mix
from cloze.data.instances.masking import MaskingConfig, mask_tokens

VOCAB_SIZE = 1000
CLS, SEP, MASK = 2, 3, 4
IS_CONTINUATION = np.arange(VOCAB_SIZE) % 3 == 2


def sequences(lengths: list[int], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, boundaries and what may be masked of sequences with a [SEP] in the middle."""
    rows, maskable = [], []
    for length in lengths:
        row = rng.integers(5, VOCAB_SIZE, length)
        middle = 1 + (length - 2) // 2
        row[[0, middle, -1]] = CLS, SEP, SEP
        rows.append(row)
        maskable.append(row > SEP)
    return np.concatenate(rows), np.cumsum([0, *lengths]).astype(np.int32), np.concatenate(maskable)


def mask(
    lengths: list[int], config: MaskingConfig, *, max_predictions: int | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ids before and after, boundaries, positions and labels."""
    ids, bounds, maskable = sequences(lengths, np.random.default_rng(0))
    before = ids.copy()
    keys = mix(seed, np.arange(len(lengths)))
    masked, positions, labels = mask_tokens(
        ids,
        bounds,
        maskable,
        keys,
        config,
        max_predictions_per_seq=max_predictions,
        is_continuation=IS_CONTINUATION,
        mask_id=MASK,
    )
    assert (ids == before).all()
    assert maskable[positions].all()
    assert (np.diff(positions) > 0).all()
    assert (labels == ids[positions]).all()
    untouched = np.setdiff1d(np.arange(len(ids)), positions)
    assert (masked[untouched] == ids[untouched]).all()
    return ids, masked, bounds, positions, labels


def per_sequence(bounds: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return np.histogram(positions, bins=bounds)[0]


@pytest.mark.parametrize("max_predictions", [None, 20])
@pytest.mark.parametrize("prob", [0.15, 0.3, 0.9])
def test_number_of_predictions_is_googles(prob, max_predictions):
    lengths = list(range(5, 600))
    _, _, bounds, positions, _ = mask(
        lengths, MaskingConfig(masked_lm_prob=prob), max_predictions=max_predictions
    )
    expected = [
        min(max_predictions or length, length - 3, max(1, round(length * prob))) for length in lengths
    ]
    assert per_sequence(bounds, positions).tolist() == expected


@pytest.mark.parametrize(("mask_prob", "random_prob"), [(0.8, 0.1), (0.7, 0.15), (1.0, 0.0), (0.0, 1.0)])
@pytest.mark.parametrize("whole_word", [False, True])
def test_replacement_rates(mask_prob, random_prob, whole_word):
    config = MaskingConfig(mask_token_prob=mask_prob, random_token_prob=random_prob, whole_word=whole_word)
    ids, masked, _, positions, _ = mask([128] * 3000, config)
    count = len(positions)
    hidden = (masked[positions] == MASK).mean()
    kept = (masked[positions] == ids[positions]).mean()
    # A random token may be [MASK], or the token that it replaces.
    for share, expected in (
        (hidden, mask_prob + random_prob / VOCAB_SIZE),
        (kept, 1 - mask_prob - random_prob + random_prob / VOCAB_SIZE),
    ):
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / count) + 1e-12


def test_whole_words_mask_as_many_tokens_on_average():
    _, _, bounds, positions, _ = mask([128] * 1000, MaskingConfig(whole_word=True))
    assert abs(per_sequence(bounds, positions).mean() - 19) < 0.1
