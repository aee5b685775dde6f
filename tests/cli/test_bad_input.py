"""Errors of the command line: one line for wrong input or a failure, no incomplete output, and remedies that work.

The wrong inputs are those of `wrong_inputs.toml`: cases that no test of the functions has, and one of each way in which
something is damaged.
"""

import errno
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from samples import CORPUS, NANO, NANO_TASK, PRETRAIN, Samples, fill_in, one_line_of

from cloze import artifacts
from forked import Command
from helpers import flip_bit, read_tree

pytestmark = [pytest.mark.protected, pytest.mark.trials("bad input")]

CASES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("wrong_inputs.toml").read_text("utf-8")
)
SETTINGS = {
    "nano": shlex.join(NANO),
    "nano-init": shlex.join(setting for setting in NANO if "=model." not in setting),
    "nano-task": shlex.join(NANO_TASK),
    "night": "night " * 40,
}
"""What commands of the table name in braces, beside `paths`."""
LIMIT_SECONDS = 5  # of the processor; other work on the machine does not count


@pytest.mark.parametrize("name", CASES)
def test_wrong_input_gives_one_line_with_a_remedy_that_works(
    name, samples, paths, tmp_path, cloze, error_line
):
    case = CASES[name]
    prepare(case, samples, tmp_path)
    before, samples_before = read_tree(tmp_path), read_tree(samples.text.parent)
    started = time.process_time()
    line = error_line(fill_in(case["command"], SETTINGS))
    assert time.process_time() - started < LIMIT_SECONDS
    expected = re.escape(fill_in(case["line"], paths)).replace("…", ".*")
    assert re.fullmatch(f"error: {expected}", line), line
    assert not paths["out"].exists()
    if case.get("keeps_parts"):
        shutil.rmtree(tmp_path / "out.parts")
    assert read_tree(tmp_path) == before, "incomplete output is left"
    assert read_tree(samples.text.parent) == samples_before, "the input was changed"
    if "then" in case:
        write_files(case.get("mended", {}), tmp_path)
        cloze(fill_in(case["then"], SETTINGS), *(() if "--help" in case["then"] else ("--quiet",)))
        assert read_tree(samples.text.parent) == samples_before


def prepare(case: dict[str, Any], samples: Samples, tmp: Path) -> None:
    """Write the files of a case, and damage the copy of its sample."""
    write_files(case.get("files", {}), tmp)
    copy = tmp / "copy"
    if "copy" in case:
        shutil.copytree(getattr(samples, case["copy"]), copy, symlinks=True)
    for name in case.get("remove", ()):
        shutil.rmtree(copy / name) if name == "checkpoints" else (copy / name).unlink()
    if "flip" in case:
        flip_bit(copy / case["flip"])
    if "cut" in case:
        (copy / case["cut"]).write_bytes((copy / case["cut"]).read_bytes()[:-9])
    if "edit" in case:
        name, pattern, new = case["edit"]
        (copy / name).write_text(re.sub(pattern, new, (copy / name).read_text("utf-8")), "utf-8")
    write_files(case.get("write", {}), copy)


def write_files(files: dict[str, str | list[str]], directory: Path) -> None:
    for name, content in files.items():
        (directory / name).parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str) else content[0] + 8 * content[1] + content[2]
        (directory / name).write_text(text, "utf-8")


@pytest.mark.parametrize("name", ["a damaged manifest", "a value of another type", "no text to fill"])
def test_debug_shows_a_traceback_before_the_line(name, samples, tmp_path, cloze):
    prepare(CASES[name], samples, tmp_path)
    line = cloze(CASES[name]["command"], "--quiet", code=2).err
    shown = cloze(CASES[name]["command"], "--quiet", "--debug", code=2).err
    assert shown.startswith("Traceback")
    assert shown.endswith(line)


