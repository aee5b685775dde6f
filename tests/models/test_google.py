"""Models of google-research/bert: to a checkpoint of ours, and through to text."""

import json
import re
import shutil

import numpy as np
import pytest
import torch

from cloze.cli import main
from cloze.errors import InputError
from cloze.models.checkpoint import load_model
from cloze.models.external_weights import load_external_model
from cloze.models.heads import BertForPreTraining
from cloze.tokenization.loading import load_tokenizer


@pytest.fixture
def nano(shared, tmp_path):
    """Google's small BERT as a directory that may be changed."""
    golden, directory = shared / "golden" / "google-nano", tmp_path / "nano"
    directory.mkdir()
    for file in (golden / "bert_config.json", golden / "vocab.txt", *(golden / "step0").iterdir()):
        (directory / file.name).write_bytes(file.read_bytes())
    return directory


def test_checkpoint_is_imported_by_relative_prefix(nano, tmp_path, monkeypatch):
    monkeypatch.chdir(nano)
    assert main(["import", "bert_model.ckpt", "-o", str(tmp_path / "ours"), "--quiet"]) == 0


def test_import_and_then_fill(nano, tmp_path, capsys, google_nano):
    assert main(["import", str(nano), "-o", str(tmp_path / "ours"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["model"], result["vocab_size"], result["lowercase"]) == ("BertForPreTraining", 1031, True)
    assert len(result["left_out"]) == 125  # two slots a weight, and the step
    model = load_model(tmp_path / "ours", BertForPreTraining)
    expected = google_nano.expected
    mask = expected["input_mask"].bool()
    output = model.bert(expected["input_ids"].long(), mask, expected["segment_ids"].long())
    torch.testing.assert_close(
        output.sequence_output[mask], expected["sequence_output"][mask], atol=1e-5, rtol=0
    )
    assert load_tokenizer(tmp_path / "ours").model_max_length == 61
    assert main(["fill", "-m", str(tmp_path / "ours"), "the [MASK]"]) == 0
    assert "[MASK] 1" in capsys.readouterr().out


@pytest.mark.parametrize("step", ["step0", "step20"])
@pytest.mark.protected
def test_imported_weights_equal_googles(shared, step, nano):
    golden = shared / "golden" / "google-nano"
    for file in (golden / step).iterdir():
        (nano / file.name).write_bytes(file.read_bytes())
    model = load_external_model(nano / "bert_model.ckpt").model
    with np.load(golden / f"weights_{step}.npz") as arrays:
        kernel = arrays["bert/encoder/layer_1/intermediate/dense/kernel"]
        assert np.array_equal(model.bert.layers[1].intermediate.weight.T.detach().numpy(), kernel)
        assert np.array_equal(model.masked_lm.bias.detach().numpy(), arrays["cls/predictions/output_bias"])


def test_form_of_gelu_can_be_chosen(nano):
    assert load_external_model(nano).model.bert.config.hidden_act == "gelu_tanh"
    assert load_external_model(nano, gelu="gelu").model.bert.config.hidden_act == "gelu"


def test_latest_of_several_checkpoints_is_imported(nano):
    for file in list(nano.glob("bert_model.ckpt.*")):
        shutil.copy(file, nano / file.name.replace("bert_model", "model.ckpt-5"))
    with pytest.raises(InputError, match=r"several checkpoints: bert_model\.ckpt, model\.ckpt-5"):
        load_external_model(nano)
    (nano / "checkpoint").write_text('model_checkpoint_path: "/gone/bert_model.ckpt"\n')
    assert load_external_model(nano).unexpected_keys


def test_cased_vocabulary_is_detected(nano):
    pieces = (nano / "vocab.txt").read_text().splitlines()
    (nano / "vocab.txt").write_text("\n".join([*pieces[:-1], "London"]) + "\n")
    assert not load_external_model(nano).tokenizer.lowercase


def _config(**changes):
    def change(directory):
        file = directory / "bert_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def _without(file):
    return lambda directory: (directory / file).unlink()


INDEX, DATA = "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"
BAD = {
    "no configuration": (_without("bert_config.json"), r"neither config\.json nor bert_config\.json"),
    "configuration that is no JSON": (lambda d: (d / "bert_config.json").write_text("{"), "not a JSON file"),
    "other size": (_config(intermediate_size=72), r"shape \[36, 70\], the config says \[36, 72\]"),
    "more layers": (_config(num_hidden_layers=4), "no weight .*layer_3"),
    "other activation": (_config(hidden_act="relu"), "hidden_act"),
    "no vocabulary": (_without("vocab.txt"), "no tokenizer: neither"),
    "other vocabulary": (_config(vocab_size=900), "1,031 tokens"),
    "no checkpoint": (_without(INDEX), "no file ends in"),
    "no data": (_without(DATA), "no such file"),
    "data cut off": (lambda d: (d / DATA).write_bytes(b"\0" * 5000), "checksum|cut off"),
}


@pytest.mark.parametrize(("change", "what"), BAD.values(), ids=BAD)
@pytest.mark.protected
def test_bad_checkpoint_is_named_and_nothing_written(nano, tmp_path, capsys, change, what):
    change(nano)
    assert main(["import", str(nano), "-o", str(tmp_path / "ours")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert re.search(what, error)
    assert not (tmp_path / "ours").exists()
