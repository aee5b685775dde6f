"""A study at a nano size: what it runs, in which order, what its record says, and that a kill loses nothing."""

import json
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file

from cloze import artifacts
from cloze.cli import main
from cloze.corpus.build import BuildConfig, build_dataset
from cloze.corpus.sources import ReadingConfig
from cloze.corpus.vocabulary import train_vocabulary
from cloze.errors import InputError, RunError
from cloze.evidence import study
from cloze.evidence.study import run_study
from cloze.evidence.study_file import read_study
from cloze.evidence.study_plan import plan_study
from cloze.evidence.study_record import write_study_record
from cloze.evidence.study_results import Compared
from cloze.locate import resolve_checkpoint
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.run import pretrain
from helpers import write_novel

REPOSITORY = Path(__file__).resolve().parents[2]
STUDIES = sorted((REPOSITORY / "src/cloze/recipes/studies").glob("*.toml"))
ENVIRONMENT = {
    "processor": "P",
    "device": "cpu",
    "threads": 1,
    "compute_dtype": "float32",
    "versions": {"torch": "2"},
}
NANO = """
title = "Whether it runs"
base = "plain"
seeds = [4, 5]

[settings]
steps = 8
precision = "float32"
device = "cpu"

[settings.model]
num_hidden_layers = 1
hidden_size = 24
num_attention_heads = 3
intermediate_size = 40
max_position_embeddings = 32

[[settings.phases]]
max_seq_length = 32
fraction = 1.0
batch_size = 8

[settings.optimizer]
learning_rate = 1e-3

[settings.evaluation]
times = 4
max_instances = 2000
log_every_steps = 1

[variants.plain]

[variants.muon.optimizer.muon]
learning_rate = 1e-2

[variants.no-pairs.pairs]
next_sentence = false
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("study")
    text = write_novel(directory / "novel.txt", 200)
    train_vocabulary([text], directory / "vocab", size=400)
    config = BuildConfig(reading=ReadingConfig(text_format="paragraphs"), validation_fraction=0.2)
    build_dataset([text], directory / "vocab", directory / "data", config)
    return directory / "data"


@pytest.fixture
def nano(tmp_path: Path) -> Path:
    path = tmp_path / "nano.toml"
    path.write_text(NANO)
    return path


@pytest.fixture(scope="module")
def done(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, run to its end."""
    directory = tmp_path_factory.mktemp("done")
    (directory / "nano.toml").write_text(NANO)
    run_study(read_study(directory / "nano.toml"), data, directory / "out")
    return directory / "out"


def _results(output: Path) -> dict[str, Any]:
    return json.loads((output / "record/results.json").read_text())


def test_runs_are_made_seed_by_seed_and_compared(done: Path) -> None:
    results = _results(done)
    made = [(run["seed"], run["variant"]) for run in results["runs"]]
    assert made == [(seed, name) for seed in (4, 5) for name in ("plain", "muon", "no-pairs")]
    plain, muon, no_pairs = results["rows"]
    assert [row["seeds"] for row in results["rows"]] == [2, 2, 2]
    assert "difference" not in plain["pairs"]
    assert muon["pairs"]["difference"]["low"] < muon["pairs"]["difference"]["mean"]
    assert muon["pairs"]["difference"]["mean"] == pytest.approx(
        muon["pairs"]["mean"] - plain["pairs"]["mean"]
    )
    assert plain["share_of_time"] <= 1.0
    assert "share_of_time" not in no_pairs
    for run in results["runs"]:
        assert len(run["masked_lm_losses"]) == 4
        if run["variant"] == "no-pairs":
            assert run["segments"]["masked_lm_loss"] == pytest.approx(run["masked_lm_losses"][-1], rel=1e-4)
        else:
            assert run["pairs"]["masked_lm_loss"] == pytest.approx(run["masked_lm_losses"][-1], rel=1e-4)


