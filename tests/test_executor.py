"""Ordered mapping over processes."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from cloze.errors import InputError, RunError
from cloze.executor import map_ordered


def _slow_square(number: int) -> int:
    time.sleep(0.02 * (number % 3))
    return number * number


def _fail(number: int) -> int:
    if number == 3:
        raise InputError("three", where="here")
    return number


def _die(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers: int) -> None:
    assert list(map_ordered(_slow_square, range(9), workers=workers)) == [n * n for n in range(9)]


def test_items_are_drawn_only_as_fast_as_they_are_worked_on() -> None:
    drawn = []

    def items() -> Iterator[int]:
        for number in range(20):
            drawn.append(number)
            yield number

    results = map_ordered(_slow_square, items(), workers=2)
    next(results)
    assert len(drawn) <= 5
    assert list(results) == [n * n for n in range(1, 20)]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_worker_is_the_users_error(workers: int) -> None:
    with pytest.raises(InputError, match="here: three"):
        list(map_ordered(_fail, range(9), workers=workers))


def test_a_dead_worker_is_one_line() -> None:
    with pytest.raises(RunError, match="a worker process died"):
        list(map_ordered(_die, range(9), workers=2))
