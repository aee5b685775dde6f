"""Creating the directory of a run: one process at a time, and a kill at any moment blocks nothing."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import cloze
from cloze.artifacts import is_free
from cloze.training.distributed import DistributedContext
from cloze.training.run_directory import create_run_directory, is_run, run_lock
from tiny_models import SPECIAL, tiny_config, write_checkpoint

ALONE = DistributedContext(torch.device("cpu"))
DATA = Path(__file__)
KILLED = 9


def create(run: Path, settings: str = "seed = 1\n", *, overwrite: bool = False) -> None:
    with run_lock(run, ALONE):
        create_run_directory(run, settings, files={"data/train.jsonl": DATA}, overwrite=overwrite)


def kill_at_each_change(directory: Path) -> None:
    """Create runs in child processes, which end without cleanup before the first, the second, … change of a file."""
    for number in range(1, 100):
        if (child := os.fork()) == 0:
            _end_before_change(number)
            create(directory / f"{number:02}")
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != KILLED:
            break


def _end_before_change(number: int) -> None:
    changes = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal changes
        is_written = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
        changes += bool(is_written) or event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir")
        if changes == number:
            os._exit(KILLED)

    sys.addaudithook(count)


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.trials("kill", 14)
def test_a_kill_during_creation_leaves_a_free_directory(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, __file__, tmp_path], env=environment, check=True)
    *killed, last = sorted(tmp_path.iterdir())
    assert is_run(last)
    assert len(killed) >= 14
    for run in killed:
        assert is_free(run)
        create(run)
        assert {path.name for path in run.iterdir()} == {".lock", ".run.toml", "data", "run.toml"}
        assert (run / "data/train.jsonl").read_text() == DATA.read_text()
        assert len(list((run / "data").iterdir())) == 1


@pytest.mark.parametrize("resume", [True, False])
def test_a_run_whose_creation_was_killed_is_started_with_rows_in_memory(tmp_path, resume):
    tokens, run = (*SPECIAL, "good", "bad"), tmp_path / "run"
    model = write_checkpoint(tmp_path / "tiny", cloze.BertModel(tiny_config(tokens)), tokens)
    create(run)
    (run / "run.toml").rename(run / ".writing-run.toml-0123456789abcdef")
    rows = [(word, word) for word in ("good", "bad")] * 8
    keywords: dict[str, Any] = {"train": rows, "dev": rows, "model": model, "output": run, "epochs": 1}
    cloze.finetune("classification", **keywords, max_seq_length=8, device="cpu", resume=resume)
    assert len((run / "data/train.jsonl").read_text().splitlines()) == len(rows)
    assert not list(run.glob(".writing-*"))


@pytest.mark.parametrize(
    "files", [("notes.txt",), ("data/train.csv",), (".run.toml", "checkpoints/a"), (".writing-b-12/c",)]
)
def test_a_directory_with_other_files_is_not_free(tmp_path, files):
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("")
    assert not is_free(tmp_path)
    with pytest.raises(cloze.InputError, match="already exists"):
        create(tmp_path)
    assert all((tmp_path / file).exists() for file in files)


def test_a_run_stays_locked_while_it_is_replaced_and_is_kept_without_overwrite(tmp_path):
    run = tmp_path / "run"
    assert is_free(run)
    create(run)
    with pytest.raises(cloze.InputError, match="already exists"):
        create(run, "seed = 2\n")
    assert (run / "run.toml").read_text() == "seed = 1\n"
    with run_lock(run, ALONE):
        create_run_directory(run, "seed = 2\n", overwrite=True)
        with pytest.raises(cloze.InputError, match="another process is using this run"):
            create(run, overwrite=True)
    assert (run / "run.toml").read_text() == "seed = 2\n"


@pytest.mark.parametrize("exists", [True, False])
def test_a_run_that_cannot_be_created_leaves_the_directory_as_it_was(tmp_path, exists):
    run = tmp_path / "run"
    if exists:
        run.mkdir()
    with pytest.raises(ZeroDivisionError), run_lock(run, ALONE):
        raise ZeroDivisionError
    assert run.exists() == exists
    assert not exists or os.listdir(run) == []


if __name__ == "__main__":
    kill_at_each_change(Path(sys.argv[1]))
