import numpy as np

from cloze.data.hashing import mix, uniform


def test_numbers_depend_only_on_values_of_keys():
    together = mix(7, np.arange(100), 2)
    assert together.dtype == np.uint64
    assert [int(mix(np.uint8(7), i, np.int32(2))) for i in range(100)] == together.tolist()
    assert mix(7, np.arange(4)[:, None], np.arange(3)).shape == (4, 3)


def test_numbers_do_not_depend_on_the_machine():
    # The finaliser of SplitMix64 after one addition of its constant: its published first number for seed 0.
    assert int(mix(0)) == 0xE220A8397B1DCDAF


def test_after_continues_a_hash():
    assert (mix(np.arange(9), 5, after=mix(3, 4)) == mix(3, 4, np.arange(9), 5)).all()
    assert (uniform(5, after=mix(3, np.arange(9))) == uniform(3, np.arange(9), 5)).all()
    assert mix(after=mix(7)) == mix(7)


def test_uniform_is_uniform():
    numbers = uniform(5, np.arange(1_000_000))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, bins=100, range=(0, 1))[0]
    chi_square = ((counts - 10_000) ** 2 / 10_000).sum()
    assert abs(chi_square - 99) < 5 * np.sqrt(2 * 99)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 5e-3
