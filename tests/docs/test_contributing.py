"""The examples of CONTRIBUTING.md work as written, and the functions that pages name exist."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from running import REPOSITORY

import cloze
from cloze import artifacts
from cloze.data.batch import PackedBatch
from cloze.data.reading import annotations, formats, tables
from cloze.models import checkpoint, heads, pooling
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model, save_model
from cloze.models.external_weights import load_external_model
from cloze.tasks import registry
from cloze.tokenization.loading import load_tokenizer
from helpers import find_program, task_of
from tiny_models import SPECIAL, tiny_config, write_checkpoint


def read_examples(section: str) -> list[str]:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8").split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def read_example(section: str) -> str:
    (example,) = read_examples(section)
    return example


MODULES = {
    "Adding a task": "tasks",
    "Adding a kind of answer": "tasks/answers",
    "Adding an encoder": "models",
    "Adding a verb": "api",
    "Adding a text format": "data/reading",
}
"""The folder of each example that is a module."""


@pytest.mark.parametrize("section", MODULES)
def test_an_example_passes_the_lint(section):
    name = f"src/cloze/{MODULES[section]}/example.py"
    for words in (["check"], ["format", "--diff"]):
        command = [find_program("ruff"), *words, "--quiet", "--stdin-filename", name, "-"]
        source = read_examples(section)[0]
        done = subprocess.run(command, input=source, cwd=REPOSITORY, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.exhaustive
def test_the_examples_pass_mypy(tmp_path):
    api = pytest.importorskip("mypy.api")
    files = [tmp_path / f"example{number}.py" for number in range(len(MODULES))]
    for file, section in zip(files, MODULES, strict=True):
        file.write_text(read_examples(section)[0])
    settings = str(REPOSITORY / "pyproject.toml")
    out, err, status = api.run(["--config-file", settings, "--cache-dir", str(tmp_path), *map(str, files)])
    assert status == 0, out + err


def test_the_functions_that_pages_name_exist():
    pages = [(REPOSITORY / "docs").glob(f"{folder}/*.md") for folder in ("explanation", "paper", "reference")]
    text = "\n".join(path.read_text("utf-8") for path in chain.from_iterable(pages))
    names = set(re.findall(r"`(cloze\.[\w.]+)`", text))
    assert len(names) > 60
    for name in names:
        assert pkgutil.resolve_name(name) is not None


def test_a_pooling_is_one_entry(monkeypatch):
    entry = eval("{" + read_example("Adding a pooling") + "}", vars(pooling).copy())
    monkeypatch.setattr(pooling, "POOLINGS", {**pooling.POOLINGS, **entry})
    tokens = np.zeros(5, np.int64)
    batch = to_device(PackedBatch.from_flat(tokens, tokens, [3, 2]), torch.device("cpu"))
    hidden = torch.arange(10.0).view(5, 2)
    vectors: Any = pooling.pool(hidden, batch, "ends")
    assert vectors.tolist() == [[2.0, 3.0], [7.0, 8.0]]


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A checkpoint that knows one word."""
    tokens = (*SPECIAL, "the")
    return write_checkpoint(tmp_path / "encoder", cloze.BertModel(tiny_config(tokens)), tokens)


@pytest.mark.parametrize(
    ("number", "module", "table", "content"),
    [
        (0, formats, "FORMATS", "Ada/B-PER left/O Oslo/B-LOC\n"),
        (
            1,
            annotations,
            "ANNOTATION_TOOLS",
            '{"content": "Ada left Oslo", "extras": null, "annotation": ['
            '{"label": ["PER"], "points": [{"start": 0, "end": 2, "text": "Ada"}]}, '
            '{"label": ["LOC"], "points": [{"start": 9, "end": 12, "text": "Oslo"}]}]}\n',
        ),
    ],
    ids=["format", "annotation tool"],
)
def test_a_labeled_format_is_one_entry(number, module, table, content, monkeypatch, tmp_path):
    function, entry = read_examples("Adding a labeled format")[number].rsplit("\n\n\n", 1)
    namespace = vars(module).copy()
    exec(function, namespace)
    entries = eval("{" + entry + "}", namespace) | getattr(module, table)
    for user in (module, tables):
        if hasattr(user, table):
            monkeypatch.setattr(user, table, entries)
    (tmp_path / "a.txt").write_text(content)
    for labeled, tags in ((True, ("B-PER", "O", "B-LOC")), (False, None)):
        [text] = task_of("tagging").examples(tmp_path / "a.txt", labeled=labeled)
        assert [(s.words, s.tags) for s in text.sentences] == [(("Ada", "left", "Oslo"), tags)]


