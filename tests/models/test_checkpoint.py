import functools
import shutil

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import cloze
from cloze.artifacts import write_directory
from cloze.errors import InputError, RunError
from cloze.models import checkpoint
from cloze.models.checkpoint import load_model, save_model
from cloze.models.encoder import build_encoder, find_size
from cloze.models.external_weights import load_external_model
from cloze.models.heads import BertForPreTraining, BertForSequenceClassification
from cloze.tokenization.loading import load_tokenizer
from tiny_models import write_checkpoint

WORDS = ["the", "capital", "of", "france", "is", "paris", ".", "##s", "a", "b", "##c"]
PIECES = ["[PAD]", *(f"[unused{i}]" for i in range(83)), "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


@pytest.fixture
def tokenizer():
    return cloze.WordPieceTokenizer.from_tokens(PIECES)


@pytest.fixture
def saved(pretraining_model, tmp_path):
    return write_checkpoint(tmp_path / "model", pretraining_model, PIECES)


def same_weights(ours, theirs):
    ours, theirs = ours.state_dict(), theirs.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_saved_model_loads_bit_identical(saved, pretraining_model):
    model = load_model(saved, BertForPreTraining)
    assert same_weights(model, pretraining_model)
    assert model.config == pretraining_model.config
    assert load_tokenizer(saved).model_max_length == model.config.max_position_embeddings
    assert not model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_weights_have_the_permissions_of_other_files(saved):
    modes = {(saved / name).stat().st_mode & 0o777 for name in ("config.json", "model.safetensors")}
    assert len(modes) == 1


def test_classifier_with_another_number_of_labels_is_refused(config, tokenizer, tmp_path):
    model = BertForSequenceClassification(cloze.BertModel(config), num_labels=3)
    save_model(tmp_path, model, tokenizer, labels=["no", "yes", "maybe"])
    message = r"classifier\.weight has shape \[3, 48\], the config says \[2, 48\]"
    with pytest.raises(InputError, match=message):
        load_model(tmp_path, functools.partial(BertForSequenceClassification, num_labels=2))


@pytest.mark.protected
def test_damaged_training_state_or_edited_card_does_not_prevent_loading(saved, tmp_path):
    with write_directory(tmp_path / "whole", kind=checkpoint.KIND) as directory:
        shutil.copytree(saved, directory, ignore=lambda *_: {"manifest.json"}, dirs_exist_ok=True)
        (directory / "training").mkdir()
        (directory / "training/optimizer.safetensors").write_bytes(b"averages")
        (directory / "README.md").write_text("# A card\n")
    (tmp_path / "whole/training/optimizer.safetensors").write_bytes(b"damaged")
    (tmp_path / "whole/README.md").write_text("# A card\nedited\n")
    load_model(tmp_path / "whole")
    load_external_model(tmp_path / "whole")


def test_unexpected_weight_is_named(saved):
    (saved / "manifest.json").unlink()
    weights = {name: weight.clone() for name, weight in load_file(saved / "model.safetensors").items()}
    save_file(weights | {"classifier.weight": torch.zeros(2, 48)}, saved / "model.safetensors")
    assert load_model(saved)
    with pytest.raises(InputError, match=r"unexpected weight classifier\.weight: a BertForPreTraining"):
        load_model(saved, BertForPreTraining)


def test_manifest_of_another_kind_is_refused(saved, tmp_path):
    with write_directory(tmp_path / "other", kind="dataset") as directory:
        shutil.copytree(saved, directory, ignore=lambda *_: {"manifest.json"}, dirs_exist_ok=True)
    with pytest.raises(InputError, match="is a dataset, not a checkpoint"):
        load_model(tmp_path / "other")


def test_more_tokens_than_embeddings_are_not_saved(pretraining_model, tmp_path):
    many = cloze.WordPieceTokenizer.from_tokens([*PIECES, *(f"w{i}" for i in range(5))])
    with pytest.raises(ValueError, match="104 tokens, the model has 103 embeddings"):
        save_model(tmp_path, pretraining_model, many)


@pytest.mark.protected
def test_full_disk_leaves_no_files(pretraining_model, tokenizer, tmp_path, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", full)
    path = tmp_path / "model"
    with (
        pytest.raises(RunError, match=r"cannot write: No space left on device\. Free some space"),
        write_directory(path, kind="checkpoint") as directory,
    ):
        save_model(directory, pretraining_model, tokenizer)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "size", ["tiny", "mini", "modern-tiny", "roberta-mini", "mpnet-tiny", "distilbert-mini"]
)
def test_parameters_are_counted_before_a_model_is_built(size):
    config = find_size(size)
    with torch.device("meta"):
        encoder = build_encoder(config)
    assert config.num_parameters == sum(w.numel() for w in encoder.parameters() if w.dim() > 1)
