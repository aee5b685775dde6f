"""The state of a build on disk: finished parts of the text, so that a killed build resumes where it was.

    OUTPUT.parts/build.json               settings, input shards with their keys, and, once the output is written,
                                          the SHA-256 of its manifest
                 KEY-00000.arrow  .json   a finished part of an input shard, its SHA-256 and counts
                 KEY.json                 number of parts of a shard that was read to its end
                 task-3-of-8              a task of a job array has finished

A part is a function of the settings and its shard. A key is a hash of the shard and the modification times of its
files. So any process may make any part, even twice, and if one file changes only its shard is read again. Files are
renamed into place when complete but not synced: a part lost by a machine failure is found by its checksum and made
again.
"""

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cloze import artifacts, file_io
from cloze.data.build_plan import PLAN_FILE, BuildPlan, sha256_of_output
from cloze.data.documents import PART_CHARACTERS
from cloze.data.input_shards import InputShard, local_paths, total_bytes
from cloze.data.job_arrays import SINGLE_TASK, ArrayTask
from cloze.data.part_files import (
    WRITE_OPTIONS,
    MakePart,
    Part,
    Record,
    Share,
    finish_part,
    finish_share,
    part_name,
    unfinished_parts,
)
from cloze.errors import InputError
from cloze.parallel_map import Workers, map_unordered, num_workers
from cloze.progress import Bar, Progress


