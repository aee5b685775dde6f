"""Flags and output that the verbs share. stdout is data, stderr is progress and logs."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import tyro

from cloze.errors import InputError
from cloze.progress import Progress, is_launched

if TYPE_CHECKING:  # it imports what --help can do without
    from cloze.executor import Workers

Output: TypeAlias = Annotated[Path, tyro.conf.arg(aliases=["-o"], help_behavior_hint="(required)")]
OptionalOutput: TypeAlias = Annotated[
    Path | None, tyro.conf.arg(aliases=["-o"], metavar="PATH", help_behavior_hint="")
]
OptionalPlace: TypeAlias = Annotated[str | None, tyro.conf.arg(metavar="PATH|URL", help_behavior_hint="")]
OptionalOutputPlace: TypeAlias = Annotated[
    str | None, tyro.conf.arg(aliases=["-o"], metavar="PATH|URL", help_behavior_hint="")
]
InputPlace: TypeAlias = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="INPUT")]
DataPlace: TypeAlias = Annotated[
    str, tyro.conf.arg(aliases=["-d"], metavar="PATH|URL", help_behavior_hint="(required)")
]
OutputPlace: TypeAlias = Annotated[
    str, tyro.conf.arg(aliases=["-o"], metavar="PATH|URL", help_behavior_hint="(required)")
]
OptionalPath: TypeAlias = Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")]
OptionalName: TypeAlias = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
OptionalInteger: TypeAlias = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
OptionalNumber: TypeAlias = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]
Settings: TypeAlias = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(name="set", metavar="KEY=VALUE", help_behavior_hint=""),
]
TasksData: TypeAlias = Annotated[
    tyro.conf.UseAppendAction[tuple[str, ...]],
    tyro.conf.arg(metavar="NAME=PATH", help_behavior_hint=""),
]
Device: TypeAlias = Annotated[str, tyro.conf.arg(metavar="DEVICE")]
Corpus: TypeAlias = Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="TEXT…")]
TaskName: TypeAlias = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")]
Model: TypeAlias = Annotated[Path, tyro.conf.arg(aliases=["-m"], help_behavior_hint="(required)")]
Models: TypeAlias = Annotated[
    tyro.conf.UseAppendAction[tuple[Path, ...]],
    tyro.conf.arg(aliases=["-m"], metavar="PATH", help_behavior_hint="(required)"),
]

Value = TypeVar("Value")


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
        """Print a result for a program (`--json`) or for a person; of the ranks of torchrun the first one does."""
        if not is_launched() or os.environ["RANK"] == "0":
            print(json.dumps(result, ensure_ascii=False) if self.json else text)


Flags: TypeAlias = Annotated[Common, tyro.conf.arg(name=""), tyro.conf.ConsolidateSubcommandArgs]


def default_workers() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@dataclass(frozen=True)
class Pool:
    """Where the work is done."""

    workers: int = default_workers()
    """Processes."""
    executor: Literal["local", "ray"] = "local"
    """On this machine, or on the Ray cluster that RAY_ADDRESS names; each of its processors is then a worker."""

    def __call__(self) -> "Workers":
        """Return the same, as the library takes it."""
        if self.executor == "local":
            return self.workers
        from cloze.ray_cluster import RayCluster

        return RayCluster()


PoolFlags: TypeAlias = Annotated[Pool, tyro.conf.arg(name="")]
IN_THIS_PROCESS = Pool(1)


def required(value: Value | None, flag: str, *, verb: str) -> Value:
    """Return the value of a flag that only some uses of a verb can do without.

    Raises:
        InputError: it was not given.
    """
    if value is None or value == ():
        raise InputError(f"the flag {flag} is missing", remedy=f"cloze {verb} --help lists what there is")
    return value


def tasks_data_of(given: Sequence[str]) -> dict[str, Path]:
    """Read what --tasks-data was given: where the data of each task are.

    Raises:
        InputError: it is no NAME=PATH, or nothing is there.
    """
    found = {}
    for each in given:
        name, equals, path = each.partition("=")
        if not name or not equals:
            raise InputError(f"cannot read {each!r}", where="--tasks-data", remedy="Write NAME=PATH")
        if not Path(path).exists():
            raise InputError("no such file or directory", where=path)
        found[name] = Path(path)
    return found


def read_lines(texts: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield texts given on the command line; - stands for the lines of stdin, which know their place."""
    from cloze.tasks import tables

    if not texts:
        raise InputError("no text was given", remedy="Give a text in quotes, or - to read lines from stdin")
    for text in texts:
        if text == "-":
            yield from tables.read_lines(Path("-"))
        else:
            yield text, None


def refuse_beside_resume(flags: Mapping[str, bool]) -> None:
    """Refuse what does not go with going on.

    Raises:
        InputError: one of the flags is given.
    """
    for flag, given in flags.items():
        if given:
            raise InputError("does not go with --resume", where=flag, remedy="Leave one of them out")


def find_recipe(name: str | None, folder: str = "", *, where: str = "--config") -> Path | None:
    """Return the TOML file called `name`: a path, or a recipe that comes with cloze, in a folder of recipes.

    Args:
        name: None finds none.
        folder: that of the recipes.
        where: what an error names as the place of the name.
    """
    if name is None or name.endswith(".toml") or Path(name).is_file():
        return None if name is None else Path(name)
    recipes = sorted((Path(__file__).parents[1] / "recipes" / folder).glob("*.toml"))
    for recipe in recipes:
        if recipe.stem == name:
            return recipe
    known = ", ".join(recipe.stem for recipe in recipes)
    raise InputError(f"no recipe {name!r}", where=where, remedy=f"Give a TOML file, or one of {known}")
