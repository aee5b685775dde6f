"""Encoders against transformers: every head, both ways, and the same outputs."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.nn import functional

import cloze
from cloze.export.graph import padded_outputs
from cloze.models.batch import pack_padded
from cloze.models.checkpoint import load_model
from cloze.models.encoder import encoders
from cloze.models.heads import BertForPreTraining
from encoder_families import FAMILIES, OTHERS, make_config, make_encoder
from model_heads import HEADS
from tiny_models import numbered_tokens, write_checkpoint

pytestmark = pytest.mark.protected

TOKENS = numbered_tokens(103)
ALL_HEADS = ("encoder", "masked words", "classes", "regression", "tags", "answers", "choices")


CASES = [("bert", head) for head in HEADS] + [(family, head) for family in OTHERS for head in ALL_HEADS]


@pytest.mark.parametrize("model_type", FAMILIES)
def test_rates_of_dropout_have_the_names_of_transformers(model_type, config):
    settings = make_config(model_type, replace(config, attention_probs_dropout_prob=0.3))
    table = settings.to_json()
    assert type(settings)(**settings.from_json(table)) == settings
    theirs = transformers.AutoConfig.for_model(model_type).to_dict()
    assert {name for name in table if "dropout" in name} <= theirs.keys()


def inputs_of(theirs: nn.Module, ragged: tuple[torch.Tensor, ...], name: str) -> dict[str, torch.Tensor]:
    input_ids, mask, token_type_ids = ragged
    inputs = {"input_ids": input_ids, "attention_mask": mask.long()}
    if hasattr(theirs.config, "type_vocab_size"):
        inputs["token_type_ids"] = token_type_ids % theirs.config.type_vocab_size
    return {key: values[None] for key, values in inputs.items()} if name == "choices" else inputs


def compare(ours: Any, theirs: nn.Module, ragged: tuple[torch.Tensor, ...], name: str) -> None:
    with torch.inference_mode():
        expected = theirs.eval()(**inputs_of(theirs, ragged, name))
    found, mask = padded_outputs(ours, *ragged), ragged[1]
    left_out = {"hidden_states", "attentions"} | ({"pooler_output"} if name == "features" else set())
    assert set(found) == set(expected) - left_out
    for output, values in found.items():
        rows = mask if values.dim() > 1 and values.shape[:2] == mask.shape else ...
        wanted = expected[output].reshape(values.shape)
        assert wanted[rows].std() > 1e-3
        torch.testing.assert_close(values[rows], wanted[rows], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_texts_padded_on_the_left_equal_transformers(model_type, config, randomize, left_padded, tmp_path):
    ours = HEADS["masked words"].build(make_encoder(model_type, config)).eval()
    randomize(ours)
    write_checkpoint(tmp_path / "model", ours, TOKENS)
    theirs = transformers.AutoModel.from_pretrained(tmp_path / "model").eval()
    padding = getattr(theirs.embeddings, "padding_idx", theirs.config.pad_token_id)
    input_ids, mask, token_type_ids = left_padded
    input_ids = input_ids.masked_fill(~mask, padding)
    inputs = inputs_of(theirs, (input_ids, mask, token_type_ids), "encoder")
    with torch.inference_mode():
        found = ours.bert(input_ids, mask, inputs.get("token_type_ids")).sequence_output
        expected = theirs(**inputs).last_hidden_state
    torch.testing.assert_close(found[mask], expected[mask], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model_type", FAMILIES)
def test_masked_words_have_the_activation_of_transformers(model_type, config, randomize, ragged, tmp_path):
    encoder = make_encoder(model_type, replace(config, hidden_act="gelu_tanh"))
    ours = HEADS["masked words"].build(encoder).eval()
    randomize(ours)
    write_checkpoint(tmp_path / "model", ours, TOKENS)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "model")
    compare(ours, theirs, ragged, "masked words")


@pytest.mark.parametrize(("model_type", "name"), CASES)
def test_cloze_and_transformers_read_each_others_files(model_type, name, config, randomize, ragged, tmp_path):
    head = HEADS[name]
    build = None if name == "encoder" else head.build
    ours = head.build(make_encoder(model_type, config)).eval()
    randomize(ours)
    settings = {"labels": head.labels, "problem_type": head.problem_type}
    write_checkpoint(tmp_path / "model", ours, TOKENS, **settings)
    auto_class = getattr(transformers, head.auto_class)
    theirs, report = auto_class.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert type(theirs).__name__.startswith(FAMILIES[model_type].classes)
    said = json.loads((tmp_path / "model" / "config.json").read_text())
    assert said["architectures"] == [type(theirs).__name__]
    assert not set(report["missing_keys"])
    if head.labels:
        assert theirs.config.id2label == dict(enumerate(head.labels))
        assert theirs.config.label2id == {label: i for i, label in enumerate(head.labels)}
        assert theirs.config.problem_type == head.problem_type
    assert all(".pooler." in key for key in report["unexpected_keys"])
    compare(ours, theirs, ragged, name)

    theirs.save_pretrained(tmp_path / "theirs")
    transformers.AutoTokenizer.from_pretrained(tmp_path / "model").save_pretrained(tmp_path / "theirs")
    found = padded_outputs(ours, *ragged)
    for directory in ("model", "theirs"):
        again = load_model(tmp_path / directory, build)
        assert type(again if name == "encoder" else again.bert) is encoders()[model_type]
        for output, values in padded_outputs(again, *ragged).items():
            assert torch.equal(values, found[output])

    imported = cloze.import_model(tmp_path / "theirs", output=tmp_path / "imported")
    assert type(imported.model) is (type(ours.bert) if name == "features" else type(ours))
    assert imported.labels == head.labels
    assert imported.problem_type == head.problem_type
    assert not imported.unexpected_keys
    if name != "features":
        compare(imported.model, auto_class.from_pretrained(tmp_path / "imported"), ragged, name)


@pytest.mark.parametrize(
    ("model_type", "hidden_act"), [*((family, "gelu") for family in FAMILIES), ("bert", "gelu_tanh")]
)
@pytest.mark.parametrize("is_full", [False, True])
def test_losses_and_gradients_equal_transformers(
    model_type, hidden_act, is_full, config, losses, randomize, ragged, tmp_path
):
    ours = BertForPreTraining(make_encoder(model_type, replace(config, hidden_act=hidden_act))).eval()
    randomize(ours)
    has_pairs, names = ours.bert.trains_on_pairs, ours.bert.names
    write_checkpoint(tmp_path / "model", ours if has_pairs else ours.without_next_sentence(), TOKENS)
    auto_class = transformers.AutoModelForPreTraining if has_pairs else transformers.AutoModelForMaskedLM
    theirs = auto_class.from_pretrained(tmp_path / "model").eval()

    input_ids, mask, token_type_ids = ragged
    input_ids = input_ids.clamp(min=2)  # their embeddings of padding have no gradient
    mask = torch.ones_like(mask) if is_full else mask
    generator = torch.Generator().manual_seed(3)
    masked = mask & (torch.rand(mask.shape, generator=generator) < 0.4)
    labels = torch.randint(103, mask.shape, generator=generator).masked_fill(~masked, -100)
    next_sentence = torch.tensor([0, 1, 1, 0, 1])
    packed, padding = pack_padded(input_ids, mask, token_type_ids, counts_padding=ours.config.counts_padding)
    packed_labels = labels.flatten()[padding.cell_of_token]
    positions = (packed_labels != -100).nonzero().squeeze(1)
    row = padding.row_of_sequence
    sums = losses(ours, packed, positions, packed_labels[positions], next_sentence[row])
    loss = sums.masked_lm_loss_sum / len(positions)
    if has_pairs:
        loss = loss + sums.next_sentence_loss_sum / len(next_sentence)
    loss.backward()

    outputs = theirs(**inputs_of(theirs, (input_ids, mask, token_type_ids), "masked words"))
    logits = outputs.prediction_logits if has_pairs else outputs.logits
    their_loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    if has_pairs:
        their_loss = their_loss + functional.cross_entropy(outputs.seq_relationship_logits, next_sentence)
    their_loss.backward()

    torch.testing.assert_close(loss, their_loss, atol=1e-5, rtol=1e-5)
    gradients = {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}
    found = names.to_class(names.mapping.to_external(gradients), "BertForMaskedLM")
    their_gradients = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    expected = {names.copies.get(name, name): gradient for name, gradient in their_gradients.items()}
    assert set(found) == set(expected)
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-5, rtol=1e-5)
