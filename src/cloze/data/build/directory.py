"""The directory next to an output with the parts of its text, and what a killed build leaves in it.

OUTPUT.parts/KEY-00000.arrow  .json  KEY.json   parts, as in `cloze.data.build.part_files`
             plan-HASH.json  task-3-of-8        the plan of a job array, and its finished tasks
             output.json                        the plan and the manifest of the finished output, shortly before it
                                                replaces another and the parts are removed
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cloze import artifacts, file_io
from cloze.data.build.input_shards import local_paths
from cloze.data.build.plan import STDIN_PREFIX, BuildPlan
from cloze.errors import InputError, RunError
from cloze.progress import Progress

_OUTPUT_FILE = "output.json"


def parts_directory(output: Path) -> Path:
    """Return where the parts of an output are."""
    if output.is_symlink() or not output.name:  # on the disk that a link points to; "." has no name
        output = file_io.resolve_links(output)
    return output.with_name(f"{output.name}.parts")


def check_output_is_not_read(output: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse inputs inside the output or its parts, and inputs that contain the output."""
    written, parts = file_io.resolve_links(output), file_io.resolve_links(parts_directory(output))
    for path in local_paths(inputs):
        read = file_io.resolve_links(path)
        if read.is_relative_to(written) or read.is_relative_to(parts):
            remedy = "Choose another `output`"
            raise InputError("is an input, and would be replaced", where=path, remedy=remedy)
        if read.is_dir() and written.is_relative_to(read):
            hidden = any(name.startswith(".") for name in written.relative_to(read).parts)
            if not hidden:
                what = f"is an input, and contains the output {output}"
                raise InputError(what, where=path, remedy="Choose an output outside of it")


@contextmanager
def keep_finished_parts(output: Path, plan: BuildPlan, progress: Progress) -> Iterator[Path]:
    """Yield the directory of the parts. On an error, report the parts that are kept, or remove the directory without.

    If another build of the output ended meanwhile, RunError names it: it removed the parts of both.
    """
    directory, before = parts_directory(output), _written(output)
    with file_io.disk_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    try:
        yield directory
    except BaseException as error:
        for path in directory.glob(f"{STDIN_PREFIX}*"):
            path.unlink(missing_ok=True)
        if finished := sum(1 for key in set(plan.keys) for _ in directory.glob(f"{key}-*.json")):
            again = "once the error is fixed" if isinstance(error, InputError) else "when run again"
            progress.note(f"{directory} keeps {finished:,} finished parts; the build resumes {again}")
        elif not any(
            [*directory.glob("*.arrow"), *directory.glob("plan-*")]
        ):  # of other settings, of a job array
            remove_parts(output)
        if isinstance(error, (InputError, RunError, OSError)) and _written(output) != before:
            what = "another build of it ended while this one was running, and removed the parts of both"
            remedy = "Its output is complete; for two, give each a directory"
            raise RunError(what, where=output, remedy=remedy) from error
        raise


@contextmanager
def write_output(output: Path, plan: BuildPlan, *, kind: str, overwrite: bool) -> Iterator[Path]:
    """Yield a temporary directory to fill, rename it to the output, and remove the parts."""
    with artifacts.write_directory(
        output,
        kind=kind,
        overwrite=overwrite,
        temporary_parent=parts_directory(output),
        before_commit=lambda directory: mark_finished(output, plan, directory),
    ) as directory:
        yield directory
    remove_parts(output)


def mark_finished(output: Path, plan: BuildPlan, directory: Path) -> None:
    """Record the plan and the manifest of the directory that becomes the output."""
    manifest = file_io.sha256_of_file(directory / artifacts.MANIFEST)
    file_io.write_json(parts_directory(output) / _OUTPUT_FILE, {"plan": plan.hash, "manifest": manifest})


def finished_plan(output: Path) -> str | None:
    """Return the hash of the plan of an output whose parts are still there, after a kill before their removal."""
    try:
        finished = json.loads((parts_directory(output) / _OUTPUT_FILE).read_text("utf-8"))
        is_output = finished["manifest"] == file_io.sha256_of_file(output / artifacts.MANIFEST)
        return str(finished["plan"]) if is_output else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remove_parts(output: Path) -> None:
    """Delete the directory of the parts: last what says that the output is finished, should this be killed."""
    directory = parts_directory(output)
    for path in directory.glob("*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != _OUTPUT_FILE:
            path.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def write_plan(output: Path, plan: BuildPlan) -> None:
    """Leave the plan of a job array for its merge; InputError if tasks with another plan have begun."""
    check_plan(output, plan)
    file = parts_directory(output) / f"plan-{plan.hash}.json"
    file_io.write_text(file, json.dumps(plan.as_json()), sync=False)


def check_plan(output: Path, plan: BuildPlan) -> None:
    """Raise InputError if the tasks of a job array have begun with another plan."""
    for file, other in _read_plans(output):
        if change := other.describe_change(plan):
            remedy = f"Finish it with the same settings and text, or delete {file}. All tasks need the same"
            raise InputError(f"was started with {change}", where=parts_directory(output), remedy=remedy)


def read_plan(output: Path) -> BuildPlan:
    """Return the plan that the tasks of a job array left; InputError if there is none."""
    plans = [plan for _, plan in _read_plans(output)]
    if not plans:
        what = "no parts of a data set that the tasks of a job array made"
        raise InputError(what, where=parts_directory(output))
    for plan in plans:
        check_plan(output, plan)
    return plans[0]


def _read_plans(output: Path) -> list[tuple[Path, BuildPlan]]:
    return [(file, _read_plan(file)) for file in sorted(parts_directory(output).glob("plan-*.json"))]


def _read_plan(file: Path) -> BuildPlan:
    try:
        plan = BuildPlan.from_json(json.loads(file.read_text("utf-8")))
        if file.name == f"plan-{plan.hash}.json":
            return plan
        raise ValueError("its content does not have the hash in its name")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"damaged ({error})", where=file, remedy="Delete it, and run a task again"
        ) from error


def _written(output: Path) -> int | None:
    """Return when an output was written; None before that."""
    manifest = output / artifacts.MANIFEST
    return manifest.stat().st_mtime_ns if manifest.exists() else None
