"""Words that a vocabulary does not know are counted in files, in memory and by the server, with an example."""

import io
import json
import warnings
from pathlib import Path

import pytest

import cloze
from cloze.cli import main
from cloze.errors import DataWarning
from cloze.models.heads import BertForPreTraining
from cloze.tokenization.unknown import UnknownWords, unknown_words
from helpers import task_of
from tiny_models import SPECIAL, tiny_config, write_checkpoint

TEXTS = ["fine day", "fine 😍", "fine 😡", "day"]
COUNT = "2 of 4 {} (50%) have words that the vocabulary does not know, such as '😍': the model reads each as [UNK]. "
REMEDY = (
    "Write them in known words, choose another model, or extend its WordPiece vocabulary and pre-train on"
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    tokens, task = (*SPECIAL, "fine", "day"), task_of("classification", labels=("bad", "good"))
    encoder, folder = cloze.BertModel(tiny_config(tokens)), tmp_path_factory.mktemp("unknown")
    classifier = write_checkpoint(folder / "classifier", task.answer.head(encoder), tokens, task)
    pretrained = write_checkpoint(folder / "pretrained", BertForPreTraining(encoder), tokens)
    return {"classifier": classifier, "pretrained": pretrained}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, ["bad", "good"] * 2, strict=True)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("evaluate -m {0} -d {1}", "examples"),
        ("predict -m {0} {1}", "examples"),
        ("embed -m {0} {1} -o {1}.npy", "texts"),
        ("finetune classification -m {0} -d {1} --dev {1} -o {1}.run --validate", "dev examples"),
    ],
)
def test_commands_say_how_many_texts_of_a_file_have_unknown_words(command, name, paths, table, capsys):
    assert main([*command.format(paths["classifier"], table).split(), "--quiet"]) == 0
    assert COUNT.format(name) + REMEDY in capsys.readouterr().err


@pytest.mark.parametrize(
    ("load", "model", "inputs", "name"),
    [
        (cloze.Embedder.load, "classifier", TEXTS, "texts"),
        (cloze.TextClassifier.load, "classifier", TEXTS, "texts"),
        (cloze.FillMask.load, "pretrained", [f"[MASK] {text}" for text in TEXTS], "texts"),
        (cloze.NextSentence.load, "pretrained", [("day", text) for text in TEXTS], "pairs"),
        (cloze.SentenceScorer.load, "pretrained", TEXTS, "texts"),
    ],
)
def test_classes_warn_once_of_unknown_words(load, model, inputs, name, paths):
    answer = load(paths[model])
    with pytest.warns(DataWarning) as warned:
        answer(inputs)
    assert [str(warning.message) for warning in warned] == [COUNT.format(name) + REMEDY]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        answer([inputs[0], inputs[3]])


@pytest.mark.parametrize("command", ["fill -m {0} -", "evaluate fill -m {0} -d {1}"])
def test_commands_that_fill_in_count_unknown_words_once(command, paths, table, capsys, monkeypatch):
    texts = [f"[MASK] {text}" for text in TEXTS]
    table.write_text("".join(json.dumps({"text": text, "answer": "day"}) + "\n" for text in texts))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(texts).encode())))
    assert main([*command.format(paths["pretrained"], table).split(), "--quiet"]) == 0
    assert capsys.readouterr().err.count(COUNT.format("texts") + REMEDY) == 1


def test_unknown_words_are_those_that_become_the_unknown_token():
    assert (
        UnknownWords(1_000_000, 3)
        .describe("texts")
        .startswith("3 of 1,000,000 texts (under 0.01%) have words")
    )
    tokenizer = cloze.load_tokenizer("cloze-mini")
    assert unknown_words(tokenizer, "this day 😍 and 😡😡 fjord, Ünaffable ᚠᚢ") == ["😍", "😡😡", "ᚠᚢ"]
