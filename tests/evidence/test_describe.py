"""What `cloze info` says of every kind of directory, and that it finds a flipped bit in each."""

import json
import shutil

import pytest
import torch
from safetensors.torch import save_file

from cloze import artifacts
from cloze.cli import main
from cloze.corpus.build import BuildConfig, build_dataset
from cloze.corpus.sources import ReadingConfig
from cloze.corpus.store import Dataset
from cloze.errors import InputError
from cloze.evidence.describe import describe
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import KIND, write_model_files
from cloze.model.heads import BertForPreTraining, BertForSequenceClassification
from cloze.text.pieces import SPECIAL_PIECES
from cloze.text.tokenizer import Tokenizer
from helpers import flip_a_bit

PIECES = [*SPECIAL_PIECES, "[unused0]", *"abcdefghijklmnop", "."]


@pytest.fixture
def tokenizer():
    return Tokenizer.from_pieces(PIECES)


def tiny(head):
    config = BertConfig(
        vocab_size=len(PIECES),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=17,
    )
    return head(BertModel(config))


@pytest.fixture
def checkpoint(tmp_path, tokenizer):
    path = tmp_path / "checkpoint"
    with artifacts.write_directory(path, kind=KIND) as directory:
        write_model_files(directory, tiny(BertForPreTraining), tokenizer)
    return path


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
    config = BuildConfig(reading=ReadingConfig(text_format="sentences"), validation_fraction=0.2)
    build_dataset([text], vocabulary, tmp_path / "dataset", config)
    return tmp_path / "dataset"


@pytest.fixture
def run(tmp_path, checkpoint):
    path = tmp_path / "run"
    for step in (5, 10):
        shutil.copytree(checkpoint, path / "checkpoints" / f"step-{step:08}")
    (path / "latest").write_text("checkpoints/step-00000010\n")
    (path / "best").write_text("checkpoints/step-00000005\n")
    rows = [{"kind": "train", "step": 10, "loss": 3.5}, {"kind": "validation", "step": 10, "loss": 3.25}]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (path / "run.toml").write_text('data = "wiki"\n[model]\nsize = "tiny"\n[[phases]]\nbatch_size = 64\n')
    return path


def test_checkpoint(checkpoint):
    found = describe(checkpoint)
    assert found.kind == "checkpoint"
    assert found.checked == {str(checkpoint): 5}
    assert found.facts["model"] == "BertForPreTraining"
    assert found.facts["layers"] == 2
    assert found.facts["hidden size"] == 12
    assert found.facts["parameters"] == sum(p.numel() for p in tiny(BertForPreTraining).parameters())
    assert found.facts["number format"] == "F32"
    assert found.facts["word pieces"] == len(PIECES)
    assert found.facts["of them unused"] == 1
    assert "labels" not in found.facts


def test_classifier(tmp_path, tokenizer):
    model = tiny(lambda bert: BertForSequenceClassification(bert, num_labels=3))
    write_model_files(tmp_path, model, tokenizer, labels=("no", "maybe", "yes"))
    assert describe(tmp_path).facts["labels"] == ["no", "maybe", "yes"]


