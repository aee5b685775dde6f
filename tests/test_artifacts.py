"""Directories written whole or not at all."""

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

from cloze import artifacts
from cloze.errors import ClozeError, InputError, RunError


def _write(path: Path, *, text: str = "hello", overwrite: bool = False) -> None:
    with artifacts.write_directory(path, kind="thing", overwrite=overwrite) as directory:
        (directory / "a.txt").write_text(text)
        (directory / "sub").mkdir()
        (directory / "sub" / "b.bin").write_bytes(bytes(range(256)))


def test_what_was_written_verifies(tmp_path: Path) -> None:
    _write(tmp_path / "out")
    manifest = artifacts.verify(tmp_path / "out", kind="thing")
    assert set(manifest.files) == {"a.txt", "sub/b.bin"}
    assert manifest.files["sub/b.bin"].bytes == 256
    assert os.listdir(tmp_path) == ["out"]


def test_nothing_is_left_when_writing_fails(tmp_path: Path) -> None:
    def fail_halfway() -> None:
        with artifacts.write_directory(tmp_path / "out", kind="thing") as directory:
            (directory / "a.txt").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_halfway()
    assert os.listdir(tmp_path) == []


def test_existing_output_is_refused_unless_told(tmp_path: Path) -> None:
    _write(tmp_path / "out")
    with pytest.raises(InputError, match=r"out: exists already.*--overwrite"):
        _write(tmp_path / "out")
    _write(tmp_path / "out", text="new", overwrite=True)
    artifacts.verify(tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.skipif(os.name == "nt", reason="needs links")
def test_where_a_link_stands_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    _write(tmp_path / "disk/data")
    (tmp_path / "out").symlink_to("disk/data")
    _write(tmp_path / "out", text="new", overwrite=True)
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk/data/a.txt").read_text() == "new"
    assert os.listdir(tmp_path / "disk") == ["data"]


@pytest.mark.skipif(os.name == "nt", reason="needs a umask")
@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o700), (0o002, 0o775)])
def test_who_may_read_is_for_the_umask_to_say(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        _write(tmp_path / "out")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == mode


def test_a_directory_is_cleared_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path / "out/inside")
    (tmp_path / "out/run.toml").write_text("")
    (tmp_path / "kept").mkdir()
    (tmp_path / "out/link").symlink_to(tmp_path / "kept")
    monkeypatch.chdir(tmp_path / "out")
    artifacts.clear_directory(Path())
    assert os.listdir(tmp_path / "out") == []
    assert (tmp_path / "kept").is_dir()
    artifacts.clear_directory(tmp_path / "none")


def test_a_card_may_be_edited(tmp_path: Path) -> None:
    with artifacts.write_directory(tmp_path / "out", kind="thing") as directory:
        (directory / artifacts.CARD).write_text("as written")
    (tmp_path / "out" / artifacts.CARD).write_text("edited")
    assert artifacts.CARD in artifacts.verify(tmp_path / "out").files


def test_what_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    def write_slowly() -> None:
        with artifacts.write_directory(tmp_path / "out", kind="dataset") as directory:
            (directory / "a.txt").write_text("slow")
            _write(tmp_path / "out", text="quick")

    with pytest.raises(InputError, match="out: exists already"):
        write_slowly()
    assert (tmp_path / "out" / "a.txt").read_text() == "quick"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="there is no such device")
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_device_is_not_replaced(overwrite: bool) -> None:
    with pytest.raises(InputError, match="is no regular file"):
        artifacts.refuse_existing(Path("/dev/null"), overwrite=overwrite, directory=False)


def test_what_cloze_did_not_write_is_never_deleted(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(InputError, match="not a directory that cloze wrote"):
        _write(tmp_path / "thesis", overwrite=True)
    with pytest.raises(InputError, match="is a file"):
        _write(tmp_path / "thesis" / "chapter.txt", overwrite=True)
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_flipped_bit_and_every_cut_is_found(tmp_path: Path, data: st.DataObject) -> None:
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


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("", "damaged manifest"),
        ("{", "damaged manifest"),
        ("[]", "damaged manifest"),
        ('{"kind": "thing"}', "damaged manifest"),
        ('{"kind": "thing", "format_version": 99, "files": {}}', "format version 99"),
        ('{"kind": "other", "format_version": 1, "files": {}}', "is a other, not a thing"),
    ],
)
def test_damaged_manifests_are_errors(tmp_path: Path, damage: str, message: str) -> None:
    _write(tmp_path / "out")
    (tmp_path / "out" / artifacts.MANIFEST).write_text(damage)
    with pytest.raises(InputError, match=message):
        artifacts.verify(tmp_path / "out", kind="thing")


