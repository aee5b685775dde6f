"""Errors of the command line: one line for wrong input or a failure, no incomplete output, and remedies that work.

The wrong inputs are the rows of `bad_inputs` and `bad_data`. A row whose line prints a remedy says how it is followed,
or in one place, `remedies.NOT_RUN`, why it cannot be.
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
import tracemalloc
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from bad_data import CASES, NOT_RUN, REMEDIES
from bad_inputs import CORPUS, LINE, PRETRAIN
from remedies import Remedy, with_groups
from samples import Samples, fill_in, sample_paths

from cloze import artifacts
from cloze.cli import main
from forked import Command

pytestmark = [pytest.mark.protected, pytest.mark.trials("bad input")]

LIMIT_SECONDS = 5  # of the processor; other work on the machine does not count


def one_line_of(stderr: str) -> str:
    line = stderr.removesuffix("\n")
    assert line.startswith("error: "), stderr
    assert "\n" not in line, stderr
    assert "bug in cloze" not in line, stderr
    return line


def contents(directory: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in directory.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", CASES)
def test_wrong_input_gives_one_line(
    name: str, samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    names = sample_paths(tmp_path, samples)
    case.prepare(tmp_path, samples)
    capsys.readouterr()
    before, samples_before = contents(tmp_path), contents(samples.text.parent)
    arguments = shlex.split(fill_in(case.command, names))
    started = time.process_time()
    code = main([*arguments, "--quiet"])
    assert time.process_time() - started < LIMIT_SECONDS
    printed = capsys.readouterr()
    line = one_line_of(printed.err)
    for words in case.messages:
        assert fill_in(words, names) in line
    assert code == 2
    assert printed.out == ""
    assert not names["out"].exists()
    if case.keeps_parts:
        shutil.rmtree(tmp_path / "out.parts")
    assert contents(tmp_path) == before, "incomplete output is left"
    assert contents(samples.text.parent) == samples_before, "the input was changed"
    if remedy := REMEDIES.get(name):
        follow(remedy, case.command, line, tmp_path, samples)
        assert contents(samples.text.parent) == samples_before
    else:
        assert not line.endswith((".", "?")) or name in NOT_RUN, f"nothing follows what the line says: {line}"


def follow(remedy: Remedy, command: str, line: str, tmp: Path, samples: Samples) -> None:
    """Follow the remedy in a line, and check that the command then succeeds."""
    match = re.search(remedy.says, line)
    assert match, line
    found = tuple(group.replace(",", "") for group in match.groups() if group)
    remedy.edit(tmp, match.groups(), samples)
    if remedy.command:
        command = remedy.command
    for old, new in remedy.replace.items():
        assert old in command
        command = command.replace(old, new) if old else command + new
    names = sample_paths(tmp, samples)
    if "--help" in (command := with_groups(command, found)):
        assert main(shlex.split(command)) == 0
        return
    for words in filter(None, (remedy.first, command)):
        arguments = shlex.split(fill_in(with_groups(words, found), names))
        assert main([*arguments, "--quiet"]) == 0, words


@pytest.mark.parametrize(
    "name", ["a truncated .xz", "a bit of the weights flipped", "no such flag", "no text to fill"]
)
def test_debug_shows_a_traceback_before_the_line(
    name: str, samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    case.prepare(tmp_path, samples)
    arguments = shlex.split(fill_in(case.command, sample_paths(tmp_path, samples)))
    assert main([*arguments, "--quiet"]) == 2
    line = capsys.readouterr().err
    assert main([*arguments, "--quiet", "--debug"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.endswith(line)


ODD_TEXTS = {
    "line ends of Windows": LINE.replace(b"\n", b"\r\n") * 9,
    "a byte order mark": b"\xef\xbb\xbf" + LINE * 9,
    "no last line end": (LINE * 9).rstrip(),
    "many blank lines": b"\n\n\n" + (LINE + b"\n \n\n") * 9,
    "a line of 9 MB": LINE + b"night " * 1_500_000,
    "control characters": LINE.replace(b"dark", b"d\x01a\x1brk") * 9,
    "every plane of Unicode": "日本語 \U0001f600 \U000e0041 ﷽\n".encode() * 9,
}


@pytest.mark.parametrize("name", ODD_TEXTS)
def test_odd_text_is_read(
    name: str, samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_bytes(ODD_TEXTS[name])
    assert main(shlex.split(fill_in(CORPUS + " --quiet --json", sample_paths(tmp_path, samples)))) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["tokens"] > 0
    assert all(line.startswith("warning: ") for line in printed.err.splitlines())


def test_a_line_of_100_mb_is_not_read_into_memory(
    samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "text").open("wb") as stream:
        for _ in range(100):
            stream.write(b"a" * 1_000_000)
    for command in (CORPUS, "predict classification -m {classifier} {tmp}/text -o {out}"):
        arguments = shlex.split(fill_in(command, sample_paths(tmp_path, samples)))
        tracemalloc.start()
        code = main([*arguments, "--quiet"])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert code == 2
        assert "text:1: a line of over 10 MB" in one_line_of(capsys.readouterr().err)
        assert peak < 40_000_000
        assert not (tmp_path / "out").exists()


def test_errors_name_lines_of_stdin(
    samples: Samples, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"It was a [MASK].\ncaf\xe9 [MASK]\n"
    for command in ("fill -m {run} -", "predict classification -m {classifier} -"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert main([*shlex.split(fill_in(command, asdict(samples))), "--quiet"]) == 2
        assert "stdin:2: not UTF-8 at byte 4" in one_line_of(capsys.readouterr().err)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"It was a [MASK].\n\n")))
    assert main(["fill", "-m", str(samples.run), "-", "--quiet"]) == 2
    assert "stdin:2: no [MASK] in ''" in one_line_of(capsys.readouterr().err)


def test_arguments_may_hold_lone_surrogates(samples: Samples, capsys: pytest.CaptureFixture[str]) -> None:
    """Python hands over bytes of the command line that are not UTF-8 as lone surrogates."""
    assert main(["fill", "-m", str(samples.run), "caf\udce9 [MASK]", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "caf\udce9 [MASK]"
    assert main(["next", "-m", str(samples.run), "\udce9", ""]) == 0
    assert main(["next", "-m", str(samples.run), "", ""]) == 0
    capsys.readouterr()
    assert main(["info", "caf\udce9"]) == 2
    assert "no such file, directory or bundled model" in one_line_of(capsys.readouterr().err)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_loss_that_stays_infinite_ends_the_run_and_keeps_checkpoints(
    optimizer: str,
    samples: Samples,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "cloze.training.run.learning_rate_at", lambda progress, config: 1e38 * (progress > 0.1)
    )
    more = PRETRAIN.replace("--steps 1", "--steps 20 --set checkpoints.every_steps=1")
    rates = {"optimizer.learning_rate": "1e-4"}
    if optimizer == "muon":
        rates["optimizer.muon.learning_rate"] = "2e-4"
        more = more.replace("--steps 20", "--steps 20 --set optimizer.muon.learning_rate=1e-3")
    assert (
        main([*shlex.split(fill_in(more + "--data {data}", sample_paths(tmp_path, samples))), "--quiet"]) == 1
    )
    line = one_line_of(capsys.readouterr().err)
    assert f"{tmp_path}/out: loss nan" in line
    assert "at step 7 (phase 1, epoch 0, instances from" in line
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
    assert main(["pretrain", "-o", f"{tmp_path}/out", *remedy.split(), "--quiet"]) == 0
    settings = (tmp_path / "out/run.toml").read_text()
    assert all(f"learning_rate = {float(rate)}" in settings for rate in rates.values())


OUT_OF_MEMORY_ERRORS = (
    MemoryError(),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: you tried to"
    ),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
)


@pytest.mark.parametrize("oom_error", OUT_OF_MEMORY_ERRORS, ids=lambda error: type(error).__name__)
def test_out_of_memory_gives_one_line(
    oom_error: Exception,
    samples: Samples,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise oom_error

    monkeypatch.setattr("cloze.pretraining.objective.PretrainingObjective.forward", fail)
    command = PRETRAIN + "--data {data} --quiet"
    assert main(shlex.split(fill_in(command, sample_paths(tmp_path, samples)))) == 1
    assert "out of memory at step 1 with one sequence at a time" in one_line_of(capsys.readouterr().err)
    monkeypatch.setattr("cloze.inference.fill_mask.FillMask.load", fail)
    assert main(["fill", "-m", str(samples.run), "a [MASK]"]) == 1
    assert "out of memory" in one_line_of(capsys.readouterr().err)


def test_errors_of_the_system_and_bugs_give_one_line(
    samples: Samples, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failure: Exception = PermissionError(13, "Permission denied", "/some/where")

    def fail(directory: Path) -> None:
        raise failure

    monkeypatch.setattr("cloze.reports.describe.describe", fail)
    assert main(["info", str(samples.run)]) == 1
    assert one_line_of(capsys.readouterr().err) == "error: /some/where: Permission denied"
    failure = ZeroDivisionError("division\nby zero")
    assert main(["info", str(samples.run)]) == 1
    shown = capsys.readouterr().err
    assert (
        shown == "error: ZeroDivisionError: division by zero. This is a bug in cloze: --debug shows where.\n"
    )


def run_cloze(
    command: str,
    names: dict[str, Path],
    *,
    stdout: int | io.BufferedWriter = -1,
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
def test_a_full_disk_leaves_no_output(command: str, max_bytes: int, samples: Samples, tmp_path: Path) -> None:
    names = sample_paths(tmp_path, samples)
    (tmp_path / "errors").mkdir()
    code, error = run_on_full_disk(command, names, tmp_path / "errors/stderr", max_bytes)
    assert code == 1
    assert "File too large" in one_line_of(error)
    assert str(names["out"]) in error
    assert contents(tmp_path).keys() == {tmp_path / "errors/stderr"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
def test_a_full_disk_keeps_earlier_checkpoints(samples: Samples, tmp_path: Path) -> None:
    names = sample_paths(tmp_path, samples)
    run = Path(shutil.copytree(samples.run, tmp_path / "out"))
    shutil.rmtree(run / "checkpoints/step-00000004")
    command = "pretrain -o {out} --resume --quiet"
    code, error = run_on_full_disk(command, names, tmp_path / "stderr", 30_000)
    assert code == 1
    assert "model.safetensors: cannot write" in one_line_of(error)
    assert os.listdir(run / "checkpoints") == ["step-00000002"]
    artifacts.verify(run / "checkpoints/step-00000002")
    assert main(["pretrain", "-o", str(run), "--resume", "--quiet"]) == 0
    wanted, got = (d / "checkpoints/step-00000004/model.safetensors" for d in (samples.run, run))
    assert got.read_bytes() == wanted.read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_or_closed_stdout(samples: Samples, tmp_path: Path) -> None:
    command, names = (
        "corpus {text} --vocabulary {vocab} -o {out} --workers 1 --quiet",
        sample_paths(tmp_path, samples),
    )
    with open("/dev/full", "wb") as full:
        done = run_cloze(command, names, stdout=full)
    assert done.returncode == 1
    assert one_line_of(done.stderr) == "error: No space left on device"
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = run_cloze(command + " --overwrite", names, stdout=closed)
    assert (done.returncode, done.stderr) == (0, "")


def test_hub_data_without_the_package_datasets(
    samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)  # also if it is installed
    assert (
        main(
            ["corpus", "hf:imdb", "--vocabulary", str(samples.vocab), "-o", str(tmp_path / "out"), "--quiet"]
        )
        == 2
    )
    line = one_line_of(capsys.readouterr().err)
    assert "hf:imdb: needs the package datasets" in line
    assert "[hub]'." in line
    assert not (tmp_path / "out").exists()


def test_a_broken_pipe_that_is_not_stdout_is_a_failure(
    samples: Samples, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_off(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("cloze.reports.describe.describe", break_off)
    assert main(["info", str(samples.vocab)]) == 1
    assert one_line_of(capsys.readouterr().err) == "error: Broken pipe"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_write_permission(
    samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)
    command = "corpus {text} --vocabulary {vocab} -o {out} --workers 1 --quiet"
    assert main(shlex.split(fill_in(command, sample_paths(tmp_path, samples)))) == 1
    assert f"{tmp_path}/out: cannot write: Permission denied" in one_line_of(capsys.readouterr().err)


@pytest.mark.slow
def test_a_process_gives_the_same_exit_code_and_line(samples: Samples, tmp_path: Path) -> None:
    names = sample_paths(tmp_path, samples)
    done = run_cloze("corpus {tmp}/none --vocabulary {vocab} -o {out}", names)
    assert (done.returncode, done.stdout) == (2, "")
    assert fill_in("{tmp}/none: no such file", names) in one_line_of(done.stderr)
