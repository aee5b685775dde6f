"""`python -m benchmarks start`: whole processes, from their start to their answer."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar
from urllib.request import Request, urlopen

from benchmarks.harness import Check, Contestant, Result, TimedBenchmark, import_peer, repeat
from benchmarks.serve import server, user_environment
from cloze.errors import RunError
from cloze.model_paths import resolve_checkpoint

_TEXT = "Paris is the [MASK] of France."
_TOP_K = 5
_SECONDS_TO_ANSWER = 60
_PIPELINE = """
import json, sys
from transformers import pipeline
model, text, top_k = sys.argv[1:]
answers = pipeline("fill-mask", model=model, top_k=int(top_k), device="cpu")(text)
print(json.dumps([answer["token_str"] for answer in answers]))
"""


@dataclass(frozen=True, kw_only=True)
class Start(TimedBenchmark):
    """Whole processes, from their start to their answer: cloze fill, cloze --help and a server."""

    name: ClassVar[str] = "start"

    model: str
    """A checkpoint or run with a masked-word head."""

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Compare `cloze fill` and a server with a script that uses transformers' pipeline; measure `cloze --help`."""
        model = str(resolve_checkpoint(self.model))
        fill = ("-m", "cloze", "fill", "-m", model, _TEXT, "--top-k", str(_TOP_K), "--json", "--quiet")
        help_text = ("-m", "cloze", "--help")
        contestants = [
            Contestant("cloze fill", "a process that fills one blank", repeat(partial(_run, fill))),
            Contestant("cloze --help", "a process that lists the verbs", repeat(partial(_run, help_text))),
            Contestant(
                "cloze serve",
                "a server from its start to its first answer to /fill, and its end",
                repeat(partial(_first_answer, model)),
            ),
        ]
        checks = []
        for name in peers:
            with self.attempt(name):
                import_peer(name)
                theirs = ("-c", _PIPELINE, model, _TEXT, str(_TOP_K))
                (candidates,) = json.loads(_run(fill))["masks"]
                differ = [candidate["token"] for candidate in candidates] != json.loads(_run(theirs))
                checks.append(Check(f"the {_TOP_K} best words compared with {name}", float(differ), 0.0))
                does = "a process that fills the same blank with pipeline()"
                contestants.append(Contestant(name, does, repeat(partial(_run, theirs))))
        timings = self.measure(contestants)
        seconds = ", ".join(f"{timing.name} {timing.median:.2f}" for timing in timings)
        return self.describe(
            timings,
            settings={"model": Path(self.model).name, "rounds": self.rounds},
            unit="processes",
            checks=checks,
            notes=(f"seconds per process: {seconds}",),
        )


def _run(arguments: Sequence[str]) -> str:
    """Run a Python process as a user starts it, and return its output."""
    offline = {**user_environment(), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=offline
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunError(lines[-1], where=" ".join(arguments[:3]))
    return done.stdout


def _first_answer(model: str) -> str:
    """Start a server, ask it for the words of a blank, end it, and return its answer."""
    body = json.dumps({"inputs": _TEXT, "top_k": _TOP_K}).encode()
    with server(model) as (_, url):
        request = Request(f"{url}/fill", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=_SECONDS_TO_ANSWER) as answer:
            text: str = answer.read().decode()
    return text
