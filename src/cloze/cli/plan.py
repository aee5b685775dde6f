"""`cloze plan`: hours, network and storage of a pre-training run on many accelerators, by calculation."""

import math
from dataclasses import asdict
from typing import Annotated, Literal

import tyro

from cloze.cli.common import Flags, OptionalNumber
from cloze.errors import InputError


def run(
    *,
    model: Annotated[
        Literal["tiny", "mini", "small", "medium", "base", "large"],
        tyro.conf.arg(aliases=["-m"], metavar="SIZE"),
    ] = "base",
    text: Annotated[str, tyro.conf.arg(metavar="WORDS")] = "3.3e9w",
    accelerators: int = 1,
    device: Annotated[str, tyro.conf.arg(metavar="NAME")] = "a100",
    steps: float = 1e6,
    batch_size: int = 256,
    tflops: OptionalNumber = None,
    network: OptionalNumber = None,
    link: OptionalNumber = None,
    reduce_dtype: Literal["float32", "bfloat16"] = "float32",
    flags: Flags,
) -> None:
    """Say what a pre-training run would take on many accelerators, from what one was measured to reach.

    Nothing is run. Without flags it is the paper's own run of BERT-base, on one A100.

    Args:
        model: tiny, mini, small, medium, base or large.
        text: words, as in 3.3e9w, the paper's; or pieces, as in 4.3e9p.
        accelerators: how many.
        device: a100, h100, h200, tpu-v2 or v100; each with the rate that somebody published.
        steps: optimizer steps; nine tenths of them with sequences of 128 pieces, a tenth with 512.
        batch_size: sequences a step, on all accelerators together.
        tflops: what one of yours reaches, in TFLOP/s, as cloze bench pretrain prints.
        network: between hosts, in GB/s each way.
        link: between the accelerators of a host, in GB/s each way.
        reduce_dtype: number format in which gradients are summed.
        flags: flags of every verb.
    """
    from dataclasses import replace

    from cloze.evidence import scale
    from cloze.evidence.devices import find_device
    from cloze.model.bert import SIZES
    from cloze.pretraining.config import PAPER_PHASES

    amounts = {
        "--steps": steps,
        "--batch-size": batch_size,
        "--tflops": tflops,
        "--network": network,
        "--link": link,
    }
    for flag, amount in amounts.items():
        if amount is not None and not 0 < amount < math.inf:
            raise InputError(f"{amount} is not above 0", where=flag)
    machine = find_device(device)
    if tflops is not None:
        machine = replace(machine, flops_per_second=tflops * 1e12, source="given with --tflops")
    if network is not None:
        machine = replace(machine, network_bytes_per_second=network * 1e9)
    if link is not None:
        machine = replace(machine, link_bytes_per_second=link * 1e9)
    planned = scale.Run(
        model=SIZES[model],
        phases=[replace(phase, batch_size=batch_size) for phase in PAPER_PHASES],
        steps=steps,
        words=scale.parse_words(text),
    )
    found = scale.plan(planned, machine, accelerators, reduce_dtype=reduce_dtype)
    limit = scale.bottleneck(found, cores_per_host=machine.cores_per_host)
    facts = {
        "one reaches": f"{machine.flops_per_second / 1e12:,.1f} TFLOP/s ({machine.source})",
        "tokens": f"{found.tokens:.3g} in {steps:,.0f} steps: {found.epochs:,.1f} epochs",
        "time": f"{found.hours:,.1f} hours, {accelerators * found.hours:,.0f} device hours",
        "a step": f"{found.compute_seconds:.3g} s, and {found.waiting_seconds:.3g} s waiting for gradients",
        "network": f"{found.network_bytes / 1e9:.3g} GB a step, in and out of each host",
        "storage": f"{found.dataset_bytes / 1e9:,.1f} GB data set, {found.checkpoint_bytes / 1e9:,.1f} GB checkpoint",
        "loader": f"{found.loader_cores:.2g} cores of each host",
        "limited by": limit,
    }
    lines = [f"{model}, {found.parameters / 1e6:,.1f} million weights, on {accelerators:,} {machine.name}"]
    lines += [f"  {name:<15} {fact}" for name, fact in facts.items()]
    flags.print(asdict(found) | {"limited_by": limit}, "\n".join(lines))
