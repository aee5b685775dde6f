"""Fixtures of the tests of the command line: samples of all inputs, and a function that runs a command."""

import re
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from samples import NANO, NANO_TASK, Cloze, ErrorLine, Printed, Samples, command_runner, fill_in, one_line_of

from cloze.cli import main
from helpers import make_once, novel_paragraphs, write_novel


@pytest.fixture
def paths(samples: Samples, tmp_path: Path) -> dict[str, Path]:
    """The paths that commands name in braces: of samples, an empty directory {tmp}, and {out} in it."""
    return {"tmp": tmp_path, "out": tmp_path / "out", "checkpoint": samples.checkpoint, **asdict(samples)}


@pytest.fixture
def cloze(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Cloze:
    """Return a function that runs a command with the names of `paths` filled in, and checks the exit code."""
    run = command_runner(capsys)

    def fill_in_and_run(command: str, *arguments: object, code: int = 0) -> Printed:
        if "{" in command:
            command = fill_in(command, request.getfixturevalue("paths"))
        return run(command, *arguments, code=code)

    return fill_in_and_run


@pytest.fixture
def error_line(cloze: Cloze) -> ErrorLine:
    """Return a function that runs a command which is refused, and returns the line that it prints."""

    def run(command: str, *arguments: object, code: int = 2) -> str:
        printed = cloze(command, *arguments, "--quiet", code=code)
        assert printed.out == ""
        return one_line_of(printed.err)

    return run


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """A worker's copy of the samples, which are made once a session."""
    made = make_once(tmp_path_factory, "samples", _make_samples)
    return _samples_in(shutil.copytree(made, tmp_path_factory.mktemp("copy") / "samples", symlinks=True))


def _samples_in(directory: Path) -> Samples:
    names = ("novel.txt", "vocab", "data", "run", "reviews.tsv", "classifier")
    return Samples(*(directory / name for name in names))


def _make_samples(directory: Path) -> None:
    samples = _samples_in(directory)
    write_novel(samples.text, 200)
    texts = [
        re.sub("[^A-Za-z ,.]", "", paragraph[:40]) for paragraph in novel_paragraphs(40)
    ]  # known to the vocabulary
    rows = [f"{text}\t{number % 2}\n" for number, text in enumerate(texts)]
    samples.table.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    corpus = "--format paragraphs --workers 1 --validation-fraction 0.1"
    pretraining = "--steps 4 --set=checkpoints.every_steps=2 --set=checkpoints.keep_newest=9"
    commands = (
        f"vocab {samples.text} -o {samples.vocab} --size 500 --workers 1",
        f"corpus {samples.text} --vocabulary {samples.vocab} -o {samples.data} {corpus}",
        f"pretrain --data {samples.data} -o {samples.run} {pretraining} {shlex.join(NANO)}",
        f"finetune classification -m {samples.run} -d {samples.table} -o {samples.classifier} {' '.join(NANO_TASK)}",
    )
    for command in commands:
        assert main([*shlex.split(command), "--quiet"]) == 0
