"""A study at a nano size: order of runs, record, and continuing after a kill."""

import json
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file

from cloze import artifacts
from cloze.errors import InputError, RunError
from cloze.model_paths import resolve_checkpoint
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.run import pretrain
from experiments import run as study_run
from experiments.__main__ import main
from experiments.plan import plan_study
from experiments.run import run_study
from experiments.study import read_study
from helpers import make_once

REPOSITORY = Path(__file__).resolve().parents[3]
STUDIES = sorted((REPOSITORY / "research/experiments/studies").glob("*.toml"))
SIZE = (
    "num_hidden_layers = 1, hidden_size = 24, num_attention_heads = 3, intermediate_size = 40, "
    "max_position_embeddings = 32"
)
NANO = f"""
title = "Nano"
base = "plain"
seeds = [4, 5]

[settings]
steps = 8
precision = "float32"
device = "cpu"

model = {{ {SIZE} }}
phases = [{{ max_seq_length = 32, fraction = 1.0, batch_size = 8 }}]
optimizer = {{ learning_rate = 1e-3 }}
evaluation = {{ times = 4, max_instances = 2000, log_every_steps = 1 }}

[variants.plain]

[variants.muon.optimizer.muon]
learning_rate = 1e-2

[variants.no-pairs.pairs]
next_sentence = false
"""


@pytest.fixture
def nano(tmp_path: Path) -> Path:
    path = tmp_path / "nano.toml"
    path.write_text(NANO)
    return path