@pytest.mark.slow
def test_a_head_is_one_class(encoder, tmp_path):
    pytest.importorskip("onnxruntime")
    from cloze.export.graph import build_graph
    from cloze.export.onnx import TOLERANCE, compare_with_torch

    namespace = vars(heads).copy()
    exec(read_example("Adding a head"), namespace)
    head = namespace["BertForTokenRegression"]
    model = head(load_model(encoder), num_labels=3).eval()
    with artifacts.write_directory(tmp_path / "saved", kind=checkpoint.KIND) as directory:
        save_model(directory, model, load_tokenizer(encoder), labels=("a", "b", "c"))
    assert type(load_external_model(tmp_path / "saved").model) is head
    loaded = load_model(tmp_path / "saved", partial(head, num_labels=3))
    tokens = np.array([2, 5, 3], np.int64)
    batch = to_device(PackedBatch.from_flat(tokens, tokens * 0, [3]), torch.device("cpu"))
    assert loaded(batch).shape == (3, 3)
    assert torch.equal(loaded(batch), model(batch))
    checks = compare_with_torch(build_graph(model, precision="float32").SerializeToString(), model)
    assert max(check.largest_difference for check in checks) <= TOLERANCE


def test_a_route_is_one_file(encoder, monkeypatch):
    pytest.importorskip("fastapi")
    from fastapi.testclient import TestClient

    from cloze.serving import app, native
    from cloze.serving.limits import Limits
    from cloze.serving.served_model import load_models

    definitions, route = read_example("Adding a route").rsplit("\n\n\n", 1)
    namespace = vars(native).copy()
    exec(definitions, namespace)
    monkeypatch.setattr(app, "ROUTES", (*app.ROUTES, eval(route, namespace)))
    models = load_models({"mini": encoder}, device="cpu")
    with TestClient(app.create_app(models, Limits())) as client:
        response = client.post("/length", json={"inputs": ["the", "the the"]})
        assert response.json() == [3, 4]
        assert (
            "number of tokens"
            in client.get("/openapi.json").json()["paths"]["/length"]["post"]["description"]
        )


def test_a_kind_of_answer_is_one_file(encoder, tmp_path, monkeypatch):
    (tmp_path / "counts.py").write_text(read_example("Adding a kind of answer"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "TASKS", dict(registry.TASKS))
    importlib.import_module("counts")
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    for path, numbers in ((train, range(60)), (dev, range(60, 80))):
        path.write_text("text\tlabel\n" + "".join(f"{'the ' * (n % 7)}{n}\t{n % 7}\n" for n in numbers))
    run = tmp_path / "run"
    finetuned = cloze.finetune(
        "counts", model=encoder, train=train, output=run, epochs=2, max_seq_length=16, device="cpu"
    )
    assert {"spearman", "rmse"} <= {*finetuned}
    assert {*cloze.evaluate(model=run, data=dev, device="cpu")} == {"spearman", "rmse"}
    assert all(row["count"] > 0 for row in cloze.predict_file(dev, model=run, device="cpu"))
    assert [scores.baseline for scores in cloze.baseline("counts", train=train, dev=dev)] == ["mean"]
    (description,) = cloze.describe_tasks("counts")
    assert description.settings["counts.text_column"].default == "text"
    dev.write_text("text\tlabel\nthe\t-1\n")
    with pytest.raises(cloze.InputError, match=r"dev\.tsv:2: '-1' is no count. Write 0, 1, 2, …"):
        cloze.evaluate(model=run, data=dev, device="cpu")


@pytest.mark.slow
def test_a_verb_is_a_function_and_a_line(encoder, tmp_path):
    package, original = tmp_path / "cloze", REPOSITORY / "src" / "cloze"
    for folder in (package, package / "api", package / "cli"):
        folder.mkdir()
        for entry in (original / folder.relative_to(package)).iterdir():
            if entry.name not in ("api", "cli"):
                (folder / entry.name).symlink_to(entry)
    function, command, line = read_examples("Adding a verb")
    (package / "api" / "counting.py").write_text(function)
    for name, change in (
        ("answers", lambda text: text + command),
        ("__init__", lambda text: text.replace("_TABLE = {\n", "_TABLE = {\n" + line)),
    ):
        text = (package / "cli" / f"{name}.py").read_text("utf-8")
        (package / "cli" / f"{name}.py").unlink()
        (package / "cli" / f"{name}.py").write_text(change(text), "utf-8")

    program = "import sys; from cloze.cli import main; [main(line.split()) for line in sys.argv[1:]]"
    lines = ("--help", "count --help", f"count the the -m {encoder}", f"count the --json -m {encoder}")
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", program, *lines]
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert "count the tokens of texts" in printed
    assert "a checkpoint, a run" in printed
    assert printed.endswith("3\n3\n[3]\n")
