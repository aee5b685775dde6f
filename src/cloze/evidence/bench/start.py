"""`cloze bench start`: whole processes, from their start to their answer."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from cloze.errors import RunError
from cloze.evidence.bench.harness import (
    LEAST_ROUNDS,
    Check,
    Comparison,
    Side,
    alternate,
    environment_of,
    import_peer,
    require_peers,
)
from cloze.locate import resolve_checkpoint
from cloze.progress import SILENT, Progress

PEERS = ("transformers",)
_TEXT = "Paris is the [MASK] of France."
_TOP_K = 5
_PIPELINE = """
import json, sys
from transformers import pipeline
model, text, top_k = sys.argv[1:]
found = pipeline("fill-mask", model=model, top_k=int(top_k), device="cpu")(text)
print(json.dumps([each["token_str"] for each in found]))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class StartBenchmark:
    """What is measured."""

    model: Path
    """A checkpoint with a masked-word head, or a run."""


def bench_start(
    benchmark: StartBenchmark,
    *,
    peers: Sequence[str] = PEERS,
    rounds: int = LEAST_ROUNDS,
    min_seconds: float = 1.0,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare `cloze fill` with a script of transformers' pipeline, each a process of its own; and `cloze --help`.

    Raises:
        InputError: a peer is unknown or not installed.
        RunError: one of the processes failed.
    """
    require_peers(peers, PEERS)
    model = str(resolve_checkpoint(benchmark.model))
    fill = ("-m", "cloze", "fill", "-m", model, _TEXT, "--top-k", str(_TOP_K), "--json", "--quiet")
    commands = {
        "cloze fill": ("a process that fills one blank", fill),
        "cloze --help": ("a process that lists the verbs", ("-m", "cloze", "--help")),
    }
    checks = []
    if "transformers" in peers:
        import_peer("transformers")
        theirs = ("-c", _PIPELINE, model, _TEXT, str(_TOP_K))
        commands["transformers"] = ("a process that fills the same blank with pipeline()", theirs)
        apart = float(_our_words(_run(fill)) != json.loads(_run(theirs)))
        checks.append(Check(f"the {_TOP_K} likeliest words beside transformers", apart, 0.0))
    sides = [
        Side(name, does, lambda command=command: lambda: _run(command))  # type: ignore[misc]
        for name, (does, command) in commands.items()
    ]
    timings = alternate(sides, rounds=rounds, min_seconds=min_seconds, progress=progress)
    seconds = ", ".join(f"{timing.name} {timing.median:.2f}" for timing in timings)
    return Comparison(
        name="start",
        settings={"model": benchmark.model.name, "rounds": rounds},
        amount=1.0,
        unit="processes",
        timings=timings,
        checks=tuple(checks),
        environment=environment_of(torch.device("cpu"), torch.float32, peers),
        notes=(f"seconds a process: {seconds}",),
    )


def _our_words(output: str) -> list[str]:
    (candidates,) = json.loads(output)["masks"]
    return [candidate["token"] for candidate in candidates]


def _run(arguments: Sequence[str]) -> str:
    """Run a Python process that is on its own, as one is that a user starts."""
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=offline
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunError(said[-1], where=" ".join(arguments[:3]))
    return done.stdout