@dataclass(frozen=True, slots=True)
class BuildState:
    """The parts of an output, in a directory next to it."""

    output: Path
    plan: BuildPlan

    @property
    def directory(self) -> Path:
        """Where the parts are."""
        return _directory(self.output)

    def parts(self) -> list[Part]:
        """Return all parts in the order of the text; InputError if some are missing."""
        names = set(os.listdir(self.directory))
        shards = self.plan.shards
        missing = [shard for shard in shards if not self._is_finished(shard.key, names)]
        if missing:
            file = missing[0].first_file
            what = f"{len(missing)} of {len(shards)} input shards are not finished, the first is of {file}"
            remedy = "Run the missing tasks, or the command without --task: finished parts are kept"
            raise InputError(what + self._missing_tasks(names), where=self.directory, remedy=remedy)
        return [
            Part(self.directory / f"{part_name(shard.key, number)}.arrow")
            for shard in shards
            for number in range(self._num_parts(shard.key))
        ]

    def count_finished(self) -> int:
        """Return the number of finished parts that a later run can use, which are those not read from stdin."""
        keys = {shard.key for shard in self.plan.shards if shard.is_of_files}
        return sum(1 for key in keys for _ in self.directory.glob(f"{key}-*.json"))

    def make_parts(
        self,
        input_shards: Sequence[InputShard],
        make: MakePart,
        *,
        workers: Workers,
        label: str,
        count: Callable[[Record], Mapping[str, int]],
        progress: Progress,
        task: ArrayTask | None = None,
    ) -> None:
        """Make the missing parts of a task, or all missing and damaged parts.

        A progress bar advances by the bytes read from disk, and by those of finished shards. It shows the sums of
        what `count` returns for the record of each part.
        """
        shares = self._shares(input_shards, task or SINGLE_TASK)
        totals: Counter[str] = Counter()
        total = total_bytes(share.input_shard for share in shares)
        with progress.bar(label, total=total, unit="bytes") as bar:
            for record in self._make_missing(shares, make, workers, bar):
                totals.update(count(record))
                bar.show(**{name: f"{number:,}" for name, number in totals.items()})
            if task is None and (damaged := self.discard_damaged()):
                progress.note(f"{len(damaged):,} damaged parts are made again, the first is {damaged[0]}")
                list(self._make_missing(shares, make, workers, bar))
        if task is not None and task.count > 1:
            file_io.write_text(self.directory / f"task-{task.number}-of-{task.count}", "", **WRITE_OPTIONS)

    def _make_missing(
        self, shares: Sequence[Share], make: MakePart, workers: Workers, bar: Bar
    ) -> Iterator[Record]:
        """Make the missing parts and yield the record of each, in any order.

        If there are enough shards, each worker reads its own. Otherwise this process reads for all of them, as it
        does for stdin.
        """
        names = set(os.listdir(self.directory))
        missing = [s for s in shares if not self._is_finished(s.key, names, s.remainder, s.modulus)]
        total, rest = (sum(s.input_shard.size_bytes for s in some) for some in (shares, missing))
        bar.advance(total - rest)
        reads_stdin = total_bytes(share.input_shard for share in missing) is None
        finish = partial(finish_part, directory=self.directory, make=make)
        read = partial(
            unfinished_parts,
            directory=self.directory,
            part_characters=self.plan.settings.get("part_characters") or PART_CHARACTERS,
        )
        if 1 < num_workers(workers) <= len(missing) // 2 and not reads_stdin:
            finish_all = partial(finish_share, read=read, finish_part=finish)
            for share, records in map_unordered(finish_all, missing, workers=workers):
                bar.advance(share.input_shard.size_bytes)
                yield from records
        else:
            parts = (part for share in missing for part in read(share, bar))
            yield from map_unordered(finish, parts, workers=workers)

    def discard_damaged(self) -> list[Path]:
        """Delete parts that are not as they were written, and return their names."""
        damaged = [part.path for part in self.parts() if not part.is_intact()]
        for path in damaged:
            path.with_suffix(".json").unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        return damaged

    def mark_finalized(self, directory: Path) -> None:
        """Record the manifest of the output that was made of the parts."""
        manifest = file_io.sha256_of_file(directory / artifacts.MANIFEST)
        file_io.write_json(self.directory / PLAN_FILE, self.plan.to_json(manifest_sha256=manifest))

    def remove(self) -> None:
        """Delete the parts, then the plan: if this is killed, a state with fewer parts is left."""
        for path in self.directory.glob("*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != PLAN_FILE:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    @contextmanager
    def keep_finished_parts(self, progress: Progress) -> Iterator[None]:
        """On an error, report the finished parts that are kept, or remove the state if there are none."""
        try:
            yield
        except BaseException as error:
            if finished := self.count_finished():
                again = "once the error is fixed" if isinstance(error, InputError) else "when run again"
                progress.note(
                    f"{self.directory} keeps {finished:,} finished parts; the build resumes {again}"
                )
            else:
                self.remove()
            raise

    def _shares(self, input_shards: Sequence[InputShard], task: ArrayTask) -> list[Share]:
        """Divide the shards among the tasks; if there are fewer shards than tasks, each shard is divided, too."""
        keys = [shard.key for shard in self.plan.shards]
        by_key = dict(zip(keys, input_shards, strict=True))
        modulus = -(-task.count // len(by_key))
        shares = [
            Share(key, input_shard, remainder, modulus)
            for key, input_shard in by_key.items()
            for remainder in range(modulus)
        ]
        return shares[task.number - 1 :: task.count]

    def _is_finished(self, key: str, names: set[str], remainder: int = 0, modulus: int = 1) -> bool:
        try:
            count = self._num_parts(key)
        except (OSError, ValueError):  # the shard was not read to its end, or the file is damaged
            return False
        numbers = range(remainder, count, modulus)
        return all(f"{part_name(key, number)}.json" in names for number in numbers)

    def _num_parts(self, key: str) -> int:
        return int((self.directory / f"{key}.json").read_text("utf-8"))

    def _missing_tasks(self, names: set[str]) -> str:
        """Name the tasks that have not finished, if others of the same job array have."""
        finished = [name.split("-") for name in names if name.startswith("task-")]
        counts = {int(words[3]) for words in finished}
        if len(counts) != 1:
            return ""
        (count,) = counts
        missing = sorted({*range(1, count + 1)} - {int(words[1]) for words in finished})
        return f"; tasks {', '.join(map(str, missing))} of {count} have not finished" if missing else ""


def begin(
    output: Path,
    input_shards: Sequence[InputShard],
    *,
    settings: Mapping[str, Any],
    options: Mapping[str, Any],
    write_files: Callable[[Path], object] = lambda directory: None,
    is_task: bool = False,
    overwrite: bool = False,
) -> BuildState:
    """Create the state of a build, or open the one that was left.

    Args:
        output: path of the output; the parts are kept next to it.
        input_shards: the text to read.
        settings: all that a part depends on, except its shard.
        options: all that the output depends on, except its parts.
        write_files: writes other files that the state has into a directory.
        is_task: other tasks build the same output, with the same settings and shards.
        overwrite: start again if the settings or all of the text have changed. Not for tasks.

    Raises:
        InputError: the build was started with other settings or other text.
    """
    directory = _directory(output)
    plan = BuildPlan.of(input_shards, settings, options)
    with file_io.disk_errors(directory):
        if not is_task and is_finalized(output) and open_state(output).plan != plan:
            open_state(output).remove()  # left by a kill after an output that this one replaces
        if not (directory / PLAN_FILE).exists():
            _create(directory, plan, write_files)
        state = open_state(output)
        change = state.plan.describe_change(plan, is_task=is_task)
        if change is not None and (is_task or not overwrite):
            remedy = f"Finish it with the same settings and text, or delete {directory}"
            if is_task:
                remedy += ". All tasks need the same"
            elif not options.get("append"):  # which excludes --overwrite
                remedy += ", or use --overwrite"
            raise InputError(f"was started with {change}", where=directory, remedy=remedy)
        if change is not None:
            state.remove()
            _create(directory, plan, write_files)
        elif state.plan != plan:  # other files or options, for which the finished parts are of use
            file_io.write_json(directory / PLAN_FILE, plan.to_json())
    return open_state(output)


def check_output_is_not_read(output: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse inputs inside the output or its parts, and inputs that contain the output."""
    written, parts = file_io.resolve_links(output), file_io.resolve_links(_directory(output))
    for path in local_paths(inputs):
        read = file_io.resolve_links(path)
        if read.is_relative_to(written) or read.is_relative_to(parts):
            remedy = "Choose another --output"
            raise InputError("is an input, and would be replaced", where=path, remedy=remedy)
        if read.is_dir() and written.is_relative_to(read):
            hidden = any(name.startswith(".") for name in written.relative_to(read).parts)
            if not hidden:
                what = f"is an input, and contains the output {output}"
                raise InputError(what, where=path, remedy="Choose an output outside of it")


def open_state(output: Path) -> BuildState:
    """Return the state of the build of an output; InputError if there is no such state."""
    plan = _directory(output) / PLAN_FILE
    try:
        return BuildState(output, BuildPlan.from_json(json.loads(plan.read_text("utf-8"))))
    except FileNotFoundError:
        raise InputError("no parts of a data set", where=plan.parent) from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"damaged ({error})", where=plan, remedy=f"Delete {plan.parent}") from error


def has_state(output: Path) -> bool:
    """Return whether there are parts of an output."""
    return (_directory(output) / PLAN_FILE).exists()


def is_finalized(output: Path) -> bool:
    """Return whether an output was made of the parts next to it."""
    try:
        sha256 = sha256_of_output(_directory(output))
        return sha256 == file_io.sha256_of_file(output / artifacts.MANIFEST)
    except (OSError, ValueError):
        return False


def _directory(output: Path) -> Path:
    if output.is_symlink() or not output.name:  # on the disk that a link points to; "." has no name
        output = file_io.resolve_links(output)
    return output.with_name(f"{output.name}.parts")


def _create(directory: Path, plan: BuildPlan, write_files: Callable[[Path], object]) -> None:
    """Create the directory with its files in one step; another task may have been faster."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    prefix = f"{file_io.TEMPORARY_PREFIX}{directory.name}-"
    temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=directory.parent))
    temporary.chmod(0o755)
    try:
        write_files(temporary)
        file_io.write_json(temporary / PLAN_FILE, plan.to_json())
        temporary.rename(directory)
    except OSError:
        if not (directory / PLAN_FILE).is_file():
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
