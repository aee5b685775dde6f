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

import hashlib
import json
import os
import re
import shutil
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from cloze import artifacts, file_io
from cloze.data.documents import PART_CHARACTERS, Document, split_into_parts
from cloze.data.files import STDIN, file_version
from cloze.data.input_shards import InputShard, local_paths, read_documents, total_bytes
from cloze.errors import InputError
from cloze.parallel_map import Workers, map_unordered, num_workers
from cloze.progress import SILENT_BAR, Bar, Progress

_PLAN = "build.json"
_TASK = re.compile("([0-9]{1,9})/([0-9]{1,9})")
_MAX_TASKS = 100_000
_WRITE_OPTIONS = {"sync": False, "make_parents": False}

Record: TypeAlias = dict[str, Any]
MakePart: TypeAlias = Callable[[list[Document], Path], Record]
"""Writes the part of some documents to a path and returns its counts for JSON; a top-level function or `partial`."""


@dataclass(frozen=True, slots=True)
class ArrayTask:
    """One of the tasks of a job array, which share only a directory. Numbers begin at 1."""

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count <= _MAX_TASKS:
            raise _invalid_task(f"{self.number}/{self.count}")

    @classmethod
    def parse(cls, text: str) -> "ArrayTask":
        """Parse a task such as "3/8"."""
        numbers = _TASK.fullmatch(text)
        if numbers is None:
            raise _invalid_task(text)
        return cls(int(numbers[1]), int(numbers[2]))


SINGLE_TASK = ArrayTask(1, 1)


def _invalid_task(text: str) -> InputError:
    remedy = "Write --task 3/8 for the third of eight"
    return InputError(f"{text[:40]!r} is not a task", where="--task", remedy=remedy)


@dataclass(frozen=True, slots=True)
class Part:
    """A finished part."""

    path: Path

    @property
    def record(self) -> Record:
        """Its counts, read each time, because those of all parts may be large."""
        record: Record = json.loads(self.path.with_suffix(".json").read_text("utf-8"))["record"]
        return record

    def is_intact(self) -> bool:
        """Return whether the part is as it was written."""
        try:
            expected = json.loads(self.path.with_suffix(".json").read_text("utf-8"))["sha256"]
            return bool(file_io.sha256_of_file(self.path) == expected)
        except (OSError, ValueError, KeyError):
            return False


@dataclass(frozen=True, slots=True)
class _Share:
    """The parts of an input shard that one worker or task makes: number % modulus == remainder."""

    key: str
    input_shard: InputShard
    remainder: int = 0
    modulus: int = 1