def test_a_directory_of_others_is_described_and_not_checked(tmp_path, capsys):
    config = {
        "model_type": "bert",
        "vocab_size": 7,
        "hidden_size": 4,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 6,
        "max_position_embeddings": 8,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = torch.zeros(7, 4)
    save_file(
        {
            "bert.embeddings.word_embeddings.weight": words,
            "cls.predictions.decoder.weight": words.clone(),  # the tied one again: not counted twice
            "bert.embeddings.LayerNorm.gamma": torch.zeros(4, dtype=torch.float16),
        },
        tmp_path / "model.safetensors",
    )
    found = describe(tmp_path)
    assert found.kind == "checkpoint"
    assert found.checked == {}
    assert found.facts["parameters"] == 7 * 4 + 4
    assert found.facts["number format"] == "F16, F32"
    assert found.facts["vocabulary"] == "none in this directory"
    assert main(["info", str(tmp_path)]) == 0
    assert "no manifest: there is nothing to check its files against" in capsys.readouterr().out


def test_vocabulary(vocabulary):
    found = describe(vocabulary)
    assert found.kind == "vocabulary"
    assert found.facts == {"word pieces": len(PIECES), "of them unused": 1, "case": "lower-cased"}
    (vocabulary / "manifest.json").unlink()
    assert describe(vocabulary).kind == "vocabulary"
    assert describe(vocabulary).checked == {}


def test_dataset(dataset):
    facts = describe(dataset).facts
    assert facts["documents"] == 9
    assert facts["sentences"] == 18
    assert facts["train"]["documents"] + facts["validation"]["documents"] == 9
    assert facts["train"]["pieces"] + facts["validation"]["pieces"] == facts["pieces"]
    held_out = Dataset.open(dataset).split("validation")
    pieces = sum(len(sentence) for number in range(len(held_out)) for sentence in held_out.document(number))
    assert facts["validation"]["pieces"] == pieces


def test_run(run):
    found = describe(run)
    assert found.kind == "run"
    assert len(found.checked) == 2
    assert found.facts["latest"] == "step-00000010"
    assert found.facts["best"] == "step-00000005"
    assert found.facts["last held-out measures"] == {"step": 10, "loss": 3.25}
    assert found.facts["settings"] == {
        "data": "wiki",
        "model": {"size": "tiny"},
        "phases": [{"batch_size": 64}],
    }


def test_a_run_of_several_seeds(run, tmp_path):
    shutil.copytree(run, tmp_path / "several/trials/seed-7")
    (tmp_path / "several/run.toml").write_text("seeds = 1\n")
    (tmp_path / "several/best").write_text("trials/seed-7/checkpoints/step-00000005\n")
    found = describe(tmp_path / "several")
    assert found.facts["checkpoints"] == ["seed-7/step-00000005", "seed-7/step-00000010"]
    assert len(found.checked) == 2
    flip_a_bit(tmp_path / "several/trials/seed-7/checkpoints/step-00000010/model.safetensors")
    with pytest.raises(InputError, match="its SHA-256 is not the manifest's"):
        describe(tmp_path / "several")


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
    flip_a_bit(directory / file)
    assert main(["info", str(directory)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{directory / file}: its SHA-256 is not the manifest's" in captured.err
    assert captured.err.count("\n") == 1


def test_a_run_whose_newest_checkpoint_is_gone(run):
    shutil.rmtree(run / "checkpoints" / "step-00000010")
    with pytest.raises(InputError, match="latest: names checkpoints/step-00000010, which is not there"):
        describe(run)


def test_a_run_that_has_just_begun(tmp_path):
    (tmp_path / "run.toml").write_text("steps = 3\n")
    assert describe(tmp_path).facts == {"checkpoints": [], "settings": {"steps": 3}}


def test_weights_that_are_cut_short(tmp_path, tokenizer):
    write_model_files(tmp_path, tiny(BertForPreTraining), tokenizer)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(InputError, match=r"model\.safetensors: cannot be read"):
        describe(tmp_path)
    weights.unlink()
    with pytest.raises(InputError, match=r"model\.safetensors: no such file"):
        describe(tmp_path)


def test_a_card_that_was_edited_is_no_damage(tmp_path, tokenizer):
    with artifacts.write_directory(tmp_path / "model", kind=KIND) as directory:
        write_model_files(directory, tiny(BertForPreTraining), tokenizer)
        (directory / "README.md").write_text("# A card\n")
    (tmp_path / "model/README.md").write_text("# A better card\n")
    assert describe(tmp_path / "model").checked == {str(tmp_path / "model"): 5}


@pytest.mark.parametrize("state", ["{}", "[", "[]", '{"step": 3}'])
def test_a_training_state_that_is_none(tmp_path, tokenizer, state):
    write_model_files(tmp_path, tiny(BertForPreTraining), tokenizer)
    (tmp_path / "training").mkdir()
    (tmp_path / "training/state.json").write_text(state)
    with pytest.raises(InputError, match="holds no training state"):
        describe(tmp_path)


def test_neither_this_nor_that(tmp_path):
    with pytest.raises(InputError, match="not a checkpoint, data set, vocabulary or run"):
        describe(tmp_path)
    with pytest.raises(InputError, match="no such directory"):
        describe(tmp_path / "none")


def test_other_kinds_are_checked_too(tmp_path):
    with artifacts.write_directory(tmp_path / "record", kind="record") as directory:
        (directory / "record.json").write_text("{}")
    found = describe(tmp_path / "record")
    assert (found.kind, found.facts, len(found.checked)) == ("record", {}, 1)


def test_command(checkpoint, run, capsys):
    assert main(["info", str(checkpoint)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{checkpoint}: a checkpoint\n")
    assert text.endswith("5 files, each as it was written\n")
    assert main(["info", str(run)]) == 0
    assert "phases 1\n      batch_size               64\n" in capsys.readouterr().out
    assert main(["info", str(run), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["kind"] == "run"
    assert table["settings"]["model"] == {"size": "tiny"}
