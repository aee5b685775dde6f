"""Time optimizer steps of pre-training with each setting for a GPU changed by itself, within ten minutes.

    python -m benchmarks.switches --device cuda > switches.jsonl

Each line is a change in one round, in which the default is measured, too. It is printed at once, so that the program
may be stopped.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from benchmarks.harness import synchronize
from benchmarks.pretrain import ClozeTrainer, Pretrain, build_trainer, draw_step
from cloze.models import functional
from cloze.training.distributed import DistributedContext
from cloze.training.optimizer import AdamW, clip_gradients
from cloze.training.precision import peak_memory, resolve_device, training_arithmetic
from cloze.training.step import accumulate_gradients

CHANGES: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "micro-batches of 4,096 tokens": {"micro_batch_tokens": 4096},
    "micro-batches of 65,536 tokens": {"micro_batch_tokens": 65_536},
    "float32": {"dtype": "float32"},
    "no dropout": {"dropout": 0.0},
    "kernels that add in any order": {"deterministic": False},
    "a wait before the optimizer": {"waits": True},
    "logits of all positions at once": {"chunk": 1 << 30},
}


def take_step(trainer: ClozeTrainer, *, waits: bool) -> float:
    """Take a step as a run does; `waits` reads the loss before the optimizer, as runs did before."""
    trainer.optimizer.zero_grad()
    loss, _ = accumulate_gradients(trainer.objective, trainer.data, trainer.dtype)
    norm = clip_gradients(trainer.model.parameters(), trainer.max_grad_norm)
    if waits:
        loss.item()
    is_finite = loss.isfinite() & norm.isfinite()
    assert isinstance(trainer.optimizer, AdamW)
    trainer.optimizer.step(found_inf=(~is_finite).float())
    return float(loss)


def measure(
    benchmark: Pretrain,
    seconds: float,
    *,
    deterministic: bool = True,
    waits: bool = False,
    chunk: int = functional._CHUNK,
) -> dict[str, float]:
    """Return the median seconds of a step, the tokens of it, and the peak memory in MiB."""
    device = resolve_device(benchmark.device)
    data, tokenizer, _ = draw_step(benchmark, DistributedContext(device))
    trainer = build_trainer(benchmark, data, tokenizer, device)
    trainer.model.train()
    chunk_before, times = functional._CHUNK, list[float]()
    functional._CHUNK = chunk
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    try:
        with training_arithmetic(deterministic=deterministic):
            end = math.inf
            while len(times) < 3 or time.perf_counter() < end:
                started = time.perf_counter()
                loss = take_step(trainer, waits=waits)
                synchronize(device)
                times.append(time.perf_counter() - started)
                end = time.perf_counter() + seconds if len(times) == 2 else end  # two steps warm up
    finally:
        functional._CHUNK = chunk_before
    memory = (peak_memory(device) or 0) >> 20
    row = {"seconds": statistics.median(times[2:]), "steps": len(times) - 2, "tokens": data.num_tokens}
    return {**row, "memory_mib": memory, "last_loss": loss}


def main() -> int:
    """Measure each change in rounds, until the time is over."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="base", help="size of the encoder")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--max-seq-length", type=int, default=128)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a variant in a round")
    arguments = parser.parse_args()
    default = Pretrain(
        model=arguments.model,
        batch=arguments.batch,
        max_seq_length=arguments.max_seq_length,
        device=arguments.device,
        dtype="auto",
        micro_batch_tokens=16_384,
    )
    end, number = time.perf_counter() + 60 * arguments.minutes, 0
    while True:
        number += 1
        for name, change in CHANGES.items():
            if time.perf_counter() > end:
                return 0
            switches = {key: change[key] for key in change if key in ("deterministic", "waits", "chunk")}
            settings = {key: change[key] for key in change if key not in switches}
            row = measure(replace(default, **settings), arguments.seconds, **switches)
            print(json.dumps({"round": number, "change": name, **row}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
