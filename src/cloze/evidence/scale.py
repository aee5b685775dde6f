"""How far a pre-training run goes on many accelerators: hours, network and storage, by a calculation anyone can redo.

One device's measured rate is all that is known of the machine. A step takes the operations of its tokens at that rate;
gradients are summed over the hosts while the backward pass goes on, and what of that takes longer is waited for.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from cloze.errors import InputError
from cloze.evidence.devices import Device
from cloze.model.bert import BertConfig
from cloze.pretraining.config import PhaseConfig
from cloze.training.cost import Workload, pretraining_step_flops

_PIECES_A_WORD = 1.3  # of English, with 30,522 pieces
_BYTES_A_PIECE = 2  # uint16
_MASKED_SHARE = 0.15
_GRADIENT_BYTES: Mapping[str, int] = MappingProxyType({"float32": 4, "bfloat16": 2})
_CHECKPOINT_BYTES = 12  # a weight and AdamW's two averages
_BACKWARD_SHARE = 2 / 3
LOADER_TOKENS_PER_SECOND = 14e6
"""Drawn, masked and packed by one core: records/2026-11-21-text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What is to be trained."""

    model: BertConfig
    phases: Sequence[PhaseConfig]
    steps: float
    words: float
    """Of text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a run takes. Seconds are of a step, averaged over the phases, where nothing else is said."""

    parameters: int
    tokens: float
    """That pass through the model, in all."""
    epochs: float
    compute_seconds: float
    network_seconds: float
    """To sum the gradients over all devices, were nothing done beside it."""
    waiting_seconds: float
    """Of these, what the backward pass does not hide."""
    hours: float
    network_bytes: float
    """That a host sends and receives in a step."""
    dataset_bytes: float
    checkpoint_bytes: float
    loader_cores: float
    """Busy with drawing and masking, on each host."""

    @property
    def efficiency(self) -> float:
        """Share of the time in which the devices compute."""
        return self.compute_seconds / (self.compute_seconds + self.waiting_seconds)


def plan(run: Run, device: Device, accelerators: int, *, reduce_dtype: str = "float32") -> Plan:
    """Calculate what a run takes on so many devices.

    Every sequence is taken as full, as the paper's were: real text has shorter ones, and takes less.

    Raises:
        InputError: a phase has fewer sequences a step than there are devices.
    """
    for phase in run.phases:
        if accelerators < 1 or phase.batch_size < accelerators:
            what = f"{accelerators} devices, and {phase.batch_size} sequences a step"
            raise InputError(
                what, where="--accelerators", remedy="A device takes one at least: raise --batch-size"
            )
    model = run.model
    parameters = num_parameters(model)
    hosts = -(-accelerators // device.per_host)
    gradient_bytes = parameters * _GRADIENT_BYTES[reduce_dtype]
    # a ring: each host's share goes round once to be summed and once to be told
    network_bytes = 2 * (hosts - 1) / hosts * gradient_bytes
    local = min(device.per_host, accelerators)
    network = (
        network_bytes / device.network_bytes_per_second
        + 2 * (local - 1) / local * gradient_bytes / device.link_bytes_per_second
    )
    compute = waiting = tokens = 0.0
    for phase in run.phases:
        phase_tokens = phase.batch_size * phase.max_seq_length
        work = Workload(phase_tokens, phase_tokens * phase.max_seq_length, int(_MASKED_SHARE * phase_tokens))
        seconds = pretraining_step_flops(model, work) / device.flops_per_second / accelerators
        compute += phase.fraction * seconds
        waiting += phase.fraction * max(0.0, network - _BACKWARD_SHARE * seconds)
        tokens += phase.fraction * phase_tokens
    pieces = run.words * _PIECES_A_WORD
    step = compute + waiting
    return Plan(
        parameters=parameters,
        tokens=tokens * run.steps,
        epochs=tokens * run.steps / pieces,
        compute_seconds=compute,
        network_seconds=network,
        waiting_seconds=waiting,
        hours=run.steps * step / 3600,
        network_bytes=network_bytes,
        dataset_bytes=pieces * _BYTES_A_PIECE,
        checkpoint_bytes=parameters * _CHECKPOINT_BYTES,
        loader_cores=tokens / step / hosts / LOADER_TOKENS_PER_SECOND,
    )


def parse_words(text: str) -> int:
    """Read "3.3e9w", words, or "4.3e9p", pieces, as a number of words.

    Raises:
        InputError: it is neither, or less than a word.

    >>> parse_words("3.3e9w"), parse_words("2.6e6p")
    (3300000000, 2000000)
    """
    units = {"w": 1.0, "p": 1 / _PIECES_A_WORD}
    try:
        words = float(text[:-1]) * units[text[-1:]]
    except (ValueError, KeyError):
        words = -1.0
    if not 1 <= words < math.inf:
        remedy = "Write words as 3.3e9w, or pieces as 4.3e9p"
        raise InputError(f"cannot read {text!r} as an amount of text", where="--text", remedy=remedy)
    return round(words)


def num_parameters(config: BertConfig) -> int:
    """Count the weights of an encoder with the heads of pre-training."""
    hidden = config.hidden_size
    tables = (config.vocab_size + config.max_position_embeddings + config.type_vocab_size + 2) * hidden
    attention = 4 * (hidden**2 + hidden)
    feed_forward = 2 * hidden * config.intermediate_size + hidden + config.intermediate_size
    layers = config.num_hidden_layers * (attention + feed_forward + 4 * hidden)
    pooler = hidden**2 + hidden
    heads = hidden**2 + 3 * hidden + config.vocab_size + 2 * hidden + 2
    return tables + layers + pooler + heads


def bottleneck(found: Plan, *, cores_per_host: int) -> str:
    """Say what limits the run first, and what then helps."""
    if found.loader_cores > cores_per_host / 2:
        return (
            f"the loader: {found.loader_cores:.0f} of {cores_per_host} cores of a host draw and mask. "
            "Read prepared instances, or take hosts with more cores"
        )
    if found.efficiency < 0.9:
        return (
            f"the network: devices wait {1 - found.efficiency:.0%} of the time for gradients. "
            "Raise the batch (with the rate), sum gradients in bfloat16, or take fewer devices"
        )
    return "computing: more devices make it faster until the network's seconds reach two thirds of a step"
