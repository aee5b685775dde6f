"""Each number on the command line: a value beyond reason is refused in one line, before any work."""

import resource
import shlex
import shutil
import time
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from samples import USES, fill_in, one_line_of

from cloze.cli import VERBS, load_verb, main
from cloze.cli.parser import Command

pytestmark = [pytest.mark.protected, pytest.mark.trials("bad input")]


def number_flags(verb: str) -> Iterator[tuple[str, type]]:
    """Yield the flags of a verb that are numbers."""
    for parameter in Command(load_verb(verb), verb).parameters.values():
        for kind in (int, float):
            if kind in (parameter.kind, *typing.get_args(parameter.kind)):
                yield parameter.names[0], kind


FLAGS = [(verb, *flag) for verb in VERBS if verb != "demo" for flag in number_flags(verb)]
TEXT_FLAGS = [
    ("corpus", "--task", ("0/3", "4/3", "1/0", "-1/3", f"1/{'9' * 30}", f"{'9' * 5000}/3", "nan/3", "1")),
    ("pretrain", "--budget", ("0s", "-1h", "nanh", f"{'9' * 5000}h", "1e400h", "infm", "m")),
    ("embed", "--layers", ("", "9" * 30, "0:99999999999", "nan", "5")),
    ("predict", "--device", ("cuda:99999999999", f"cuda:{'9' * 5000}", "cpu:nan", "cuda:-1")),
    ("finetune", "--student-layers", ("0:99999999999", "nan", "9" * 30)),
]
"""Flags whose text has numbers, with values that are refused."""
MAY_BE_ZERO = {
    ("pretrain", "--seed"), ("finetune", "--seed"), ("finetune", "--student-layers"), ("serve", "--port"),
    ("serve", "--shutdown-delay"),
}  # fmt: skip
TOO_LONG = (str(10**30), "9" * 5000)
BEYOND_REASON = {
    int: (*TOO_LONG, "nan", "inf", "1e5", "1.5", "", "-1"),
    float: ("nan", "inf", "9" * 5000, "-1"),
}
LARGE = {int: (str(10**12), str(10**18)), float: ("1e308", "1e-308")}
SECONDS, BYTES = 5, 2 << 30


@contextmanager
def limited() -> Iterator[None]:
    """Let a command have a few seconds of the processor and two gigabytes."""
    memory = Path("/proc/self/statm")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if memory.exists():
        limit = int(memory.read_text("ascii").split()[0]) * resource.getpagesize() + BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    started = time.process_time()
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert time.process_time() - started < SECONDS


@pytest.fixture
def run(paths: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., int]:
    """Return a function that runs a verb with a flag, checks what it says if that is refused, and returns the code."""

    def run(verb: str, flag: str, value: str) -> int:
        words = shlex.split(fill_in(USES[verb], paths))
        capsys.readouterr()
        with limited():
            code = main([*words, f"{flag}={value}", "--quiet"])
        printed = capsys.readouterr()
        if code == 0:
            assert printed.err == ""
            return code
        one_line_of(printed.err)
        assert len(printed.err) <= 2020
        assert {*tmp_path.iterdir()} <= (
            {tmp_path / "vocab.parts"} if verb == "vocab" else set()
        )  # for another size
        return code

    return run


def test_a_number_that_64_bits_may_not_hold_is_refused(capsys):
    assert main(["finetune", "classification", "--epochs", "9" * 19]) == 2
    assert "--epochs: the number has more than 18 digits" in capsys.readouterr().err


@pytest.mark.parametrize(("verb", "flag", "kind"), FLAGS)
def test_number_beyond_reason_is_refused(run, verb, flag, kind):
    zero = () if (verb, flag) in MAY_BE_ZERO else ("0",)
    for value in (*BEYOND_REASON[kind], *zero):
        assert run(verb, flag, value) == 2, value


@pytest.mark.parametrize(("verb", "flag", "kind"), [flag for flag in FLAGS if flag[0] != "serve"])
def test_large_number_is_refused_or_means_all(run, verb, flag, kind, tmp_path):
    for value in LARGE[kind]:
        assert run(verb, flag, value) in (0, 2), value
        for output in tmp_path.iterdir():
            shutil.rmtree(output) if output.is_dir() else output.unlink()


@pytest.mark.parametrize(("verb", "flag", "values"), TEXT_FLAGS)
def test_numbers_in_text_are_refused(run, verb, flag, values):
    for value in values:
        assert run(verb, flag, value) == 2, value
