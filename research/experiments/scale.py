"""Estimate a pre-training run on many accelerators: hours, network and storage, by a calculation anyone can repeat.

The measured rate of one device is the only fact about the machine. A step takes the operations of its tokens at that
rate; gradients are summed over the hosts during the backward pass, and the step waits for the rest of the sum.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import torch

from cloze.cli.parameters import CommonOptions
from cloze.config import from_dict, read_toml
from cloze.errors import InputError
from cloze.models.bert import BertConfig, BertModel
from cloze.models.encoder_config import SIZES
from cloze.models.heads import BertForPreTraining
from cloze.pretraining.config import PAPER_PHASES, PhaseConfig
from cloze.suggestions import did_you_mean
from experiments.step_cost import pretraining_step_flops

_DEVICES = Path(__file__).with_name("devices.toml")
_TOKENS_PER_WORD = 1.3  # of English, with 30,522 tokens
_BYTES_PER_TOKEN = 2  # uint16
_MASKED_SHARE = 0.15
_GRADIENT_BYTES: Mapping[str, int] = MappingProxyType({"float32": 4, "bfloat16": 2})
_CHECKPOINT_BYTES = 12  # a weight and AdamW's two averages
_BACKWARD_SHARE = 2 / 3
_LOADER_TOKENS_PER_SECOND = 14e6  # drawn, masked and packed by one core: records/2026-11-21-text


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One accelerator, and its host."""

    teraflops_per_second: float
    """Measured on training steps of BERT, as `python -m benchmarks pretrain` counts; not the rate of a data sheet."""
    link_gigabytes_per_second: float
    """Between the accelerators of a host, each way."""
    network_gigabytes_per_second: float
    """Between hosts, each way, per host."""
    per_host: int
    cores_per_host: int
    source: str


def known_devices() -> dict[str, Device]:
    """Return the accelerators with a published rate, by name."""
    return {name: from_dict(Device, row, where=name) for name, row in read_toml(_DEVICES).items()}


