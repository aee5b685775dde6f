"""google-research/bert: the same numbers, its checkpoints as ours, and through to text."""

import json
import re
import shutil
from functools import partial

import pytest
import torch

from cloze.cli import main
from cloze.errors import InputError
from cloze.models.batch import pack_padded
from cloze.models.bert import GOOGLE, BertModel
from cloze.models.checkpoint import load_model
from cloze.models.external_weights import load_external_model
from cloze.models.heads import BertForPreTraining, BertForQuestionAnswering, BertForSequenceClassification
from cloze.tokenization.loading import load_tokenizer
from helpers import edit_json


@pytest.fixture(scope="module")
def model(google_nano):
    config, weights, *_ = google_nano
    model = BertForPreTraining(BertModel(config)).eval()
    shapes = {name: weight.shape for name, weight in model.state_dict().items()}
    model.load_state_dict(GOOGLE.from_external(dict(weights), shapes))
    return model


def close(ours, theirs):
    torch.testing.assert_close(ours.detach(), theirs, atol=1e-5, rtol=0)


@pytest.mark.protected
def test_every_layer_equals_googles(model, google_nano):
    expected = google_nano.expected
    mask = expected["input_mask"].bool()
    ids, types = expected["input_ids"].long(), expected["segment_ids"].long()
    output = model.bert(ids, mask, types, output_hidden_states=True)
    close(output.hidden_states[0][mask], expected["embedding_output"][mask])
    for ours, theirs in zip(output.hidden_states[1:], expected["layers"], strict=True):
        close(ours[mask], theirs[mask])
    close(output.sequence_output[mask], expected["sequence_output"][mask])
    close(output.pooled_output, expected["pooled_output"])


@pytest.mark.protected
def test_heads_and_losses_equal_googles(model, losses, google_nano):
    expected = google_nano.expected
    mask = expected["input_mask"].bool()
    packed, padding = pack_padded(expected["input_ids"].long(), mask, expected["segment_ids"].long())
    token_of_cell = torch.full((mask.numel(),), -1)
    token_of_cell[padding.cell_of_token] = torch.arange(packed.num_tokens)
    weights = expected["masked_lm_weights"].flatten().bool()
    row = torch.arange(mask.shape[0]).unsqueeze(1) * mask.shape[1]
    positions = token_of_cell[(row + expected["masked_lm_positions"]).flatten()[weights]]
    masked_lm_ids = expected["masked_lm_ids"].flatten()[weights].long()
    labels = expected["next_sentence_labels"].flatten()[padding.row_of_sequence].long()

    logits = model(packed, positions)
    close(logits.masked_lm_logits.log_softmax(-1), expected["mlm_log_probs"][weights])
    close(padding.unpack_sequences(logits.next_sentence_logits).log_softmax(-1), expected["nsp_log_probs"])

    sums = losses(model, packed, positions, masked_lm_ids, labels)
    close(sums.masked_lm_loss_sum / (weights.sum() + 1e-5), expected["mlm_loss"])
    close(sums.next_sentence_loss_sum / len(labels), expected["nsp_loss"])


@pytest.fixture(
    params=[
        BertForPreTraining,
        partial(BertForSequenceClassification, num_labels=3),
        BertForQuestionAnswering,
    ],
    ids=["pretraining", "classification", "answers"],
)
def weights(request, config, randomize):
    model = request.param(BertModel(config))
    randomize(model)
    return model.state_dict()


@pytest.mark.parametrize("mapping", [BertModel.names.mapping, GOOGLE], ids=["Hugging Face", "Google"])
def test_mapping_round_trips(mapping, weights):
    external = mapping.to_external(weights)
    assert sum(weight.numel() for weight in external.values()) == sum(w.numel() for w in weights.values())
    shapes = {name: weight.shape for name, weight in weights.items()}
    back = mapping.from_external(external, shapes)
    assert back.keys() == weights.keys()
    assert all(torch.equal(back[name], weights[name]) for name in weights)
    assert mapping.external_names("tower.layers.3.weight") == ("tower.layers.3.weight",)


@pytest.mark.protected
def test_mapping_covers_googles_checkpoint(google_nano):
    config, google, *_ = google_nano
    model = BertForPreTraining(BertModel(config))
    external = GOOGLE.to_external(model.state_dict())
    assert {n: tuple(w.shape) for n, w in external.items()} == {n: tuple(w.shape) for n, w in google.items()}


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
    close(output.sequence_output[mask], expected["sequence_output"][mask])
    assert load_tokenizer(tmp_path / "ours").model_max_length == 61
    assert main(["fill", "-m", str(tmp_path / "ours"), "the [MASK]"]) == 0
    assert "[MASK] 1" in capsys.readouterr().out


def test_form_of_gelu_can_be_chosen(nano):
    assert load_external_model(nano).model.bert.config.hidden_act == "gelu_tanh"
    assert load_external_model(nano, gelu="gelu").model.bert.config.hidden_act == "gelu"


def test_one_of_several_checkpoints_is_named_by_its_prefix(nano):
    for file in list(nano.glob("bert_model.ckpt.*")):
        shutil.copy(file, nano / file.name.replace("bert_model", "model.ckpt-5"))
    with pytest.raises(InputError, match=r"several checkpoints: bert_model\.ckpt, model\.ckpt-5"):
        load_external_model(nano)
    assert load_external_model(nano / "bert_model.ckpt").unexpected_keys


def test_cased_vocabulary_is_detected(nano):
    pieces = (nano / "vocab.txt").read_text().splitlines()
    (nano / "vocab.txt").write_text("\n".join([*pieces[:-1], "London"]) + "\n")
    assert not load_external_model(nano).tokenizer.lowercase


def _config(**changes):
    [(key, value)] = changes.items()
    return lambda directory: edit_json(directory / "bert_config.json", key, to=value)


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
