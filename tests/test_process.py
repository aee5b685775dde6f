"""Threads and memory of a process: the processors that it may use, and what OpenMP reads when it is loaded."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from cloze import process
from cloze.process import THREAD_VARIABLES, configure_threads, openmp_threads, usable_processors
from cloze.training.workers import place_workers

linux = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")


@pytest.fixture
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@linux
@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "200000 100000\n"}, 2),  # the group is the root of a container
        ({"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        ({"a/b/cpu.max": "500000 100000\n", "a/cpu.max": "600000 100000\n", "cpu.max": "700000 100000\n"}, 5),
        ({"a/b/cpu.max": "50000 20000\n"}, 2),
        ({"a/b/cpu.max": "50000 100000\n"}, 1),  # half a processor
        ({"a/b/cpu.max": "1600000 100000\n"}, 8),
        ({"a/c/cpu.max": "100000 100000\n"}, 8),  # of another group
        ({"a/b/cpu.max": "two processors\n", "a/cpu.max": "0 0\n", "cpu.max": ""}, 8),
        ({"cpu/docker/1/cpu.cfs_quota_us": "200000", "cpu/docker/1/cpu.cfs_period_us": "100000"}, 2),
        ({"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "50000"}, 5),  # in a container
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "50", "cpu/cpu.cfs_period_us": "0"}, 8),
        ({"memory/else/cpu.max": "100000 100000\n"}, 8),
        ({}, 8),
    ],
)
def test_the_least_quota_around_the_process_counts(tmp_path, eight_processors, files, expected):
    groups = "9:name=systemd:/\n4:memory:/else\n1:cpu,cpuacct:/docker/1\n0::/a/b\n"
    for name, text in {
        "proc/self/cgroup": groups,
        **{f"sys/fs/cgroup/{n}": t for n, t in files.items()},
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_processors(tmp_path) == expected


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the environment say nothing about threads."""
    for variable in THREAD_VARIABLES:
        monkeypatch.setenv(variable, "")  # so that it is unset again at the end
        monkeypatch.delenv(variable)


OPENMP = Path((find_spec("torch").submodule_search_locations or [""])[0], "lib", "libgomp.so.1")
WITH_OPENMP = """
import ctypes, os, sys

class LoadOpenMP:
    '''Loads torch's OpenMP in the place of torch, which takes a second.'''

    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            ctypes.CDLL(sys.argv[1])
            os._exit(0)

sys.meta_path.insert(0, LoadOpenMP())
"""


def read_settings(program: str, *arguments: str, **variables: str) -> dict[str, str]:
    """Return the settings that OpenMP prints when a program loads it instead of torch."""
    if not OPENMP.exists():
        pytest.skip("torch has no OpenMP of GNU here")
    environment = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    done = subprocess.run(
        [sys.executable, "-c", WITH_OPENMP + program, str(OPENMP), *arguments],
        env=environment | {"OMP_DISPLAY_ENV": "verbose"} | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line.split(" = ") for line in done.stderr.splitlines() if " = " in line)
    settings = {name.split()[-1]: value.strip("'") for name, value in lines}
    assert "GOMP_SPINCOUNT" in settings, done.stderr
    return settings


CLI = "from cloze.cli import main; main(sys.argv[2:])"


FINETUNE = "finetune classification -m cloze-mini -d none.csv -o run"


@pytest.mark.parametrize(
    ("module", "command"),
    [
        *(
            ("cloze.cli", command)
            for command in ("fill -m cloze-mini [MASK]", FINETUNE, "demo -o run", "serve")
        ),
        *((f"{package}.__main__", "table1") for package in ("benchmarks", "experiments")),
    ],
)
def test_a_command_sets_how_threads_wait_before_openmp_is_loaded(module, command, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.getcwd(), *sys.path]))
    monkeypatch.chdir(tmp_path)
    program = f"from {module} import main; main(sys.argv[2:])"
    assert read_settings(program, *command.split())["GOMP_SPINCOUNT"] == "4000"


@pytest.mark.parametrize(
    ("variable", "value", "spins"),
    [("GOMP_SPINCOUNT", "77", "77"), ("OMP_WAIT_POLICY", "passive", "0"), ("OMP_NUM_THREADS", "1", "4000")],
)
def test_the_environment_of_the_user_stays(variable, value, spins):
    settings = read_settings(CLI, "fill", "-m", "cloze-mini", "[MASK]", **{variable: value})
    assert settings[variable] == value.upper()
    assert settings["GOMP_SPINCOUNT"] == spins


def test_kernels_that_onednn_keeps_are_few_unless_the_user_says_otherwise(monkeypatch):
    variables = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"
    monkeypatch.setenv(variables[0], "1024")
    monkeypatch.delenv(variables[1], raising=False)
    monkeypatch.setattr(process.sys, "platform", "other")  # leaves the allocator of this process
    process.configure_memory("requests")
    assert [os.environ[name] for name in variables] == ["1024", "64"]
    monkeypatch.delenv(variables[1])


def test_importing_cloze_sets_nothing():
    by_default = read_settings("import torch")
    assert by_default["GOMP_SPINCOUNT"] != "4000"
    assert read_settings("import cloze, cloze.process; import torch") == by_default
    assert read_settings("import cloze; cloze.configure_process(); import torch")["GOMP_SPINCOUNT"] == "4000"


@linux
def test_a_process_that_has_loaded_openmp_without_torch_is_told_too():
    program = "import warnings; warnings.simplefilter('error'); ctypes.CDLL(sys.argv[1]); import cloze\n"
    program += "try: cloze.configure_process()\nexcept UserWarning as w: print('WARNED = 1', file=sys.stderr)"
    assert read_settings(program)["WARNED"] == "1"


def test_a_process_that_has_loaded_torch_is_told_unless_the_environment_says_it(environment, monkeypatch):
    with pytest.warns(UserWarning, match="OpenMP is loaded already"):
        configure_threads()
    assert os.environ["GOMP_SPINCOUNT"] == "4000", "of the processes that this one starts"
    monkeypatch.delenv("GOMP_SPINCOUNT")
    for variable in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.setenv(variable, "5")
        configure_threads()  # without a warning
        assert os.environ[variable] == "5"


@linux
@pytest.mark.parametrize(("quota", "threads"), [(2, "2"), (8, None)])
def test_a_quota_sets_the_threads(environment, eight_processors, monkeypatch, one_thread, quota, threads):
    monkeypatch.setattr(process, "usable_processors", lambda: quota)
    monkeypatch.setenv("GOMP_SPINCOUNT", "4000")
    torch.set_num_threads(4)
    configure_threads()
    assert torch.get_num_threads() == (2 if threads else 4)
    assert os.environ.get("OMP_NUM_THREADS") == threads
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    configure_threads()
    assert os.environ["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize(("workers", "threads"), [(1, 6), (2, 3), (3, 2), (5, 1), (6, 1), (9, 1)])
def test_threads_of_all_workers_are_no_more_than_the_processors(monkeypatch, one_thread, workers, threads):
    monkeypatch.setattr("cloze.training.workers.usable_processors", lambda: 6)
    assert place_workers(workers, "cpu").threads == 1, "as the user chose for this process"
    torch.set_num_threads(6)
    assert place_workers(workers, "cpu").threads == threads


@pytest.mark.parametrize(("value", "threads"), [("3", 3), ("4,2", 4), ("", None), ("0", None), ("x", None)])
def test_the_number_of_threads_is_read_as_openmp_reads_it(value, threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert openmp_threads() == threads
