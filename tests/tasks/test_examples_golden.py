"""The examples of every fixture, in files of each kind and in memory, are those of a record: number and digest.

`PYTHONPATH=tests python tests/tasks/test_examples_golden.py` writes the record again; read the difference before you
commit it.
"""

import csv
import dataclasses
import hashlib
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow
import pytest

import cloze
from cloze.data.reading.tagged_text import Sentence
from cloze.tasks.data import read_memory
from cloze.tasks.questions import Paragraph, SpanQuestion
from family_cases import CASES, Case
from helpers import task_of, write_rows

pytestmark = [pytest.mark.protected, pytest.mark.filterwarnings("default")]

RECORD = Path(__file__).with_name("golden") / "examples.json"
OF_SHARED = RECORD.with_name("shared.json")
INPUTS = json.loads(RECORD.with_name("inputs.json").read_text("utf-8"))
"""Rows and contents of files by the kind of data."""
LABELED = {"labeled": True, "unlabeled": False}


def rows_of(case: Case) -> list[dict[str, Any]]:
    """Return the rows of a table with names of columns; none for other files."""
    if case.file.endswith(".jsonl"):
        return [json.loads(line) for line in case.content.splitlines()]
    if not case.file.endswith((".tsv", ".csv")):
        return []
    read = csv.DictReader(io.StringIO(case.content), delimiter="\t" if case.file.endswith("tsv") else ",")
    return list(read)


ROWS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    **{
        name: (name, case.settings, rows_of(case))
        for name, case in CASES.items()
        if rows_of(case) and name != "cola"
    },
    **{f"tagging {name}": ("tagging", {}, [row, row]) for name, row in INPUTS["shapes"].items()},
    **{f"tagging left out {name}": ("tagging", {}, rows) for name, rows in INPUTS["unused tags"].items()},
    **{f"tagging {name}": ("tagging", {}, [rows]) for name, rows in INPUTS["other tags"].items()},
    "classification Prodigy": ("classification", {}, INPUTS["prodigy"]),
    "multi-label lists": (
        "multi-label",
        {},
        [{"text": "a", "labels": ["x", "y"]}, {"text": "b", "labels": []}],
    ),
    "squad_v1 starts": (
        "squad_v1",
        {},
        [
            {**INPUTS["row of squad"], "answers": INPUTS["starts"]},
            {**INPUTS["row of squad"], "id": 8, "answers": INPUTS["listed"]},
        ],
    ),
    "squad_v2 none": (
        "squad_v2",
        {},
        [
            {**INPUTS["row of squad"], "answers": []},
            {**INPUTS["row of squad"], "id": "8", "answers": INPUTS["listed"]},
        ],
    ),
    "missing labels": ("classification", {}, [{"text": "a", "label": "x"}, {"text": "b", "label": None}]),
    "missing labels dropped": (
        "classification",
        {"missing_labels": "drop"},
        [{"text": "a", "label": "x"}, {"text": "b", "label": "nan"}],
    ),
    "bad rows": ("regression", {}, [{"text": "a", "label": 1}, {"text": "b", "label": "x"}]),
    "bad rows skipped": (
        "regression",
        {"skip_bad_rows": True},
        [{"text": "a", "label": 1}, {"text": "b", "label": "x"}],
    ),
    "no column": ("classification", {}, [{"text": "a", "kind": "x"}]),
    "triplets": (
        "text-pairs",
        {},
        [
            {"anchor": "a", "positive": "b", "negative_1": "c", "negative_2": ["d", ""], "label": 1},
            {"anchor": "e", "positive": "f", "negative_1": None, "negative_2": [], "label": 0},
        ],
    ),
}
"""Task, settings and rows by name."""

FILES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    **{name: (name, case.settings, case.file, case.content) for name, case in CASES.items()},
    **{f"words {name}": ("tagging", {}, "a.csv", text) for name, text in INPUTS["words"].items()},
    **{f"sentences {name}": ("tagging", {}, "a.csv", text) for name, text in INPUTS["sentences"].items()},
    "squad": ("squad_v2", {}, "a.json", json.dumps(INPUTS["squad"])),
    "plain text": ("classification", {}, "a.txt", "one text\n\nanother\n"),
    "tagged plain text": ("tagging", {}, "a.txt", "Ada lives in Oslo. She works.\n\nBo ran.\n"),
    "documents": ("tagging", {"context": "document"}, "a.conll", "-DOCSTART- O\n\nA B-X\nb O\n\nc O\n"),
}
"""Task, settings, name and content of a file by name."""


FILE_NAMES = ("a.jsonl", "a.json", "a.parquet", "a.arrow")
IN_MEMORY: dict[str, Callable[[list[Any]], Any]] = {
    "dicts": list,
    "Arrow": pyarrow.Table.from_pylist,
    "pandas": lambda rows: pyarrow.Table.from_pylist(rows).to_pandas(),
}


