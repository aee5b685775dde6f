"""Runs whose encoder looks one way, and runs with positions that do not learn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cloze import config as configuration
from cloze.corpus.batches import DrawnInstances
from cloze.corpus.masking import MaskingConfig
from cloze.corpus.pairs import PairsConfig
from cloze.corpus.store import Dataset
from cloze.errors import InputError
from cloze.inference.fill import FillMask
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertModel, Packed
from cloze.model.checkpoint import load_model
from cloze.model.heads import BertForPreTraining
from cloze.model.sinusoidal import sinusoidal_positions
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.evaluate import PretrainingEvaluationConfig, evaluate_pretrained
from cloze.pretraining.run import pretrain, resume_pretraining
from cloze.text.tokenizer import Tokenizer


def with_model(config: PretrainConfig, **settings: object) -> PretrainConfig:
    config = replace(config, model=replace(config.model, **settings))
    one_way = config.model.attends_to != "all"
    return replace(config, pairs=replace(config.pairs, next_sentence=False)) if one_way else config


def test_left_to_right_is_learned_measured_and_not_asked_to_fill(
    nano: PretrainConfig, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    config = with_model(replace(nano, steps=24), attends_to="left")
    measured = pretrain(config, run)
    assert measured["masked_lm_loss"] < np.log(400)
    model = load_model(resolve_checkpoint(run), BertForPreTraining)
    assert model.config.attends_to == "left"
    settings = PretrainingEvaluationConfig(
        max_seq_length=64, max_instances=40, pairs=PairsConfig(next_sentence=False)
    )
    found = evaluate_pretrained(run, [config.data], settings, device="cpu")
    assert found.masked_lm["masked_lm_loss"] == pytest.approx(measured["masked_lm_loss"], rel=1e-4)
    with pytest.raises(InputError, match="sees the left alone"):
        FillMask.load(run, device="cpu")
    with pytest.raises(InputError, match=r"attends to left, the settings say all.*attends_to=left"):
        pretrain(replace(nano, steps=2, init=str(run)), tmp_path / "on")


def test_who_sees_both_sides_reads_its_next_piece_off(dataset: Path) -> None:
    """Why the mask is needed: the gradient of a prediction reaches the very piece that is to be named."""
    documents, tokenizer = Dataset.open(dataset).split("train"), Tokenizer.load(dataset)
    source = DrawnInstances(
        documents, tokenizer, 32, None, PairsConfig(next_sentence=False), MaskingConfig(), 0, 0, "next"
    )
    batch = source.batch(0, np.arange(2))
    packed = Packed.from_arrays(batch.input_ids, batch.token_type_ids, batch.position_ids, batch.cu_seqlens)
    position = int(batch.masked_lm_positions[3])
    reached = {}
    for attends_to in ("all", "left"):
        config = configuration.from_table(
            PretrainConfig,
            {"data": "D", "steps": 1, "model": {"size": "tiny", "attends_to": attends_to}},
            where="",
        )
        encoder = BertModel(config.model.encoder(vocab_size=tokenizer.vocab_size)).eval()
        embedded: list[torch.Tensor] = []
        encoder.embeddings.register_forward_hook(lambda _, __, out, kept=embedded: kept.append(out))
        for parameter in encoder.parameters():
            parameter.requires_grad_(True)
        output = encoder.forward_packed(packed).sequence_output
        (gradient,) = torch.autograd.grad(output[position].square().sum() + output[position].sum(), embedded)
        reached[attends_to] = bool(gradient[position + 1].abs().sum() > 0)
    assert reached == {"all": True, "left": False}


def test_sinusoidal_positions_stay_as_they_are_also_resumed(nano: PretrainConfig, tmp_path: Path) -> None:
    config = with_model(replace(nano, steps=8), positions="sinusoidal")
    waves = sinusoidal_positions(64, 24) * 2**0.5 * 0.02 * 5

    def table(run: Path) -> torch.Tensor:
        return load_model(resolve_checkpoint(run)).embeddings.position_embeddings.weight

    whole = tmp_path / "whole"
    pretrain(config, whole)
    assert torch.equal(table(whole), waves)
    for newer in sorted((whole / "checkpoints").iterdir())[1:]:  # back to the first one that was kept
        for file in newer.rglob("*"):
            if file.name == "model.safetensors":
                file.write_bytes(b"")
    resume_pretraining(whole)
    assert torch.equal(table(whole), waves)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"attends_to": "left"}, "masking": {"masked_lm_prob": 0.3}}, "masking: nothing is hidden"),
        ({"model": {"attends_to": "right"}, "google_instances": {}}, "google_instances"),
        ({"masking": {"mask_token_prob": 0.9}, "google_instances": {}}, "masking.mask_token_prob"),
        ({"pairs": {"next_sentence": False}, "google_instances": {}}, "google_instances are always pairs"),
        ({"model": {"positions": "sinusoidal"}, "init": "X"}, "a checkpoint to go on from has its own"),
        ({"model": {"attends_to": "up"}}, "model.attends_to = 'up' is not a choice"),
    ],
)
def test_settings_that_nothing_would_come_of(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        configuration.from_table(PretrainConfig, {"data": "D", "steps": 1, **settings}, where="settings")
