"""Flags and output that commands share: results go to stdout, progress and logs to stderr."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from cloze.config import find_recipe as find_recipe
from cloze.errors import InputError
from cloze.file_io import with_nulls
from cloze.parallel_map import default_workers
from cloze.progress import Progress, is_torchrun
from cloze.tables import fit_terminal

if TYPE_CHECKING:  # not needed for --help
    from cloze.parallel_map import Workers


@dataclass(frozen=True, kw_only=True)
class Flag:
    """How a parameter is shown, in the `Annotated` types of those that need more than its name and docstring."""

    metavar: str | None = None
    aliases: Sequence[str] = ()
    name: str | None = None
    help: str | None = None
    is_positional: bool = False
    """A field of a dataclass that is no flag."""


def _flag(metavar: str, *aliases: str, name: str | None = None, text: str | None = None) -> Flag:
    return Flag(metavar=metavar, aliases=aliases, name=name, help=text)


_URL = "PATH|URL"

# optional values
OptionalPath: TypeAlias = Annotated[Path | None, _flag("PATH")]
OptionalName: TypeAlias = Annotated[str | None, _flag("NAME")]
OptionalInteger: TypeAlias = Annotated[int | None, _flag("INT")]
OptionalNumber: TypeAlias = Annotated[float | None, _flag("FLOAT")]
Repeated: TypeAlias = tuple[str, ...]
Switch: TypeAlias = Annotated[bool, Flag()]

# inputs
TextInputs: TypeAlias = Annotated[tuple[str, ...], Flag(metavar="TEXT", is_positional=True)]
TaskName: TypeAlias = Annotated[
    str, Flag(metavar="TASK", help="Name of the task; cloze tasks lists them.", is_positional=True)
]
Settings: TypeAlias = Annotated[Repeated, _flag("KEY=VALUE", name="set")]

# models
_SOURCES = "a checkpoint, a run (its best checkpoint), or hf://org/name."
Model: TypeAlias = Annotated[str, _flag("MODEL", "-m", text=f"cloze-mini, {_SOURCES}")]
Device: TypeAlias = Annotated[str, Flag(metavar="DEVICE", help="cpu, cuda, mps or auto.")]
Precision: TypeAlias = Annotated[
    Literal["auto", "float32", "bfloat16", "int8"] | None,
    Flag(
        help="Number format of matrix products; int8 on CPUs (default: float32, or that of the model's directory)."
    ),
]

# outputs
Output: TypeAlias = Annotated[Path, _flag("PATH", "-o")]
OptionalOutput: TypeAlias = Annotated[Path | None, _flag("PATH", "-o")]
OptionalOutputPathOrUrl: TypeAlias = Annotated[str | None, _flag(_URL, "-o")]
Overwrite: TypeAlias = Annotated[bool, Flag(help="Replace existing output.")]

_MAX_LAYER = 1000

Value = TypeVar("Value")


@dataclass(frozen=True)
class CommonOptions:
    """Flags of every command."""

    quiet: Switch = False
    """Hide progress and notes."""
    json: Switch = False
    """Print the result as JSON."""
    debug: Switch = False
    """Show the traceback of an error."""

    @property
    def progress(self) -> Progress:
        """Progress on stderr."""
        return Progress(quiet=self.quiet)

    def print(self, result: Any, text: str) -> None:
        """Print the result as text or, with `--json`, as JSON; under torchrun on rank 0 only."""
        if not is_torchrun() or os.environ["RANK"] == "0":
            print(
                json.dumps(with_nulls(result), ensure_ascii=False)
                if self.json
                else fit_terminal(text, sys.stdout)
            )


Flags: TypeAlias = Annotated[CommonOptions, Flag(name="")]


@dataclass(frozen=True)
class WorkerOptions:
    """Processes that do the work."""

    workers: int = default_workers()
    """Number of processes."""
    executor: Literal["local", "ray"] = "local"
    """Run on this machine, or on every core of the Ray cluster at RAY_ADDRESS."""

    def resolve(self) -> "Workers":
        """Return the number of processes or the cluster."""
        if self.executor == "local":
            return self.workers
        from cloze.ray_cluster import RayCluster

        return RayCluster()


WorkerFlags: TypeAlias = Annotated[WorkerOptions, Flag(name="")]


def required(value: Value | None, flag: str, *, verb: str) -> Value:
    """Return the value of a flag that only some uses of a command require.

    Raises:
        InputError: the flag is missing.
    """
    if value is None or value == ():
        raise InputError(f"the flag {flag} is missing", remedy=f"See cloze {verb} --help")
    return value
