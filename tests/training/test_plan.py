"""Memory of a run by formula, compared with torch's allocator and autograd."""

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from cloze.data.batch import PretrainingBatch, collate
from cloze.models.batch import to_device
from cloze.models.bert import SIZES, BertModel
from cloze.models.encoder import build_encoder
from cloze.models.heads import BertForPreTraining, BertForSequenceClassification
from cloze.models.modern_bert import MODERN_SIZES
from cloze.pretraining.objective import PretrainingObjective
from cloze.training.memory import available_memory
from cloze.training.muon import MuonConfig
from cloze.training.optimizer import OptimizerConfig, build_optimizer
from cloze.training.plan import Rehearsal
from cloze.training.precision import autocast, resolve_dtype
from cloze.training.step_cost import (
    Workload,
    activation_bytes,
    parameter_bytes,
    transient_bytes,
)

CPU = torch.device("cpu")
CASES = [
    ("tiny", torch.float32, 0.0, [128] * 4 + [100, 90, 64, 31, 7]),
    ("tiny", torch.bfloat16, 0.1, [128] * 4 + [100, 90, 64, 31, 7]),
    ("tiny", torch.float32, 0.1, [512, 400]),
    ("mini", torch.float32, 0.1, [128] * 2 + [90, 64, 31]),
    ("mini", torch.bfloat16, 0.0, [512, 300]),
    ("modern-tiny", torch.float32, 0.1, [128] * 4 + [100, 90, 64, 31, 7]),
    ("modern-mini", torch.float32, 0.0, [2048]),
]


def _step(size: str, dropout: float, lengths: list[int]) -> tuple[BertForPreTraining, Any, Workload]:
    config = replace(
        {**SIZES, **MODERN_SIZES}[size], hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
    )
    random = np.random.default_rng(1)
    packed = to_device(collate([random.integers(5, 30000, length).tolist() for length in lengths]))
    masked = torch.arange(0, packed.num_tokens, 7)
    batch = PretrainingBatch.extend(
        packed,
        masked_lm_positions=masked,
        masked_lm_ids=packed.input_ids[masked],
        next_sentence_labels=torch.zeros(len(lengths), dtype=torch.int64),
    )
    model = BertForPreTraining(build_encoder(config))
    objective = Workload(packed.num_tokens, sum(length**2 for length in lengths), len(masked))

    def loss() -> torch.Tensor:
        return sum(model.losses(batch))

    return model, loss, objective


def _kept_bytes(model: torch.nn.Module, loss: Callable[[], torch.Tensor]) -> int:
    """Return the bytes that autograd keeps for the backward pass, each storage once, weights left out."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss()
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize(("size", "dtype", "dropout", "lengths"), CASES)
@pytest.mark.slow
def test_activation_bytes_match_autograd(size, dtype, dropout, lengths):
    model, loss, objective = _step(size, dropout, lengths)
    with autocast(CPU, dtype):
        kept = _kept_bytes(model, loss)
    assert activation_bytes(model.config, objective, dtype) == pytest.approx(kept, rel=0.15)


def _peak_bytes(compute: Callable[[], None]) -> int:
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        compute()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    peak: int = np.cumsum([event.nbytes() for event in events]).max()
    return peak


@pytest.mark.filterwarnings("ignore:.*profil.*")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.slow
def test_step_peak_matches_the_plan(dtype):
    """Without dropout, whose draws are NumPy's; after a first step, so that gradients are there already."""
    if dtype == torch.bfloat16 and resolve_dtype("auto", CPU) != dtype:
        pytest.skip(
            "needs a processor that is faster by it: what makes bfloat16 up of float32 takes memory of its own"
        )
    model, loss, objective = _step("tiny", 0.0, [128] * 6 + [77, 50, 20])

    def step() -> None:
        with autocast(CPU, dtype):
            total = loss()
        total.backward()

    step()
    planned = activation_bytes(model.config, objective, dtype) + transient_bytes(
        model.config, objective, dtype
    )
    assert planned == pytest.approx(_peak_bytes(step), rel=0.15)


@pytest.mark.filterwarnings("ignore:.*profil.*")
@pytest.mark.parametrize("size", ["tiny", "mini"])
@pytest.mark.slow
def test_update_peak_matches_the_plan(size):
    """After a first one, so that averages are there already."""
    model = BertForPreTraining(BertModel(SIZES[size]))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer = build_optimizer(model, OptimizerConfig(muon=MuonConfig()))
    optimizer.step()
    assert optimizer.transient_bytes() == pytest.approx(_peak_bytes(optimizer.step), rel=0.15)
    assert build_optimizer(model, OptimizerConfig()).transient_bytes() == 0


