"""Training and inference on a GPU, beside the same on the CPU."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import cloze
from cloze.data.batch import collate
from cloze.models.batch import pin_memory, to_device
from cloze.training.optimizer import MuonConfig
from runs import assert_same_run, losses, pretrain

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

TEXTS = ["The moor was dark.", "She opened the door and went out into the rain.", "Yes."]
NOTES = [("a fine film", "good"), ("a dull film", "bad"), ("it is fine", "good"), ("dull", "bad")] * 8


@pytest.fixture
def train(quiet: cloze.PretrainConfig, tmp_path: Path) -> Callable[..., Path]:
    """A function that pre-trains without dropout on a device, and returns the run."""
    config = replace(quiet, optimizer=replace(quiet.optimizer, muon=MuonConfig(), bias_correction=True))

    def run_on(device: str, name: str = "", **changes: object) -> Path:
        run = tmp_path / f"{device}{name}"
        pretrain(replace(config, device=device, **changes), run)
        return run

    return run_on


def test_losses_in_float32_equal_those_of_the_cpu(train):
    on_gpu, on_cpu = train("cuda"), train("cpu")
    for kind in ("train", "validation"):
        np.testing.assert_allclose(losses(on_gpu, kind), losses(on_cpu, kind), atol=1e-4)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_losses_in_bfloat16_are_near_and_repeat(train, quiet, dropout):
    model = replace(quiet.model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=dropout)
    one, other = (train("cuda", name, precision="bfloat16", model=model) for name in "ab")
    assert_same_run(one, other)
    np.testing.assert_allclose(losses(one, "validation"), losses(train("cpu"), "validation"), rtol=0.03)


def test_pinned_batches_are_copied_unchanged():
    batch = collate([[1, 2, 3], [4, 5]])
    pinned = pin_memory(batch)
    assert pinned.input_ids.is_pinned()
    for name in ("input_ids", "token_type_ids", "position_ids", "cu_seqlens"):
        assert torch.equal(getattr(to_device(pinned, "cuda"), name).cpu(), getattr(to_device(batch), name))


def test_a_causal_encoder_trains_as_on_the_cpu(train, quiet):
    model = replace(quiet.model, attends_to="left")
    pairs = replace(quiet.pairs, next_sentence=False)
    runs = [train(device, "-causal", model=model, pairs=pairs) for device in ("cuda", "cpu")]
    np.testing.assert_allclose(*(losses(run) for run in runs), atol=1e-4)
    bfloat16 = train("cuda", "-causal-bfloat16", model=model, pairs=pairs, precision="bfloat16")
    np.testing.assert_allclose(losses(bfloat16, "validation"), losses(runs[1], "validation"), rtol=0.03)


def test_vectors_and_fills_equal_those_of_the_cpu(train):
    run = train("cpu")
    on_gpu, on_cpu = (cloze.Embedder.load(run, device=device) for device in ("cuda", "cpu"))
    assert on_gpu.engine.number_format == "bfloat16"
    np.testing.assert_allclose(on_gpu(TEXTS), on_cpu(TEXTS), atol=2e-2)
    fills = [cloze.FillMask.load(run, device=device, precision="float32") for device in ("cuda", "cpu")]
    answers = [fill("the [MASK] was dark.")[0] for fill in fills]
    assert [answer.token for answer in answers[0]] == [answer.token for answer in answers[1]]


def test_a_task_is_fine_tuned_and_predicts(train, tmp_path):
    run = train("cpu")
    settings = {"train": NOTES, "dev": NOTES, "model": run, "precision": "float32", "epochs": 2}
    results = {
        device: cloze.finetune("classification", **settings, output=tmp_path / device, device=device)
        for device in ("cuda", "cpu")
    }
    assert results["cuda"]["accuracy"] == results["cpu"]["accuracy"]
    (answer,) = results["cuda"].model(["a dull film"])
    assert answer.label in {"good", "bad"}
