"""Flags and output that the verbs share. stdout is data, stderr is progress and logs."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import tyro

from cloze.progress import Progress

Output: TypeAlias = Annotated[Path, tyro.conf.arg(aliases=["-o"], help_behavior_hint="(required)")]
Model: TypeAlias = Annotated[Path, tyro.conf.arg(aliases=["-m"], help_behavior_hint="(required)")]


@dataclass(frozen=True)
class Common:
    """Flags of every verb."""

    quiet: bool = False
    """No progress and no notes on stderr."""
    json: bool = False
    """Print the result as JSON on stdout."""
    debug: bool = False
    """Show the traceback of an error."""

    @property
    def progress(self) -> Progress:
        """Where this command tells how far it is."""
        return Progress(quiet=self.quiet)

    def print(self, result: Any, text: str) -> None:
        """Print a result for a program (`--json`) or for a person."""
        print(json.dumps(result, ensure_ascii=False) if self.json else text)


Flags: TypeAlias = Annotated[Common, tyro.conf.arg(name=""), tyro.conf.ConsolidateSubcommandArgs]


def default_workers() -> int:
    """Return the number of processors that this process may use."""
    import os

    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
