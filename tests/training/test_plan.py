"""What a run takes, by formula: held against what torch's allocator and autograd say."""

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from cloze.model.bert import SIZES, BertModel, Packed
from cloze.model.heads import BertForPreTraining, BertForSequenceClassification
from cloze.training import memory
from cloze.training.cost import (
    Workload,
    activation_bytes,
    optimizer_bytes,
    parameter_bytes,
    transient_bytes,
    update_bytes,
)
from cloze.training.memory import available_memory
from cloze.training.muon import MuonConfig
from cloze.training.optimizer import OptimizerConfig, build_optimizer
from cloze.training.plan import plan_memory
from cloze.training.precision import autocast, resolve_dtype

CPU = torch.device("cpu")
CASES = [
    ("tiny", torch.float32, 0.0, [128] * 4 + [100, 90, 64, 31, 7]),
    ("tiny", torch.bfloat16, 0.1, [128] * 4 + [100, 90, 64, 31, 7]),
    ("tiny", torch.float32, 0.1, [512, 400]),
    ("mini", torch.float32, 0.1, [128] * 2 + [90, 64, 31]),
    ("mini", torch.bfloat16, 0.0, [512, 300]),
]


def _step(size: str, dropout: float, lengths: list[int]) -> tuple[BertForPreTraining, Any, Workload]:
    config = replace(SIZES[size], hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    random = np.random.default_rng(1)
    packed = Packed.from_sequences([random.integers(5, 30000, length).tolist() for length in lengths])
    masked = torch.arange(0, packed.num_tokens, 7)
    ids, labels = packed.input_ids[masked], torch.zeros(len(lengths), dtype=torch.int64)
    model = BertForPreTraining(BertModel(config))
    work = Workload(packed.num_tokens, sum(length**2 for length in lengths), len(masked))

    def loss() -> torch.Tensor:
        return sum(model.losses(packed, masked, ids, labels))

    return model, loss, work


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
def test_activations_are_those_that_autograd_keeps(
    size: str, dtype: torch.dtype, dropout: float, lengths: list[int]
) -> None:
    model, loss, work = _step(size, dropout, lengths)
    with autocast(CPU, dtype):
        kept = _kept_bytes(model, loss)
    assert activation_bytes(model.config, work, dtype) == pytest.approx(kept, rel=0.15)


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
def test_the_peak_of_a_step_is_what_is_planned(dtype: torch.dtype) -> None:
    """Without dropout, whose draws are NumPy's; after a first step, so that gradients are there already."""
    if dtype == torch.bfloat16 and resolve_dtype("auto", CPU) != dtype:
        pytest.skip(
            "needs a processor that is faster by it: what makes bfloat16 up of float32 takes memory of its own"
        )
    model, loss, work = _step("tiny", 0.0, [128] * 6 + [77, 50, 20])

    def step() -> None:
        with autocast(CPU, dtype):
            total = loss()
        total.backward()

    step()
    planned = activation_bytes(model.config, work, dtype) + transient_bytes(model.config, work, dtype)
    assert planned == pytest.approx(_peak_bytes(step), rel=0.15)


@pytest.mark.filterwarnings("ignore:.*profil.*")
@pytest.mark.parametrize("size", ["tiny", "mini"])
def test_the_peak_of_an_update_is_what_is_planned(size: str) -> None:
    """After a first one, so that averages are there already."""
    model = BertForPreTraining(BertModel(SIZES[size]))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer = build_optimizer(model, OptimizerConfig(muon=MuonConfig()))
    optimizer.step()
    assert update_bytes(optimizer) == pytest.approx(_peak_bytes(optimizer.step), rel=0.15)
    assert update_bytes(build_optimizer(model, OptimizerConfig())) == 0


def test_memory_is_that_of_the_dearer_moment() -> None:
    model = BertForPreTraining(BertModel(SIZES["tiny"]))
    optimizer = build_optimizer(model, OptimizerConfig(muon=MuonConfig()))

    def plan(num_tokens: int):
        work = [Workload(num_tokens, num_tokens * 32, num_tokens // 7)]
        return plan_memory(model, model.config, work, torch.float32, optimizer, available=None)

    for of in (plan(16), plan(4096)):
        kept = of.parameters + of.gradients + of.optimizer
        assert of.total == kept + max(of.activations, of.update)
    assert plan(16).update > 0
    assert plan(4096).activations > plan(4096).update == plan(16).update


def test_attention_grows_with_the_squares_of_the_lengths() -> None:
    config = SIZES["tiny"]

    def of(*lengths: int) -> int:
        work = Workload(sum(lengths), sum(length**2 for length in lengths))
        return activation_bytes(config, work, torch.float32)

    assert of(64, 64) == 2 * of(64)
    assert of(128) - of(64, 64) == 2 * 2 * 64**2 * config.num_attention_heads * (2 * 4 + 2)


def test_parameters_gradients_and_averages_are_counted() -> None:
    model = BertForSequenceClassification(BertModel(SIZES["tiny"]), num_labels=2)
    model.bert.embeddings.word_embeddings.requires_grad_(requires_grad=False)
    count = sum(parameter.numel() for parameter in model.parameters())
    trained = count - 30_522 * 128
    assert parameter_bytes(model) == (4 * count, 4 * trained)
    assert optimizer_bytes(build_optimizer(model, OptimizerConfig())) == 8 * trained


@pytest.mark.parametrize("bias_correction", [False, True])
@pytest.mark.parametrize("muon", [None, MuonConfig()])
def test_averages_are_counted_before_they_are_made(muon: MuonConfig | None, *, bias_correction: bool) -> None:
    model = BertForPreTraining(BertModel(SIZES["tiny"]))
    optimizer = build_optimizer(model, OptimizerConfig(muon=muon, bias_correction=bias_correction))
    planned = optimizer_bytes(optimizer)
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
    assert optimizer_bytes(optimizer) == planned


def test_the_largest_micro_batch_fits_and_one_more_token_does_not() -> None:
    model = BertForPreTraining(BertModel(SIZES["tiny"]))
    optimizer = build_optimizer(model, OptimizerConfig(bias_correction=True))
    works = [Workload(1280, 1280 * 128, 190)] * 40

    def plan(available: int | None, micro_batches: list[Workload] = works):
        return plan_memory(
            model, model.config, micro_batches, torch.float32, optimizer, available=available, kept_copies=1
        )

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


def test_what_a_container_may_take_counts(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  900 kB\nMemAvailable:     500 kB\n")
    monkeypatch.setattr(memory, "_MEMINFO", meminfo)
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert available_memory(CPU) == 512_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available_memory(CPU) == 512_000
    (tmp_path / "memory.max").write_text("300000\n")
    (tmp_path / "memory.current").write_text("100000\n")
    (tmp_path / "memory.stat").write_text("anon 40000\nfile 60000\ninactive_file 30000\nactive_file 20000\n")
    assert available_memory(CPU) == 250_000, "files that were read make room"
    assert available_memory(torch.device("meta")) is None
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    assert available_memory(CPU) is None
