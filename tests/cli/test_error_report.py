"""Exceptions of the system and of packages are named for what they are: memory, a package, a file."""

import errno
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

from cloze.cli import run_command
from cloze.cli.parser import Verb
from cloze.data.reading.arrow_files import map_record_batch
from cloze.errors import InputError, RunError, is_out_of_memory
from cloze.file_io import sha256_of_file

pytestmark = [pytest.mark.protected, pytest.mark.trials("bad input")]
needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="needs /proc, /dev/full or names of any bytes"
)

OUT_OF_MEMORY = "error: out of memory. Use a smaller model, shorter texts or fewer --workers.\n"
DAMAGED = InputError("damaged", where="data.arrow", remedy="Copy it again")
NO_DEVICE = OSError(12, "Cannot allocate memory")


def run(raise_error: Callable[[], object], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Return the exit code and the error of a verb that calls a function."""

    def function() -> None:
        raise_error()

    code = run_command("cloze test", lambda: Verb(function, lambda _: None), [])
    return code, capsys.readouterr().err


def raising(error: Exception, cause: Exception | None = None) -> Callable[[], NoReturn]:
    def raise_error() -> NoReturn:
        if cause is None:
            raise error
        try:
            raise cause
        except Exception as reason:
            raise error from reason

    return raise_error


@pytest.mark.parametrize(
    "raise_error",
    [
        raising(pa.ArrowMemoryError("malloc of size 1073741824 failed")),
        raising(OSError("Memory mapping file failed: Cannot allocate memory")),
        raising(RuntimeError("can't start new thread")),
        raising(ImportError("libtorch_cpu.so: failed to map segment from shared object")),
        raising(ImportError("cannot import name '_dynamo' from 'torch'"), MemoryError()),
        raising(pa.ArrowException("Unknown error: Failed to launch worker thread: Resource unavailable")),
        raising(DAMAGED, pa.ArrowMemoryError("malloc failed")),
        raising(DAMAGED, NO_DEVICE),
    ],
)
def test_little_memory_is_neither_a_damaged_file_nor_a_bug(capsys, raise_error):
    assert run(raise_error, capsys) == (1, OUT_OF_MEMORY)


def test_an_error_that_explains_the_lack_of_memory_is_kept(capsys):
    explained = RunError("out of memory at step 2", remedy="Use shorter sequences")
    line = "error: out of memory at step 2. Use shorter sequences.\n"
    assert run(raising(explained, MemoryError()), capsys) == (1, line)


@needs_linux
def test_a_data_set_that_does_not_fit_into_the_address_space_is_not_called_damaged(tmp_path):
    import resource  # Windows has none

    file = tmp_path / "large.arrow"
    with file.open("wb") as stream:
        stream.truncate(1 << 32)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30), hard))
    try:
        with pytest.raises(OSError, match="Cannot allocate memory") as raised:
            map_record_batch(file, ["sentences"], remedy="Build it again")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert is_out_of_memory(raised.value)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("from json import nothing", "ImportError: cannot import name 'nothing' from 'json' "),
        ("import missing_dependency", "ModuleNotFoundError: No module named 'missing_dependency'"),
        ("raise AttributeError('numpy has no float')", "AttributeError: numpy has no float"),
    ],
)
def test_a_package_that_fails_at_its_import_is_named(tmp_path, capsys, monkeypatch, source, says):
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package/__init__.py").write_text(f"{source}\n")
    monkeypatch.syspath_prepend(tmp_path)
    code, line = run(lambda: __import__("broken_package"), capsys)
    assert code == 1
    assert line.startswith(f"error: package broken_package: cannot be imported: {says}")
    assert line.endswith("Install it again: pip install --force-reinstall broken_package.\n")


UNREADABLE = "/proc/self/mem"
"""Fails with EIO when its first byte is read."""


@needs_linux
def test_a_file_that_fails_while_it_is_read_is_named(samples, tmp_path, cloze, capsys):
    code, line = run(lambda: sha256_of_file(Path(UNREADABLE)), capsys)
    assert (code, line) == (1, f"error: {UNREADABLE}: Input/output error\n")
    rows = f"predict classification -m {samples.classifier} {UNREADABLE} -o {tmp_path}/out.jsonl"
    assert cloze(rows, code=2).err.endswith(f"error: {UNREADABLE}: cannot be read: Input/output error\n")


@needs_linux
@pytest.mark.parametrize(
    "command",
    [
        "vocab {text} --size 32 -o {out}",
        "corpus {text} --vocabulary {run} -o {out}",
        "import {run} -o {out}",
        "finetune classification -m {run} -d {table} -o {out}",
        "pretrain --data {data} -m tiny --steps 1 -o {out}",
    ],
)
def test_a_directory_with_a_name_that_is_not_utf8_is_refused(samples, tmp_path, error_line, command):
    (tmp_path / "text.txt").write_text("the moor was dark and the hound was heard\n\n" * 9)
    out = tmp_path / "name\udcff"
    filled = command.format(
        text=tmp_path / "text.txt", run=samples.run, table=samples.table, data=samples.data, out=out
    )
    line = error_line(filled)
    assert line.startswith(f"error: {tmp_path}/name\\udcff: its name is not UTF-8")
    assert not out.exists()


def test_a_full_disk_under_rows_is_that_of_stdout(capsys):
    full = OSError(errno.ENOSPC, "No space left on device")  # errors of writing a file have its name
    assert run(raising(full), capsys) == (1, "error: stdout: No space left on device\n")
