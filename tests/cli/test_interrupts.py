"""Ctrl-C and SIGTERM while an output is written."""

import signal
import time
from pathlib import Path

import pytest
from samples import Samples

from forked import Command


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_leaves_no_unfinished_file(
    samples: Samples, tmp_path: Path, number: signal.Signals
) -> None:
    texts, output = tmp_path / "texts.txt", tmp_path / "output"
    texts.write_text("the moor was dark and the hound was heard\n" * 30_000)
    output.mkdir()
    command = f"embed {texts} -m {samples.run} -o {output}/vectors.npy --quiet"
    process = Command(command.split(), tmp_path / "errors")
    deadline = time.monotonic() + 120
    while not list(output.iterdir()):
        assert process.is_running, process.finish()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send(number)
    assert process.finish(120) == "error: interrupted\n"
    assert process.exit_code == 130
    assert not list(output.iterdir())
