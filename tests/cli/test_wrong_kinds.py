"""A file or directory of the wrong kind given to a flag: one line that names it, and a remedy."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_inputs import FINETUNE, INIT, PRETRAIN
from samples import Samples, fill_in, sample_paths
from test_bad_input import contents, one_line_of

from cloze.cli import main

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
PREDICT = "predict classification -m {classifier} "
FLAGS = {
    "vocab {x} -o {out} --workers 1 --size 100": "a text, a table, a JSON number",
    "vocab extend {x} {text} --add 3 -o {out}": "a vocabulary, a data set, a checkpoint, a run, a classifier",
    "vocab inspect {x}": "a vocabulary, a data set, a checkpoint, a run, a classifier",
    "corpus {x} --vocab {vocab} -o {out} --workers 1": "a text, a table, a JSON number",
    "corpus {text} --vocab {x} -o {out}": "a vocabulary, a data set, a checkpoint, a run, a classifier",
    PRETRAIN + "--data {x}": "a data set",
    INIT + "{x} --data {data}": "a checkpoint, a run",
    "pretrain --data {data} -o {out} --config {x}": "",
    FINETUNE + "-m {x} -d {table}": "a checkpoint, a run, a classifier",
    FINETUNE + "-m {run} -d {x}": "a table",
    FINETUNE + "-m {run} -d {table} --dev {x}": "a table",
    "finetune classification -m {run} -d {table} -o {out} --config {x}": "an empty file",
    "baseline classification -d {x}": "a table",
    "evaluate classification -m {x} -d {table}": "a classifier",
    "evaluate classification -m {classifier} -d {x}": "a table",
    "score classification {x} {table}": "a table",
    "predict classification -m {x} {table}": "a classifier",
    PREDICT + "{x}": "a text, a table, a JSON number, an empty file",
    "fill -m {x} 'a [MASK]'": "a checkpoint, a run",
    "next -m {x} 'a' 'b'": "a checkpoint, a run",
    "embed {text} -m {x} -o {out}.npy": "a checkpoint, a run, a classifier",
    "embed {x} -m {run} -o {out}.npy": "a text, a table, a JSON number",
    "attention -m {x} 'a' -o {out}": "a checkpoint, a run, a classifier",
    "serve -m {x} --port 0": "a checkpoint, a run, a classifier",
    "import {x} -o {out}": "a checkpoint",
    "export {x} -o {out}": "a checkpoint, a run, a classifier",
    "info {x}": "a vocabulary, a data set, a checkpoint, a run, a classifier",
    "report {x} -o {out}": "a run, a classifier",
}
"""By command, in which {x} is the thing, the things that it takes."""


@pytest.mark.parametrize(
    ("command", "thing"),
    [
        (command, thing)
        for command, right in FLAGS.items()
        for thing in THINGS
        if thing not in right.split(", ")
    ],
)
def test_wrong_kinds_are_named_with_a_remedy(
    command: str, thing: str, samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = sample_paths(tmp_path, samples)
    make = THINGS[thing]
    x = paths[make] if isinstance(make, str) else tmp_path / "x"
    if callable(make):
        make(x)
    before = contents(tmp_path)
    code = main([*shlex.split(fill_in(command, {**paths, "x": x})), "--quiet"])
    printed = capsys.readouterr().err
    line = one_line_of(printed)
    assert code == 2
    assert str(x) in line
    assert thing in _PLAIN or ". " in line.replace(str(x), ""), "it has no remedy"
    assert contents(tmp_path) == before
