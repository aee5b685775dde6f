"""Progress in log files and in terminals of several widths."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from cloze.progress import SILENT, Progress, resolve_progress

TRAINING = """
import time
from cloze.progress import Progress
progress = Progress()
with progress.bar("training", total=10_000, unit="steps", done=1200) as bar:
    bar.show(loss="3.123", **{"tokens/s": "112,345"}, lr="1.0e-04", norm="0.53")
    for _ in range(4):
        time.sleep(0.1)
        bar.advance(2000)
    progress.note("step 9,200 held-out: mlm_loss 4.03")
progress.note("   $ cloze corpus texts/novel.txt --vocabulary vocabulary -o corpus --format sentences")
"""


def test_earlier_work_does_not_count_for_the_speed(capsys):
    now = 0.0
    with Progress(clock=lambda: now).bar("training", total=1000, unit="steps", done=900) as bar:
        now = 20.0
        bar.advance(10)
        assert capsys.readouterr().err == "training: 910/1,000 steps [0:20, 3:00 left]\n"
        now = 40.0
        bar.advance(90)
    assert capsys.readouterr().err.splitlines()[-1] == "training: 1,000/1,000 steps [0:40]"


def run_in_terminal(program, width, term):
    """Return the output of a program whose stderr is a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment |= {"TERM": term, "NO_COLOR": "1"}
    process = subprocess.Popen([sys.executable, "-c", program], stderr=slave, env=environment)
    os.close(slave)
    output = b""
    with os.fdopen(master, "rb", buffering=0) as stream:
        try:
            while block := stream.read(4096):
                output += block
        except OSError:  # Linux, when the program has closed its end
            pass
    assert process.wait() == 0
    return output.decode()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_counts_times_and_values_are_shown_at_every_width(width):
    output = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "\n", run_in_terminal(TRAINING, width, "xterm"))
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", output)]
    (command,) = (line for line in lines if "$ cloze" in line)
    assert len(command) == 86  # the terminal breaks it
    lines.remove(command)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert re.search(r"9,200/10,000 steps \[0:0\d, 0:0\d left\]", text)
    assert "━" in text or width < 60
    values = "loss 3.123 tokens/s 112,345 lr 1.0e-04 norm 0.53"
    assert f"  {values if width > 50 else 'loss 3.123 tokens/s 112,345 lr 1.0e-04'}" in lines
    assert "step 9,200 held-out: mlm_loss 4.03" in lines


def test_terminals_without_cursor_movements_get_lines():
    output = run_in_terminal(TRAINING, 80, "dumb")
    assert "\x1b" not in output
    assert re.search(r"training: 9,200/10,000 steps loss 3.123 .* norm 0.53 \[0:0\d, 0:0\d left\]", output)


def test_progress_of_python_is_off_or_on():
    assert resolve_progress(False) is SILENT
    assert resolve_progress(SILENT) is SILENT
    assert resolve_progress(True) == Progress()
