"""Words that a vocabulary does not know are counted in files, in memory and by the server, with an example."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import cloze
from cloze.cli import main
from cloze.errors import DataWarning
from cloze.models.bert import BertModel
from cloze.models.heads import BertForPreTraining
from cloze.serving.app import create_app
from cloze.serving.limits import Limits
from cloze.serving.served_model import load_models
from cloze.tasks.custom import Classification
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.unknown import unknown_words
from tiny_models import SPECIAL, tiny_config, write_checkpoint

TEXTS = ["fine day", "fine 😍", "fine 😡", "day"]
COUNT = "2 of 4 {} (50%) have words that the vocabulary does not know, such as '😍': the model reads each as [UNK]. "
REMEDY = "Write them in known words, or add them with cloze vocab extend and pre-train on"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokens, task = (*SPECIAL, "fine", "day"), Classification(labels=("bad", "good"))
    head = task.head(BertModel(tiny_config(tokens)))
    return write_checkpoint(tmp_path_factory.mktemp("unknown") / "classifier", head, tokens, task)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, ["bad", "good"] * 2, strict=True)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("evaluate -m {model} -d {table}", "examples"),
        ("predict -m {model} {table}", "examples"),
        ("embed -m {model} {table} -o {table}.npy", "texts"),
        (
            "finetune classification -m {model} -d {table} --dev {table} -o {table}.run --validate",
            "dev examples",
        ),
    ],
)
def test_commands_say_how_many_texts_of_a_file_have_unknown_words(
    command: str, name: str, classifier: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command.format(model=classifier, table=table).split(), "--quiet"]) == 0
    assert COUNT.format(name) + REMEDY in capsys.readouterr().err


def test_classes_warn_of_unknown_words(classifier: Path) -> None:
    for load in (cloze.Embedder.load, cloze.TextClassifier.load):
        with pytest.warns(DataWarning) as warned:
            load(classifier)(TEXTS)
        assert str(warned[0].message) == COUNT.format("texts") + REMEDY
        load(classifier)(["fine day", "day"])


def test_the_server_counts_unknown_words_of_a_request(classifier: Path, tmp_path: Path) -> None:
    tokens = (*SPECIAL, "fine", "day")
    pretrained = write_checkpoint(
        tmp_path / "pretrained", BertForPreTraining(BertModel(tiny_config(tokens))), tokens
    )
    requests: dict[str, Any] = {
        "/predict": {"inputs": [[text] for text in TEXTS]},
        "/embed": {"inputs": TEXTS},
        "/v1/embeddings": {"input": TEXTS},
        "/fill": {"inputs": [f"[MASK] {text}" for text in TEXTS]},
        "/similarity": {"inputs": {"source_sentence": TEXTS[1], "sentences": TEXTS[2:]}},
    }
    with TestClient(create_app(load_models({"a": classifier, "b": pretrained}), Limits())) as client:
        for route, request in requests.items():
            response = client.post(route, json=request)
            assert (response.status_code, response.headers["x-unknown-words"]) == (200, "2"), response.text
        assert "x-unknown-words" not in client.post("/embed", json={"inputs": "fine day"}).headers


def test_unknown_words_are_those_that_become_the_unknown_token() -> None:
    tokenizer = Tokenizer.load("cloze-mini")
    assert unknown_words(tokenizer, "this day 😍 and 😡😡 fjord, Ünaffable ᚠᚢ") == ["😍", "😡😡", "ᚠᚢ"]