def _rehearsal(optimizer: OptimizerConfig, **settings: int | None) -> Rehearsal:
    model = BertForPreTraining(BertModel(SIZES["tiny"]))
    objective = PretrainingObjective(model, None, held_out=(), unigram_nats=torch.ones(1), next_sentence=True)
    return Rehearsal(objective, optimizer, torch.float32, **settings)


def test_memory_is_the_larger_of_step_and_update():
    rehearsal = _rehearsal(OptimizerConfig(muon=MuonConfig()))
    small, large = (rehearsal.memory([Workload(n, n * 32, n // 7)]) for n in (16, 4096))
    for plan in (small, large):
        kept = plan.parameters + plan.gradients + plan.optimizer
        assert plan.total == kept + max(plan.activations, plan.update)
    assert small.update > 0
    assert large.activations > large.update == small.update


def test_attention_memory_grows_with_squared_lengths():
    config = SIZES["tiny"]

    def of(*lengths: int) -> int:
        objective = Workload(sum(lengths), sum(length**2 for length in lengths))
        return activation_bytes(config, objective, torch.float32)

    assert of(64, 64) == 2 * of(64)
    assert of(128) - of(64, 64) == 2 * 2 * 64**2 * config.num_attention_heads * (2 * 4 + 2)


def test_parameter_gradient_and_optimizer_bytes_are_counted():
    model = BertForSequenceClassification(BertModel(SIZES["tiny"]), num_labels=2)
    model.bert.embeddings.word_embeddings.requires_grad_(requires_grad=False)
    count = sum(parameter.numel() for parameter in model.parameters())
    trained = count - 30_522 * 128
    assert parameter_bytes(model) == (4 * count, 4 * trained)
    assert build_optimizer(model, OptimizerConfig()).state_bytes() == 8 * trained


@pytest.mark.parametrize(
    "settings",
    [{}, {"bias_correction": True}, {"layer_decay": 0.9}, {"muon": MuonConfig()}],
    ids=lambda settings: "".join(settings) or "default",
)
def test_optimizer_bytes_are_known_before_the_first_step(settings):
    model = BertForPreTraining(BertModel(SIZES["tiny"]))
    optimizer = build_optimizer(model, OptimizerConfig(**settings))
    planned = optimizer.state_bytes()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    averages = [
        value
        for state in optimizer.state.values()
        for name, value in state.items()
        if name != "step"  # a number for each parameter
    ]
    assert planned == sum(average.nbytes for average in averages)
    assert optimizer.state_bytes() == planned


@pytest.mark.slow
def test_largest_micro_batch_fits_and_one_more_token_does_not():
    works = [Workload(1280, 1280 * 128, 190)] * 40

    def plan(available, micro_batches=works):
        optimizer = OptimizerConfig(bias_correction=True)
        return _rehearsal(optimizer, available=available, kept_copies=1).memory(micro_batches)

    at_hand = plan(None)
    assert at_hand.fits
    assert at_hand.largest_micro_batch_tokens is None
    assert at_hand.micro_batch_tokens == 1280
    assert at_hand.optimizer == 3 * at_hand.gradients == 3 * at_hand.parameters
    assert plan(at_hand.total).fits
    assert plan(at_hand.total).largest_micro_batch_tokens == 1280
    assert not plan(at_hand.total - 1).fits
    assert 0 < plan(at_hand.total - 1).largest_micro_batch_tokens < 1280
    assert plan(10**6).largest_micro_batch_tokens == 0
    assert plan(10**12).largest_micro_batch_tokens == 40 * 1280
    doubled = plan(at_hand.total * 2).largest_micro_batch_tokens
    at_the_limit = plan(None, [Workload(doubled, doubled * 128, doubled * 190 // 1280)])
    assert at_the_limit.total == pytest.approx(2 * at_hand.total, rel=0.02)


def test_available_memory_respects_the_limit_of_a_container(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  900 kB\nMemAvailable:     500 kB\n")

    def available(device: torch.device = CPU, meminfo: Path = meminfo) -> int | None:
        return available_memory(device, meminfo=meminfo, cgroup=tmp_path)

    assert available() == 512_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available() == 512_000
    (tmp_path / "memory.max").write_text("300000\n")
    (tmp_path / "memory.current").write_text("100000\n")
    (tmp_path / "memory.stat").write_text("anon 40000\nfile 60000\ninactive_file 30000\nactive_file 20000\n")
    assert available() == 250_000, "cached files can be dropped"
    assert available(torch.device("meta")) is None
    assert available(meminfo=tmp_path / "none") is None
