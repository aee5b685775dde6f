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
@pytest.mark.parametrize("prob", [0.15, 0.3])
def test_number_of_predictions_is_googles(prob, max_predictions):
    lengths = list(range(5, 600))
    _, _, bounds, positions, _ = mask(
        lengths, MaskingConfig(masked_lm_prob=prob), max_predictions=max_predictions
    )
    expected = [min(max_predictions or length, max(1, round(length * prob))) for length in lengths]
    assert per_sequence(bounds, positions).tolist() == expected


def test_predictions_do_not_exceed_the_tokens():
    _, _, bounds, positions, _ = mask([5, 4], MaskingConfig(masked_lm_prob=0.99))
    assert per_sequence(bounds, positions).tolist() == [2, 1]


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


def test_random_tokens_are_uniform():
    config = MaskingConfig(mask_token_prob=0.0, random_token_prob=1.0)
    _, masked, _, positions, _ = mask([128] * 4000, config)
    counts = np.bincount(masked[positions], minlength=VOCAB_SIZE)
    assert counts.all()
    expected = len(positions) / VOCAB_SIZE
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - (VOCAB_SIZE - 1)) < 4 * np.sqrt(2 * VOCAB_SIZE)


@pytest.mark.slow
def test_positions_are_uniform_and_independent():
    length, count = 40, 20_000
    positions = mask([length] * count, MaskingConfig())[3]
    chosen = np.zeros((count, length), bool)
    chosen[positions // length, positions % length] = True
    places = chosen.sum(0)[chosen.any(0)]
    assert len(places) == length - 3
    share = 6 / (length - 3)
    z = (places / count - share) / np.sqrt(share * (1 - share) / count)
    assert abs(z).max() < 4.5
    maskable = np.flatnonzero(chosen.any(0))
    adjacent_targets = chosen[:, maskable[1:]] & chosen[:, maskable[:-1]]
    per_row = adjacent_targets.sum(1)
    expected = 6 * 5 / (length - 3)  # of 37 places in a row, 36 pairs of neighbors, 6 * 5 / (37 * 36) each
    assert abs(per_row.mean() - expected) < 4 * per_row.std() / np.sqrt(count)


def test_whole_words_mask_as_many_tokens_on_average():
    _, _, bounds, positions, _ = mask([128] * 1000, MaskingConfig(whole_word=True))
    assert abs(per_sequence(bounds, positions).mean() - 19) < 0.1


@pytest.mark.parametrize(
    "values",
    [
        {"masked_lm_prob": 0.0},
        {"masked_lm_prob": 1.0},
        {"mask_token_prob": -0.1},
        {"mask_token_prob": 0.8, "random_token_prob": 0.3},
    ],
)
def test_bad_rates(values):
    with pytest.raises(ValueError, match=r"masked_lm_prob|mask_token_prob|random_token_prob"):
        MaskingConfig(**values)
