"""Job arrays: tasks that build one output together and share only its directory of parts.

OUTPUT.parts/plan-HASH.json     the plan, which the merge of the parts reads
             task-3-of-8-HASH   a finished task of that plan
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from cloze import file_io
from cloze.config import differences
from cloze.data.build.directory import parts_directory
from cloze.data.build.plan import BuildPlan
from cloze.errors import InputError

_TASK = re.compile("([0-9]{1,9})/([0-9]{1,9})")
_MAX_TASKS = 100_000


@dataclass(frozen=True, slots=True)
class ArrayTask:
    """One of the tasks of a job array. Numbers begin at 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "ArrayTask":
        """Parse a task such as "3/8"."""
        numbers = _TASK.fullmatch(text)
        task = cls(int(numbers[1]), int(numbers[2])) if numbers else cls(0, 0)
        if not 1 <= task.number <= task.count <= _MAX_TASKS:
            remedy = "Write 3/8 for the third of eight"
            raise InputError(f"{text[:40]!r} is not a task", where="task", remedy=remedy)
        return task


def mark_task_finished(directory: Path, plan: BuildPlan, task: ArrayTask) -> None:
    """Record in a directory of parts that a task is finished."""
    (directory / f"task-{task.number}-of-{task.count}-{plan.hash}").touch()


def describe_missing_tasks(directory: Path, plan: BuildPlan) -> str:
    """Name the tasks that have not finished, if others of the same job array have."""
    finished = [file.name.split("-") for file in directory.glob(f"task-*-{plan.hash}")]
    counts = {int(words[3]) for words in finished}
    if len(counts) != 1:
        return ""
    (count,) = counts
    missing = sorted({*range(1, count + 1)} - {int(words[1]) for words in finished})
    return f"; tasks {', '.join(map(str, missing))} of {count} have not finished" if missing else ""


def write_plan(output: Path, plan: BuildPlan) -> None:
    """Write the plan of a job array, for its merge."""
    file = parts_directory(output) / f"plan-{plan.hash}.json"
    file_io.write_text(file, json.dumps(plan.as_dict()), sync=False)


def check_plan(output: Path, plan: BuildPlan) -> None:
    """Check that no tasks of a job array have run with another plan.

    Raises:
        InputError: they have; names the first difference.
    """
    for file in _plan_files(output):
        other = _read_plan(file)
        if other.hash != plan.hash:
            remedy = f"Finish it with the same settings and text, or delete {file}. All tasks need the same"
            what = f"was started with {_first_difference(other, plan)}"
            raise InputError(what, where=parts_directory(output), remedy=remedy)


def read_plan(output: Path) -> BuildPlan:
    """Return the plan of a job array.

    Raises:
        InputError: no task has run, or tasks with different plans.
    """
    files = _plan_files(output)
    if not files:
        what = "no parts of a data set that the tasks of a job array made"
        raise InputError(what, where=parts_directory(output))
    plan = _read_plan(files[0])
    check_plan(output, plan)
    return plan


def _plan_files(output: Path) -> list[Path]:
    return sorted(parts_directory(output).glob("plan-*.json"))


def _read_plan(file: Path) -> BuildPlan:
    try:
        plan = BuildPlan(**json.loads(file.read_text("utf-8")))
        if file.name == f"plan-{plan.hash}.json":
            return plan
        raise ValueError("its content does not have the hash in its name")
    except (ValueError, TypeError) as error:
        remedy = "Delete it, and run a task again"
        raise InputError(f"damaged ({error})", where=file, remedy=remedy) from error


def _first_difference(before: BuildPlan, now: BuildPlan) -> str:
    for setting, values in sorted(differences(before.settings, now.settings).items()):
        old, new = (json.dumps(value, ensure_ascii=False) for value in values)
        return f"{setting} {old}, not {new}"
    changed = [file for key, file in zip(before.keys, before.files, strict=True) if key not in now.keys]
    return f"other text: {changed[0]} has changed" if changed else "less text"
