"""Studies with tasks and ablations at a nano size: variants, continuing after a kill, tables."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

import cloze
from cloze.config import read_toml, to_toml
from cloze.errors import InputError
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import load_model
from experiments import run as study_run
from experiments import table_command, task_runs
from experiments.__main__ import main
from experiments.encoders.bidirectional_lm import BidirectionalLM
from experiments.encoders.bilstm_on_top import BiLSTMOnBert
from experiments.encoders.sinusoidal_positions import SinusoidalBert
from experiments.plan import plan_study
from experiments.published import published_tables
from experiments.run import run_study
from experiments.study import Study, read_study
from experiments.table_command import ABLATIONS, AblationConfig, read_ablation, start_ablation
from experiments.task_runs import StudyTask, TaskRun, read_scores
from helpers import make_once

KEPT = ("run.toml", "outcome.json", "origin.json", "environment.json", "metrics.jsonl")
"""Files of a run whose study can still be continued with more seeds."""
REPOSITORY = Path(__file__).resolve().parents[3]
NANO = """
title = "Nano"
base = "masked"
seeds = [4, 5]

[settings]
steps = 4
precision = "float32"
device = "cpu"
pairs = { next_sentence = false }
phases = [{ max_seq_length = 32, fraction = 1.0, batch_size = 4 }]
evaluation = { times = 2, max_instances = 50, log_every_steps = 1 }

[settings.model]
num_hidden_layers = 1
hidden_size = 24
num_attention_heads = 2
intermediate_size = 40
max_position_embeddings = 32
hidden_dropout_prob = 0.0
attention_probs_dropout_prob = 0.0

[variants.masked]

[variants.ltr.model]
attends_to = "left"

[variants.rtl.model]
attends_to = "right"

[variants.ltr-bilstm]
bilstm_on = "ltr"

[variants.both]
concatenates = ["ltr", "rtl"]

[variants.sinusoidal]
encoder = "sinusoidal-bert"

[variants.untrained]
steps = 1

[tasks.films]
task = "classification"
data = "reviews"
epochs = 2
batch_size = 4
max_seq_length = 16
device = "cpu"
precision = "float32"
optimizer = { learning_rate = 2e-2, bias_correction = true }

[tasks.names]
task = "tagging"
data = "names"
seeds = 2
scale = 1
epochs = 1
max_seq_length = 16
device = "cpu"
precision = "float32"
"""


def write_study(directory: Path, text: str = NANO) -> Study:
    """Write and read a study."""
    (directory / "nano.toml").write_text(text)
    return read_study(directory / "nano.toml")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return write_study(tmp_path)


@pytest.fixture
def output(done: Path, tmp_path: Path) -> Path:
    """A copy of the finished study."""
    return Path(shutil.copytree(done / "out", tmp_path / "out", symlinks=True))


@pytest.fixture(scope="session")
def done(data: Path, reviews: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study with the data of one task, run to its end; a test that changes it copies it."""

    def make(directory: Path) -> None:
        run_study(write_study(directory), data, directory / "out", tasks_data=reviews)

    return make_once(tmp_path_factory, "ablation", make)


class KilledError(Exception):
    pass


def kill(*_: Any, **__: Any) -> None:
    raise KilledError


def masked_study(directory: Path, settings: str = "") -> Study:
    """Write and read a study of one variant, one seed and the tasks of `NANO`."""
    head, _, tail = NANO.replace("seeds = [4, 5]", "seeds = [4]").partition("[variants.ltr.model]")
    return write_study(directory, settings + head + tail[tail.index("[tasks.films]") :])


def results(output: Path) -> dict[str, Any]:
    return json.loads((output / "record/results.json").read_text())


