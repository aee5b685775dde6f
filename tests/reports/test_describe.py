"""`cloze info` describes every kind of directory and finds a flipped bit in each."""

import json
import shutil

import pytest
import torch
from safetensors.torch import save_file

import cloze
from cloze import artifacts
from cloze.cli import main
from cloze.data.dataset import Dataset
from cloze.errors import InputError
from cloze.models.checkpoint import KIND, save_model
from cloze.models.heads import BertForPreTraining, BertForSequenceClassification
from cloze.reports.describe import describe
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from corpora import rows_of
from helpers import flip_bit
from tiny_models import tiny_config, write_checkpoint

PIECES = [*SPECIAL_TOKENS, "[unused0]", *"abcdefghijklmnop", "."]


@pytest.fixture
def tokenizer():
    return cloze.WordPieceTokenizer.from_tokens(PIECES)


def tiny(head):
    return head(cloze.BertModel(tiny_config(PIECES, num_hidden_layers=2, max_position_embeddings=17)))


@pytest.fixture
def checkpoint(tmp_path):
    return write_checkpoint(tmp_path / "checkpoint", tiny(BertForPreTraining), PIECES)


@pytest.fixture
def vocabulary(tmp_path, tokenizer):
    path = tmp_path / "vocabulary"
    with artifacts.write_directory(path, kind="vocabulary") as directory:
        tokenizer.save(directory)
    return path


@pytest.fixture
def dataset(tmp_path, vocabulary):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"a b c .\nd e {'f ' * n}.\n\n" for n in range(9)))
    output, settings = tmp_path / "dataset", {"format": "sentences", "validation_fraction": 0.2, "workers": 1}
    cloze.build_dataset(text, vocabulary=vocabulary, output=output, **settings)
    return output


@pytest.fixture
def run(tmp_path, checkpoint):
    path = tmp_path / "run"
    for step in (5, 10):
        shutil.copytree(checkpoint, path / "checkpoints" / f"step-{step:08}")
    (path / "latest").symlink_to("checkpoints/step-00000010")
    (path / "best").symlink_to("checkpoints/step-00000005")
    rows = [{"kind": "train", "step": 10, "loss": 3.5}, {"kind": "validation", "step": 10, "loss": 3.25}]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "run.toml").write_text('data = "wiki"\n[model]\nsize = "tiny"\n[[phases]]\nbatch_size = 64\n')
    return path


def test_checkpoint(checkpoint):
    description = describe(checkpoint)
    assert (description.kind, description.checked) == ("checkpoint", {str(checkpoint): 5})
    expected = {
        "model": "BertForPreTraining",
        "layers": 2,
        "hidden size": 12,
        "parameters": sum(p.numel() for p in tiny(BertForPreTraining).parameters()),
        "number format": "F32",
        "vocabulary": len(PIECES),
        "of them unused": 1,
    }
    assert {name: description.facts[name] for name in expected} == expected
    assert "labels" not in description.facts


def test_a_classifier_and_its_edited_card(tmp_path, tokenizer):
    model = tiny(lambda bert: BertForSequenceClassification(bert, num_labels=3))
    with artifacts.write_directory(tmp_path / "model", kind=KIND) as directory:
        save_model(directory, model, tokenizer, labels=("no", "maybe", "yes"))
        (directory / "README.md").write_text("# A card\n")
    (tmp_path / "model/README.md").write_text("# A better card\n")
    description = describe(tmp_path / "model")
    assert description.facts["labels"] == ["no", "maybe", "yes"]
    assert description.checked == {str(tmp_path / "model"): 5}


