"""A file or directory of the wrong kind given to a flag: one line that names it, and a remedy."""

from collections.abc import Callable
from pathlib import Path

import pytest
from samples import FINETUNE, INIT, PRETRAIN, ErrorLine, fill_in

from helpers import read_tree

pytestmark = pytest.mark.protected


def file(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


THINGS: dict[str, Callable[[Path], object] | str] = {
    "nothing": lambda path: None,
    "an empty file": file(b""),
    "a program": file(b"\x7fELF\x02\xff\xfe" * 99),
    "an empty directory": Path.mkdir,
    "a JSON number": file(b"5\n"),
    "a text": "text",
    "a vocabulary": "vocab",
    "a data set": "data",
    "a checkpoint": "checkpoint",
    "a run": "run",
    "a classifier": "classifier",
    "a table": "table",
}
"""By name, a function that writes it, or the name of a sample."""

_PLAIN = ("nothing", "an empty file", "an empty directory")  # the cause says all
READERS = {
    "corpus {x} --vocabulary {vocab} -o {out} --workers 1": "a text, a table, a JSON number",
    "corpus {text} --vocabulary {x} -o {out}": "a vocabulary, a data set, a checkpoint, a run, a classifier",
    PRETRAIN + "--data {x}": "a data set",
    "pretrain --data {data} -o {out} --config {x}": "",
    FINETUNE + "-m {run} -d {x}": "a table",
    "score classification {x} {table}": "a table",
    "predict classification -m {x} {table}": "a classifier",
    "fill -m {x} 'a [MASK]'": "a checkpoint, a run",
    "import {x} -o {out}": "a checkpoint, a run, a classifier",
    "info {x}": "a vocabulary, a data set, a checkpoint, a run, a classifier",
    "report {x} -o {out}": "a run, a classifier",
}
"""By command, in which {x} is the thing, the things that it takes: one command for each function that reads {x}."""
OTHERS = (
    "vocab {x} -o {out} --workers 1 --size 100",
    "vocab extend {x} {text} --number 3 -o {out}",
    "vocab inspect {x}",
    INIT + "{x} --data {data}",
    FINETUNE + "-m {x} -d {table}",
    FINETUNE + "-m {run} -d {table} --dev {x}",
    "finetune classification -m {run} -d {table} -o {out} --config {x}",
    "baseline classification -d {x}",
    "evaluate classification -m {x} -d {table}",
    "evaluate classification -m {classifier} -d {x}",
    "predict classification -m {classifier} {x}",
    "next -m {x} 'a' 'b'",
    "embed {text} -m {x} -o {out}.parquet",
    "embed {x} -m {run} -o {out}.npy",
    "attention -m {x} 'a' -o {out}",
    "serve -m {x} --port 0",
    "export {x} -o {out}",
)
"""Commands that read {x} with one of these functions."""


@pytest.fixture
def assert_refused(
    paths: dict[str, Path], tmp_path: Path, error_line: ErrorLine
) -> Callable[[str, str], None]:
    """Return a function that checks that a thing is named in one line with a remedy, and that nothing is written."""

    def check(command: str, thing: str) -> None:
        make = THINGS[thing]
        x = paths[make] if isinstance(make, str) else tmp_path / "x" / thing.replace(" ", "-")
        if callable(make):
            x.parent.mkdir(exist_ok=True)
            make(x)
        before = read_tree(tmp_path)
        line = error_line(fill_in(command, {"x": x}))
        assert str(x) in line
        assert thing in _PLAIN or ". " in line.replace(str(x), ""), f"it has no remedy: {line}"
        assert read_tree(tmp_path) == before

    return check


@pytest.mark.parametrize("command", READERS)
def test_wrong_kinds_are_named_with_a_remedy(command, assert_refused):
    for thing in THINGS.keys() - READERS[command].split(", "):
        assert_refused(command, thing)


@pytest.mark.parametrize("command", OTHERS)
def test_two_wrong_kinds_are_named_by_every_flag(command, assert_refused):
    for thing in ("a program", "an empty directory"):
        assert_refused(command, thing)