@pytest.mark.slow
def test_every_kind_of_variant_is_trained_and_scored(done):
    found = results(done / "out")
    variants = ["masked", "ltr", "rtl", "ltr-bilstm", "both", "sinusoidal", "untrained"]
    assert [(run["seed"], run["variant"]) for run in found["runs"]] == [
        (seed, name) for seed in (4, 5) for name in variants
    ]
    for run in found["runs"]:
        (score,) = run["tasks"]["films"]["points"]
        if run["variant"] != "sinusoidal":  # whose new word embeddings are small beside the positions
            assert score == 100.0  # all others learn what is this easy
        assert run["tasks"]["films"]["majority"] == 50.0
        assert "names" not in run["tasks"]
        assert bool(run["pairs"]) == (run["variant"] in ("masked", "sinusoidal", "untrained"))
        assert bool(run["neighbors"]) == (run["variant"] in ("ltr", "rtl"))
        assert (run["held_out_as"] is None) == (run["variant"] in ("ltr-bilstm", "both"))
    runs = done / "out/runs"
    assert isinstance(load_model(runs / "ltr-bilstm/seed-4/start"), BiLSTMOnBert)
    both = load_model(runs / "both/seed-5/start")
    assert isinstance(both, BidirectionalLM)
    left = load_model(resolve_checkpoint(runs / "ltr/seed-5", "latest"))
    assert both.left.state_dict()["pooler.weight"].equal(left.state_dict()["pooler.weight"])
    trained = load_model(resolve_checkpoint(runs / "sinusoidal/seed-5", "latest"))
    positions = trained.embeddings.position_embeddings.weight
    assert isinstance(trained, SinusoidalBert)
    assert positions.equal(SinusoidalBert(trained.config).embeddings.position_embeddings.weight)
    assert not list(runs.rglob("tasks/**/checkpoints"))  # scores are what stays
    page = (done / "out/record/README.md").read_text()
    assert "## films (classification, accuracy)" in page
    assert "| (always the most frequent class) | - | 50.0 | - |" in page
    assert page.count("| both | 2 |") == 1
    assert "its loss there, in nats per token, is not in this table (ltr " in page
    assert ">ltr<" not in (done / "out/record/curves.svg").read_text()


@pytest.mark.exhaustive
def test_data_named_later_add_only_their_task(study, output, data, tasks_data, monkeypatch):
    asked = []

    def finetune(task: Any, config: cloze.FinetuneConfig, run: Path, launch: Any) -> dict[str, float]:
        asked.append((run.parent.name, Path(config.model).name.partition("-")[0]))
        return studied(task, config, run, launch)

    studied = task_runs.finetune
    monkeypatch.setattr(task_runs, "finetune", finetune)
    monkeypatch.setattr(study_run, "pretrain", None)
    run_study(study, data, output, tasks_data=tasks_data, seeds=[4])
    assert asked == [("names", kind) for kind in ("step", "step", "step", "start", "start", "step", "step")]
    assert set(results(output)["runs"][0]["tasks"]) == {"films", "names"}
    assert not plan_study(study, data, output, tasks_data)[-1].is_finished
    run_study(study, data, output)  # what was measured stays in the record, whatever the command names
    assert set(results(output)["runs"][0]["tasks"]) == {"films", "names"}


@pytest.mark.slow
def test_fine_tuning_continues_after_a_kill(data, reviews, tmp_path, monkeypatch):
    made = masked_study(tmp_path, "points = 2\n")

    with monkeypatch.context() as patched:
        patched.setattr("cloze.finetuning.run.predict", kill)
        with pytest.raises(KilledError):
            run_study(made, data, tmp_path / "out", tasks_data=reviews)
    first = tmp_path / "out/runs/masked/seed-4/tasks/films/1"
    assert list(first.glob("checkpoints/step-*"))
    run_study(made, data, tmp_path / "out", tasks_data=reviews)
    (run,) = results(tmp_path / "out")["runs"]
    assert len(run["tasks"]["films"]["points"]) == 2
    steps = [
        read_toml(first.parent / point / "run.toml")["model"].rpartition("step-")[2] for point in ("1", "2")
    ]
    assert steps == ["00000002", "00000004"]
    assert ">masked<" in (tmp_path / "out/record/quality.svg").read_text()
    changed = first.parent / "2"
    (changed / "scores.json").unlink()
    other = {**made.tasks, "films": {**made.tasks["films"], "epochs": 3}}
    with pytest.raises(InputError, match=r"films/1: was run with other settings"):
        run_study(replace(made, tasks=other), data, tmp_path / "out", tasks_data=reviews)
    (first.parent / "1").rename(tmp_path / "first")
    changed.rename(first.parent / "1")
    with pytest.raises(InputError, match=r"films/1: was run with other settings"):  # of another checkpoint
        run_study(made, data, tmp_path / "out", tasks_data=reviews)
    shutil.rmtree(first.parent)
    shutil.rmtree(tmp_path / "out/runs/masked/seed-4/checkpoints/step-00000002")
    with pytest.raises(InputError, match=r"masked/seed-4: its encoder, which films needs, is gone\."):
        run_study(made, data, tmp_path / "out", tasks_data=reviews)