def test_the_record_is_a_page_with_its_curves_and_what_was_run(done: Path) -> None:
    artifacts.verify(done / "record", kind="record")
    page = (done / "record/README.md").read_text()
    assert page.startswith("# Whether it runs\n\n| variant | seeds |")
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
    assert plan_study(again, _data_of(done), done)[0].is_finished


def _data_of(output: Path) -> Path:
    text = (output / "runs/plain/seed-4/run.toml").read_text()
    return Path(next(line for line in text.splitlines() if line.startswith("data = ")).split('"')[1])


def test_what_is_finished_is_not_run_again(done: Path, nano: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (done / "runs").rglob("*")}
    record = (done / "record/results.json").read_bytes()
    run_study(read_study(nano), _data_of(done), done)
    assert {path: path.stat().st_mtime_ns for path in (done / "runs").rglob("*")} == before
    assert (done / "record/results.json").read_bytes() == record


def test_seeds_can_be_made_apart(done: Path, data: Path, nano: Path, tmp_path: Path) -> None:
    made = read_study(nano)
    for seed in (5, 4):
        run_study(made, data, tmp_path / "out", seeds=[seed])
    assert [run["masked_lm_losses"] for run in _results(tmp_path / "out")["runs"]] == [
        run["masked_lm_losses"] for run in _results(done)["runs"]
    ]
    with pytest.raises(InputError, match="seed 9 is none of the study's"):
        run_study(made, data, tmp_path / "out", seeds=[9])


