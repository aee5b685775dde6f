"""Ablations at a nano size: every kind of variant is made and fine-tuned, goes on when stopped, stands in a table."""

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from cloze.cli import main
from cloze.config import read_toml, to_toml
from cloze.corpus.build import BuildConfig, build_dataset
from cloze.corpus.sources import ReadingConfig
from cloze.corpus.vocabulary import train_vocabulary
from cloze.errors import InputError
from cloze.evidence import ablations, study_tasks
from cloze.evidence import study as studies
from cloze.evidence.ablations import ABLATIONS, AblationConfig, ablation, begin_ablation
from cloze.evidence.score_rows import as_table, score_rows
from cloze.evidence.study import run_study
from cloze.evidence.study_file import read_study
from cloze.evidence.study_plan import plan_study
from cloze.evidence.study_published import Published, published_tables
from cloze.evidence.study_record import write_study_record
from cloze.evidence.study_results import MASKED, NEXT_SENTENCE, PERPLEXITY, Compared, TaskScores
from cloze.evidence.study_tasks import PlannedTask, StudyTask
from cloze.locate import resolve_checkpoint
from cloze.model.bilstm_on_top import BiLSTMOnBert
from cloze.model.checkpoint import load_model
from cloze.model.two_way import TwoWayBert
from cloze.progress import Progress
from cloze.tasks.config import FinetuneConfig
from cloze.tasks.registry import find_task
from helpers import write_novel

KEPT = ("run.toml", "outcome.json", "origin.json", "environment.json", "metrics.jsonl")
"""Of a run, as docs/ablations.md says."""
REPOSITORY = Path(__file__).resolve().parents[2]
MODEL = """
[settings.model]
num_hidden_layers = 1
hidden_size = 24
num_attention_heads = 2
intermediate_size = 40
max_position_embeddings = 32
hidden_dropout_prob = 0.0
attention_probs_dropout_prob = 0.0
"""
NANO = f"""
title = "Whether it runs"
base = "masked"
seeds = [4, 5]

[settings]
steps = 4
precision = "float32"
device = "cpu"
pairs = {{ next_sentence = false }}
phases = [{{ max_seq_length = 32, fraction = 1.0, batch_size = 4 }}]
evaluation = {{ times = 2, max_instances = 50, log_every_steps = 1 }}
{MODEL}
[variants.masked]

[variants.ltr.model]
attends_to = "left"

[variants.rtl.model]
attends_to = "right"

[variants.ltr-bilstm]
bilstm_on = "ltr"

[variants.both]
concatenates = ["ltr", "rtl"]

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
optimizer = {{ learning_rate = 1e-2, bias_correction = true }}

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


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ablation")
    write_novel(directory / "novel.txt", 150)
    train_vocabulary([directory / "novel.txt"], directory / "vocab", size=300)
    config = BuildConfig(reading=ReadingConfig(text_format="paragraphs"), validation_fraction=0.2)
    build_dataset([directory / "novel.txt"], directory / "vocab", directory / "data", config)
    return directory / "data"


@pytest.fixture(scope="module")
def tasks_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("tasks")
    rows = "".join(f"{'a fine moor' if i % 2 else 'the hound was bad'} {i}\t{i % 2}\n" for i in range(160))
    for split in ("train", "dev"):
        (directory / f"{split}.tsv").write_text(f"text\tlabel\n{rows}")
        for name in (f"{split}.conll", {"train": "eng.train", "dev": "eng.testa"}[split]):
            (directory / name).write_text("Holmes\tB-PER\nsaw\tO\nWatson\tB-PER\n\nhe\tO\nran\tO\n\n" * 3)
    return {"reviews": directory, "names": directory}


@pytest.fixture(scope="module")
def done(data: Path, tasks_data: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study with the data of one task, run to its end."""
    directory = tmp_path_factory.mktemp("done")
    (directory / "nano.toml").write_text(NANO)
    made = read_study(directory / "nano.toml")
    run_study(made, data, directory / "out", tasks_data={"reviews": tasks_data["reviews"]})
    return directory


def results(output: Path) -> dict[str, Any]:
    return json.loads((output / "record/results.json").read_text())