@pytest.mark.slow
def test_a_record_needs_only_the_numbers_of_finished_runs(study, output, done, data, reviews):
    for run in (output / "runs").glob("*/seed-*"):
        for path in [*run.iterdir(), *run.glob("tasks/*/*/*")]:
            is_score = path.name in ("run.toml", "scores.json")
            if path.is_symlink():
                path.unlink()
            elif path.is_dir() and path.name != "tasks":
                shutil.rmtree(path)
            elif path.is_file() and not (is_score if "tasks" in path.parts else path.name in KEPT):
                path.unlink()
        if (metrics := run / "metrics.jsonl").exists():
            lines = metrics.read_text().splitlines(keepends=True)
            last = [line for line in lines if '"train"' in line][-1]
            metrics.write_text("".join(line for line in lines if '"validation"' in line) + last)
    run_study(study, data, output)
    found, before = results(output), results(done / "out")
    for run in (*found["runs"], *before["runs"]):
        if run["variant"] in ("ltr-bilstm", "both"):
            run.pop("environment")  # those of fine-tunings are not kept
    assert found == before
    shutil.rmtree(output / "runs/ltr-bilstm/seed-4")
    with pytest.raises(InputError, match=r"ltr/seed-4: its encoder, which ltr-bilstm needs, is gone"):
        plan_study(study, data, output, reviews)
    (output / "runs/ltr/seed-4/environment.json").unlink()
    run_study(study, data, output)
    assert results(output)["runs"][1]["environment"] is None


@pytest.mark.exhaustive
def test_the_sources_of_an_encoder_may_not_change(study, output, done, data, tasks_data, reviews, tmp_path):
    other = NANO.replace('bilstm_on = "ltr"', 'bilstm_on = "rtl"')
    with pytest.raises(InputError, match=r"ltr-bilstm/seed-4: was made with another bilstm_on"):
        plan_study(write_study(tmp_path, other), data, output, tasks_data)
    shutil.rmtree(output / "runs/ltr")
    run_study(study, data, output, tasks_data=reviews)  # the same again
    neighbors = [run["neighbors"] for run in results(output)["runs"]]
    assert neighbors == [run["neighbors"] for run in results(done / "out")["runs"]]
    weights = resolve_checkpoint(output / "runs/ltr/seed-4", "latest") / "model.safetensors"
    found = load_file(weights)
    found["bert.pooler.dense.bias"] += 1.0
    save_file(found, weights)
    with pytest.raises(InputError, match=r"ltr-bilstm/seed-4: was made from other weights than .*ltr/seed-4"):
        plan_study(study, data, output)
    shutil.rmtree(output / "runs/ltr-bilstm/seed-4")
    shutil.rmtree(output / "runs/both/seed-4")
    shutil.rmtree(output / "runs/ltr/seed-5")
    plan_study(study, data, output)  # ltr, seed 5 must be made first


@pytest.mark.slow
def test_a_checkpoint_may_not_change_between_seeds(done, reviews, tmp_path):
    head, _, tail = NANO.partition("[variants.masked]")
    text = f'{head}[variants.masked]\ncheckpoint = "{tmp_path}/model"\n{tail[tail.index("[tasks.films]") :]}'
    made = write_study(tmp_path, text)
    shutil.copytree(done / "out/runs/masked/seed-4", tmp_path / "model", symlinks=True)
    run_study(made, None, tmp_path / "out", tasks_data=reviews, seeds=[4])
    shutil.rmtree(tmp_path / "model")
    shutil.copytree(done / "out/runs/masked/seed-5", tmp_path / "model", symlinks=True)
    with pytest.raises(InputError, match=r"masked/seed-4: was made from other weights than .*model has now"):
        run_study(made, None, tmp_path / "out", tasks_data=reviews, seeds=[5])
    shutil.rmtree(tmp_path / "model")  # of a finished run the numbers are enough
    run_study(made, None, tmp_path / "out", tasks_data=reviews, seeds=[4])


