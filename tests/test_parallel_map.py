"""Map functions over processes."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from multiprocessing.context import SpawnProcess
from multiprocessing.popen_spawn_posix import Popen
from pathlib import Path

import pytest

from cloze.errors import DataWarning, InputError, RunError
from cloze.parallel_map import cpus_per_item, map_unordered


def _slow_square(number: int) -> int:
    time.sleep(0.02 * (number % 3))
    return number * number


def _fail(number: int) -> int:
    if number == 3:
        raise InputError("three", where="here")
    return number


def _warn(number: int) -> int:
    if number == 3:
        warnings.warn(DataWarning("rows of three"), stacklevel=2)
    return number


def _die(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def _wait_for_file(path: Path | None) -> Path | None:
    if path is not None:
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    return path


@pytest.mark.parametrize("workers", [1, 2])
def test_each_result_is_yielded_once(workers):
    results = map_unordered(_slow_square, range(9), workers=workers)
    assert sorted(results) == [n * n for n in range(9)]


@pytest.mark.slow
def test_a_slow_item_does_not_block_others(tmp_path):
    flag = tmp_path / "flag"
    results = map_unordered(_wait_for_file, [flag, *[None] * 20], workers=2)
    assert [next(results) for _ in range(20)] == [None] * 20
    flag.touch()
    assert list(results) == [flag]


@pytest.mark.slow
def test_few_items_are_in_flight():
    drawn = []

    def items() -> Iterator[int]:
        for number in range(20):
            drawn.append(number)
            yield number

    results = map_unordered(_slow_square, items(), workers=2)
    next(results)
    assert len(drawn) <= 5
    assert len(list(results)) == 19


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_errors_and_warnings_about_data_reach_this_process(workers):
    with pytest.raises(InputError, match="here: three"):
        list(map_unordered(_fail, range(9), workers=workers))
    with pytest.warns(DataWarning, match="rows of three") as warned:
        assert sorted(map_unordered(_warn, range(5), workers=workers)) == list(range(5))
    assert len(warned) == 1


@pytest.mark.protected
def test_dead_worker_is_a_run_error():
    with pytest.raises(RunError, match="a worker process died"):
        list(map_unordered(_die, range(9), workers=2))


@pytest.mark.slow
@pytest.mark.protected
def test_worker_that_dies_while_another_starts_is_a_run_error(monkeypatch):
    launch = Popen._launch

    def launch_after_a_death(self: Popen, process: SpawnProcess) -> None:
        for other in multiprocessing.active_children():
            other.kill()
            with contextlib.closing(deadline(60)) as ticks:
                while not process._args[0]._closed:  # the queue of the pool, which has not noticed the death
                    next(ticks)
        launch(self, process)

    monkeypatch.setattr(Popen, "_launch", launch_after_a_death)
    with pytest.raises(RunError, match="a worker process died"):
        list(map_unordered(_slow_square, range(9), workers=2))


def _touch_and_sleep(path: Path) -> None:
    path.with_suffix(f".{os.getpid()}").touch()
    if path.name == "bad":
        raise InputError("bad")
    time.sleep(120)


def test_an_error_does_not_wait_for_other_items(tmp_path):
    started = time.monotonic()
    with pytest.raises(InputError, match="bad"):
        list(map_unordered(_touch_and_sleep, [tmp_path / "long", tmp_path / "bad"], workers=2))
    assert time.monotonic() - started < 60


ORPHANS = """
from pathlib import Path
from {module} import _touch_and_sleep
from cloze.parallel_map import map_unordered

if __name__ == "__main__":
    list(map_unordered(_touch_and_sleep, [Path("one"), Path("two")], workers=2))
"""


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
def test_no_worker_outlives_a_killed_parent(tmp_path):
    (tmp_path / "parent.py").write_text(ORPHANS.format(module=Path(__file__).stem))
    parent = subprocess.Popen(
        [sys.executable, "parent.py"],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,  # Python warns of leaked semaphores
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
    with contextlib.closing(deadline(60)) as ticks:
        while len(marks := [*tmp_path.glob("one.*"), *tmp_path.glob("two.*")]) < 2:
            next(ticks)
        parent.kill()
        parent.wait()
        workers = [Path("/proc") / mark.suffix.removeprefix(".") for mark in marks]
        while any(is_running(worker) for worker in workers):
            next(ticks)


def deadline(seconds: float) -> Iterator[None]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
        yield
    raise TimeoutError


def is_running(process: Path) -> bool:
    try:
        return "State:\tZ" not in (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_cpus_per_item_leave_processors_for_all_items():
    for nodes, sizes in {
        (6,): {1: 6, 2: 3, 3: 2, 4: 1, 99: 1},
        (6, 6): {1: 6, 2: 6, 3: 3, 4: 3, 5: 2, 7: 1},
        (0, 6): {1: 6, 6: 1},
        (2, 8): {1: 2, 5: 2, 6: 1},
    }.items():
        assert {items: cpus_per_item(items, nodes) for items in sizes} == sizes