def plain(value: Any) -> Any:
    """Return a value of an example without the names of its classes; places within data in memory are left out."""
    if isinstance(value, Paragraph):
        return value.text
    if isinstance(value, Sentence) and value.first_line is not None and not value.lines:
        # the record has the line of each word, also of words in lines that follow each other
        lines = range(value.first_line, value.first_line + len(value.words))
        value = dataclasses.replace(value, lines=tuple(lines))
    if dataclasses.is_dataclass(value):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        if "gold" in fields:
            fields["gold"] = _plain_gold(value.gold)
        return {name: item for name, item in fields.items() if name != "negatives" or item}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def _plain_gold(gold: Any) -> Any:
    """Return a gold answer as a text: labels in alphabetical order, numbers in one notation."""
    labels = sorted(gold) if isinstance(gold, frozenset) else str(gold).split(",")
    try:
        return f"{float(gold):g}"
    except (TypeError, ValueError):
        return None if gold is None else ",".join(sorted(filter(None, map(str.strip, labels))))


def describe(read: Callable[[], Any], folder: Path | str) -> list[str]:
    """Return the number and the digest of examples, or the error; then the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            examples = list(map(plain, read()))
            text = json.dumps(examples, ensure_ascii=False, sort_keys=True).replace(str(folder), "")
            digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]
            result = f"{len(examples)} {digest}"
        except cloze.InputError as error:
            result = str(error)
    lines = [result, *(str(warning.message) for warning in caught)]
    return [line.replace(str(folder), "")[:160] for line in lines]


def _read_memory(task: cloze.Task, rows: Any, *, labeled: bool) -> Iterator[Any]:
    configured, file = read_memory(task, rows, "rows", labeled=labeled)
    for example in configured.examples(file, labeled=labeled):
        yield dataclasses.replace(example, where="") if isinstance(example, SpanQuestion) else example


def read_fixtures(folder: Path) -> dict[str, list[str]]:
    """Read every fixture of the repository."""
    results = {}
    for mode, labeled in LABELED.items():
        for name, (task, settings, file, content) in FILES.items():
            configured, path = task_of(task, **settings), folder / file
            path.write_text(content, encoding="utf-8")
            results[f"{name} {mode} {file}"] = describe(
                partial(configured.examples, path, labeled=labeled), folder
            )
        for name, (task, settings, rows) in ROWS.items():
            configured = task_of(task, **settings)
            for file in FILE_NAMES:
                path = folder / file
                try:
                    write_rows(path, rows)
                except (pyarrow.ArrowException, AttributeError):  # columns that mix kinds of values
                    continue
                results[f"{name} {mode} {file}"] = describe(
                    partial(configured.examples, path, labeled=labeled), folder
                )
            for kind, make in IN_MEMORY.items():
                try:
                    data = make(rows)
                except (pyarrow.ArrowException, AttributeError):
                    continue
                results[f"{name} {mode} {kind}"] = describe(
                    partial(_read_memory, configured, data, labeled=labeled), folder
                )
    return results


OF_FOLDERS = {
    "glue/CoLA": "cola",
    "glue/MNLI-sample": "mnli",
    "glue/MRPC": "mrpc",
    "glue/QNLI": "qnli",
    "glue/QQP-sample": "qqp",
    "glue/SST-2": "sst2",
    "glue/STS-B": "stsb",
    "glue/WNLI": "wnli",
    "ner/conll2003": "conll2003",
    "ner/gum/CONLL-format/data/test": "gum",
    "ner/wnut17": "wnut17",
}


def read_shared(shared: Path) -> dict[str, list[str]]:
    """Read the real data, the larger files only for prediction, and the cases as each task that may read them."""
    results = {}
    jobs = [
        (task, path)
        for folder, task in OF_FOLDERS.items()
        for path in sorted((shared / "data" / folder).iterdir())
        if path.suffix != ".md"
    ]
    jobs += [
        ("squad_v1", shared / "data/squad/dev-v1.1.json"),
        ("squad_v2", shared / "data/squad/dev-v2.0.json"),
    ]
    endings = (".conll", ".conllu", ".json", ".jsonl", ".tsv", ".csv", ".parquet")
    jobs += [
        (task, path)
        for path in sorted((shared / "cases").rglob("*"))
        if path.suffix in endings
        for task in ("classification", "multi-label", "tagging")
    ]
    for task, path in jobs:
        for mode, labeled in LABELED.items():
            name = f"{task} {mode} {path.relative_to(shared)}"
            results[name] = describe(partial(cloze.find_task(task).examples, path, labeled=labeled), shared)
    return results


def test_fixtures_have_the_examples_of_the_record(tmp_path):
    assert read_fixtures(tmp_path) == json.loads(RECORD.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_real_data_have_the_examples_of_the_record(shared):
    assert read_shared(shared) == json.loads(OF_SHARED.read_text(encoding="utf-8"))


def _write_record(path: Path, results: dict[str, list[str]]) -> None:
    lines = (
        f"{json.dumps(name)}: {json.dumps(result, ensure_ascii=False)}" for name, result in results.items()
    )
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        _write_record(RECORD, read_fixtures(Path(directory)))
    if "CLOZE_SHARED" in os.environ:
        _write_record(OF_SHARED, read_shared(Path(os.environ["CLOZE_SHARED"])))
    sys.exit()
