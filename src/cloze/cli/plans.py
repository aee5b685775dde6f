"""How the plan of a run is told: what `--dry-run` prints."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.cli.common import Common
from cloze.progress import clock

if TYPE_CHECKING:
    from cloze.training.plan import MemoryPlan, RunPlan


def print_plan(plan: "RunPlan", flags: Common) -> None:
    """Print a plan for a program (`--json`) or for a person."""
    flags.print(_as_dict(plan), "\n".join(["dry run: nothing was written", *_memory(plan), *_time(plan)]))


def _as_dict(plan: "RunPlan") -> dict[str, Any]:
    table = asdict(plan)
    table["memory"] |= {"total": plan.memory.total, "fits": plan.memory.fits}
    for row, stretch in zip(table["stretches"], plan.stretches, strict=True):
        row["seconds"] = stretch.seconds
    table["seconds"] = plan.seconds if plan.stretches else None
    return table


def _memory(plan: "RunPlan") -> list[str]:
    memory = plan.memory
    activations = f"activations of a micro-batch of {memory.micro_batch_tokens:,} tokens"
    rows = {
        "parameters": memory.parameters,
        "gradients": memory.gradients,
        "optimizer": memory.optimizer,
        activations: memory.activations,
        "or, when these are gone, the optimizer's step": memory.update,
        "in all": memory.total,
    }
    lines = [f"memory, {plan.dtype} on {plan.device}"]
    lines += [f"  {name:<50} {_size(size):>9}" for name, size in rows.items() if size]
    return lines + _verdict(memory)


def _verdict(memory: "MemoryPlan") -> list[str]:
    if memory.available is None or memory.largest_micro_batch_tokens is None:
        return ["  what the device has is not known"]
    fits = "it fits" if memory.fits else "IT DOES NOT FIT"
    return [
        f"  {'free now':<50} {_size(memory.available):>9}: {fits}",
        f"  {'largest micro_batch_tokens':<50} {memory.largest_micro_batch_tokens:>9,}",
    ]


def _time(plan: "RunPlan") -> list[str]:
    if not plan.stretches:
        return ["no step was timed"]
    lines = ["time, from a few micro-batches"]
    for stretch in plan.stretches:
        steps = f"{stretch.steps:,} steps of {stretch.tokens:,} tokens, {stretch.step_seconds:.3g} s each"
        lines.append(f"  {stretch.name}: {steps}: {clock(stretch.seconds)}")
    lines.append(f"  evaluations: {clock(plan.evaluation_seconds)}")
    runs = f", {plan.runs} runs" if plan.runs > 1 else ""
    return [*lines, f"  in all{runs}: {clock(plan.seconds)}"]


def _size(num_bytes: int) -> str:
    """Write a number of bytes in the unit that suits it.

    >>> _size(4_300_000), _size(12_345_000_000)
    ('4.3 MB', '12.3 GB')
    """
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.1f} MB"
