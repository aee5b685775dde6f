"""`python -m experiments plan`: hours, network and storage of pre-training on many accelerators, by calculation."""

import math
from dataclasses import asdict, replace
from typing import Annotated, Literal

from cloze.cli.options import Flag, Flags
from cloze.errors import InputError
from cloze.models.bert import BertConfig
from cloze.models.encoder_config import SIZES
from cloze.pretraining.config import PAPER_PHASES
from experiments import scale


def run(
    *,
    model: Annotated[
        Literal["tiny", "mini", "small", "medium", "base", "large"],
        Flag(metavar="SIZE"),
    ] = "base",
    text: Annotated[str, Flag(metavar="WORDS")] = "3.3e9w",
    accelerators: int = 1,
    device: Annotated[str, Flag(metavar="NAME")] = "a100",
    steps: float = 1e6,
    batch_size: int = 256,
    tflops: float | None = None,
    network: float | None = None,
    link: float | None = None,
    reduce_dtype: Literal["float32", "bfloat16"] = "float32",
    flags: Flags,
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
    machine = scale.find_device(device)
    if tflops is not None:
        machine = replace(machine, teraflops_per_second=tflops, source="given with --tflops")
    if network is not None:
        machine = replace(machine, network_gigabytes_per_second=network)
    if link is not None:
        machine = replace(machine, link_gigabytes_per_second=link)
    pretraining = scale.Run(
        model=BertConfig.of_size(*SIZES[model]),
        phases=[replace(phase, batch_size=batch_size) for phase in PAPER_PHASES],
        steps=steps,
        words=scale.parse_words(text),
    )
    cost = scale.plan(pretraining, machine, accelerators, reduce_dtype=reduce_dtype)
    limit = scale.bottleneck(cost, cores_per_host=machine.cores_per_host)
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