@pytest.mark.slow
def test_scores_on_other_data_are_refused(study, done, data, tasks_data, tmp_path):
    shutil.copytree(tasks_data["reviews"], tmp_path / "moved")
    plan_study(study, data, done / "out", {"reviews": tmp_path / "moved"})
    with (tmp_path / "moved/dev.tsv").open("a") as stream:
        stream.write("a bad moor\t0\n")
    with pytest.raises(InputError, match=r"films/1: was run with other data than .*moved"):
        plan_study(study, data, done / "out", {"reviews": tmp_path / "moved"})


@pytest.mark.exhaustive
def test_a_stopped_study_continues_with_moved_data(data, tasks_data, tmp_path, monkeypatch):
    made = masked_study(tmp_path)
    for place in ("first", "then"):
        shutil.copytree(data, tmp_path / place / "data")
        shutil.copytree(tasks_data["reviews"], tmp_path / place / "reviews")

    def run(place: str) -> None:
        where = tmp_path / place
        run_study(made, where / "data", tmp_path / "out", tasks_data={"reviews": where / "reviews"})

    for what in ("experiments.run.measure_held_out", "cloze.finetuning.run._score_best"):
        with monkeypatch.context() as patched:
            patched.setattr(what, kill)
            with pytest.raises(KilledError):
                run("first")
    shutil.rmtree(tmp_path / "first")
    (tmp_path / "out/runs/masked/seed-4/outcome.json").unlink()
    run("then")
    assert results(tmp_path / "out")["runs"][0]["tasks"]["films"]["points"] == [100.0]


def test_combined_encoders_need_tasks(study, data, tmp_path):
    planned = {run.variant for run in plan_study(study, data, tmp_path / "out")}
    assert planned == {"masked", "ltr", "rtl", "sinusoidal", "untrained"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('base = "masked"', 'base = "mask"', "'mask' is not a variant"),
        ("seeds = [4, 5]", "seeds = [4, 4]", "seeds must be different integers"),
        ("seeds = [4, 5]", "seed = 4", "unknown key seed|seeds is missing"),
        ("[variants.masked]", "[variants.'a/b']\n[variants.masked]", "a table, named with letters"),
        ("[variants.masked]", "[variants.masked]\nseed = 3", "masked sets seed"),
        ('bilstm_on = "ltr"', 'bilstm_on = "both"', "must have bilstm_on alone, with 1 pre-trained above it"),
        ('concatenates = ["ltr", "rtl"]', 'concatenates = ["ltr"]', "must have concatenates alone, with 2"),
        ('bilstm_on = "ltr"', "checkpoint = 3", "must have checkpoint alone, with a path"),
        ('bilstm_on = "ltr"', 'bilstm_on = "ltr"\nsteps = 3', "must have bilstm_on alone"),
        ('task = "tagging"', 'task = "taging"', "Did you mean tagging"),
        ('task = "tagging"', 'task = "tagging"\nseed = 3', "sets seed, which the study sets"),
        ("[settings]", "[settings]\nseed = 3", "settings sets seed"),
        ('base = "masked"', 'base = "masked"\npoints = 0', "points must be at least 1"),
        ('base = "masked"', 'base = "masked"\npoints = 3', "steps must be divisible by 3 points"),
        ("[tasks.films]", "[tasks.films]\nepoch = 1", "unknown key epoch"),
        ("[tasks.films]", '[tasks.films]\nmetric = "acuracy"', "has no score 'acuracy'"),
        ("max_seq_length = 16", "max_seq_length = 64", "films: max_seq_length 64 exceeds the 32 positions"),
        (
            "[variants.masked]",
            '[published]\ntable = "table5"\nrows = { masked = "BERT" }\ncolumns = {}\n[variants.masked]',
            "table5 has no 'BERT'",
        ),
        ("[variants.masked]", "[published]\nrows = 3\n[variants.masked]", "published needs the name"),
    ],
)
def test_errors_in_a_study_are_one_line(tasks_data, tmp_path, old, new, message):
    with pytest.raises(InputError, match=message):
        plan_study(write_study(tmp_path, NANO.replace(old, new)), tmp_path / "data", tmp_path, tasks_data)


