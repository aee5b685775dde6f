"""Work over stretches of text that outlives its processes: what is finished is not done again, whoever was killed.

    OUTPUT.parts/build.json               the settings, all stretches by their keys, and when there is an output of
                                          the parts, the SHA-256 of its manifest
                 KEY-00000.arrow  .json   a finished part of a stretch, and what is known of it
                 KEY.json                 how many parts a stretch has that was read to its end
                 task-3-of-8              a task of a job array is through

A part is a function of the settings and its stretch, and a key is a hash of the stretch and of the times at which its
files were written. So it does not matter who makes a part, nor whether two do at once; and of a text in which one file
was mended only the stretch that it is in is read again. Files get their names when they are whole. They are not synced:
what a failure of the machine takes is found by its checksum, and made again.
"""

import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from cloze import artifacts
from cloze.corpus.documents import Document, in_parts
from cloze.corpus.inputs import paths_on_disk
from cloze.corpus.readers import read_documents
from cloze.corpus.sources import Stretch, total_bytes
from cloze.corpus.streams import STDIN, file_version
from cloze.errors import InputError
from cloze.executor import Workers, map_unordered, num_workers
from cloze.progress import SILENT, Bar, Progress

_PLAN = "build.json"
_TEMPORARY_PREFIX = ".writing-"

Record: TypeAlias = dict[str, Any]
MakePart: TypeAlias = Callable[[list[Document], Path], Record]
"""Writes documents to a path and returns what else is known of them, as JSON can hold it."""


@dataclass(frozen=True, slots=True)
class Task:
    """One of the tasks of a job array, which share nothing but a directory."""

    number: int
    """From 1."""
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            remedy = "Say --task 3/8 for the third of eight"
            raise InputError(f"{self.number}/{self.count} is no task", where="--task", remedy=remedy)

    @classmethod
    def parse(cls, text: str) -> "Task":
        """Read "3/8".

        Raises:
            InputError: it is something else.
        """
        number, _, count_of_all = text.partition("/")
        if not (number.isdecimal() and count_of_all.isdecimal()):
            remedy = "Say --task 3/8 for the third of eight"
            raise InputError(f"{text!r} is no task", where="--task", remedy=remedy)
        return cls(int(number), int(count_of_all))


ALONE = Task(1, 1)
"""Not one of several."""


@dataclass(frozen=True, slots=True)
class Part:
    """A finished part."""

    path: Path

    @property
    def record(self) -> Record:
        """What is known of it. Read anew each time, since of all parts together it may be much."""
        record: Record = json.loads(self.path.with_suffix(".json").read_text("utf-8"))["record"]
        return record

    def is_whole(self) -> bool:
        """Say whether the part is as it was written."""
        try:
            wanted = json.loads(self.path.with_suffix(".json").read_text("utf-8"))["sha256"]
            return bool(artifacts.sha256_of(self.path) == wanted)
        except (OSError, ValueError, KeyError):
            return False

    def discard(self) -> None:
        """Delete it, so that it is made again."""
        self.path.with_suffix(".json").unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Share:
    """What one worker or task does of a stretch: the parts whose number leaves a remainder."""

    key: str
    stretch: Stretch
    remainder: int
    modulus: int


