"""The directory next to an output with the parts of its text, which a killed build leaves for the next one.

OUTPUT.parts/KEY-00000.arrow  .json  KEY.json   parts, as in `cloze.data.build.part_files`
             output.json                        the plan and the manifest of the finished output, written before it
                                                takes its place and the parts are removed
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cloze import artifacts, file_io
from cloze.data.build.input_shards import local_paths
from cloze.data.build.part_files import STDIN_PREFIX, BuildPlan
from cloze.errors import InputError, RunError
from cloze.file_names import MANIFEST
from cloze.progress import Progress
from cloze.tables import format_count

_OUTPUT_FILE = "output.json"


def parts_directory(output: Path) -> Path:
    """Return the directory of the parts of an output."""
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
            what = f"is an input, and contains the output {output}"
            raise InputError(what, where=path, remedy="Choose an output outside of it")


@contextmanager
def keep_finished_parts(output: Path, plan: BuildPlan, progress: Progress) -> Iterator[Path]:
    """Yield the directory of the parts. On an error, report the finished parts; remove a directory without any."""
    directory = parts_directory(output)
    with file_io.disk_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
    try:
        yield directory
    except BaseException:
        for key in plan.keys:
            if key.startswith(STDIN_PREFIX):
                for path in directory.glob(f"{key}*"):
                    path.unlink(missing_ok=True)
        if finished := sum(1 for key in set(plan.keys) for _ in directory.glob(f"{key}-*.json")):
            kept = format_count(finished, "finished part")
            progress.note(f"{directory} keeps {kept}; the build resumes when run again")
        elif not any(directory.glob("*.arrow")):  # of other builds
            remove_parts(output)
        raise


@contextmanager
def write_output(
    output: Path, plan: BuildPlan, *, kind: str, overwrite: bool, appends_to: int | None = None
) -> Iterator[Path]:
    """Yield a temporary directory to fill, rename it to the output, and remove the parts.

    `appends_to` is the modification time of the output that the new one contains.

    Raises:
        RunError: another build has changed that output: its text would be lost.
    """

    def before_commit(directory: Path) -> None:
        mark_finished(output, plan, directory)
        if appends_to is not None and modification_time(output) != appends_to:
            what = "another build of it ended while this one was running, and removed the parts of both"
            raise RunError(what, where=output, remedy="Its output is complete; to append, run this again")

    with artifacts.write_directory(
        output,
        kind=kind,
        overwrite=overwrite,
        temporary_parent=parts_directory(output),
        before_commit=before_commit,
    ) as directory:
        yield directory
    remove_parts(output)


def mark_finished(output: Path, plan: BuildPlan, directory: Path) -> None:
    """Record the plan and the manifest of the directory that becomes the output."""
    manifest = file_io.sha256_of_file(directory / MANIFEST)
    file_io.write_json(parts_directory(output) / _OUTPUT_FILE, {"plan": plan.hash, "manifest": manifest})


def remove_leftover_parts(output: Path, plan: BuildPlan) -> bool:
    """Remove the parts of a finished output that a kill left; return whether this plan made the output."""
    try:
        finished = json.loads((parts_directory(output) / _OUTPUT_FILE).read_text("utf-8"))
        made, manifest = str(finished["plan"]), finished["manifest"]
        if manifest != file_io.sha256_of_file(output / MANIFEST):
            return False
    except (OSError, ValueError, KeyError, TypeError):
        return False
    remove_parts(output)
    return made == plan.hash


def remove_parts(output: Path) -> None:
    """Delete the parts of an output, and the record that it is finished last: a killed removal is repeated."""
    directory = parts_directory(output)
    for path in directory.glob("*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != _OUTPUT_FILE:
            path.unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def modification_time(output: Path) -> int | None:
    """Return when an output was written; None if there is none."""
    manifest = output / MANIFEST
    return manifest.stat().st_mtime_ns if manifest.exists() else None