def test_a_line_of_100_mb_is_not_read_into_memory(tmp_path, error_line):
    with (tmp_path / "text").open("wb") as stream:
        for _ in range(100):
            stream.write(b"a" * 1_000_000)
    for command in (CORPUS, "predict classification -m {classifier} {tmp}/text -o {out}"):
        tracemalloc.start()
        line = error_line(command)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert "text:1: a line of over 10 MB" in line
        assert peak < 40_000_000
        assert not (tmp_path / "out").exists()


def test_errors_name_lines_of_stdin(error_line, monkeypatch):
    def send(content: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    for command in ("fill -m {run} -", "predict classification -m {classifier} -"):
        send(b"It was a [MASK].\ncaf\xe9 [MASK]\n")
        assert "stdin:2: not UTF-8 at byte 4" in error_line(command)
    send(b"It was a [MASK].\n\n")
    assert "stdin:2: no [MASK] in ''" in error_line("fill -m {run} -")


def test_arguments_may_hold_lone_surrogates(cloze, error_line):
    """Python hands over bytes of the command line that are not UTF-8 as lone surrogates."""
    assert cloze("fill -m {run} --json", "caf\udce9 [MASK]").json["text"] == "caf\udce9 [MASK]"
    cloze("next -m {run}", "\udce9", "")
    cloze("next -m {run}", "", "")
    assert "no such file, directory or bundled model" in error_line("info", "caf\udce9")


@pytest.mark.usefixtures("samples")  # made before the patch
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_loss_that_stays_infinite_ends_the_run_and_keeps_checkpoints(
    optimizer, tmp_path, cloze, error_line, monkeypatch
):
    monkeypatch.setattr(
        "cloze.training.step.learning_rate_at", lambda progress, config: 1e38 * (progress > 0.1)
    )
    more = PRETRAIN.replace("--steps 1", "--steps 20 --set checkpoints.every_steps=1")
    rates = {"optimizer.learning_rate": "1e-4"}
    if optimizer == "muon":
        rates["optimizer.muon.learning_rate"] = "2e-4"
        more = more.replace("--steps 20", "--steps 20 --set optimizer.muon.learning_rate=1e-3")
    line = error_line(more + "--data {data}", code=1)
    assert f"{tmp_path}/out: loss nan" in line
    assert "at step 7 (phase 1, epoch 0, block 0, instances from" in line
    assert "3 times in a row" in line
    remedy = f"--resume {' '.join(f'--set {name}=RATE' for name in rates)}"
    assert f"Continue with a lower rate: {remedy}; step" in line
    assert "; step 4 was saved right before and may be corrupt" in line
    kept = sorted((tmp_path / "out/checkpoints").iterdir())
    assert kept
    for checkpoint in kept:
        artifacts.verify(checkpoint, kind="checkpoint")
    rows = [json.loads(row) for row in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    assert sum(row["kind"] == "skipped" for row in rows) == 3
    monkeypatch.undo()
    shutil.rmtree(kept[-1])
    for name, rate in rates.items():
        remedy = remedy.replace(f"{name}=RATE", f"{name}={rate}")
    cloze("pretrain -o {out} --quiet", *remedy.split())
    settings = (tmp_path / "out/run.toml").read_text()
    assert all(f"learning_rate = {float(rate)}" in settings for rate in rates.values())


OUT_OF_MEMORY_ERRORS = (
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
)


@pytest.mark.usefixtures("samples")  # made before the patch
@pytest.mark.parametrize("oom_error", OUT_OF_MEMORY_ERRORS, ids=lambda error: type(error).__name__)
def test_out_of_memory_gives_one_line(oom_error, error_line, monkeypatch):
    def fail(*args: object, **kwargs: object) -> None:
        raise oom_error

    monkeypatch.setattr("cloze.pretraining.objective.PretrainingObjective.forward", fail)
    line = error_line(PRETRAIN + "--data {data}", code=1)
    assert "out of memory at step 1 with one sequence at a time" in line
    monkeypatch.setattr("cloze.inference.pretrained_heads.FillMask.load", fail)
    assert "out of memory" in error_line("fill -m {run} 'a [MASK]'", code=1)


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (PermissionError(13, "Permission denied", "/some/where"), "/some/where: Permission denied"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "Broken pipe"),  # of another pipe than stdout
        (
            ZeroDivisionError("division\nby zero"),
            "ZeroDivisionError: division by zero. This is a bug in cloze: --debug shows where.",
        ),
    ],
)
def test_errors_of_the_system_and_bugs_give_one_line(failure, line, cloze, monkeypatch):
    def fail(directory: Path) -> None:
        raise failure

    monkeypatch.setattr("cloze.reports.describe.describe", fail)
    assert cloze("info {vocab}", code=1) == ("", f"error: {line}\n")


