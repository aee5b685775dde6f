"""A fine-tuning run: it learns, it resumes to the same bits, others can read it, bad input is told."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from cloze import artifacts
from cloze.errors import InputError
from cloze.inference.classify import TextClassifier
from cloze.locate import resolve_checkpoint
from cloze.progress import SILENT, Progress
from cloze.tasks.batches import by_length, epoch_order, held_out
from cloze.tasks.classification import Classification
from cloze.tasks.config import FinetuneConfig, load_finetuning, to_toml
from cloze.tasks.data import read_data
from cloze.tasks.finetune import finetune, resume_finetuning, validate
from cloze.tasks.registry import find_task
from cloze.tasks.work import FinetuningWork
from cloze.text.tokenizer import Tokenizer
from cloze.training import loop
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.distribution import World
from cloze.training.interrupts import Interrupted
from cloze.training.metrics_log import read_metrics
from cloze.training.optimizer import OptimizerConfig

TASK = Classification(text_column="review", label_column="liked")


@pytest.fixture
def config(nano_checkpoint: Path, reviews: Path) -> FinetuneConfig:
    return FinetuneConfig(
        model=str(nano_checkpoint),
        train=str(reviews),
        dev_fraction=0.2,
        epochs=8,
        batch_size=9,
        max_seq_length=16,
        optimizer=OptimizerConfig(learning_rate=5e-3, warmup_fraction=0.1),
        log_every_steps=1,
        precision="float32",
        device="cpu",
        micro_batch_tokens=40,
    )


def _weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(resolve_checkpoint(run) / "model.safetensors")


def test_the_model_card_is_written_from_the_run(
    config: FinetuneConfig, reviews: Path, tmp_path: Path
) -> None:
    finetune(TASK, replace(config, epochs=3), tmp_path / "run")
    best = resolve_checkpoint(tmp_path / "run", "best")
    card = (best / "README.md").read_text("utf-8")
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert f"| accuracy | {scores['accuracy']:.4f} |" in card
    assert f"| `{reviews}` | 56 examples | `{artifacts.sha256_of(reviews)}` |" in card
    assert f"Measured on 14 examples held out of `{reviews}` at step {int(best.name[5:])}" in card
    assert "license: unknown" in card
    with pytest.raises(ValueError, match="license 'as you like' is no identifier"):
        replace(config, license="as you like")


def test_it_learns_and_says_so(config: FinetuneConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    scores = finetune(TASK, config, run)
    assert scores["accuracy"] == 1.0
    assert scores["macro_f1"] == 1.0
    assert scores["majority_accuracy"] < 0.8
    rows = [row for row in read_metrics(run) if row["kind"] == "validation"]
    assert [row["step"] for row in rows] == list(range(7, 57, 7))
    assert rows[0]["accuracy"] < 1.0
    best = max(rows, key=lambda row: (row["accuracy"], -row["loss"]))["step"]
    assert json.loads((run / "scores.json").read_text()) == {
        "task": "classification",
        "data": f"held out of {config.train}",
        "examples": 14,
        "checkpoint": f"step-{best:08}",
        **scores,
    }
    assert (run / "best").read_text() == f"checkpoints/step-{best:08}\n"
    assert (run / "environment.json").exists()
    artifacts.verify(resolve_checkpoint(run), kind="checkpoint")
    task, again = load_finetuning(path=run / "run.toml")
    assert task == replace(TASK, labels=("no", "yes"))
    assert again == replace(config, data_sha256=again.data_sha256)


def test_another_score_may_choose_the_best(config: FinetuneConfig, tmp_path: Path) -> None:
    task, data = read_data(TASK, config, Tokenizer.load(Path(config.model)), SILENT)
    world = World(torch.device("cpu"))
    one, other = (
        {"loss": 0.5, "accuracy": accuracy, "macro_f1": f1} for accuracy, f1 in ((0.9, 0.4), (0.8, 0.7))
    )
    by_accuracy = FinetuningWork(task=task, data=data, config=config, world=world)
    assert by_accuracy.merit(one) > by_accuracy.merit(other)
    by_f1 = FinetuningWork(task=task, data=data, config=replace(config, best_metric="macro_f1"), world=world)
    assert by_f1.merit(one) < by_f1.merit(other)


@pytest.mark.parametrize("name", ["loss", "majority_accuracy", "makro_f1"])
def test_what_cannot_choose_is_told_before_anything_is_done(
    config: FinetuneConfig, tmp_path: Path, name: str
) -> None:
    for seeds in (1, 2):
        wrong = replace(config, best_metric=name, seeds=seeds)
        with pytest.raises(
            InputError, match=rf"has no score '{name}' to choose by\. It has accuracy, macro_f1\.$"
        ):
            finetune(TASK, wrong, tmp_path / "run")
        with pytest.raises(InputError, match=name):
            validate(TASK, wrong)
    assert not (tmp_path / "run").exists()


def test_of_an_error_the_lower_is_the_better(config: FinetuneConfig, tmp_path: Path) -> None:
    rows = "".join(f"{'good' if n % 3 else 'bad'} {n}\t{n % 3}\n" for n in range(60))
    (tmp_path / "scored.tsv").write_text(f"text\tlabel\n{rows}", "utf-8")
    by_error = replace(config, train=str(tmp_path / "scored.tsv"), epochs=4, best_metric="rmse", seeds=2)
    finetune(find_task("regression")(), by_error, tmp_path / "run")
    settings = json.loads((tmp_path / "run/trials.json").read_text())["settings"]
    found = [result["rmse"] for result in settings[0]["results"]]
    assert json.loads((tmp_path / "run/scores.json").read_text())["rmse"] == min(found)
    for trial in (tmp_path / "run/trials").iterdir():
        measured = [row["rmse"] for row in read_metrics(trial) if row["kind"] == "validation"]
        assert json.loads((trial / "scores.json").read_text())["rmse"] == min(measured)


def test_a_run_is_not_replaced_by_what_starts_from_it(config: FinetuneConfig, tmp_path: Path) -> None:
    finetune(TASK, replace(config, epochs=1), tmp_path / "run")
    before = _weights(tmp_path / "run")
    for seeds in (1, 2):
        again = replace(config, model=str(tmp_path / "run"), seeds=seeds)
        with pytest.raises(InputError, match="is to be read, and replaced"):
            finetune(TASK, again, tmp_path / "run", overwrite=True)
    after = _weights(tmp_path / "run")
    assert all(after[name].equal(weight) for name, weight in before.items())
    with pytest.raises(InputError, match="is for the task 'classification', not 'rte'"):
        resume_finetuning(tmp_path / "run", "rte")


def test_learning_from_some_examples(nano_checkpoint: Path, config: FinetuneConfig) -> None:
    """The dev data stay the same, and the labels are those of all examples."""
    tokenizer = Tokenizer.load(nano_checkpoint)
    task, whole = read_data(TASK, config, tokenizer, SILENT)
    parts = []
    for size in (2, 20):
        some = replace(config, train_examples=size)
        task_of_part, data = read_data(TASK, some, tokenizer, SILENT)
        assert (task_of_part, data.dev, len(data.train_features)) == (task, whole.dev, size)
        parts.append(data.train)
    assert all(example in parts[1] for example in parts[0])
    assert all(example in whole.train for example in parts[1])
    with pytest.raises(InputError, match=r"1,000 training examples were asked for, there are \d+"):
        read_data(TASK, replace(config, train_examples=1000), tokenizer, SILENT)
    with pytest.raises(ValueError, match="train_examples 0 is not positive"):
        replace(config, train_examples=0)


def test_a_run_that_was_stopped_ends_in_the_same_bits(
    config: FinetuneConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config, checkpoints=CheckpointConfig(every_steps=5))
    finetune(TASK, config, tmp_path / "whole")
    run = tmp_path / "stopped"
    loss = FinetuningWork.loss
    calls = 0

    def stopping(*args: object) -> object:
        nonlocal calls
        calls += 1
        if calls in (70, 150):  # in the middle of an epoch, of a step, and twice
            os.kill(os.getpid(), signal.SIGTERM)
        return loss(*args)

    monkeypatch.setattr(FinetuningWork, "loss", stopping)
    with pytest.raises(Interrupted):
        finetune(TASK, config, run)
    with pytest.raises(Interrupted):
        resume_finetuning(run)
    scores = resume_finetuning(run)
    expected, found = _weights(tmp_path / "whole"), _weights(run)
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert scores.items() <= json.loads((tmp_path / "whole" / "scores.json").read_text()).items()
    assert resume_finetuning(run) == scores  # of a finished run: only scored anew


def test_transformers_reads_it(config: FinetuneConfig, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    finetune(TASK, replace(config, epochs=1), tmp_path / "run")
    checkpoint = resolve_checkpoint(tmp_path / "run")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(checkpoint)
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    assert theirs.config.id2label == {0: "no", 1: "yes"}
    assert theirs.config.label2id == {"no": 0, "yes": 1}
    texts = ["the film was good .", "awful", ""]
    with torch.no_grad():
        logits = theirs(**tokenizer(texts, padding=True, return_tensors="pt")).logits
    ours = TextClassifier.load(tmp_path / "run", device="cpu")(texts)
    expected = logits.softmax(-1).tolist()
    for prediction, row in zip(ours, expected, strict=True):
        assert list(prediction.probabilities.values()) == pytest.approx(row, abs=1e-5)


def test_a_time_limit_ends_the_run_with_the_rate_at_zero(
    config: FinetuneConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = count()  # each a hundredth of a second after the last, however busy the machine is
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: next(readings) / 100))
    finetune(TASK, replace(config, epochs=10_000, budget_seconds=3.0), tmp_path / "run")
    rows = [row for row in read_metrics(tmp_path / "run") if row["kind"] == "train"]
    assert 30 < rows[-1]["step"] < 300
    assert rows[-1]["learning_rate"] < 0.05 * config.optimizer.learning_rate


def test_what_is_too_long_is_counted(
    config: FinetuneConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finetune(TASK, replace(config, epochs=1, max_seq_length=8), tmp_path / "run", progress=Progress())
    assert "training examples are longer than 8 tokens: cut" in capsys.readouterr().err


def test_settings_and_their_text_are_one(config: FinetuneConfig, tmp_path: Path) -> None:
    task = replace(TASK, labels=("a", 'b"c'), pair_column="other")
    path = tmp_path / "run.toml"
    path.write_text(to_toml(task, config))
    assert load_finetuning("classification", path) == (task, config)
    _, changed = load_finetuning(None, path, ["optimizer.weight_decay=0"])
    assert changed.optimizer == replace(config.optimizer, weight_decay=0.0)


def test_defaults_are_the_papers() -> None:
    _, config = load_finetuning(
        "classification", None, ["model=m", "train=t", "optimizer.learning_rate=2e-5"]
    )
    assert (config.epochs, config.batch_size, config.max_seq_length) == (3, 32, 128)
    assert config.optimizer == OptimizerConfig(learning_rate=2e-5, warmup_fraction=0.1)


BAD_SETTINGS = {
    "no task": (None, [], "no task is named"),
    "another task": ("classification", ['task="squad"'], "is for the task 'squad', not 'classification'"),
    "unknown task": ("classificaton", [], "Did you mean classification"),
    "unknown key": ("classification", ["epoch=3"], "unknown key epoch. Did you mean epochs"),
    "unknown key of the task": (
        "classification",
        ["classification.text_colum=x"],
        "unknown key classification.text_colum. Did you mean classification.text_column",
    ),
    "not a table": ("classification", ["classification=3"], "classification must be a table, not 3"),
    "epochs": ("classification", ["epochs=0"], "epochs 0 is not positive"),
    "dev_fraction": ("classification", ["dev_fraction=1.5"], "dev_fraction 1.5 is not between 0 and 1"),
    "max_seq_length": ("classification", ["max_seq_length=4"], "max_seq_length 4 is less than 8"),
    "micro_batch_tokens": ("classification", ["micro_batch_tokens=64"], "64 is less than a sequence (128)"),
    "seed": ("classification", ["seed=-1"], "seed -1 is not in"),
    "budget": ("classification", ["budget_seconds=0"], "budget_seconds 0.0 is not positive"),
}


@pytest.mark.parametrize("kind", BAD_SETTINGS)
def test_bad_settings(kind: str) -> None:
    task, overrides, message = BAD_SETTINGS[kind]
    with pytest.raises(InputError) as raised:
        load_finetuning(task, None, ["model=m", "train=t", *overrides])
    assert message in str(raised.value)


Change = Callable[[FinetuneConfig, Path], FinetuneConfig]


def _file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "data.tsv"
    path.write_text(text)
    return str(path)


BAD_RUNS: dict[str, tuple[Change, str]] = {
    "no such data": (lambda c, p: replace(c, train=str(p / "none.tsv")), "none.tsv: no such file"),
    "no such dev data": (lambda c, p: replace(c, dev=str(p / "none.tsv")), "none.tsv: no such file"),
    "no such model": (lambda c, p: replace(c, model=str(p / "none")), "none/config.json: no such file"),
    "one label": (
        lambda c, p: replace(c, train=_file(p, "review\tliked\na\tyes\nb\tyes\n")),
        "has the label 'yes'",
    ),
    "unseen label": (
        lambda c, p: replace(c, dev=_file(p, "review\tliked\na\tyes\nb\tperhaps\n")),
        "data.tsv:3: label 'perhaps' is none of the task's",
    ),
    "bad line": (lambda c, p: replace(c, dev=_file(p, "review\tliked\na\tyes\nb\n")), "data.tsv:3: 1 cells"),
    "longer than the model": (
        lambda c, p: replace(c, max_seq_length=64, micro_batch_tokens=64),
        "max_seq_length 64, the model takes 40 tokens. Say --set max_seq_length=40",
    ),
    "nothing left": (
        lambda c, p: replace(c, train=_file(p, "review\tliked\na\tyes\nb\tno\n"), dev_fraction=0.9),
        "nothing is left to learn from",
    ),
    "other data": (
        lambda c, p: replace(c, data_sha256="0" * 64),
        "not the data that the settings were made for",
    ),
}


@pytest.mark.parametrize("kind", BAD_RUNS)
def test_bad_input_writes_nothing(config: FinetuneConfig, tmp_path: Path, kind: str) -> None:
    change, message = BAD_RUNS[kind]
    with pytest.raises(InputError) as raised:
        finetune(TASK, change(config, tmp_path), tmp_path / "run")
    assert message in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_label_that_is_no_unicode_is_told_before_the_run_begins(
    config: FinetuneConfig, tmp_path: Path
) -> None:
    rows = [{"review": f"good {i}", "liked": ["\ud800", "yes"][i % 2]} for i in range(4)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"labels: .* is not Unicode"):
        finetune(TASK, replace(config, train=str(path), dev=str(path)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_nothing_is_overwritten_unasked_nor_what_is_no_run(config: FinetuneConfig, tmp_path: Path) -> None:
    (tmp_path / "run.toml").touch()
    with pytest.raises(InputError, match="exists already"):
        finetune(TASK, config, tmp_path)
    (tmp_path / "run.toml").rename(tmp_path / "thesis.txt")
    with pytest.raises(InputError, match="not a directory that cloze wrote"):
        finetune(TASK, config, tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").exists()
    with pytest.raises(InputError, match=r"no run to resume: it has no run.toml"):
        resume_finetuning(tmp_path)


def test_orders_are_pure_and_batches_whole() -> None:
    order = epoch_order(101, seed=5, epoch=2)
    assert sorted(order) == list(range(101))
    assert list(order) == list(epoch_order(101, seed=5, epoch=2))
    assert list(order) != list(epoch_order(101, seed=5, epoch=3))
    assert held_out(100, 0.1, seed=1).sum() == 10
    assert held_out(3, 0.1, seed=1).sum() == 1
    lengths = [3, 9, 9, 4, 30, 1]
    batches = [list(batch) for batch in by_length(lengths, 18)]
    assert batches == [[4], [1, 2], [3, 0, 5]]
