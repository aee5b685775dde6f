"""Line ends, byte order marks and compression do not change what a verb prints or writes."""

import bz2
import gzip
import itertools
import json
import lzma
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from samples import CORPUS, FINETUNE, fill_in, one_line_of

from cloze.cli import main
from helpers import novel_paragraphs, read_tree

LINES = [paragraph[:60].replace('"', "") for paragraph in novel_paragraphs(24)]
FILES = {
    "a.txt": LINES,
    "a.jsonl": [json.dumps({"text": line, "label": number % 2}) for number, line in enumerate(LINES)],
    "a.csv": ["text,label", *(f'"{line}",{number % 2}' for number, line in enumerate(LINES))],
    "a.tsv": ["text\tlabel", *(f"{line}\t{number % 2}" for number, line in enumerate(LINES))],
}
VERBS = {
    "vocab {x} -o {out} --size 70 --workers 1": "a.txt",
    CORPUS.replace("{tmp}/text", "{x}"): "a.txt",
    "corpus {x} --dry-run": "a.jsonl",
    "vocab inspect {vocab} {x} --workers 1": "a.txt",
    "embed {x} -m {run} -o {out}.npy": "a.csv",
    "predict classification -m {classifier} {x}": "a.txt",
    "evaluate classification -m {classifier} -d {x}": "a.csv",
    "baseline classification -d {x}": "a.jsonl",
    FINETUNE + "-m {run} -d {x} --validate": "a.tsv",
}
"""By command, in which {x} is a file that it reads. `tests/data/reading/test_text_faults.py` tries all formats."""
FORMS: dict[str, Callable[[str], bytes]] = {
    "CR LF": lambda text: text.replace("\n", "\r\n").encode(),
    "CR": lambda text: text.replace("\n", "\r").encode(),
    "a byte order mark": lambda text: text.encode("utf-8-sig"),
    "bzip2 and CR LF": lambda text: bz2.compress(text.replace("\n", "\r\n").encode()),
    "xz and CR": lambda text: lzma.compress(text.replace("\n", "\r").encode()),
}
SAME = {".txt", ".arrow", ".npy"}
"""Files without a path or time in them."""


Run = Callable[..., tuple[int, str, dict[str, bytes]]]


@pytest.fixture
def run(paths: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command on a file, and returns the code, the output and the written files."""
    numbers = itertools.count()

    def run(command: str, content: bytes, name: str) -> tuple[int, str, dict[str, bytes]]:
        directory = tmp_path / str(next(numbers))
        directory.mkdir()
        file = directory / name
        file.write_bytes(content)
        words = shlex.split(fill_in(command, {**paths, "out": directory / "out", "x": file}))
        capsys.readouterr()
        code = main([*words, "--quiet"])
        printed = capsys.readouterr()
        file.unlink()
        written = {path: data for path, data in read_tree(directory).items() if Path(path).suffix in SAME}
        text = re.sub("[0-9,]+ bytes|seconds .*", "", printed.out + printed.err).replace(str(directory), "")
        return code, text, written

    return run


@pytest.mark.parametrize(("command", "name"), VERBS.items())
def test_forms_of_a_file_give_the_same(command: str, name: str, run: Run) -> None:
    text = "\n".join(FILES[name]) + "\n"
    expected = run(command, text.encode(), name)
    assert expected[0] == 0, expected
    for form, write in FORMS.items():
        assert run(command, write(text), name) == expected, form


@pytest.mark.protected
@pytest.mark.parametrize(("command", "name"), VERBS.items())
def test_another_encoding_is_refused_with_the_command_that_converts_it(
    command: str, name: str, run: Run
) -> None:
    code, printed, written = run(command, ("\n".join(FILES[name]) + "\n").encode("utf-16"), name)
    line = one_line_of(printed)
    assert code == 2
    assert f"/{name}:" in line
    assert "iconv" in line
    assert written == {}


@pytest.mark.protected
@pytest.mark.parametrize(("command", "name"), VERBS.items())
def test_truncated_compressed_files_are_refused(command: str, name: str, run: Run) -> None:
    compressed = gzip.compress("\n".join(FILES[name]).encode())
    code, printed, written = run(command, compressed[: len(compressed) * 2 // 3], name)
    line = one_line_of(printed)
    assert code == 2
    assert f"/{name}: cannot be read: " in line
    assert "damaged or cut short: copy it again" in line
    assert written == {}