def run_cloze(
    command: str, names: dict[str, Path], *, stdout: int | io.BufferedWriter = -1
) -> "subprocess.CompletedProcess[str]":
    """Run a real process."""
    return subprocess.run(
        [sys.executable, "-m", "cloze", *shlex.split(fill_in(command, names))],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )


def run_on_full_disk(command: str, names: dict[str, Path], errors: Path, max_bytes: int) -> tuple[int, str]:
    process = Command(shlex.split(fill_in(command, names)), errors, max_bytes=max_bytes)
    error = process.finish()
    assert process.exit_code is not None
    return process.exit_code, error


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
@pytest.mark.parametrize(
    ("command", "max_bytes"),
    [
        ("vocab {text} -o {out} --size 500 --workers 1 --quiet", 2000),
        ("corpus {text} --vocabulary {vocab} -o {out} --workers 1 --quiet", 30_000),
        ("corpus {text} --vocabulary {vocab} -o {out} --workers 2 --quiet", 30_000),
        (PRETRAIN + "--data {data} --quiet", 500),
        ("report {run} -o {out} --quiet", 3000),
        ("predict classification -m {classifier} {table} -o {out} --quiet", 1000),
    ],
)
def test_a_full_disk_leaves_no_output(command, max_bytes, paths, tmp_path):
    (tmp_path / "errors").mkdir()
    code, error = run_on_full_disk(command, paths, tmp_path / "errors/stderr", max_bytes)
    assert code == 1
    assert "File too large" in one_line_of(error)
    assert str(paths["out"]) in error
    assert read_tree(tmp_path).keys() == {"errors/stderr"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
def test_a_full_disk_keeps_earlier_checkpoints(samples, paths, tmp_path, cloze):
    run = Path(shutil.copytree(samples.run, tmp_path / "out"))
    shutil.rmtree(run / "checkpoints/step-00000004")
    command = "pretrain -o {out} --resume --quiet"
    code, error = run_on_full_disk(command, paths, tmp_path / "stderr", 30_000)
    assert code == 1
    assert "model.safetensors: cannot write" in one_line_of(error)
    assert os.listdir(run / "checkpoints") == ["step-00000002"]
    artifacts.verify(run / "checkpoints/step-00000002")
    cloze(command)
    wanted, got = (d / "checkpoints/step-00000004/model.safetensors" for d in (samples.run, run))
    assert got.read_bytes() == wanted.read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_or_closed_stdout(paths):
    command = "corpus {text} --vocabulary {vocab} -o {out} --workers 1 --quiet"
    with open("/dev/full", "wb") as full:
        done = run_cloze(command, paths, stdout=full)
    assert done.returncode == 1
    line = f"error: stdout: No space left on device. {paths['out']} is complete."
    assert one_line_of(done.stderr) == line
    artifacts.verify(paths["out"], kind="dataset")
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = run_cloze(command + " --overwrite", paths, stdout=closed)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_write_permission(tmp_path, error_line):
    tmp_path.chmod(0o500)
    line = error_line("corpus {text} --vocabulary {vocab} -o {out} --workers 1", code=1)
    assert f"{tmp_path}/out: cannot write: Permission denied" in line