def test_every_kind_of_variant_is_made_and_scored(done: Path) -> None:
    found = results(done / "out")
    variants = ["masked", "ltr", "rtl", "ltr-bilstm", "both", "untrained"]
    assert [(run["seed"], run["variant"]) for run in found["runs"]] == [
        (seed, name) for seed in (4, 5) for name in variants
    ]
    for run in found["runs"]:
        (score,) = run["tasks"]["films"]["points"]
        assert score == 100.0  # every one of them learns what is this easy
        assert run["tasks"]["films"]["majority"] == 50.0
        assert "names" not in run["tasks"]
        assert bool(run["pairs"]) == (run["variant"] in ("masked", "untrained"))
        assert bool(run["neighbours"]) == (run["variant"] in ("ltr", "rtl"))
        assert (run["held_out_as"] is None) == (run["variant"] in ("ltr-bilstm", "both"))
    runs = done / "out/runs"
    assert isinstance(load_model(runs / "ltr-bilstm/seed-4/start"), BiLSTMOnBert)
    both = load_model(runs / "both/seed-5/start")
    assert isinstance(both, TwoWayBert)
    left = load_model(resolve_checkpoint(runs / "ltr/seed-5"))
    assert both.left.state_dict()["pooler.weight"].equal(left.state_dict()["pooler.weight"])
    assert not list(runs.rglob("tasks/**/checkpoints"))  # scores are what stays
    page = (done / "out/record/README.md").read_text()
    assert "## films (classification, accuracy)" in page
    assert "| (always the most frequent class) | - | 50.0 | - |" in page
    assert page.count("| both | 2 |") == 1
    assert "its loss there, in nats a piece, is no number of this table (ltr " in page
    assert ">ltr<" not in (done / "out/record/curves.svg").read_text()


