"""Helpers of many tests: excerpts of a novel, a counting progress bar, file contents, damage."""

import csv
import json
import lzma
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest
from filelock import FileLock

from cloze.progress import Bar
from cloze.tasks.registry import find_task

if TYPE_CHECKING:
    from cloze.finetuning.config import FinetuneConfig
    from cloze.pretraining.config import PretrainConfig
    from cloze.tasks.task import Task


def task_of(name: str, **settings: Any) -> "Task":
    """Return a task with other settings."""
    return find_task(name).with_settings(settings)


def external_answer(directory: Path, task: str, *classes: str) -> Any:
    """Return the answer of a task for another program's tagger or classifier with these classes."""
    config = {"architectures": ["BertForTokenClassification"], "id2label": dict(enumerate(classes))}
    (directory / "config.json").write_text(json.dumps(config), "utf-8")
    return find_task(task).for_external_checkpoint(directory).answer


def find_program(name: str) -> str:
    """Return the path of a program beside Python, on PATH or of an administrator; skip the test where it is missing."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"])
    found = shutil.which(name, path=places)
    if found is None:
        pytest.skip(f"needs {name}")
    return found


def edit_json(file: Path, *path: str | int, to: Any) -> None:
    """Set a value in a JSON file, by the keys on the way to it."""
    table = inner = json.loads(file.read_text("utf-8"))
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = to
    file.write_text(json.dumps(table), "utf-8")


def write_rows(
    path: Path, rows: Any, new_arrow: Callable[..., Any] = pyarrow.ipc.new_file, **options: Any
) -> Path:
    """Write rows, or a table of pyarrow, as the file's name says: .jsonl, .json, .csv, .tsv, .parquet or .arrow."""
    if path.suffix in (".parquet", ".arrow"):
        table = rows if isinstance(rows, pyarrow.Table) else pyarrow.Table.from_pylist(rows)
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(table, path, **options)
        else:
            with new_arrow(str(path), table.schema) as writer:
                writer.write_table(table, **options)
    elif path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as stream:
            separator = "," if path.suffix == ".csv" else "\t"
            writer = csv.DictWriter(stream, list(rows[0]), delimiter=separator, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = list(map(json.dumps, rows))
        text = f"[{','.join(lines)}]" if path.suffix == ".json" else "".join(f"{line}\n" for line in lines)
        path.write_text(text, encoding="utf-8")
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a .jsonl, .csv, .tsv or .parquet file."""
    if path.suffix == ".parquet":
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
        return rows
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream, delimiter="\t" if path.suffix == ".tsv" else ","))


NOVEL = Path(__file__).resolve().parents[1] / "src/cloze/demo/data/Doyle_Hound_1902.txt.xz"


def compress_zstd(text: bytes) -> bytes:
    """Return a .zst file with a text."""
    return bytes(pyarrow.compress(text, "zstd", asbytes=True))


def novel_paragraphs(count: int) -> list[str]:
    """Return the first paragraphs of a novel that are longer than a line."""
    with lzma.open(NOVEL, "rt", encoding="utf-8-sig") as stream:
        return [line.strip() for line in stream if len(line) > 80][:count]


def grouped(paragraphs: list[str]) -> list[str]:
    """Return documents of five paragraphs, one per line."""
    return ["\n".join(paragraphs[i : i + 5]) for i in range(0, len(paragraphs), 5)]


def write_novel(path: Path, num_paragraphs: int) -> Path:
    """Write an excerpt as documents separated by blank lines."""
    path.write_text("\n\n".join(grouped(novel_paragraphs(num_paragraphs))) + "\n", encoding="utf-8")
    return path


def make_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a directory that `make` fills once per pytest session, for all workers of pytest-xdist."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    directory, finished = root / name, root / f"{name}.finished"
    with FileLock(root / f"{name}.lock"):
        if not finished.exists():
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            make(directory)
            finished.touch()
    return directory


class CountingBar(Bar):
    """A progress bar that only counts."""

    def __init__(self) -> None:
        self.done = 0.0

    def advance(self, amount: float) -> None:
        self.done += amount


def flip_bit(file: Path) -> None:
    """Flip a bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def assert_help_is_complete(
    main: Callable[[list[str]], int], words: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check that --help of a command describes every flag."""
    assert main([*words, "--help"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    plain = re.sub("\x1b\\[[0-9;]*m|[╭╮╰╯│─]", " ", printed.out)
    assert f"Usage: {command}" in plain
    assert "None" not in plain
    assert not re.search(r"\bSTR\b", plain)
    assert "--quiet" in plain
    entries = re.split(r"\n {2}(?: {3}|\* {2})?(?=--|[A-Z]{2,})", plain)[1:]
    assert len(entries) > 3
    for entry in entries:
        flag, *described = re.split(r" {2,}|\n", entry.strip(), maxsplit=1)
        assert re.search("[a-z]{2,}", " ".join(described)), f"{flag} has no help"


def read_tree(directory: Path) -> dict[str, bytes]:
    """Return the content of every file below a directory."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def finetuning_of(task: str, settings: Iterable[str]) -> "tuple[Task, FinetuneConfig]":
    """Return a task and its config for settings such as "epochs=1"."""
    from cloze.config import read_dict

    return resolve_finetuning(task, settings=read_dict(overrides=settings))


def resolve_finetuning(
    task: Any, config: Any = None, settings: Mapping[str, Any] = MappingProxyType({})
) -> "tuple[Task, FinetuneConfig]":
    """Return the task and the config of a fine-tuning, of a recipe with settings by their dotted keys."""
    from cloze.api import settings as layers

    given = layers.finetuning_layers(task, None, {"config": config, "settings": settings})
    return layers.resolve_finetuning(given)


def resolve_pretraining(
    config: Any = None, settings: Mapping[str, Any] = MappingProxyType({})
) -> "PretrainConfig":
    """Return the config of a pre-training, of a recipe with settings by their dotted keys."""
    from cloze.api import settings as layers

    return layers.resolve_pretraining(
        layers.pretraining_layers(None, {"config": config, "settings": settings})
    )
