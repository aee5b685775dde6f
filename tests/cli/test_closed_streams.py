"""Closed stdin, stdout and stderr, and little memory, end in a result or one line."""

import io
import shlex
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")

CLOSED = "error: stdout: cannot be written: it is closed. Redirect it to a file.\n"


def in_shell(command: str) -> "subprocess.CompletedProcess[str]":
    cloze = f"{shlex.quote(sys.executable)} -m cloze"
    return subprocess.run(
        ["sh", "-c", command.replace("CLOZE", cloze)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("verb", ["--help", "fill --help"])
def test_a_closed_stdout_is_an_error(verb):
    done = in_shell(f"CLOZE {verb} >&-")
    assert (done.returncode, done.stderr) == (1, CLOSED)


@pytest.mark.parametrize("closed", ["<&-", "<&- 2>&-"])
def test_a_closed_stdin_or_stderr_changes_no_result(closed):
    done = in_shell(f"CLOZE --help {closed}")
    assert done.returncode == 0
    assert "pretrain" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_an_output_does_not_take_the_place_of_a_closed_stream(tmp_path):
    text = "the moor was dark and the hound was heard\n" * 40
    (tmp_path / "text.txt").write_text(text)
    directory = shlex.quote(str(tmp_path))
    for number, closed in enumerate(["", "<&- >&- 2>&-"]):
        done = in_shell(
            f"CLOZE vocab {directory}/text.txt --size 32 --quiet -o {directory}/{number} {closed}"
        )
        assert done.returncode == bool(closed), done.stderr  # the summary cannot be printed
    first, second = ((tmp_path / str(number) / "vocab.txt").read_bytes() for number in range(2))
    assert first == second


def test_fill_without_lines_on_stdin_is_an_error(cloze, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    error = cloze("fill -m cloze-mini -", code=2).err
    assert error == "error: stdin: no text. Send it one or more lines.\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the address space")
def test_little_memory_is_reported_in_one_line():
    done = in_shell("ulimit -v 300000; CLOZE info cloze-mini")
    expected = "error: out of memory. Use a smaller model, shorter texts or fewer --workers.\n"
    assert (done.returncode, done.stderr) == (1, expected)