def test_a_missing_file_and_a_foreign_directory_are_errors(tmp_path: Path) -> None:
    _write(tmp_path / "out")
    (tmp_path / "out" / "a.txt").unlink()
    with pytest.raises(InputError, match="missing"):
        artifacts.verify(tmp_path / "out")
    with pytest.raises(InputError, match="no manifest"):
        artifacts.verify(tmp_path)
    with pytest.raises(InputError, match="no such directory"):
        artifacts.verify(tmp_path / "nowhere")


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on file sizes stands in for a full disk: the system refuses the write in the same way."""
    program = f"""
        import resource, signal
        from pathlib import Path
        from cloze import artifacts
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            with artifacts.write_directory(Path({str(tmp_path / "out")!r}), kind="thing") as directory:
                (directory / "big").write_bytes(bytes(5000))
        except artifacts.RunError as error:
            print(error.exit_code, error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"1 {tmp_path / 'out'}: cannot write: File too large")
    assert os.listdir(tmp_path) == []


def test_killed_writers_leave_the_old_or_the_new_directory(tmp_path: Path) -> None:
    """SIGKILL at random moments: what stands under the name always verifies."""
    program = f"""
        from pathlib import Path
        from cloze import artifacts
        out = Path({str(tmp_path / "out")!r})
        for n in range(10**6):
            path = out / f"step-{{n % 3}}"
            with artifacts.write_directory(path, kind="thing", overwrite=True) as directory:
                (directory / "a.bin").write_bytes(bytes([n % 256]) * 100_000)
            artifacts.write_text(out / "latest", f"step-{{n % 3}}")
            if n == 2:
                print("ready", flush=True)
    """
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    # Where two names cannot change places in one step, there may be none of the directory being replaced.
    least = 3 if artifacts._exchange(tmp_path / "a", tmp_path / "b") else 2
    for attempt in range(12):
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.003 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = [path for path in (tmp_path / "out").glob("step-*")]
        assert len(found) >= least
        for path in found:
            artifacts.verify(path, kind="thing")
        assert (tmp_path / "out" / "latest").read_text().startswith("step-")
        artifacts.remove_leftovers(tmp_path / "out")
        assert not list((tmp_path / "out").glob(".writing-*"))


def test_directories_are_replaced_where_names_cannot_be_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "_exchange", lambda one, other: False)
    _write(tmp_path / "out")
    _write(tmp_path / "out", text="new", overwrite=True)
    assert (tmp_path / "out" / "a.txt").read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("exchange", [True, False])
def test_what_cannot_be_replaced_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchange: bool
) -> None:
    """As it is where the new directory lies on another disk."""
    if not exchange:
        monkeypatch.setattr(artifacts, "_exchange", lambda one, other: False)
    _write(tmp_path / "out")

    def fail_to_replace() -> None:
        with artifacts.write_directory(
            tmp_path / "out", kind="thing", overwrite=True, when_sealed=shutil.rmtree
        ):
            pass

    with pytest.raises(RunError, match="out: cannot write"):
        fail_to_replace()
    artifacts.verify(tmp_path / "out", kind="thing")
    assert os.listdir(tmp_path) == ["out"]


def test_a_kill_between_two_renames_loses_nothing(tmp_path: Path) -> None:
    _write(tmp_path / "out")
    program = f"""
        import os, signal
        from pathlib import Path
        from cloze import artifacts
        artifacts._exchange = lambda one, other: False
        rename = Path.rename
        def rename_or_die(self, target):
            if target == Path({str(tmp_path / "out")!r}):
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(self, target)
        Path.rename = rename_or_die
        with artifacts.write_directory(Path({str(tmp_path / "out")!r}), kind="thing", overwrite=True):
            pass
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(InputError, match=r"no such directory.*\.writing-replaced-.*/out .*move it back"):
        artifacts.verify(tmp_path / "out")
    artifacts.remove_leftovers(tmp_path)
    artifacts.verify(tmp_path / "out", kind="thing")
    assert os.listdir(tmp_path) == ["out"]


def test_a_directory_is_shown_when_it_is_whole_and_before_it_is_seen(tmp_path: Path) -> None:
    shown = []

    def look(directory: Path) -> None:
        artifacts.verify(directory, kind="thing")
        shown.append((tmp_path / "out").exists())

    with artifacts.write_directory(tmp_path / "out", kind="thing", when_sealed=look) as directory:
        (directory / "a.txt").write_text("hello")
    assert shown == [False]


def test_write_text_replaces_in_one_step(tmp_path: Path) -> None:
    artifacts.write_text(tmp_path / "x" / "latest", "one\n")
    artifacts.write_text(tmp_path / "x" / "latest", "two\n")
    assert (tmp_path / "x" / "latest").read_text() == "two\n"
    assert os.listdir(tmp_path / "x") == ["latest"]


def test_errors_are_one_line() -> None:
    error = RunError("disk\nfull", where="a/b", remedy="Free some space")
    assert str(error) == "a/b: disk full. Free some space."
    assert (ClozeError.exit_code, InputError.exit_code, RunError.exit_code) == (1, 2, 1)


def test_manifest_is_readable_json(tmp_path: Path) -> None:
    _write(tmp_path / "out")
    raw = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert raw["kind"] == "thing"
    assert len(raw["files"]["a.txt"]["sha256"]) == 64
