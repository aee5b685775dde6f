"""Ctrl-C and SIGTERM while an output is written."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from samples import Samples


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_leaves_no_unfinished_file(
    samples: Samples, tmp_path: Path, number: signal.Signals
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("the moor was dark and the hound was heard\n" * 30_000)
    command = f"embed {texts} -m {samples.run} -o {tmp_path}/vectors.npy --quiet"
    arguments = [sys.executable, "-m", "cloze", *command.split()]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while list(tmp_path.iterdir()) == [texts]:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        assert process.communicate(timeout=60)[1] == "error: interrupted\n"
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == [texts]