@pytest.mark.timeout(300)
def test_killed_and_stopped_the_same_command_goes_on(
    done: Path, data: Path, nano: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    command = [sys.executable, "-m", "cloze", "study", str(nano), "--data", str(data), "-o", str(output)]
    for number, wait_for in (
        (signal.SIGKILL, "runs/plain/seed-4/metrics.jsonl"),
        (signal.SIGTERM, "runs/no-pairs/seed-4/metrics.jsonl"),
    ):
        process = subprocess.Popen([*command, "--quiet"], stderr=subprocess.PIPE, text=True)
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
            assert "The same command goes on." in errors
    assert subprocess.run([*command, "--quiet"], check=True, capture_output=True).stderr == b""
    for run in sorted((done / "runs").glob("*/seed-*")):
        one, other = (
            load_file(resolve_checkpoint(each) / "model.safetensors")
            for each in (run, output / run.relative_to(done))
        )
        assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_dry_run_says_how_long_it_takes(
    nano: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_a_run_that_fails_does_not_hold_up_the_others(
    data: Path, nano: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_for_muon(config: PretrainConfig, run: Path, **settings: Any) -> dict[str, float]:
        if config.optimizer.muon is not None:
            raise RunError("loss nan")
        return pretrain(config, run, **settings)

    monkeypatch.setattr(study, "pretrain", fail_for_muon)
    made = read_study(nano)
    with pytest.raises(RunError, match="1 of 3 runs failed: muon, seed 5"):
        run_study(made, data, tmp_path / "out", seeds=[5])
    assert [row["variant"] for row in _results(tmp_path / "out")["rows"]] == ["plain", "no-pairs"]
    monkeypatch.undo()
    run_study(made, data, tmp_path / "out", seeds=[5])
    assert [row["variant"] for row in _results(tmp_path / "out")["rows"]] == ["plain", "muon", "no-pairs"]


def test_a_run_with_other_settings_is_not_taken_for_one_of_the_study(done: Path, nano: Path) -> None:
    nano.write_text(NANO.replace("learning_rate = 1e-2", "learning_rate = 2e-2"))
    with pytest.raises(InputError, match=r"muon/seed-4: was run with other settings"):
        run_study(read_study(nano), _data_of(done), done)


def test_data_are_known_by_what_they_hold(done: Path, nano: Path, tmp_path: Path) -> None:
    shutil.copytree(_data_of(done), tmp_path / "same")
    run_study(read_study(nano), tmp_path / "same", done)
    manifest = tmp_path / "same/manifest.json"
    manifest.write_text(manifest.read_text().replace('"sha256": "', '"sha256": "0', 1))
    with pytest.raises(InputError, match=r"plain/seed-4: was run with other data"):
        run_study(read_study(nano), tmp_path / "same", done)


def test_commands_for_other_seeds_may_write_the_record_at_once(
    done: Path, nano: Path, tmp_path: Path
) -> None:
    shutil.copytree(done / "runs", tmp_path / "out/runs")
    made, data = read_study(nano), _data_of(done)
    for _ in range(3):
        shutil.rmtree(tmp_path / "out/record", ignore_errors=True)
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda seed: run_study(made, data, tmp_path / "out", seeds=[seed]), (4, 5)))
        assert len(_results(tmp_path / "out")["runs"]) == 6


def test_two_commands_do_not_make_the_same_runs(done: Path, nano: Path) -> None:
    made, data = read_study(nano), _data_of(done)
    with FileLock(done / "seed-5.lock"):
        with pytest.raises(InputError, match="another command makes the runs of seed 5"):
            run_study(made, data, done)
        run_study(made, data, done, seeds=[4])
    run_study(made, data, done)


def test_a_study_that_goes_on_from_a_checkpoint_may_be_run_again(
    data: Path, nano: Path, tmp_path: Path
) -> None:
    small = NANO.replace("steps = 8", "steps = 1").replace("seeds = [4, 5]", "seeds = [4]")
    head, _, tail = small.partition("[settings.model]")
    tail = tail[tail.index("[[settings.phases]]") : tail.index("[variants.muon")]
    sized = f'{head}[settings.model]\nsize = "tiny"\n\n{tail}'
    nano.write_text(sized)
    run_study(read_study(nano), data, tmp_path / "first")
    nano.write_text(sized.replace("\nsteps = 1", f'\nsteps = 1\ninit = "{tmp_path}/first/runs/plain/seed-4"'))
    run_study(read_study(nano), data, tmp_path / "out")
    run_study(read_study(nano), data, tmp_path / "out")
    nano.write_text(nano.read_text().replace('size = "tiny"', 'size = "tiny"\nhidden_dropout_prob = 0.2'))
    with pytest.raises(InputError, match="was run with other settings"):
        plan_study(read_study(nano), data, tmp_path / "out")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('base = "plain"', 'base = "plane"', "'plane' is none of the variants"),
        ("seeds = [4, 5]", "seeds = [4, 4]", "seeds must be different whole numbers"),
        ("seeds = [4, 5]", "seed = 4", "unknown key seed|seeds is missing"),
        ("[variants.plain]", "[variants.'a/b']\n[variants.plain]", "not only letters"),
        ("[variants.plain]", "[variants.plain]\nseed = 3", "sets seed or data"),
    ],
)
def test_what_is_wrong_with_a_study_is_one_line(nano: Path, old: str, new: str, message: str) -> None:
    nano.write_text(NANO.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_study(nano)


def test_what_is_not_an_overrides_to_set(nano: Path) -> None:
    with pytest.raises(InputError, match="--set: sets seed, which a study or its command says"):
        read_study(nano, ["seed=3"])


def test_a_wrong_setting_is_found_before_anything_is_run(nano: Path, data: Path, tmp_path: Path) -> None:
    nano.write_text(NANO.replace("next_sentence = false", "next_sentense = false"))
    with pytest.raises(InputError, match=r"the variant no-pairs: unknown key pairs\.next_sentense"):
        run_study(read_study(nano), data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_study_that_comes_with_cloze_can_be_planned(path: Path, tmp_path: Path) -> None:
    made = read_study(path)
    runs = plan_study(made, tmp_path / "data", tmp_path / "out")
    made_here = [name for name in made.variants if made.origin(name) is None]  # the others want tasks
    assert len(runs) == len(made_here) * len(made.seeds)


def _compared(variant: str, seed: int, losses: tuple[float, ...], **changes: Any) -> Compared:
    run = Compared(
        variant=variant,
        seed=seed,
        held_out_as="the same",
        seconds=(10.0, 20.0, 30.0),
        masked_lm_losses=losses,
        steps=30,
        tokens=3_000_000,
        pairs={"masked_lm_loss": losses[-1], "next_sentence_accuracy": 0.5},
        segments={"masked_lm_loss": losses[-1]},
        environment=ENVIRONMENT,
    )
    return replace(run, **changes)


def test_saving_more_often_makes_no_other_run(done: Path, nano: Path) -> None:
    nano.write_text(NANO + "\n[settings.checkpoints]\nkeep_newest = 1\n")
    assert all(run.is_finished for run in plan_study(read_study(nano), _data_of(done), done))


def test_the_table_says_when_a_variant_came_to_where_the_base_ended(tmp_path: Path) -> None:
    runs = [
        _compared("base", 1, (6.0, 5.0, 4.0)),
        _compared("fast", 1, (5.0, 3.0, 2.0)),  # 4 is half way from 10 s to 20 s
        _compared("slow", 1, (7.0, 6.0, 5.0)),
        _compared("base", 2, (6.0, 5.0, 4.2)),
        _compared("fast", 2, (4.2, 3.0, 2.0)),
    ]
    write_study_record("T", "base", "", runs, tmp_path / "record")
    rows = {row["variant"]: row for row in json.loads((tmp_path / "record/results.json").read_text())["rows"]}
    assert rows["fast"]["shares_of_time"] == pytest.approx([0.5, 1 / 3])
    assert rows["slow"]["share_of_time"] is None
    assert rows["base"]["share_of_time"] == 1.0
    assert rows["fast"]["pairs"]["difference"]["mean"] == pytest.approx(-2.1)
    page = (tmp_path / "record/README.md").read_text()
    assert "| fast | 2 | - | 30 | 0.5 | 3.0 | 2.000 ± 0.000 | -2.100 (-3.371 to -0.829) |" in page
    assert "| slow | 1 | - | 30 | 0.5 | 3.0 | 5.000 | - | 5.000 | - | 0.500 | never |" in page


def test_runs_are_paired_by_seed_and_only_on_the_same_instances(tmp_path: Path) -> None:
    runs = [
        *(_compared("base", seed, (7.0, 6.0, loss)) for seed, loss in ((1, 9.0), (2, 4.0), (3, 5.0))),
        *(_compared("late", seed, (7.0, 6.0, loss)) for seed, loss in ((3, 5.5), (2, 4.25))),
        *(_compared("short", seed, (7.0, 6.0, 3.0), max_seq_length=16) for seed in (1, 2, 3)),
    ]
    write_study_record("T", "base", "", runs, tmp_path / "record")
    rows = {row["variant"]: row for row in json.loads((tmp_path / "record/results.json").read_text())["rows"]}
    assert rows["late"]["pairs"]["difference"]["mean"] == pytest.approx(0.375)
    assert "difference" not in rows["short"]["pairs"]


def test_the_record_says_where_and_how_its_runs_were_computed(tmp_path: Path) -> None:
    losses = (6.0, 5.0, 4.0)
    on_gpu = {**ENVIRONMENT, "device": "a card", "compute_dtype": "bfloat16"}
    runs = [
        _compared("base", 1, losses),
        _compared("other", 1, losses, environment=on_gpu),
        *(_compared(variant, 2, losses) for variant in ("base", "other")),
    ]
    write_study_record("T", "base", "", runs, tmp_path / "record")
    page = (tmp_path / "record/README.md").read_text()
    assert "Processor: P, threads: 1, float32, torch 2 (base 1, base 2, other 2)." in page
    assert "Processor: a card, P, threads: 1, bfloat16, torch 2 (other 1)." in page
    assert "Runs of seed 1 differ in their number format, too." in page
