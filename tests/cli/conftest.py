"""Fixtures of the tests of the command line: samples of all inputs, and a function that runs a command."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from samples import NANO, NANO_TASK, Cloze, Printed, Samples

from cloze.cli import main
from helpers import make_once, novel_paragraphs, write_novel


@pytest.fixture
def cloze(capsys: pytest.CaptureFixture[str]) -> Cloze:
    """Return a function that runs a command, given as a line and more arguments, and checks the exit code."""

    def run(command: str, *arguments: object, code: int = 0) -> Printed:
        capsys.readouterr()
        words = [*shlex.split(command), *map(str, arguments)]
        exit_code = main(words)
        printed = Printed(*capsys.readouterr())
        assert exit_code == code, (words, printed)
        return printed

    return run


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """A worker's copy of the samples, which are made once a session."""
    made = make_once(tmp_path_factory, "samples", _make_samples)
    return _samples_in(shutil.copytree(made, tmp_path_factory.mktemp("copy") / "samples"))


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