@dataclass(frozen=True, slots=True)
class Stage:
    """Parts on their way to an output, in a directory beside it."""

    output: Path
    plan: Record
    """What `build.json` says."""

    @property
    def directory(self) -> Path:
        """Where the parts are."""
        return _directory(self.output)

    @property
    def keys(self) -> list[str]:
        """Of the stretches, in their order. A stretch that was named twice stands twice."""
        return [stretch["key"] for stretch in self.plan["stretches"]]

    def parts(self) -> list[Part]:
        """Return all parts, in the order of the text.

        Raises:
            InputError: some are missing.
        """
        names = set(os.listdir(self.directory))
        missing = [
            stretch for stretch in self.plan["stretches"] if not self._is_through(stretch["key"], names)
        ]
        if missing:
            file = missing[0]["spans"][0]["file"]
            total = len(self.plan["stretches"])
            what = f"{len(missing)} of {total} stretches of text are not finished, the first is of {file}"
            remedy = "Run what is missing, without --task or as it was: what is finished is not done again"
            raise InputError(what + self._missing_tasks(names), where=self.directory, remedy=remedy)
        return [
            Part(self.directory / f"{_part_name(key, number)}.arrow")
            for key in self.keys
            for number in range(self._num_parts(key))
        ]

    def count_finished(self) -> int:
        """Count the finished parts that can be gone on with: none of what was read from stdin."""
        keys = {
            stretch["key"]
            for stretch in self.plan["stretches"]
            if all(span["file"] != STDIN for span in stretch["spans"])
        }
        return sum(1 for key in keys for _ in self.directory.glob(f"{key}-*.json"))

    def work(
        self,
        stretches: Sequence[Stretch],
        make: MakePart,
        *,
        workers: Workers,
        bar: Bar,
        task: Task = ALONE,
    ) -> Iterator[Record]:
        """Make the parts that are not there yet; yield what is known of each, in any order.

        Where there are stretches enough each worker reads its own. Else this process reads for all of them, as it
        does where stdin is among them, which no other process has.

        Args:
            stretches: as the stage was begun with.
            make: a top-level function, or a `partial` of one.
            workers: processes, or a cluster.
            bar: advances by the bytes read from disk, and by those of stretches that are finished.
            task: of a job array; the default does everything.

        Raises:
            InputError: the text is wrong. What is finished stays.
            RunError: the disk is full, or a worker died.
        """
        names = set(os.listdir(self.directory))
        shares = _shares(dict(zip(self.keys, stretches, strict=True)), task)
        to_do = [share for share in shares if not self._is_through(share.key, names, share)]
        bar.advance(sum(s.stretch.size_bytes for s in shares) - sum(s.stretch.size_bytes for s in to_do))
        reads_stdin = total_bytes(share.stretch for share in to_do) is None
        if 1 < num_workers(workers) <= len(to_do) // 2 and not reads_stdin:
            finish = partial(_finish_share, directory=self.directory, make=make)
            for share, made in map_unordered(finish, to_do, workers=workers):
                bar.advance(share.stretch.size_bytes)
                yield from made
        else:
            finish_part = partial(_finish_part, directory=self.directory, make=make)
            yield from map_unordered(finish_part, self._read(to_do, bar), workers=workers)
        if task.count > 1:
            _put(self.directory / f"task-{task.number}-of-{task.count}", "")

    def work_until_whole(
        self,
        stretches: Sequence[Stretch],
        make: MakePart,
        *,
        workers: Workers,
        bar: Bar,
        progress: Progress,
    ) -> Iterator[Record]:
        """Do all there is to `work` on, and make damaged parts again."""
        yield from self.work(stretches, make, workers=workers, bar=bar)
        if damaged := self.discard_damaged():
            progress.note(f"{len(damaged):,} parts are damaged and made again, the first is {damaged[0]}")
            yield from self.work(stretches, make, workers=workers, bar=bar)

    def discard_damaged(self) -> list[Path]:
        """Delete finished parts that are not as they were written, and return their names."""
        damaged = [part for part in self.parts() if not part.is_whole()]
        for part in damaged:
            part.discard()
        return [part.path for part in damaged]

    def bytes_to_read(self, stretches: Sequence[Stretch], task: Task = ALONE) -> int | None:
        """Return the bytes that `work` counts; None where nobody knows."""
        shares = _shares(dict(zip(self.keys, stretches, strict=True)), task)
        return total_bytes(share.stretch for share in shares)

    def when_sealed(self, directory: Path) -> None:
        """Note what was made of the parts: whoever finds it in its place need not make it again."""
        sealed = artifacts.sha256_of(directory / artifacts.MANIFEST)
        artifacts.write_text(self.directory / _PLAN, _as_text(self.plan | {"sealed": sealed}))

    def remove(self) -> None:
        """Delete the stage, its plan last: what a kill leaves of it is a stage with fewer parts."""
        for path in self.directory.glob("*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _PLAN:
                path.unlink(missing_ok=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    @contextmanager
    def kept_if_of_use(self, progress: Progress) -> Iterator[None]:
        """On an error tell that there is work to go on with, or remove the stage if no part was finished."""
        try:
            yield
        except BaseException:
            if finished := self.count_finished():
                progress.note(f"{self.directory} keeps {finished:,} finished parts: run it again to go on")
            else:
                self.remove()
            raise

    def _read(self, shares: Sequence[_Share], bar: Bar) -> Iterator[tuple[str, int, list[Document]]]:
        for share in shares:
            yield from _unfinished_parts(share, self.directory, bar)

    def _is_through(self, key: str, names: set[str], share: _Share | None = None) -> bool:
        try:
            total = self._num_parts(key)
        except (OSError, ValueError):  # it was not read to its end, or the file that says so is damaged
            return False
        remainder, modulus = (share.remainder, share.modulus) if share else (0, 1)
        numbers = range(remainder, total, modulus)
        return all(f"{_part_name(key, number)}.json" in names for number in numbers)

    def _num_parts(self, key: str) -> int:
        return int((self.directory / f"{key}.json").read_text("utf-8"))

    def _missing_tasks(self, names: set[str]) -> str:
        """Say which tasks are not through, where others of the same array are."""
        through = [name.split("-") for name in names if name.startswith("task-")]
        counts = {int(words[3]) for words in through}
        if len(counts) != 1:
            return ""
        (total,) = counts
        missing = sorted(set(range(1, total + 1)) - {int(words[1]) for words in through})
        return f"; tasks {', '.join(map(str, missing))} of {total} are not through" if missing else ""


def begin(
    output: Path,
    stretches: Sequence[Stretch],
    *,
    settings: Mapping[str, Any],
    sealing: Mapping[str, Any],
    fill: Callable[[Path], object] = lambda directory: None,
    is_task: bool = False,
    overwrite: bool = False,
) -> Stage:
    """Begin to make parts for an output, or go on where the work was left.

    Args:
        output: where the result shall be; its parts are kept beside it.
        stretches: what is read.
        settings: what a part depends on, beside its stretch.
        sealing: what the result depends on, beside its parts.
        fill: writes what else the stage shall hold, into a directory.
        is_task: others work on the same, with the same settings and stretches.
        overwrite: begin anew where the settings have changed, or the text is another. Not for tasks.

    Raises:
        InputError: it was begun with other settings or text.
        RunError: the disk is full.
    """
    directory = _directory(output)
    plan: Record = {
        "settings": dict(settings),
        "sealing": dict(sealing),
        "stretches": [{"key": _key(stretch), **stretch.as_dict()} for stretch in stretches],
        "sealed": None,
    }
    plan = json.loads(json.dumps(plan))
    with artifacts.disk_errors(directory):
        if not is_task and is_sealed(output) and reopen(output).plan != plan:
            reopen(output).remove()  # what a kill left of it: the output is made, and this shall be another
        if not (directory / _PLAN).exists():
            _create(directory, plan, fill)
        stage = reopen(output)
        if stage.plan == plan:
            return stage
        reason = _what_changed(stage.plan, plan, is_task=is_task)
        if reason is None:  # some files of the text, or what is made of the parts: they will do
            artifacts.write_text(directory / _PLAN, _as_text(plan))
        elif overwrite and not is_task:
            stage.remove()
            _create(directory, plan, fill)
        else:
            remedy = f"Finish it as it was begun, or delete {directory}"
            if is_task:
                remedy += ". Say the same for all tasks"
            elif not sealing.get("append"):  # --overwrite does not go with it
                remedy += ", or say --overwrite"
            raise InputError(f"was begun with {reason}", where=directory, remedy=remedy)
    return reopen(output)


def refuse_to_read(output: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse inputs that hold the output, whose parts would be taken for text, or that would be replaced by it.

    Raises:
        InputError: there is such a one.
    """
    written, parts = artifacts.resolved(output), artifacts.resolved(_directory(output))
    for given in paths_on_disk(inputs):
        read = artifacts.resolved(given)
        if read.is_relative_to(written) or read.is_relative_to(parts):
            raise InputError("is to be read, and replaced", where=given, remedy="Choose another --output")
        if not (read.is_dir() and written.is_relative_to(read)):
            continue
        if not any(name.startswith(".") for name in written.relative_to(read).parts):  # hidden: not read
            what = f"is to be read, and the output {output} is in it"
            raise InputError(what, where=given, remedy="Choose an output outside of it")


def reopen(output: Path) -> Stage:
    """Return the stage that was begun for an output.

    Raises:
        InputError: there is none.
    """
    plan = _directory(output) / _PLAN
    try:
        return Stage(output, {**json.loads(plan.read_text("utf-8")), "sealed": None})
    except FileNotFoundError:
        raise InputError("no parts of a data set", where=plan.parent) from None
    except ValueError as error:
        raise InputError(f"damaged ({error})", where=plan, remedy=f"Delete {plan.parent}") from error


def is_begun(output: Path) -> bool:
    """Say whether parts lie beside an output."""
    return (_directory(output) / _PLAN).exists()


def is_sealed(output: Path) -> bool:
    """Say whether an output is what was made of the parts that lie beside it."""
    try:
        plan = json.loads((_directory(output) / _PLAN).read_text("utf-8"))
        return bool(plan["sealed"] == artifacts.sha256_of(output / artifacts.MANIFEST))
    except (OSError, ValueError):
        return False


def _directory(output: Path) -> Path:
    if output.is_symlink() or not output.name:  # renamed on the disk that a link leads to; "." has no name
        output = artifacts.resolved(output)
    return output.with_name(f"{output.name}.parts")


def _key(stretch: Stretch) -> str:
    """Hash what a stretch is; what is read from stdin is never the same again."""
    files = {span.file for span in stretch.spans}
    known = [stretch.as_dict(), {file: file_version(file) for file in sorted(files)}]
    if STDIN in files:
        known.append({"run": uuid.uuid4().hex})
    return hashlib.blake2b(json.dumps(known).encode(), digest_size=8).hexdigest()


def _create(directory: Path, plan: Record, fill: Callable[[Path], object]) -> None:
    """Make the directory at once with all that it begins with; another task may be quicker."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY_PREFIX}{directory.name}-", dir=directory.parent))
    temporary.chmod(0o755)
    try:
        fill(temporary)
        (temporary / _PLAN).write_text(_as_text(plan), encoding="utf-8")
        temporary.rename(directory)
    except OSError:
        if not (directory / _PLAN).is_file():
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _as_text(plan: Record) -> str:
    return json.dumps(plan, indent=1) + "\n"


def _what_changed(old: Record, new: Record, *, is_task: bool) -> str | None:
    """Say why the parts of an old plan are of no use for a new one; None if they are."""
    compared = ("settings", "sealing") if is_task else ("settings",)
    for name in compared:
        for setting in sorted({*old[name], *new[name]}):
            before, now = old[name].get(setting), new[name].get(setting)
            if before != now:
                return f"{setting} {_shown(before)}, not {_shown(now)}"
    keys = [stretch["key"] for stretch in new["stretches"]]
    if is_task and keys == [stretch["key"] for stretch in old["stretches"]]:
        return None
    if is_task:
        changed = _files_of(stretch for stretch in old["stretches"] if stretch["key"] not in keys)
        return f"other text: {changed[0]} is not as it was" if changed else "less text"
    before = _files_of(old["stretches"])
    if before and not {*before} & {*_files_of(new["stretches"])}:
        return f"other text: {before[0]} is none of it now"
    return None


def _files_of(stretches: Iterable[Record]) -> list[str]:
    """Return the files that stretches of a plan are read from, but for stdin."""
    return [span["file"] for stretch in stretches for span in stretch["spans"] if span["file"] != STDIN]


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shares(stretches: Mapping[str, Stretch], task: Task) -> list[_Share]:
    """Deal the stretches out to the tasks, in pieces where they are fewer."""
    modulus = -(-task.count // len(stretches))
    shares = [
        _Share(key, stretch, remainder, modulus)
        for key, stretch in stretches.items()
        for remainder in range(modulus)
    ]
    return shares[task.number - 1 :: task.count]


def _part_name(key: str, number: int) -> str:
    return f"{key}-{number:05}"


def _unfinished_parts(share: _Share, directory: Path, bar: Bar) -> Iterator[tuple[str, int, list[Document]]]:
    """Read a stretch and yield those of its parts that are to be made, with their numbers; note how many it has."""
    numbers = count()
    for documents in in_parts(read_documents(share.stretch, bar)):
        number = next(numbers)
        is_ours = number % share.modulus == share.remainder
        if is_ours and not (directory / f"{_part_name(share.key, number)}.json").exists():
            yield share.key, number, documents
    _put(directory / f"{share.key}.json", str(next(numbers)))


def _finish_share(share: _Share, *, directory: Path, make: MakePart) -> tuple[_Share, list[Record]]:
    with SILENT.bar("", total=None) as bar:
        parts = _unfinished_parts(share, directory, bar)
        return share, [_finish_part(part, directory=directory, make=make) for part in parts]


def _finish_part(part: tuple[str, int, list[Document]], *, directory: Path, make: MakePart) -> Record:
    key, number, documents = part
    path = directory / f"{_part_name(key, number)}.arrow"
    with artifacts.disk_errors(path):
        temporary = _temporary_name(path)
        try:
            record = make(documents, temporary)
            sha256 = artifacts.sha256_of(temporary)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    _put(path.with_suffix(".json"), json.dumps({"sha256": sha256, "record": record}))
    return record


def _put(path: Path, text: str) -> None:
    """Write a small file under its name in one step."""
    with artifacts.disk_errors(path):
        temporary = _temporary_name(path)
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _temporary_name(path: Path) -> Path:
    return path.with_name(f"{_TEMPORARY_PREFIX}{path.name}-{uuid.uuid4().hex}")