def find_device(name: str) -> Device:
    """Return the accelerator called `name`."""
    devices = known_devices()
    if name not in devices:
        raise InputError(f"unknown device {name!r}", where="--device", remedy=did_you_mean(name, devices))
    return devices[name]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A pre-training run."""

    model: BertConfig
    phases: Sequence[PhaseConfig]
    steps: float
    words: float
    """Words of text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The cost of a run. Seconds and bytes of the network are of a step, averaged over the phases."""

    parameters: int
    tokens: float
    """Tokens that pass through the model in the run."""
    epochs: float
    compute_seconds: float
    network_seconds: float
    """Time to sum the gradients over all devices without computing."""
    waiting_seconds: float
    """The part of it that the backward pass does not hide."""
    hours: float
    network_bytes: float
    """Sent and received by a host."""
    dataset_bytes: float
    checkpoint_bytes: float
    loader_cores: float
    """Cores of each host that draw and mask."""

    @property
    def efficiency(self) -> float:
        """Share of the time in which the devices compute."""
        return self.compute_seconds / (self.compute_seconds + self.waiting_seconds)


def plan(run: Run, device: Device, accelerators: int, *, reduce_dtype: str = "float32") -> Plan:
    """Calculate the cost of a run on a number of devices.

    All sequences count as full, as the paper's were; real text has shorter ones and takes less.
    """
    for phase in run.phases:
        if accelerators < 1 or phase.batch_size < accelerators:
            what = f"{accelerators} devices, and {phase.batch_size} sequences per step"
            remedy = "Each device needs at least one: raise --batch-size"
            raise InputError(what, where="--accelerators", remedy=remedy)
    parameters = num_parameters(run.model)
    hosts = -(-accelerators // device.per_host)
    gradient_bytes = parameters * _GRADIENT_BYTES[reduce_dtype]
    # a ring: each host's share goes round once to be summed and once to be distributed
    network_bytes = 2 * (hosts - 1) / hosts * gradient_bytes
    local = min(device.per_host, accelerators)
    local_bytes = 2 * (local - 1) / local * gradient_bytes
    network = network_bytes / (1e9 * device.network_gigabytes_per_second)
    network += local_bytes / (1e9 * device.link_gigabytes_per_second)
    compute = waiting = tokens = 0.0
    for phase in run.phases:
        phase_tokens = phase.batch_size * phase.max_seq_length
        flops = pretraining_step_flops(
            run.model,
            num_tokens=phase_tokens,
            sum_of_squared_lengths=phase_tokens * phase.max_seq_length,
            num_predictions=int(_MASKED_SHARE * phase_tokens),
        )
        seconds = flops / (1e12 * device.teraflops_per_second) / accelerators
        compute += phase.fraction * seconds
        waiting += phase.fraction * max(0.0, network - _BACKWARD_SHARE * seconds)
        tokens += phase.fraction * phase_tokens
    text_tokens = run.words * _TOKENS_PER_WORD
    step = compute + waiting
    return Plan(
        parameters=parameters,
        tokens=tokens * run.steps,
        epochs=tokens * run.steps / text_tokens,
        compute_seconds=compute,
        network_seconds=network,
        waiting_seconds=waiting,
        hours=run.steps * step / 3600,
        network_bytes=network_bytes,
        dataset_bytes=text_tokens * _BYTES_PER_TOKEN,
        checkpoint_bytes=parameters * _CHECKPOINT_BYTES,
        loader_cores=tokens / step / hosts / _LOADER_TOKENS_PER_SECOND,
    )


def parse_words(text: str) -> int:
    """Read "3.3e9w", words, or "4.3e9p", tokens, as a number of words.

    >>> parse_words("3.3e9w"), parse_words("2.6e6p")
    (3300000000, 2000000)
    """
    units = {"w": 1.0, "p": 1 / _TOKENS_PER_WORD}
    try:
        words = float(text[:-1]) * units[text[-1:]]
    except (ValueError, KeyError):
        words = -1.0
    if not 1 <= words < math.inf:
        remedy = "Write words as 3.3e9w, or tokens as 4.3e9p"
        raise InputError(f"cannot read {text!r} as an amount of text", where="--text", remedy=remedy)
    return round(words)


def num_parameters(config: BertConfig) -> int:
    """Return the number of weights of an encoder with the heads of pre-training."""
    with torch.device("meta"):
        model = BertForPreTraining(BertModel(config))
    return sum(parameter.numel() for parameter in model.parameters())


def bottleneck(cost: Plan, *, cores_per_host: int) -> str:
    """Name the first limit of a run, and a remedy."""
    if cost.loader_cores > cores_per_host / 2:
        return (
            f"the loader: {cost.loader_cores:.0f} of {cores_per_host} cores of a host draw and mask. "
            "Read prepared instances, or choose hosts with more cores"
        )
    if cost.efficiency < 0.9:
        return (
            f"the network: devices wait {1 - cost.efficiency:.0%} of the time for gradients. "
            "Raise the batch (and the learning rate), sum gradients in bfloat16, or use fewer devices"
        )
    return "computing: more devices help until the network's seconds reach two thirds of a step"


def run(
    *,
    model: Literal["tiny", "mini", "small", "medium", "base", "large"] = "base",
    text: str = "3.3e9w",
    accelerators: int = 1,
    device: str = "a100",
    steps: float = 1e6,
    batch_size: int = 256,
    tflops: float | None = None,
    network: float | None = None,
    link: float | None = None,
    reduce_dtype: Literal["float32", "bfloat16"] = "float32",
    flags: CommonOptions,
) -> None:
    """Calculate the cost of a pre-training run on many accelerators from the measured rate of one.

    Nothing is run. The default is the paper's run of BERT-base, on one A100.

    Args:
        model: tiny, mini, small, medium, base or large.
        text: words, as in 3.3e9w, the paper's; or tokens, as in 4.3e9p.
        accelerators: number of accelerators.
        device: a100, h100, h200, tpu-v2 or v100, each with a published rate.
        steps: optimizer steps; nine tenths of them with sequences of 128 tokens, a tenth with 512.
        batch_size: sequences per step, on all accelerators together.
        tflops: rate of one of your accelerators, in TFLOP/s, as python -m benchmarks pretrain prints.
        network: between hosts, in GB/s each way.
        link: between the accelerators of a host, in GB/s each way.
        reduce_dtype: number format in which gradients are summed.
        flags: flags of every verb.
    """
    rates = {"--tflops": tflops, "--network": network, "--link": link}
    for flag, amount in {"--steps": steps, "--batch-size": batch_size, **rates}.items():
        if amount is not None and not 0 < amount < math.inf:
            raise InputError(f"{amount} is not above 0", where=flag)
    machine = find_device(device)
    if tflops is not None:
        machine = replace(machine, teraflops_per_second=tflops, source="given with --tflops")
    if network is not None:
        machine = replace(machine, network_gigabytes_per_second=network)
    if link is not None:
        machine = replace(machine, link_gigabytes_per_second=link)
    pretraining = Run(
        model=BertConfig.of_size(*SIZES[model]),
        phases=[replace(phase, batch_size=batch_size) for phase in PAPER_PHASES],
        steps=steps,
        words=parse_words(text),
    )
    cost = plan(pretraining, machine, accelerators, reduce_dtype=reduce_dtype)
    limit = bottleneck(cost, cores_per_host=machine.cores_per_host)
    facts = {
        "one reaches": f"{machine.teraflops_per_second:,.1f} TFLOP/s ({machine.source})",
        "tokens": f"{cost.tokens:.3g} in {steps:,.0f} steps: {cost.epochs:,.1f} epochs",
        "time": f"{cost.hours:,.1f} hours, {accelerators * cost.hours:,.0f} device hours",
        "a step": f"{cost.compute_seconds:.3g} s, and {cost.waiting_seconds:.3g} s waiting for gradients",
        "network": f"{cost.network_bytes / 1e9:.3g} GB per step, in and out of each host",
        "storage": f"{cost.dataset_bytes / 1e9:,.1f} GB data set, {cost.checkpoint_bytes / 1e9:,.1f} GB checkpoint",
        "loader": f"{cost.loader_cores:.2g} cores of each host",
        "limited by": limit,
    }
    lines = [f"{model}, {cost.parameters / 1e6:,.1f} million weights, on {accelerators:,} {device}"]
    lines += [f"  {name:<15} {fact}" for name, fact in facts.items()]
    flags.print(asdict(cost) | {"limited_by": limit}, "\n".join(lines))
