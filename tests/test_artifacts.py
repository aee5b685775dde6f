"""Directories are written atomically and verified."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cloze import artifacts, file_io
from cloze.errors import ClozeError, InputError, RunError
from cloze.file_names import CARD_FILE, MANIFEST

CHECKPOINT = '{"kind": "checkpoint", "format_version": 1, "files": '


def _write(path: Path, *, text: str = "hello", **options: bool) -> None:
    with artifacts.write_directory(path, kind="checkpoint", **options) as directory:
        (directory / "a.txt").write_text(text)
        (directory / CARD_FILE).write_text("as written")
        (directory / "sub").mkdir()
        (directory / "sub" / "b.bin").write_bytes(bytes(range(256)))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    _write(tmp_path / "out")
    return tmp_path / "out"


def test_written_directory_verifies_and_its_card_may_be_edited(tmp_path, out):
    manifest = artifacts.verify(out, kind="checkpoint")
    assert set(manifest.files) == {"README.md", "a.txt", "sub/b.bin"}
    raw = json.loads((out / "manifest.json").read_text())
    assert raw["kind"] == "checkpoint"
    assert len(raw["files"]["a.txt"]["sha256"]) == 64
    assert manifest.files["sub/b.bin"].bytes == 256
    (out / CARD_FILE).write_text("edited")
    artifacts.verify(out)
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.protected
def test_failed_write_leaves_nothing(tmp_path):
    def fail_halfway() -> None:
        with artifacts.write_directory(tmp_path / "out", kind="checkpoint") as directory:
            (directory / "a.txt").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert os.listdir(tmp_path) == []


def hold_temporary(path: Path, kind: str) -> "subprocess.Popen[str]":
    """Start a process that is writing a file or a directory, and wait for its temporary one."""
    write = f"artifacts.write_directory(Path({str(path)!r}), kind='checkpoint')"
    write = write if kind == "directory" else f"file_io.write_file(Path({str(path)!r}))"
    source = f"""
        from pathlib import Path
        from cloze import artifacts, file_io
        with {write} as temporary:
            print(temporary, flush=True)
            input()
    """
    command = [sys.executable, "-c", textwrap.dedent(source)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


@pytest.mark.protected
@pytest.mark.trials("kill")
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_the_next_writer_deletes_what_a_killed_one_left_and_nothing_of_a_living_one(tmp_path, kind):
    names = ("out", "out", "out-0123456789abcdef")
    killed, living, other = writers = [hold_temporary(tmp_path / name, kind) for name in names]
    paths = [Path(writer.stdout.readline().strip()) for writer in writers]
    killed.kill()
    killed.communicate()
    assert all(path.exists() for path in paths)
    if kind == "file":
        file_io.write_text(tmp_path / "out", "text")
    else:
        _write(tmp_path / "out")
    assert [path.exists() for path in paths] == [False, True, True]
    other.communicate("\n")
    living.communicate("\n")
    assert other.returncode == 0
    assert sorted(os.listdir(tmp_path)) == ["out", "out-0123456789abcdef"]


@pytest.mark.parametrize("exchange", [True, False])
def test_existing_output_is_replaced_only_with_overwrite(tmp_path, out, exchange, monkeypatch):
    if not exchange:  # as on disks that cannot
        monkeypatch.setattr("cloze.artifacts.exchange_directories", lambda *_: False)
    with pytest.raises(InputError, match=r"out: already exists.*`overwrite`"):
        _write(out)
    _write(out, text="new", overwrite=True)
    artifacts.verify(out)
    assert (out / "a.txt").read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_target_of_a_link_is_replaced(tmp_path):
    _write(tmp_path / "disk/data")
    (tmp_path / "out").symlink_to("disk/data")
    _write(tmp_path / "out", text="new", overwrite=True)
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk/data/a.txt").read_text() == "new"
    assert os.listdir(tmp_path / "disk") == ["data"]


@pytest.mark.skipif(os.name == "nt", reason="needs a umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o700), (0o002, 0o775)])
def test_permissions_follow_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        _write(tmp_path / "out")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == mode


def test_clear_directory_keeps_the_directory_and_its_lock(tmp_path, monkeypatch):
    _write(tmp_path / "out/inside")
    for name in ("run.toml", ".lock"):
        (tmp_path / "out" / name).write_text("")
    (tmp_path / "kept").mkdir()
    (tmp_path / "out/link").symlink_to(tmp_path / "kept")
    monkeypatch.chdir(tmp_path / "out")
    artifacts.clear_directory(Path())
    assert os.listdir(tmp_path / "out") == [".lock"]
    assert (tmp_path / "kept").is_dir()


def test_directory_that_appears_meanwhile_is_not_replaced(tmp_path):
    def write_slowly() -> None:
        with artifacts.write_directory(tmp_path / "out", kind="dataset") as directory:
            (directory / "a.txt").write_text("slow")
            _write(tmp_path / "out", text="quick")

    with pytest.raises(InputError, match="out: already exists"):
        write_slowly()
    assert (tmp_path / "out" / "a.txt").read_text() == "quick"
    assert os.listdir(tmp_path) == ["out"]


def test_other_directories_are_never_deleted(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(InputError, match="not a directory that cloze wrote"):
        _write(tmp_path / "thesis", overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        _write(tmp_path / "thesis" / "chapter.txt", overwrite=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"
    os.mkfifo(tmp_path / "pipe")
    for overwrite in (False, True):
        with pytest.raises(InputError, match="not a regular file"):
            artifacts.check_output_path(tmp_path / "pipe", overwrite=overwrite, directory=False)


@pytest.mark.protected
@pytest.mark.trials("corruption", 60)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_flipped_bits_and_truncation_are_detected(tmp_path, data):
    out = tmp_path / "out"
    _write(out, overwrite=True)
    name = data.draw(st.sampled_from(["a.txt", "sub/b.bin"]))
    content = bytearray((out / name).read_bytes())
    if data.draw(st.booleans()):
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    (out / name).write_bytes(bytes(content))
    with pytest.raises(InputError) as caught:
        artifacts.verify(out)
    assert name in str(caught.value)


@pytest.mark.protected
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("", "damaged manifest"),
        ("{", "damaged manifest"),
        ("[]", "damaged manifest"),
        ('{"kind": "checkpoint"}', "damaged manifest"),
        ('{"kind": "thing", "format_version": 99, "files": {}}', "format version 99"),
        ('{"kind": "graph", "format_version": 1, "files": {}}', "is a graph, not a checkpoint"),
        ('{"kind": "checkpoinu", "format_version": 1, "files": {}}', "damaged manifest"),
        ('{"kind": ["checkpoint"], "format_version": 1, "files": {}}', r"damaged manifest \(no kind "),
        ('{"kind": null, "format_version": 1, "files": {}}', r"damaged manifest \(no kind "),
        ('{"kind": "checkpoint", "format_version": "1", "files": {}}', "format_version must be a number"),
        ('{"kind": "checkpoint", "format_version": true, "files": {}}', "format_version must be a number"),
        (f"{CHECKPOINT}[]}}", "damaged manifest .'list' object"),
        (f'{CHECKPOINT}{{"a.txt": 3}}}}', "damaged manifest .'int' object"),
        (f'{CHECKPOINT}{{"a.txt": {{"bytes": "9", "sha256": "0"}}}}}}', "bytes must be numbers"),
    ],
)
def test_damaged_manifest_is_an_error(out, damage, message):
    (out / MANIFEST).write_text(damage)
    with pytest.raises(InputError, match=message):
        artifacts.verify(out, kind="checkpoint")


@pytest.mark.protected
def test_missing_files_and_manifests_are_errors(tmp_path, out):
    (out / "a.txt").unlink()
    with pytest.raises(InputError, match="missing"):
        artifacts.verify(out)
    with pytest.raises(InputError, match="no manifest"):
        artifacts.verify(tmp_path)
    with pytest.raises(InputError, match="no such directory"):
        artifacts.verify(tmp_path / "nowhere")


@pytest.mark.parametrize("exchange", [True, False])
def test_a_replaced_directory_that_cannot_be_deleted_is_named(tmp_path, monkeypatch, exchange):
    _write(tmp_path / "out")
    monkeypatch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
    with pytest.raises(RunError) as error:
        _write(tmp_path / "out", overwrite=True)
    [left] = (path for path in tmp_path.iterdir() if path.name != "out")
    assert error.value.where == str(left)
    artifacts.verify(tmp_path / "out")


@pytest.mark.protected
def test_full_disk_is_a_run_error_and_leaves_nothing(tmp_path):
    """A limit on file sizes fails in the same way as a full disk."""
    program = f"""
        import resource, signal
        from pathlib import Path
        from cloze import artifacts
        from cloze.errors import RunError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            with artifacts.write_directory(Path({str(tmp_path / "out")!r}), kind="checkpoint") as directory:
                (directory / "big").write_bytes(bytes(5000))
        except RunError as error:
            print(error.exit_code, error)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"1 {tmp_path / 'out'}: cannot write: File too large")
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.trials("kill", 12)
def test_killed_writer_leaves_the_old_or_the_new_directory(tmp_path):
    """SIGKILL at random moments: the directory always verifies."""
    program = f"""
        from pathlib import Path
        from cloze import artifacts, file_io
        out = Path({str(tmp_path / "out")!r})
        for n in range(10**6):
            path = out / f"step-{{n % 3}}"
            with artifacts.write_directory(path, kind="checkpoint", overwrite=True) as directory:
                (directory / "a.bin").write_bytes(bytes([n % 256]) * 100_000)
            file_io.write_text(out / "latest", f"step-{{n % 3}}")
            if n == 2:
                print("ready", flush=True)
    """
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    # Without an exchange in one step, the directory being replaced may be missing.
    min_directories = 3 if artifacts.exchange_directories(tmp_path / "a", tmp_path / "b") else 2
    for attempt in range(12):
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.003 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        directories = list((tmp_path / "out").glob("step-*"))
        assert len(directories) >= min_directories
        for path in directories:
            artifacts.verify(path, kind="checkpoint")
        assert (tmp_path / "out" / "latest").read_text().startswith("step-")
        artifacts.remove_temporary_files(tmp_path / "out")
        assert not list((tmp_path / "out").glob(".writing-*"))


