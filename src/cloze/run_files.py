"""The small files of a run and their checksums.

    RUN/run.toml  environment.json  metrics.jsonl  latest  best  scores.json  trials.json  checksums.json

A run grows, so it has no manifest. While a file is replaced, `checksums.json` has the checksums of the old and the new
content: a process that is killed at any moment leaves no file that seems damaged. `metrics.jsonl` is appended to, so
its checksum is that of its first bytes, up to the last checkpoint.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from cloze.artifacts import FileRecord, IntegrityError, parse_record
from cloze.errors import InputError
from cloze.file_io import disk_errors, read_json, safe_join, sync_file, with_nulls, write_text

CHECKSUMS = "checksums.json"
METRICS = "metrics.jsonl"
_REMEDY = f"Copy it again; deleting {CHECKSUMS} accepts all small files of the run as they are"
_Records: TypeAlias = dict[str, list[FileRecord]]


def write_run_files(run: Path, texts: Mapping[str, str | None], *, record_metrics: bool = False) -> None:
    """Write small files of a run, each of them atomically, and record their checksums.

    Args:
        run: the run's directory.
        texts: contents by name; None deletes the file.
        record_metrics: record the checksum of the metrics logged so far, too.

    Raises:
        RunError: the disk is full or cannot be written.
    """
    try:
        records = _read_records(run)
    except InputError:  # a run is not stopped for it; a resumed run has checked it
        records = {}
    during, after = dict(records), dict(records)
    changed = {}
    for name, text in texts.items():
        during.pop(name, None)
        after.pop(name, None)
        if text is not None:
            after[name] = [_record(text.encode())]
            old = [_record_of(run / name)] if (run / name).is_file() else []
            during[name] = [*records.get(name, old), *after[name]]
            if old == after[name]:
                continue
        changed[name] = text
    with disk_errors(run):
        if changed and during != records:
            _write_records(run, during)
        for name, text in changed.items():
            if text is None:
                (run / name).unlink(missing_ok=True)
            else:
                write_text(run / name, text)
        if record_metrics:
            sync_file(run / METRICS)
            after[METRICS] = [_record_of(run / METRICS)]
        if after != records:
            _write_records(run, after, sync=not changed)


def write_run_json(run: Path, name: str, value: object) -> None:
    """Write an indented JSON file of a run, as `write_run_files` does."""
    write_run_files(run, {name: json.dumps(with_nulls(value), indent=1) + "\n"})


def verify_run_files(run: Path, names: Collection[str] | None = None) -> int:
    """Check the small files of a run, or only those in `names`, and return the number of those with a checksum.

    Raises:
        IntegrityError: a file is missing, or differs from what was written.
    """
    checked = 0
    for name, records in _read_records(run).items():
        if names is not None and name not in names:
            continue
        file = safe_join(run, name, where=run / CHECKSUMS)
        if not file.is_file():
            raise IntegrityError(f"missing, but listed in {run / CHECKSUMS}", where=file, remedy=_REMEDY)
        if not any(_matches(file, record) for record in records):
            what = f"damaged: its SHA-256 differs from {run / CHECKSUMS}"
            raise IntegrityError(what, where=file, remedy=_REMEDY)
        checked += 1
    return checked


def has_checksums(run: Path) -> bool:
    """Return whether a run has checksums of its small files."""
    return (run / CHECKSUMS).is_file()


def _matches(file: Path, record: FileRecord) -> bool:
    size = file.stat().st_size
    if size < record.bytes or (size > record.bytes and file.name != METRICS):
        return False
    return _record_of(file, record.bytes) == record


def _record_of(file: Path, num_bytes: int | None = None) -> FileRecord:
    """Return the record of a file, or of its first bytes."""
    with file.open("rb") as stream:
        return _record(stream.read() if num_bytes is None else stream.read(num_bytes))


def _record(content: bytes) -> FileRecord:
    return FileRecord(len(content), hashlib.sha256(content).hexdigest())


def _read_records(run: Path) -> _Records:
    """Read the checksums of a run; empty for one that is being created.

    Raises:
        IntegrityError: the file is damaged.
    """
    file = run / CHECKSUMS
    if not file.exists():
        return {}
    try:
        return {
            name: [parse_record(record) for record in records] for name, records in read_json(file).items()
        }
    except (InputError, KeyError, TypeError) as error:
        what = f"damaged ({getattr(error, 'what', error)})"
        raise IntegrityError(what, where=file, remedy=_REMEDY) from error


def _write_records(run: Path, records: _Records, *, sync: bool = True) -> None:
    table = {name: [asdict(record) for record in records[name]] for name in sorted(records)}
    write_text(run / CHECKSUMS, json.dumps(table, indent=1) + "\n", sync=sync)
