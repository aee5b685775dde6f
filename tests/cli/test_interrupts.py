"""Ctrl-C and SIGTERM while an output is written."""

import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from samples import NANO_TASK, Samples

from cloze.model_paths import resolve_checkpoint
from forked import Command


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_leaves_no_unfinished_file(samples, tmp_path, number):
    texts, output = tmp_path / "texts.txt", tmp_path / "output"
    texts.write_text("the moor was dark and the hound was heard\n" * 30_000)
    output.mkdir()
    command = f"embed {texts} -m {samples.run} -o {output}/vectors.npy --quiet"
    process = Command(command.split(), tmp_path / "errors")
    process.wait_until(lambda: list(output.iterdir()))
    process.send(number)
    assert process.finish(120) == "error: interrupted\n"
    assert process.exit_code == 130
    assert not list(output.iterdir())


def _finetune(samples: Samples, tmp_path: Path, data: Path, *flags: str) -> Command:
    command = f"finetune classification -m {samples.run} -d {data} -o {tmp_path}/run"
    return Command([*command.split(), *NANO_TASK, *flags], tmp_path / "errors")


@pytest.mark.slow
def test_ctrl_c_stops_training_with_a_checkpoint_and_a_second_one_at_once(samples, tmp_path):
    for second in (False, True):
        process = _finetune(samples, tmp_path, samples.table, "--epochs", "100000", "--overwrite")
        process.wait_for("step 2 held-out")
        process.send(signal.SIGINT)
        if second:
            process.wait_for("again to stop now")
            process.send(signal.SIGINT)
        lines = process.finish().splitlines()
        assert process.exit_code in ((130, -signal.SIGINT) if second else (130,))
        assert lines.count("stopping after this step, with a checkpoint; again to stop now") == 1
        if not second:
            assert re.fullmatch(
                r"error: stopped by SIGINT after step \d+. The state is saved: continue with --resume.",
                lines[-1],
            )
            assert resolve_checkpoint(tmp_path / "run", "latest").is_dir()
        assert not [line for line in lines if "Traceback" in line]


@pytest.mark.slow
def test_ctrl_c_while_data_are_prepared_leaves_no_run(samples, tmp_path):
    table = tmp_path / "a.tsv"
    table.write_text(
        "text\tlabel\n" + "the moor was dark and the hound was heard\t1\nit was not\t0\n" * 40_000
    )
    process = _finetune(samples, tmp_path, table)
    process.wait_for("2 classes")
    process.send(signal.SIGINT)
    assert process.finish().splitlines()[-1] == "error: interrupted"
    assert process.exit_code == 130
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("module", ["cloze.cli", "importlib.metadata", "cloze.cli.parameters", "torch"])
def test_ctrl_c_while_a_command_is_imported_is_one_line(module):
    program = f"""
        import signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background of a shell ignore it
        sys.addaudithook(lambda event, names: event == "import" and names[0] == {module!r} and signal.raise_signal(2))
        from cloze.__main__ import main
        sys.exit(main())
    """
    command = [sys.executable, "-c", textwrap.dedent(program), "fill", "the [MASK] was", "-m", "cloze-mini"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