@dataclass(frozen=True, slots=True)
class BuildState:
    """The parts of an output, in a directory next to it."""

    output: Path
    plan: Record
    """The content of `build.json`."""

    @property
    def directory(self) -> Path:
        """Where the parts are."""
        return _directory(self.output)

    @property
    def options(self) -> Record:
        """Settings of the output that its parts do not depend on."""
        options: Record = self.plan["sealing"]
        return options

    @property
    def keys(self) -> list[str]:
        """Keys of the input shards in order. A shard that was named twice is in it twice."""
        return [entry["key"] for entry in self.plan["stretches"]]

    def parts(self) -> list[Part]:
        """Return all parts in the order of the text; InputError if some are missing."""
        names = set(os.listdir(self.directory))
        entries = self.plan["stretches"]
        missing = [entry for entry in entries if not self._is_finished(entry["key"], names)]
        if missing:
            file = missing[0]["spans"][0]["file"]
            what = f"{len(missing)} of {len(entries)} input shards are not finished, the first is of {file}"
            remedy = "Run the missing tasks, or the command without --task: finished parts are kept"
            raise InputError(what + self._missing_tasks(names), where=self.directory, remedy=remedy)
        return [
            Part(self.directory / f"{_part_name(key, number)}.arrow")
            for key in self.keys
            for number in range(self._num_parts(key))
        ]

    def count_finished(self) -> int:
        """Return the number of finished parts that a later run can use, which are those not read from stdin."""
        entries = self.plan["stretches"]
        keys = {entry["key"] for entry in entries if len(_files_of([entry])) == len(entry["spans"])}
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
            file_io.write_text(self.directory / f"task-{task.number}-of-{task.count}", "", **_WRITE_OPTIONS)

    def _make_missing(
        self, shares: Sequence[_Share], make: MakePart, workers: Workers, bar: Bar
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
        finish_part = partial(_finish_part, directory=self.directory, make=make)
        read = partial(
            _unfinished_parts,
            directory=self.directory,
            part_characters=self.plan["settings"].get("part_characters") or PART_CHARACTERS,
        )
        if 1 < num_workers(workers) <= len(missing) // 2 and not reads_stdin:
            finish_share = partial(_finish_share, read=read, finish_part=finish_part)
            for share, records in map_unordered(finish_share, missing, workers=workers):
                bar.advance(share.input_shard.size_bytes)
                yield from records
        else:
            parts = (part for share in missing for part in read(share, bar))
            yield from map_unordered(finish_part, parts, workers=workers)

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
        file_io.write_json(self.directory / _PLAN, self.plan | {"sealed": manifest})

    def remove(self) -> None:
        """Delete the parts, then the plan: if this is killed, a state with fewer parts is left."""
        for path in self.directory.glob("*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _PLAN:
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

    def _shares(self, input_shards: Sequence[InputShard], task: ArrayTask) -> list[_Share]:
        """Divide the shards among the tasks; if there are fewer shards than tasks, each shard is divided, too."""
        by_key = dict(zip(self.keys, input_shards, strict=True))
        modulus = -(-task.count // len(by_key))
        shares = [
            _Share(key, input_shard, remainder, modulus)
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
        return all(f"{_part_name(key, number)}.json" in names for number in numbers)

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
    plan: Record = json.loads(
        json.dumps(
            {
                "settings": dict(settings),
                "sealing": dict(options),
                "stretches": [{"key": _shard_key(shard), **shard.as_dict()} for shard in input_shards],
                "sealed": None,
            }
        )
    )
    with file_io.disk_errors(directory):
        if not is_task and is_finalized(output) and open_state(output).plan != plan:
            open_state(output).remove()  # left by a kill after an output that this one replaces
        if not (directory / _PLAN).exists():
            _create(directory, plan, write_files)
        state = open_state(output)
        change = _describe_change(state.plan, plan, is_task=is_task)
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
            file_io.write_json(directory / _PLAN, plan)
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
    plan = _directory(output) / _PLAN
    try:
        return BuildState(output, {**json.loads(plan.read_text("utf-8")), "sealed": None})
    except FileNotFoundError:
        raise InputError("no parts of a data set", where=plan.parent) from None
    except ValueError as error:
        raise InputError(f"damaged ({error})", where=plan, remedy=f"Delete {plan.parent}") from error


def has_state(output: Path) -> bool:
    """Return whether there are parts of an output."""
    return (_directory(output) / _PLAN).exists()


def is_finalized(output: Path) -> bool:
    """Return whether an output was made of the parts next to it."""
    try:
        plan = json.loads((_directory(output) / _PLAN).read_text("utf-8"))
        return bool(plan["sealed"] == file_io.sha256_of_file(output / artifacts.MANIFEST))
    except (OSError, ValueError):
        return False


def _directory(output: Path) -> Path:
    if output.is_symlink() or not output.name:  # on the disk that a link points to; "." has no name
        output = file_io.resolve_links(output)
    return output.with_name(f"{output.name}.parts")


def _shard_key(input_shard: InputShard) -> str:
    """Hash a shard and the versions of its files. Text from stdin is different each time."""
    files = {file_range.file for file_range in input_shard.ranges}
    content = [input_shard.as_dict(), {file: file_version(file) for file in sorted(files)}]
    if STDIN in files:
        content.append({"run": uuid.uuid4().hex})
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()


def _create(directory: Path, plan: Record, write_files: Callable[[Path], object]) -> None:
    """Create the directory with its files in one step; another task may have been faster."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    prefix = f"{file_io.TEMPORARY_PREFIX}{directory.name}-"
    temporary = Path(tempfile.mkdtemp(prefix=prefix, dir=directory.parent))
    temporary.chmod(0o755)
    try:
        write_files(temporary)
        file_io.write_json(temporary / _PLAN, plan)
        temporary.rename(directory)
    except OSError:
        if not (directory / _PLAN).is_file():
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _describe_change(old: Record, new: Record, *, is_task: bool) -> str | None:
    """Describe why the parts of an old plan cannot be used for a new one; None if they can."""
    for name in ("settings", "sealing") if is_task else ("settings",):
        for setting in sorted({*old[name], *new[name]}):
            before, now = (json.dumps(plan[name].get(setting), ensure_ascii=False) for plan in (old, new))
            if before != now:
                return f"{setting} {before}, not {now}"
    old_keys, new_keys = ([entry["key"] for entry in plan["stretches"]] for plan in (old, new))
    if is_task and new_keys != old_keys:
        changed = _files_of(entry for entry in old["stretches"] if entry["key"] not in new_keys)
        return f"other text: {changed[0]} has changed" if changed else "less text"
    files = _files_of(old["stretches"])
    if not is_task and files and not {*files} & {*_files_of(new["stretches"])}:
        return f"other text: {files[0]} is no longer an input"
    return None


def _files_of(entries: Iterable[Record]) -> list[str]:
    """Return the files of shards in a plan, without stdin."""
    return [span["file"] for entry in entries for span in entry["spans"] if span["file"] != STDIN]


def _part_name(key: str, number: int) -> str:
    return f"{key}-{number:05}"


def _unfinished_parts(
    share: _Share, bar: Bar, *, directory: Path, part_characters: int
) -> Iterator[tuple[str, int, list[Document]]]:
    """Read a shard, yield key, number and documents of its missing parts, and record how many parts it has."""
    count = 0
    for documents in split_into_parts(read_documents(share.input_shard, bar), part_characters):
        is_in_share = count % share.modulus == share.remainder
        if is_in_share and not (directory / f"{_part_name(share.key, count)}.json").exists():
            yield share.key, count, documents
        count += 1
    file_io.write_text(directory / f"{share.key}.json", str(count), **_WRITE_OPTIONS)


def _finish_share(
    share: _Share, *, read: Callable[..., Any], finish_part: Callable[[Any], Record]
) -> tuple[_Share, list[Record]]:
    return share, [finish_part(part) for part in read(share, SILENT_BAR)]


def _finish_part(part: tuple[str, int, list[Document]], *, directory: Path, make: MakePart) -> Record:
    key, number, documents = part
    path = directory / f"{_part_name(key, number)}.arrow"
    with file_io.write_file(path, **_WRITE_OPTIONS) as temporary:
        record = make(documents, temporary)
        sha256 = file_io.sha256_of_file(temporary)
    content = json.dumps({"sha256": sha256, "record": record})
    file_io.write_text(path.with_suffix(".json"), content, **_WRITE_OPTIONS)
    return record