def test_the_score_is_the_mean_of_all_seeds(tmp_path):
    task = StudyTask("classification", "reviews", "accuracy", 100.0, {"seeds": 3})
    task_run = TaskRun("films", task, None, tmp_path)
    reached = [{"accuracy": share, "examples": 10} for share in (0.6, 0.7, 0.8)]
    (tmp_path / "trials.json").write_text(json.dumps({"settings": [{"results": reached}]}))
    (tmp_path / "scores.json").write_text(json.dumps(reached[2]))
    (tmp_path / "run.toml").write_text('task = "classification"\nmodel = "m"\ntrain = "t"\n')
    assert read_scores([task_run]).points == (pytest.approx(70.0),)
    (tmp_path / "trials.json").unlink()
    with pytest.raises(InputError, match=r"trials\.json: the scores of each seed are missing"):
        task_run.results()


@pytest.mark.slow
def test_remains_of_a_kill_are_removed(study, output, data):
    left = output / "runs/masked/seed-4/tasks/films/1/checkpoints"
    shutil.copytree(output / "runs/masked/seed-4/checkpoints", left)
    run_study(study, data, output)
    assert not left.exists()


def test_wrong_data_of_tasks_are_reported_at_once(study, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: no train"):
        plan_study(study, tmp_path, tmp_path, {"reviews": tmp_path / "empty"})
    with pytest.raises(InputError, match=r"data called mnli.*Name reviews, names"):
        plan_study(study, tmp_path, tmp_path, {"mnli": tmp_path})


def test_published_scores_equal_the_facts(shared):
    facts = (shared / "anchors/bert-facts.md").read_text("utf-8")
    facts = " ".join(re.sub(r"[|*/]", " ", facts).split())
    for table, named in {"table5": False, "table6": False, "table7": False, "table8": True}.items():
        for name, row in published_tables()[table]["rows"].items():
            assert (
                " ".join([*([name] if named else []), *map(str, row.values())]).replace("/", " ") in facts
            ), (table, name)


@pytest.mark.parametrize("table", ABLATIONS)
def test_every_ablation_is_planned(table, tmp_path):
    made = read_ablation(table, AblationConfig(seeds=2, device="cpu"))
    assert made.published is not None
    assert made.published.table == table
    tasks = {task.data: tmp_path for task in made.read_tasks().values()}
    for task in made.read_tasks().values():
        for names in (cloze.find_task(task.task).train_files, cloze.find_task(task.task).dev_files):
            (tmp_path / names[0]).touch()
    runs = plan_study(made, tmp_path / "data", tmp_path / "out", tasks)
    assert len(runs) == 2 * len(made.variants)
    assert {run.config.device for run in runs if run.config is not None} == {"cpu"}


def test_published_ablations_are_printed(capsys):
    tables = published_tables()
    for table in ABLATIONS:
        assert main([table]) == 0
        shown = capsys.readouterr().out
        for row in tables[table]["rows"]:
            assert row in shown
        assert tables[table]["says"] in shown
        assert ("5.84" in shown) == ("percent, but for perplexity" in shown) == (table == "table6")
    assert "as in figure 5 of Devlin" in shown


NANO_TABLE = [
    *("model.hidden_size=16", "model.num_attention_heads=2", "model.intermediate_size=24"),
    *("model.num_hidden_layers=4", "evaluation.times=1", "evaluation.max_instances=20"),
    "phases=[{max_seq_length=32, fraction=1.0, batch_size=4}]",
]


def test_a_budget_of_time_sets_the_steps(study, data, tmp_path, capsys):
    config = AblationConfig(budget_seconds=3.0, settings=tuple(NANO_TABLE), device="cpu")
    made = start_ablation("figure5", config, data, tmp_path / "out")
    assert made.settings["steps"] % made.points == 0 < made.settings["steps"]
    assert not (tmp_path / "out").exists()
    assert start_ablation("figure5", AblationConfig(), data, tmp_path / "out").settings["steps"] == 4000
    (tmp_path / "out").mkdir()
    (tmp_path / "out/study.toml").write_text(to_toml(made))
    assert start_ablation("figure5", config, data, tmp_path / "out", progress=cloze.Progress()) == made
    assert f"started with {made.settings['steps']:,} steps, and continues" in capsys.readouterr().err


@pytest.mark.slow
def test_an_ablation_from_the_command_line(data, tasks_data, tmp_path, capsys, monkeypatch):
    recipe = (REPOSITORY / "research/experiments/studies/table7.toml").read_text()
    small = recipe.replace("lstm_size = 256", "lstm_size = 8").replace("epochs = 4", "epochs = 1")
    (tmp_path / "table7.toml").write_text(small)
    monkeypatch.setattr(table_command, "STUDIES", tmp_path)
    output = tmp_path / "out"
    tasks = ["--tasks-data", f"ner={tasks_data['names']}", "--device", "cpu", "--quiet"]
    nano = [each for setting in (*NANO_TABLE, "steps=2") for each in ("--set", setting)]
    command = ["table7", "--data", str(data), "-o", str(output), "--seeds", "1", *tasks, *nano]
    assert main([*command, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 runs: 1 variants, 1 seeds; 7 fine-tunings\n")
    assert " in all" in said
    assert not output.exists()
    assert main(command) == 0
    page = (output / "record/README.md").read_text()
    assert page.count("| 96.4 | - |\n") == 1
    assert "| concat-last-four | 1 | " in page
    before = (output / "record/results.json").read_bytes()
    assert main(command) == 0
    assert (output / "record/results.json").read_bytes() == before
    capsys.readouterr()
    for other in (["--model", "small"], ["--set", "steps=4"]):
        assert main([*command, *other]) == 2
        assert "was started with another table, model or settings" in capsys.readouterr().err
    shallow = ["-o", str(tmp_path / "shallow"), "--set", "model.num_hidden_layers=2"]
    assert main([*command, *shallow]) == 2
    assert "weighted-sum-last-four takes 4 layers, the encoder has 2" in capsys.readouterr().err
    assert not (tmp_path / "shallow/runs").exists()
    assert main([*command, "--seeds", "2", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(
        "2 runs: 1 variants, 2 seeds; 1 are finished; 14 fine-tunings, 7"
    )
    given = ["table7", "-m", str(output / "runs/bert/seed-1"), "-o", str(tmp_path / "given")]
    assert main([*given, *tasks, "--dry-run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 3


def test_errors_in_an_ablation_are_one_line(tmp_path, capsys, monkeypatch):
    wrong = {
        "table5 --data D": "the flag --output is missing",
        "table5 --data D -o O --model enormous": "'enormous' is not a size",
        "table6 --data D -o O --model mini": "table 6 compares sizes",
        "table5 --data D -o O --ensemble": "--ensemble: table5 is an ablation",
        "table1 --budget 20m": "--budget: table1 is not an ablation",
        "table5 --data D -o O --seeds 0": "--seeds: 0 is less than 1",
        "table5 --data D -o O --set seed=3": "--set: sets seed",
        "table5 -o O --budget 20m": "the flag --data is missing",
        "table5 --data D -o O --tasks-data mnli": "cannot read 'mnli'. Write NAME=PATH",
        "table5 --data D -o O --tasks-data mnli=/nowhere/there": "/nowhere/there: no such file",
        "table5 -o O --budget 10m --set steps=60": "--budget: --set steps sets the duration, too",
        "table7 -m cloze-mini -o O --budget 10m": "--budget: nothing is pre-trained",
        "table7 -m cloze-mini -o O --set steps=60": "--set: nothing is pre-trained",
        "table7 -m cloze-mini -o O -d data": "--data: nothing is pre-trained",
        "table7 -m cloze-mini -o O": "--tasks-data: nothing to do",
        "table5 --overwrite": "--overwrite: table5 is an ablation",
        "table1 --seeds 0": "--seeds: table1 is not an ablation",
    }
    monkeypatch.chdir(tmp_path)
    for command, says in wrong.items():
        assert main([*command.split(), "--quiet"]) == 2
        printed = capsys.readouterr().err
        assert says in printed
        assert printed.count("\n") == 1
    assert not list(tmp_path.iterdir())