@pytest.mark.protected
@pytest.mark.parametrize("exchange", [True, False])
def test_the_old_directory_stays_if_the_new_one_disappears(tmp_path, out, exchange, monkeypatch):
    if not exchange:
        monkeypatch.setattr("cloze.artifacts.exchange_directories", lambda *_: False)

    def fail_to_replace() -> None:
        with artifacts.write_directory(out, kind="checkpoint", overwrite=True, before_commit=shutil.rmtree):
            pass

    with pytest.raises(RunError, match="out: cannot write"):
        fail_to_replace()
    artifacts.verify(out, kind="checkpoint")
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.protected
def test_kill_between_two_renames_loses_nothing(tmp_path, out):
    program = f"""
        import os, signal
        from pathlib import Path
        from cloze import artifacts, file_io
        rename = Path.rename
        def rename_or_die(self, target):
            if target == Path({str(out)!r}):
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(self, target)
        Path.rename = rename_or_die
        artifacts.exchange_directories = lambda *_: False
        out = Path({str(out)!r})
        with artifacts.write_directory(out, kind="checkpoint", overwrite=True):
            pass
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(InputError, match=r"no such directory.*\.writing-replaced-.*/out: move it back"):
        artifacts.verify(out)
    artifacts.remove_temporary_files(tmp_path)
    artifacts.verify(out, kind="checkpoint")
    assert os.listdir(tmp_path) == ["out"]


def test_errors_are_one_line():
    error = RunError("disk\nfull", where="a/b", remedy="Free some space")
    assert str(error) == "a/b: disk full. Free some space."
    assert (ClozeError.exit_code, InputError.exit_code, RunError.exit_code) == (1, 2, 1)


def test_json_of_the_size_of_a_large_tokenizer_is_read(tmp_path):
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": "x" * 40_000_000}))
    assert len(file_io.read_json(tmp_path / "tokenizer.json")["model"]) == 40_000_000