def test_a_directory_without_a_manifest_is_described(tmp_path, capsys):
    sizes = {"vocab_size": 7, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = {"model_type": "bert", **sizes, "intermediate_size": 6, "max_position_embeddings": 8}
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = torch.zeros(7, 4)
    save_file(
        {
            "bert.embeddings.word_embeddings.weight": words,
            "cls.predictions.decoder.weight": words.clone(),  # tied, counted once
            "bert.embeddings.LayerNorm.gamma": torch.zeros(4, dtype=torch.float16),
        },
        tmp_path / "model.safetensors",
    )
    description = describe(tmp_path)
    assert description.kind == "checkpoint"
    assert description.checked == {}
    assert description.facts["parameters"] == 7 * 4 + 4
    assert description.facts["number format"] == "F16, F32"
    assert description.facts["vocabulary"] == "none in this directory"
    assert main(["info", str(tmp_path)]) == 0
    assert "no manifest to verify the files against" in capsys.readouterr().out


def test_vocabulary(vocabulary):
    description = describe(vocabulary)
    assert description.kind == "vocabulary"
    assert description.facts == {"vocabulary": len(PIECES), "of them unused": 1, "case": "lower-cased"}
    (vocabulary / "manifest.json").unlink()
    assert describe(vocabulary).kind == "vocabulary"
    assert describe(vocabulary).checked == {}


def test_dataset(dataset):
    facts = describe(dataset).facts
    assert facts["documents"] == 9
    assert facts["sentences"] == 18
    assert facts["train"]["documents"] + facts["validation"]["documents"] == 9
    assert facts["train"]["tokens"] + facts["validation"]["tokens"] == facts["tokens"]
    held_out = Dataset.open(dataset).split("validation")
    tokens = sum(len(sentence) for document in rows_of(held_out) for sentence in document)
    assert facts["validation"]["tokens"] == tokens


def test_run(run):
    description = describe(run)
    assert (description.kind, len(description.checked)) == ("run", 2)
    settings = {"data": "wiki", "model": {"size": "tiny"}, "phases": [{"batch_size": 64}]}
    expected = {
        "latest": "step-00000010",
        "best": "step-00000005",
        "last held-out measures": {"step": 10, "loss": 3.25},
        "settings": settings,
    }
    assert {name: description.facts[name] for name in expected} == expected
    for path in (*run.glob("checkpoints/*"), *run.glob("*est"), run / "metrics.jsonl"):
        path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)
    assert describe(run).facts == {"checkpoints": [], "settings": settings}


def test_a_run_of_several_seeds(run, tmp_path):
    shutil.copytree(run, tmp_path / "several/trials/seed-7", symlinks=True)
    (tmp_path / "several/run.toml").write_text("seeds = 1\n")
    (tmp_path / "several/best").symlink_to("trials/seed-7/checkpoints/step-00000005")
    description = describe(tmp_path / "several")
    assert description.facts["checkpoints"] == ["seed-7/step-00000005", "seed-7/step-00000010"]
    assert len(description.checked) == 2
    flip_bit(tmp_path / "several/trials/seed-7/checkpoints/step-00000010/model.safetensors")
    with pytest.raises(InputError, match="damaged: its SHA-256 differs from the manifest"):
        describe(tmp_path / "several")


@pytest.mark.protected
@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("checkpoint", "model.safetensors"),
        ("checkpoint", "config.json"),
        ("vocabulary", "vocab.txt"),
        ("dataset", "documents-00000.arrow"),
        ("run", "checkpoints/step-00000005/model.safetensors"),
    ],
)
def test_a_flipped_bit_is_found_and_named(kind, file, request, capsys):
    directory = request.getfixturevalue(kind)
    flip_bit(directory / file)
    assert main(["info", str(directory)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{directory / file}: damaged: its SHA-256 differs from the manifest" in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.protected
def test_truncated_or_missing_weights_or_manifest(tmp_path, tokenizer):
    save_model(tmp_path, tiny(BertForPreTraining), tokenizer)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"model\.safetensors: cannot be read"):
        describe(tmp_path)
    weights.unlink()
    with pytest.raises(InputError, match=r"model\.safetensors: no such file"):
        describe(tmp_path)
    (tmp_path / "training").mkdir()
    (tmp_path / "training/state.json").write_text("{}")
    with pytest.raises(InputError, match=r"manifest\.json: missing, so that .* cannot be verified"):
        describe(tmp_path)


@pytest.mark.protected
def test_a_directory_of_another_kind(tmp_path):
    with artifacts.write_directory(tmp_path / "record", kind="record") as directory:
        (directory / "record.json").write_text("{}")
    description = describe(tmp_path / "record")
    assert (description.kind, description.facts, len(description.checked)) == ("record", {}, 1)


def test_the_verb(checkpoint, run, capsys):
    assert main(["info", str(checkpoint)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{checkpoint}: a checkpoint\n")
    assert text.endswith("5 files, as written\n")
    assert main(["info", str(run)]) == 0
    assert "phases 1\n      batch_size               64\n" in capsys.readouterr().out
    assert main(["info", str(run), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["kind"] == "run"
    assert table["settings"]["model"] == {"size": "tiny"}