def test_a_task_whose_data_come_later_is_all_that_is_done_then(
    done: Path, data: Path, tasks_data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(done / "out", tmp_path / "out")
    asked = []

    def finetune(task: Any, config: FinetuneConfig, run: Path, **settings: Any) -> dict[str, float]:
        asked.append((run.parent.name, Path(config.model).name.partition("-")[0]))
        return studied(task, config, run, **settings)

    studied = study_tasks.finetune
    monkeypatch.setattr(study_tasks, "finetune", finetune)
    monkeypatch.setattr(studies, "pretrain", None)
    made = read_study(done / "nano.toml")
    run_study(made, data, tmp_path / "out", tasks_data=tasks_data, seeds=[4])
    assert asked == [("names", kind) for kind in ("step", "step", "step", "start", "start", "step")]
    assert set(results(tmp_path / "out")["runs"][0]["tasks"]) == {"films", "names"}
    assert not plan_study(made, data, tmp_path / "out", tasks_data)[-1].is_finished
    run_study(
        made, data, tmp_path / "out"
    )  # what was measured stays in the record, whatever the command names
    assert set(results(tmp_path / "out")["runs"][0]["tasks"]) == {"films", "names"}


def test_a_fine_tuning_that_was_stopped_goes_on(
    data: Path, tasks_data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = NANO.replace("seeds = [4, 5]", "seeds = [4]").replace("steps = 4", "steps = 4\n") + "\n"
    head, _, tail = text.partition("[variants.ltr.model]")
    (tmp_path / "nano.toml").write_text("points = 2\n" + head + tail[tail.index("[tasks.films]") :])
    made = read_study(tmp_path / "nano.toml")
    only = {"reviews": tasks_data["reviews"]}

    class KilledError(Exception):
        pass

    def kill(*_: Any, **__: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr("cloze.tasks.run._score_best", kill)
        with pytest.raises(KilledError):
            run_study(made, data, tmp_path / "out", tasks_data=only)
    first = tmp_path / "out/runs/masked/seed-4/tasks/films/1"
    assert list(first.glob("checkpoints/step-*"))
    run_study(made, data, tmp_path / "out", tasks_data=only)
    (run,) = results(tmp_path / "out")["runs"]
    assert len(run["tasks"]["films"]["points"]) == 2
    steps = [
        read_toml(first.parent / point / "run.toml")["model"].rpartition("step-")[2] for point in ("1", "2")
    ]
    assert steps == ["00000002", "00000004"]
    assert ">masked<" in (tmp_path / "out/record/quality.svg").read_text()
    changed = first.parent / "2"
    (changed / "scores.json").unlink()
    made = read_study(tmp_path / "nano.toml")
    other = {**made.tasks, "films": {**made.tasks["films"], "epochs": 3}}
    (tmp_path / "other.toml").write_text(
        (tmp_path / "nano.toml").read_text().replace("epochs = 2\nbatch_size", "epochs = 3\nbatch_size")
    )
    assert read_study(tmp_path / "other.toml").tasks == other
    with pytest.raises(InputError, match=r"films/1: was run with other settings"):
        run_study(read_study(tmp_path / "other.toml"), data, tmp_path / "out", tasks_data=only)
    (first.parent / "1").rename(tmp_path / "first")
    changed.rename(first.parent / "1")
    with pytest.raises(InputError, match=r"films/1: was run with other settings"):  # of another checkpoint
        run_study(made, data, tmp_path / "out", tasks_data=only)
    shutil.rmtree(first.parent)
    shutil.rmtree(tmp_path / "out/runs/masked/seed-4/checkpoints/step-00000002")
    with pytest.raises(
        InputError, match=r"masked/seed-4: has no encoder any more to be fine-tuned for films\."
    ):
        run_study(made, data, tmp_path / "out", tasks_data=only)


def test_of_a_finished_study_the_numbers_are_enough(
    done: Path, data: Path, tasks_data: dict[str, Path], tmp_path: Path
) -> None:
    """So they can be kept, and more seeds made beside them, when the encoders are long gone."""
    shutil.copytree(done / "out", tmp_path / "out")
    for run in (tmp_path / "out/runs").glob("*/seed-*"):
        for there in run.iterdir():
            if there.is_dir() and there.name != "tasks":
                shutil.rmtree(there)
            elif there.is_file() and there.name not in KEPT:
                there.unlink()
        for scored in run.glob("tasks/*/*"):
            for there in scored.iterdir():
                if there.name not in ("run.toml", "scores.json"):
                    there.unlink()
        if (run / "metrics.jsonl").exists():
            lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
            last = [line for line in lines if '"train"' in line][-1]
            (run / "metrics.jsonl").write_text(
                "".join(each for each in lines if '"validation"' in each) + last
            )
    made = read_study(done / "nano.toml")
    run_study(made, data, tmp_path / "out")
    found, before = results(tmp_path / "out"), results(done / "out")
    for run in (*found["runs"], *before["runs"]):
        if run["variant"] in ("ltr-bilstm", "both"):
            run.pop("environment")  # those of fine-tunings are not kept
    assert found == before
    shutil.rmtree(tmp_path / "out/runs/ltr-bilstm/seed-4")
    with pytest.raises(InputError, match=r"ltr/seed-4: has no encoder any more to make ltr-bilstm of"):
        plan_study(made, data, tmp_path / "out", {"reviews": tasks_data["reviews"]})
    (tmp_path / "out/runs/ltr/seed-4/environment.json").unlink()
    run_study(made, data, tmp_path / "out")
    assert results(tmp_path / "out")["runs"][1]["environment"] is None


def test_what_an_encoder_was_made_of_may_not_change(
    done: Path, data: Path, tasks_data: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(done / "out", tmp_path / "out")
    shutil.rmtree(tmp_path / "out/runs/ltr")
    text = NANO.replace("[variants.ltr.model]", "[variants.ltr]\nsteps = 3\n[variants.ltr.model]")
    (tmp_path / "other.toml").write_text(text)
    with pytest.raises(InputError, match=r"ltr-bilstm/seed-4: was made with another bilstm_on"):
        plan_study(read_study(tmp_path / "other.toml"), data, tmp_path / "out", tasks_data)
    made = read_study(done / "nano.toml")
    run_study(made, data, tmp_path / "out", tasks_data={"reviews": tasks_data["reviews"]})  # the same again
    neighbours = [run["neighbours"] for run in results(tmp_path / "out")["runs"]]
    assert neighbours == [run["neighbours"] for run in results(done / "out")["runs"]]
    weights = resolve_checkpoint(tmp_path / "out/runs/ltr/seed-4") / "model.safetensors"
    found = load_file(weights)
    found["bert.pooler.dense.bias"] += 1.0
    save_file(found, weights)
    with pytest.raises(
        InputError, match=r"ltr-bilstm/seed-4: was made of other weights than .*ltr/seed-4 has now"
    ):
        plan_study(made, data, tmp_path / "out")
    shutil.rmtree(tmp_path / "out/runs/ltr-bilstm/seed-4")
    shutil.rmtree(tmp_path / "out/runs/both/seed-4")
    shutil.rmtree(tmp_path / "out/runs/ltr/seed-5")
    plan_study(made, data, tmp_path / "out")  # ltr, seed 5 is to be made first


def test_a_checkpoint_may_not_become_another_between_seeds(
    done: Path, tasks_data: dict[str, Path], tmp_path: Path
) -> None:
    head, _, tail = NANO.partition("[variants.masked]")
    text = f'{head}[variants.masked]\ncheckpoint = "{tmp_path}/model"\n{tail[tail.index("[tasks.films]") :]}'
    (tmp_path / "nano.toml").write_text(text)
    made, own = read_study(tmp_path / "nano.toml"), {"reviews": tasks_data["reviews"]}
    shutil.copytree(done / "out/runs/masked/seed-4", tmp_path / "model")
    run_study(made, None, tmp_path / "out", tasks_data=own, seeds=[4])
    shutil.rmtree(tmp_path / "model")
    shutil.copytree(done / "out/runs/masked/seed-5", tmp_path / "model")
    with pytest.raises(InputError, match=r"masked/seed-4: was made of other weights than .*model has now"):
        run_study(made, None, tmp_path / "out", tasks_data=own, seeds=[5])
    shutil.rmtree(tmp_path / "model")  # of a finished run the numbers are enough
    run_study(made, None, tmp_path / "out", tasks_data=own, seeds=[4])


def test_scores_on_other_data_are_not_mixed_in(
    done: Path, data: Path, tasks_data: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(tasks_data["reviews"], tmp_path / "moved")
    made = read_study(done / "nano.toml")
    plan_study(made, data, done / "out", {"reviews": tmp_path / "moved"})
    with (tmp_path / "moved/dev.tsv").open("a") as stream:
        stream.write("a bad moor\t0\n")
    with pytest.raises(InputError, match=r"films/1: was run with other data than .*moved"):
        plan_study(made, data, done / "out", {"reviews": tmp_path / "moved"})


def test_what_was_stopped_goes_on_with_data_that_were_moved(
    data: Path, tasks_data: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, _, tail = NANO.replace("seeds = [4, 5]", "seeds = [4]").partition("[variants.ltr.model]")
    (tmp_path / "nano.toml").write_text(head + tail[tail.index("[tasks.films]") :])
    made = read_study(tmp_path / "nano.toml")
    for place in ("first", "then"):
        shutil.copytree(data, tmp_path / place / "data")
        shutil.copytree(tasks_data["reviews"], tmp_path / place / "reviews")

    class KilledError(Exception):
        pass

    def kill(*_: Any, **__: Any) -> None:
        raise KilledError

    def run(place: str) -> None:
        where = tmp_path / place
        run_study(made, where / "data", tmp_path / "out", tasks_data={"reviews": where / "reviews"})

    for what in ("cloze.evidence.study._measure", "cloze.tasks.run._score_best"):
        with monkeypatch.context() as patched:
            patched.setattr(what, kill)
            with pytest.raises(KilledError):
                run("first")
    shutil.rmtree(tmp_path / "first")
    (tmp_path / "out/runs/masked/seed-4/outcome.json").unlink()
    run("then")
    assert results(tmp_path / "out")["runs"][0]["tasks"]["films"]["points"] == [100.0]


def test_what_is_made_of_others_is_not_planned_without_tasks(done: Path, data: Path, tmp_path: Path) -> None:
    made = read_study(done / "nano.toml")
    planned = {run.variant for run in plan_study(made, data, tmp_path / "out")}
    assert planned == {"masked", "ltr", "rtl", "untrained"}


def test_a_fine_tuning_that_was_killed_before_it_had_settings_begins_anew(
    done: Path, data: Path, tasks_data: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(done / "out", tmp_path / "out")
    again = tmp_path / "out/runs/masked/seed-4/tasks/films/1"
    shutil.rmtree(again)
    again.mkdir()
    (again / ".writing-run.toml-1").write_text("task")
    made = read_study(done / "nano.toml")
    run_study(made, data, tmp_path / "out", tasks_data={"reviews": tasks_data["reviews"]})
    assert results(tmp_path / "out") == results(done / "out")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('bilstm_on = "ltr"', 'bilstm_on = "both"', "'both' is no variant above it"),
        ('concatenates = ["ltr", "rtl"]', 'concatenates = ["ltr"]', "concatenates wants 2 by name"),
        ('bilstm_on = "ltr"', "checkpoint = 3", "checkpoint wants 1 by name"),
        ('bilstm_on = "ltr"', 'bilstm_on = "ltr"\nsteps = 3', "it has bilstm_on alone"),
        ('task = "tagging"', 'task = "taging"', "Did you mean tagging"),
        ('task = "tagging"', 'task = "tagging"\nseed = 3', "sets seed, which the study says"),
        ("[settings]", "[settings]\nseed = 3", "settings have seed"),
        ('base = "masked"', 'base = "masked"\npoints = 0', "points must be at least 1"),
        ('base = "masked"', 'base = "masked"\npoints = 3', "3 points want a budget of steps"),
        ("[tasks.films]", "[tasks.films]\nepoch = 1", "unknown key epoch"),
        ("[tasks.films]", '[tasks.films]\nmetric = "acuracy"', "has no score 'acuracy'"),
        (
            "max_seq_length = 16",
            "max_seq_length = 64",
            "films: max_seq_length 64, the encoder takes 32 tokens",
        ),
        (
            "[variants.masked]",
            '[published]\ntable = "table5"\nrows = { masked = "BERT" }\ncolumns = {}\n[variants.masked]',
            "table5 has no 'BERT'",
        ),
        (
            "[variants.masked]",
            "[published]\nrows = 3\n[variants.masked]",
            "published has the name of a table",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    tasks_data: dict[str, Path], tmp_path: Path, old: str, new: str, message: str
) -> None:
    (tmp_path / "nano.toml").write_text(NANO.replace(old, new))
    with pytest.raises(InputError, match=message):
        plan_study(read_study(tmp_path / "nano.toml"), tmp_path / "data", tmp_path, tasks_data)


def test_data_of_a_task_that_are_not_there_are_missed_at_once(tmp_path: Path) -> None:
    (tmp_path / "nano.toml").write_text(NANO)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: no train"):
        plan_study(read_study(tmp_path / "nano.toml"), tmp_path, tmp_path, {"reviews": tmp_path / "empty"})


def test_the_mean_of_seeds_is_not_taken_of_the_best_alone(tmp_path: Path) -> None:
    task = StudyTask("classification", "reviews", "accuracy", 100.0, {"seeds": 3})
    planned = PlannedTask("films", task, None, tmp_path)
    reached = [{"accuracy": share} for share in (0.6, 0.7, 0.8)]
    (tmp_path / "trials.json").write_text(json.dumps({"settings": [{"results": reached}]}))
    (tmp_path / "scores.json").write_text(json.dumps(reached[2]))
    assert planned.score() == pytest.approx(70.0)
    (tmp_path / "trials.json").unlink()
    with pytest.raises(InputError, match=r"trials\.json: what each seed reached is not there any more"):
        planned.score()


def test_what_a_kill_left_behind_is_cleared(
    done: Path, data: Path, tasks_data: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(done / "out", tmp_path / "out")
    left = tmp_path / "out/runs/masked/seed-4/tasks/films/1/checkpoints"
    shutil.copytree(tmp_path / "out/runs/masked/seed-4/checkpoints", left)
    run_study(read_study(done / "nano.toml"), data, tmp_path / "out")
    assert not left.exists()


def test_data_that_no_task_has(tmp_path: Path) -> None:
    (tmp_path / "nano.toml").write_text(NANO)
    with pytest.raises(InputError, match=r"data called mnli.*It wants reviews, names"):
        plan_study(read_study(tmp_path / "nano.toml"), tmp_path, tmp_path, {"mnli": tmp_path})


def compared(variant: str, seed: int, **scores: float) -> Compared:
    return Compared(variant, seed, tasks={name: TaskScores((score,)) for name, score in scores.items()})


def test_ours_stand_beside_the_papers(tmp_path: Path) -> None:
    published = Published.read(
        {
            "table": "table8",
            "rows": {"a": "80/10/10", "b": "100/0/0", "c": "80/20/0"},
            "columns": {"NER": "NER, features"},
        },
        where=tmp_path,
    )
    runs = [
        compared("a", 1, NER=60.0, QA=5.0),
        compared("b", 1, NER=58.0, QA=6.0),
        compared("a", 2, NER=62.0, QA=5.0),
        compared("b", 2, NER=59.0, QA=6.0),
        compared("c", 2, NER=59.0, QA=6.0),
        compared("d", 2, NER=1.0, QA=2.0),
    ]
    metrics = {"NER": "conll2003, f1", "QA": "squad_v1, f1"}
    runs[0].tasks["NER"] = TaskScores((60.0,), data="some of it")
    write_study_record(
        "T", "a", "", runs, tmp_path / "record", metrics=metrics, built_on={"b": "a"}, published=published
    )
    page = (tmp_path / "record/README.md").read_text()
    ner, qa = page.split("\n## ")[1:]
    assert ner.startswith("NER (conll2003, f1)\n")
    assert "| a | 2 | 61.0 ± 1.4 | - | 94.9 | - |" in ner
    assert "| b | 2 | 58.5 ± 0.7 | -2.5 (-8.9 to +3.9) | 94.0 | -0.9 |" in ner
    assert "| c | 1 | 59.0 | - | 94.7 | -0.2 |" in ner
    assert "| d | 1 | 1.0 | - | - | - |" in ner
    assert (
        "| b | 2 | 6.0 ± 0.0 | +1.0 |\n" in qa
    )  # no interval of what is the same; the paper has no such column
    assert "pooled over the rows that vary: 1.12." in ner  # the root of (2 + 0.5) / 2
    assert "pooled" not in qa
    assert "b less a: -2.5 (-8.9 to +3.9)." in ner
    assert "- NER: some of it\n\n" in page
    assert "| 80/20/0 | 84.4 | 95.2 | 94.7 |" in page  # all of it, since not all of its rows are ours
    assert "table 8 of Devlin et al. 2019" in page
    assert "(differences.svg)" in page
    picture = (tmp_path / "record/differences.svg").read_text()
    assert picture.count(">less a<") == 2
    assert ">the paper's<" in picture


def test_scores_are_paired_by_seed() -> None:
    scores = {"base": {1: 90.0, 2: 40.0, 3: 50.0}, "late": {3: 51.0, 2: 43.0}}
    _, late = score_rows(scores, "base", {})
    assert late.difference is not None
    assert late.difference.mean == pytest.approx(2.0)


def test_what_the_paper_published_stands_in_the_facts(shared: Path) -> None:
    facts = (shared / "anchors/bert-facts.md").read_text("utf-8")
    facts = " ".join(re.sub(r"[|*/]", " ", facts).split())
    for table, named in {"table5": False, "table6": False, "table7": False, "table8": True}.items():
        for name, row in published_tables()[table]["rows"].items():
            assert (
                " ".join([*([name] if named else []), *map(str, row.values())]).replace("/", " ") in facts
            ), (table, name)


def test_perplexity_is_that_of_text_read_as_in_training() -> None:
    pairs, segments = {MASKED: math.log(9.0), NEXT_SENTENCE: 0.5}, {MASKED: math.log(4.0)}
    assert Compared("a", 1, pairs=pairs, segments=segments).score(PERPLEXITY) == pytest.approx(9.0)
    assert Compared("a", 1, pairs={MASKED: 3.0}, segments=segments).score(PERPLEXITY) == pytest.approx(4.0)
    assert Compared("a", 1, neighbours=segments).score(PERPLEXITY) is None


def test_sizes_that_the_paper_has_not_stand_beside_its_own(tmp_path: Path) -> None:
    columns = {"perplexity": "LM (ppl)", "MRPC": "MRPC"}
    published = Published.read({"table": "table6", "rows": {}, "columns": columns}, where=tmp_path)
    runs = [
        Compared(variant, seed, segments={MASKED: loss}, tasks={"MRPC": TaskScores((70.0 + seed,))})
        for variant, loss in {"narrow": 6.0, "wide": 4.0}.items()
        for seed in (1, 2)
    ]
    metrics = {"MRPC": "mrpc, accuracy"}
    write_study_record("T", "narrow", "", runs, tmp_path / "record", metrics=metrics, published=published)
    page = (tmp_path / "record/README.md").read_text()
    assert "| L=3 H=768 A=12 | 5.84 | 77.9 | 79.8 | 88.4 |" in page
    assert "| wide | 2 | 54.6 ± 0.0 | -348.8 |" in page
    assert "(sizes.svg)" in page
    picture = (tmp_path / "record/sizes.svg").read_text()
    for text in ("narrow", "wide", "the paper's", "MRPC (mrpc, accuracy)"):
        assert f">{text}<" in picture


def test_the_papers_rows_may_be_tasks(tmp_path: Path) -> None:
    published = Published.read(
        {
            "table": "table7",
            "rows": {"tuned": "Fine-tuning, BERT-Base", "last": "Last Hidden"},
            "columns": {"bert": "Dev"},
        },
        where=tmp_path,
    )
    runs = [compared("bert", seed, tuned=80.0 + seed, last=70.0 + seed) for seed in (1, 2)]
    runs[1].tasks["last"] = TaskScores((72.0,), ("no entity predicted",))
    metrics = {"tuned": "conll2003, f1", "last": "feature-tagging, f1"}
    write_study_record("T", "bert", "", runs, tmp_path / "record", metrics=metrics, published=published)
    page = (tmp_path / "record/README.md").read_text()
    assert "| tuned | 2 | 81.5 ± 0.7 | - | 96.4 | - |" in page
    assert "| last | 2 | 71.5 ± 0.7 | -10.0 | 94.9 | -1.5 |" in page
    assert "Learned nothing: bert, last, seed 2 (no entity predicted)." in page


def test_every_point_is_compared(tmp_path: Path) -> None:
    reached = {"masked": {1: (50.0, 70.0), 2: (52.0, 71.0)}, "ltr": {1: (50.0, 66.0), 2: (51.0, 65.0)}}
    runs = [
        Compared(
            variant,
            seed,
            steps=80,
            tasks={"NER": TaskScores(points, ("no entity predicted" if points[0] == 50.0 else None, None))},
        )
        for variant, by_seed in reached.items()
        for seed, points in by_seed.items()
    ]
    write_study_record("T", "masked", "", runs, tmp_path / "record", metrics={"NER": "conll2003, f1"})
    page = (tmp_path / "record/README.md").read_text()
    assert "| steps | masked | ltr | less the base's |" in page
    assert "| 40 | 51.0 ± 1.4 | 50.5 ± 0.7 | -0.5 (-6.9 to +5.9) |" in page
    assert "| 80 | 70.5 ± 0.7 | 65.5 ± 0.7 | -5.0 (-17.7 to +7.7) |" in page
    assert "masked, NER after 40 steps, seed 1 (no entity predicted)" in page
    assert "after 80 steps" not in page
    assert not (tmp_path / "record/differences.svg").exists()


def test_without_the_base_there_is_a_record_all_the_same(tmp_path: Path) -> None:
    scores = {"NER": TaskScores((50.0, 70.0))}
    losses = {"seconds": (1.0,), "masked_lm_losses": (5.0,), "held_out_as": "x"}
    ltr = Compared("ltr", 2, steps=80, tasks=scores, **losses)
    base = Compared("masked", 1, steps=80, tasks=scores, **losses)
    for runs in ([ltr], [ltr, base]):
        write_study_record("T", "masked", "", runs, tmp_path / "record", metrics={"NER": "conll2003, f1"})
        page = (tmp_path / "record/README.md").read_text()
        assert "| ltr | 1 | 70.0 | - |" in page
        assert "differences.svg" not in page


def test_a_table_without_the_papers_numbers_has_no_columns_for_them() -> None:
    rows = score_rows({"a": {1: 2.0}, "b": {1: 3.0}}, "a", {})
    assert as_table(rows)[0] == "|  | seeds | ours | less the base's |"


@pytest.mark.parametrize("table", ABLATIONS)
def test_every_ablation_is_planned(table: str, tmp_path: Path) -> None:
    made = ablation(table, AblationConfig(seeds=2, device="cpu"))
    assert made.published is not None
    assert made.published.table == table
    tasks = {task.data: tmp_path for task in made.read_tasks().values()}
    for task in made.read_tasks().values():
        for names in find_task(task.task).file_names.values():
            (tmp_path / names[0]).touch()
    runs = plan_study(made, tmp_path / "data", tmp_path / "out", tasks)
    assert len(runs) == 2 * len(made.variants)
    assert {run.config.device for run in runs if run.config is not None} == {"cpu"}


def test_published_ablations_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    tables = published_tables()
    for table in ABLATIONS:
        assert main(["reproduce", table]) == 0
        shown = capsys.readouterr().out
        for row in tables[table]["rows"]:
            assert row in shown
        assert tables[table]["says"] in shown
        assert ("5.84" in shown) == ("percent, but for perplexity" in shown) == (table == "table6")
    assert "as in figure 5 of Devlin" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table5", "--budget", "10m", "--set", "steps=60"], "--budget: --set steps says how long, too"),
        (["table7", "-m", "cloze-mini", "--budget", "10m"], "--budget: nothing is pre-trained"),
        (["table7", "-m", "cloze-mini", "--set", "steps=60"], "--set: nothing is pre-trained"),
        (["table7", "-m", "cloze-mini", "-d", "data"], "--data: nothing is pre-trained"),
        (["table7", "-m", "cloze-mini"], "--tasks-data: there is nothing to make"),
        (["table5", "--overwrite"], "--overwrite: table5 is an ablation"),
        (["table1", "--seeds", "0"], "--seeds: table1 is no ablation"),
    ],
)
def test_flags_of_no_use_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    output = [] if {"--overwrite", "--seeds"} & {*arguments} else ["-o", str(tmp_path / "out")]
    assert main(["reproduce", *arguments, *output]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


NANO_TABLE = [
    *("model.hidden_size=16", "model.num_attention_heads=2", "model.intermediate_size=24"),
    *("model.num_hidden_layers=4", "evaluation.times=1", "evaluation.max_instances=20"),
    "phases=[{max_seq_length=32, fraction=1.0, batch_size=4}]",
]


def test_a_budget_of_time_says_the_steps(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = AblationConfig(budget_seconds=3.0, settings=tuple(NANO_TABLE), device="cpu")
    made = begin_ablation("figure5", config, data, tmp_path / "out")
    assert made.settings["steps"] % made.points == 0 < made.settings["steps"]
    assert not (tmp_path / "out").exists()
    assert begin_ablation("figure5", AblationConfig(), data, tmp_path / "out").settings["steps"] == 4000
    (tmp_path / "out").mkdir()
    (tmp_path / "out/study.toml").write_text(to_toml(made))
    assert begin_ablation("figure5", config, data, tmp_path / "out", progress=Progress()) == made
    assert f"begun with {made.settings['steps']:,} steps, and goes on" in capsys.readouterr().err


def test_a_table_is_made_from_the_command_line(
    data: Path,
    tasks_data: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = (REPOSITORY / "src/cloze/recipes/studies/table7.toml").read_text()
    small = recipe.replace("lstm_size = 256", "lstm_size = 8").replace("epochs = 4", "epochs = 1")
    (tmp_path / "table7.toml").write_text(small)
    monkeypatch.setattr(ablations, "_STUDIES", tmp_path)
    output = tmp_path / "out"
    tasks = ["--tasks-data", f"ner={tasks_data['names']}", "--device", "cpu", "--quiet"]
    nano = [each for setting in (*NANO_TABLE, "steps=2") for each in ("--set", setting)]
    command = ["reproduce", "table7", "--data", str(data), "-o", str(output), "--seeds", "1", *tasks, *nano]
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
        assert "was begun with another table, model or settings" in capsys.readouterr().err
    shallow = ["-o", str(tmp_path / "shallow"), "--set", "model.num_hidden_layers=2"]
    assert main([*command, *shallow]) == 2
    assert "weighted-sum-last-four takes 4 layers, the encoder has 2" in capsys.readouterr().err
    assert not (tmp_path / "shallow/runs").exists()
    assert main([*command, "--seeds", "2", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(
        "2 runs: 1 variants, 2 seeds; 1 are finished; 14 fine-tunings, 7"
    )
    given = ["reproduce", "table7", "-m", str(output / "runs/bert/seed-1"), "-o", str(tmp_path / "given")]
    assert main([*given, *tasks, "--dry-run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 3


def test_what_is_no_ablation_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        "table5 --data D": "the flag --output is missing",
        "table5 --data D -o O --model enormous": "'enormous' is no size",
        "table6 --data D -o O --model mini": "table 6 compares sizes",
        "table5 --data D -o O --ensemble": "--ensemble: table5 is an ablation",
        "table1 --budget 20m": "--budget: table1 is no ablation",
        "table5 --data D -o O --seeds 0": "--seeds: 0 is less than 1",
        "table5 --data D -o O --set seed=3": "--set: sets seed",
        "table5 -o O --budget 20m": "the flag --data is missing",
        "table5 --data D -o O --tasks-data mnli": "cannot read 'mnli'. Write NAME=PATH",
        "table5 --data D -o O --tasks-data mnli=/nowhere/there": "/nowhere/there: no such file",
    }
    for command, says in wrong.items():
        assert main(["reproduce", *command.split(), "--quiet"]) == 2
        printed = capsys.readouterr().err
        assert says in printed
        assert printed.count("\n") == 1
