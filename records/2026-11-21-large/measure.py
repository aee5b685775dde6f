"""Run `cloze pretrain` with the arguments given here, in processor time; print what its steps took, as JSON.

    python measure.py --data data -o run --model large --steps 10 …            # trains
    python measure.py --data data -o run --model large --steps 10 … --dry-run  # foretells

The clock that steps are timed by is that of the processor: on one thread it is the clock on the wall, less what other
processes took of the core. Memory is the most that was resident, beside what was before the model was made.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import torch

from cloze.cli import load_verb
from cloze.cli.parser import Command
from cloze.pretraining import plan as pretraining_plan
from cloze.pretraining import run as pretraining_run
from cloze.training import plan
from cloze.training.run import TrainingRun

steps: list[dict[str, float]] = []
before: list[int] = []


def resident() -> int:
    """Return the bytes that the process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak() -> int:
    """Return the most bytes that it has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class ProcessorTime:
    """Stands in for the module `time` where steps are timed."""

    perf_counter = monotonic = staticmethod(time.process_time)


def noting_memory_before(*arguments: Any) -> Any:
    """Make the model; note what was there before."""
    before.append(resident())
    return make_model(*arguments)


def noting_each_step(run: Any, *arguments: Any) -> None:
    """Take a step; note its time, and the peak since the process began."""
    began = time.process_time()
    take_step(run, *arguments)
    steps.append({"processor_seconds": time.process_time() - began, "peak_bytes": peak()})


make_model, take_step = pretraining_run.initial_model, TrainingRun._step
TrainingRun._step = noting_each_step
for module in (pretraining_run, pretraining_plan):
    module.initial_model = noting_memory_before
plan.time = ProcessorTime
torch.set_num_threads(1)
Command(load_verb("pretrain"), "pretrain").parse(sys.argv[1:])()
found = {"resident_before_the_model": before[0], "steps": steps, "peak_bytes": peak()}
sys.stdout.write(json.dumps(found, indent=1) + "\n")