@pytest.fixture(scope="session")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, run to its end."""

    def make(directory: Path) -> None:
        (directory / "nano.toml").write_text(NANO)
        run_study(read_study(directory / "nano.toml"), data, directory / "out")

    return make_once(tmp_path_factory, "study", make) / "out"


@pytest.fixture
def done(made: Path, tmp_path: Path) -> Path:
    """A copy of the finished study."""
    return Path(shutil.copytree(made, tmp_path / "done", symlinks=True))


def results(output: Path) -> dict[str, Any]:
    return json.loads((output / "record/results.json").read_text())


@pytest.mark.slow
def test_runs_are_made_seed_by_seed_and_compared(done):
    record = results(done)
    made = [(run["seed"], run["variant"]) for run in record["runs"]]
    assert made == [(seed, name) for seed in (4, 5) for name in ("plain", "muon", "no-pairs")]
    plain, muon, no_pairs = record["rows"]
    assert [row["seeds"] for row in record["rows"]] == [2, 2, 2]
    assert "difference" not in plain["pairs"]
    assert muon["pairs"]["difference"]["low"] < muon["pairs"]["difference"]["mean"]
    assert muon["pairs"]["difference"]["mean"] == pytest.approx(
        muon["pairs"]["mean"] - plain["pairs"]["mean"]
    )
    assert plain["share_of_time"] <= 1.0
    assert "share_of_time" not in no_pairs
    for run in record["runs"]:
        assert len(run["masked_lm_losses"]) == 4
        if run["variant"] == "no-pairs":
            assert run["segments"]["masked_lm_loss"] == pytest.approx(run["masked_lm_losses"][-1], rel=1e-4)
        else:
            assert run["pairs"]["masked_lm_loss"] == pytest.approx(run["masked_lm_losses"][-1], rel=1e-4)


@pytest.mark.slow
def test_the_record_has_a_page_curves_and_the_study(done):
    artifacts.verify(done / "record", kind="record")
    page = (done / "record/README.md").read_text()
    assert page.startswith("# Nano\n\n| variant | seeds |")
    rows = [line for line in page.splitlines() if line.startswith(("| plain", "| muon", "| no-pairs"))]
    assert [row.count("|") for row in rows] == [13, 13, 13]
    assert "curves.svg" in page
    curves = (done / "record/curves.svg").read_text()
    assert ">muon<" in curves
    assert ">no-pairs<" not in curves  # measured on other instances
    plain, _, no_pairs = ([cell.strip() for cell in row.split("|")] for row in rows)
    assert float(plain[3]) == pytest.approx(0.02, abs=0.01)  # million parameters
    assert no_pairs[11] == "-"  # it never learned next sentences
    assert (done / "runs/plain/seed-4/run.toml").read_text().split('data_sha256 = "')[1][:64] in page
    again = read_study(done / "record/study.toml")
    assert plan_study(again, data_of(done), done)[0].is_finished


def data_of(output: Path) -> Path:
    text = (output / "runs/plain/seed-4/run.toml").read_text()
    return Path(next(line for line in text.splitlines() if line.startswith("data = ")).split('"')[1])


@pytest.mark.protected
@pytest.mark.timeout(300)
@pytest.mark.exhaustive
def test_the_same_command_continues_after_sigkill_and_sigterm(done, data, nano, tmp_path):
    output = tmp_path / "out"
    arguments = [str(nano), "--data", str(data), "-o", str(output), "--quiet"]
    command = [sys.executable, "-m", "experiments", "study", *arguments]
    for number, wait_for in (
        (signal.SIGKILL, "runs/plain/seed-4/metrics.jsonl"),
        (signal.SIGTERM, "runs/no-pairs/seed-4/metrics.jsonl"),
    ):
        process = subprocess.Popen(command, cwd=REPOSITORY / "research", stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 120
        while not (output / wait_for).exists() and time.monotonic() < end and process.poll() is None:
            time.sleep(0.002)
        assert (output / wait_for).exists()
        assert process.poll() is None
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
        assert process.returncode in (-number, 130)
        if number == signal.SIGTERM and process.returncode == 130:
            assert errors.startswith("error: stopped by SIGTERM")
            assert "The same command continues." in errors
    last = subprocess.run(command, cwd=REPOSITORY / "research", check=True, capture_output=True)
    assert last.stderr == b""
    for run in sorted((done / "runs").glob("*/seed-*")):
        one, other = (
            load_file(resolve_checkpoint(each, "latest") / "model.safetensors")
            for each in (run, output / run.relative_to(done))
        )
        assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_dry_run_prints_the_duration(nano, tmp_path, capsys):
    text = NANO.replace("steps = 8", "budget_seconds = 600")
    nano.write_text(text)
    assert main(["study", str(nano), "--data", "D", "-o", str(tmp_path / "out"), "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("6 runs: 3 variants, 2 seeds; 1:00:00 of training left")
    run = tmp_path / "out/runs/plain/seed-4"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text('{"kind": "train", "step": 9, "seconds": 120.0}\n')
    arguments = ["--set", "budget_seconds=300", "--seed", "4", "--dry-run", "--json"]
    assert main(["study", str(nano), "--data", "D", "-o", str(tmp_path / "out"), *arguments]) == 0
    assert json.loads(capsys.readouterr().out)["seconds"] == 3 * 300 - 120
    assert not (tmp_path / "out/record").exists()


@pytest.mark.slow
def test_other_runs_are_made_after_a_failure(data, nano, tmp_path, monkeypatch):
    def fail_for_muon(config: PretrainConfig, run: Path, *arguments: Any) -> dict[str, float]:
        if config.optimizer.muon is not None:
            raise RunError("loss nan")
        return pretrain(config, run, *arguments)

    monkeypatch.setattr(study_run, "pretrain", fail_for_muon)
    made = read_study(nano)
    with pytest.raises(RunError, match="1 of 3 runs failed: muon, seed 5"):
        run_study(made, data, tmp_path / "out", seeds=[5])
    assert [row["variant"] for row in results(tmp_path / "out")["rows"]] == ["plain", "no-pairs"]
    monkeypatch.undo()
    run_study(made, data, tmp_path / "out", seeds=[5])
    assert [row["variant"] for row in results(tmp_path / "out")["rows"]] == ["plain", "muon", "no-pairs"]


@pytest.mark.slow
def test_other_settings_and_other_data_are_refused(done, nano, tmp_path):
    nano.write_text(NANO.replace("learning_rate = 1e-2", "learning_rate = 2e-2"))
    with pytest.raises(InputError, match=r"muon/seed-4: was run with other settings"):
        run_study(read_study(nano), data_of(done), done)
    nano.write_text(NANO + "\n[settings.checkpoints]\nkeep_newest = 1\n")  # which change no weights
    shutil.copytree(data_of(done), tmp_path / "same")
    assert all(run.is_finished for run in plan_study(read_study(nano), tmp_path / "same", done))
    manifest = tmp_path / "same/manifest.json"
    manifest.write_text(manifest.read_text().replace('"sha256": "', '"sha256": "0', 1))
    with pytest.raises(InputError, match=r"plain/seed-4: was run with other data"):
        run_study(read_study(nano), tmp_path / "same", done)


@pytest.mark.slow
def test_commands_for_other_seeds_may_write_the_record_at_once(done, nano, tmp_path):
    shutil.copytree(done / "runs", tmp_path / "out/runs", symlinks=True)
    made, data = read_study(nano), data_of(done)
    for _ in range(3):
        shutil.rmtree(tmp_path / "out/record", ignore_errors=True)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda seed: run_study(made, data, tmp_path / "out", seeds=[seed]), (4, 5)))
        assert len(results(tmp_path / "out")["runs"]) == 6


@pytest.mark.slow
def test_two_commands_cannot_make_the_same_runs(done, nano):
    made, data = read_study(nano), data_of(done)
    with FileLock(done / "seed-5.lock"):
        with pytest.raises(InputError, match="another command makes the runs of seed 5"):
            run_study(made, data, done)
        run_study(made, data, done, seeds=[4])
    run_study(made, data, done)


@pytest.mark.slow
def test_a_study_from_a_checkpoint_can_be_run_again(data, nano, tmp_path):
    small = NANO.replace("steps = 8", "steps = 1").replace("seeds = [4, 5]", "seeds = [4]")
    sized = small.replace(SIZE, 'size = "tiny"').partition("[variants.muon")[0]
    nano.write_text(sized)
    run_study(read_study(nano), data, tmp_path / "first")
    nano.write_text(sized.replace("\nsteps = 1", f'\nsteps = 1\ninit = "{tmp_path}/first/runs/plain/seed-4"'))
    run_study(read_study(nano), data, tmp_path / "out")
    run_study(read_study(nano), data, tmp_path / "out")
    nano.write_text(nano.read_text().replace('size = "tiny"', 'size = "tiny", hidden_dropout_prob = 0.2'))
    with pytest.raises(InputError, match="was run with other settings"):
        plan_study(read_study(nano), data, tmp_path / "out")


def test_a_wrong_setting_is_found_before_anything_is_run(nano, data, tmp_path):
    with pytest.raises(InputError, match="--set: sets seed, which a study or its command sets"):
        read_study(nano, ["seed=3"])
    with pytest.raises(InputError, match="seed 9 is not one of the study"):
        run_study(read_study(nano), data, tmp_path / "out", seeds=[9])
    nano.write_text(NANO.replace("next_sentence = false", "next_sentense = false"))
    with pytest.raises(InputError, match=r"the variant no-pairs: unknown key pairs\.next_sentense"):
        run_study(read_study(nano), data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_bundled_study_can_be_planned(path, tmp_path):
    made = read_study(path)
    runs = plan_study(made, tmp_path / "data", tmp_path / "out")
    made_here = [name for name in made.variants if made.origin(name) is None]  # the others want tasks
    assert len(runs) == len(made_here) * len(made.seeds)
