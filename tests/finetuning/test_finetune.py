"""A fine-tuning run: learning, exact resume, other programs, bad input."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import cloze
from cloze import artifacts, file_io
from cloze.errors import DataWarning, InputError
from cloze.finetuning.config import load_finetuning
from cloze.finetuning.data import read_examples
from cloze.finetuning.findings import tell
from cloze.finetuning.finetune import extract_scores
from cloze.finetuning.objective import FinetuningObjective
from cloze.inference.text_predictors import TextClassifier
from cloze.model_paths import resolve_checkpoint
from cloze.progress import SILENT, Progress
from cloze.tasks.registry import find_task
from cloze.tokenization.loading import load_tokenizer
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.interrupts import Interrupted
from cloze.training.optimizer import OptimizerConfig
from family_cases import REVIEWS
from helpers import finetuning_of, task_of
from runs import (
    assert_same_weights,
    finetune,
    interrupt_finetuning,
    prepare,
    resume_finetuning,
    rows,
    weights,
)
from serving.clients import client_of

SCORED = [("good", 2.5), ("fine", 1.5), ("bad", -1.5), ("awful", -2.5)]


@pytest.mark.slow
def test_run_learns_and_writes_scores(config, trained):
    run = trained
    scores = extract_scores(json.loads((run / "scores.json").read_text()))
    assert scores["accuracy"] == 1.0
    assert scores["macro_f1"] == 1.0
    assert scores["majority_accuracy"] < 0.8
    logged = rows(run, "validation")
    assert [row["step"] for row in logged] == list(range(7, 57, 7))
    assert logged[0]["accuracy"] < 1.0
    best = max(logged, key=lambda row: (row["accuracy"], -row["loss"]))["step"]
    written = json.loads((run / "scores.json").read_text())
    by_class, confusion = written.pop("by_class"), written.pop("confusion")
    assert by_class["no"] == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 7, "errors": 0}
    assert confusion == {"no": {"no": 7}, "yes": {"yes": 7}}
    assert written == {
        "task": "classification",
        "data": f"held out of {config.train}",
        "examples": 14,
        "checkpoint": f"step-{best:08}",
        **scores,
    }
    assert os.readlink(run / "best") == f"checkpoints/step-{best:08}"
    assert (run / "environment.json").exists()
    artifacts.verify(resolve_checkpoint(run, "latest"), kind="checkpoint")
    card = (resolve_checkpoint(run, "best") / "README.md").read_text("utf-8")
    data = Path(config.train)
    assert f"| accuracy | {scores['accuracy']:.4f} |" in card
    assert f"| `{data}` | 56 examples | `{file_io.sha256_of_file(data)}` |" in card
    assert f"Evaluated on 14 examples held out of `{data}` at step {best}" in card
    assert "license: unknown" in card
    task, again = load_finetuning(run / "run.toml")
    assert task == REVIEWS.with_settings({"labels": ("no", "yes")})
    assert again == replace(config, epochs=8, data_sha256=again.data_sha256)


@pytest.mark.slow
def test_scores_are_in_the_number_format_of_answers(config, tmp_path, monkeypatch):
    """On a GPU models answer in bfloat16 by default."""
    monkeypatch.setattr(
        "cloze.training.precision.inference_dtype",
        lambda precision, _: {"float32": None}.get(precision, torch.bfloat16),
    )
    train, dev, run = tmp_path / "train.tsv", tmp_path / "dev.tsv", tmp_path / "run"
    for file, word in ((train, "good"), (dev, "bad")):
        file.write_text("text\tlabel\n" + "".join(f"{word} {n}\t{n}\n" for n in range(20)), "utf-8")
    by_error = replace(config, train=str(train), dev=str(dev), epochs=1, best_metric="rmse")
    finetune(find_task("regression"), by_error, run)
    written = json.loads((run / "scores.json").read_text())["rmse"]
    rounded, exact = (cloze.evaluate(model=run, data=dev, precision=p)["rmse"] for p in (None, "float32"))
    assert written == rows(run, "validation")[-1]["rmse"] == pytest.approx(rounded, rel=1e-6)
    assert abs(exact - rounded) > 1e-5 * exact


@pytest.mark.slow
def test_lower_error_is_better(config, tmp_path):
    lines = "".join(f"{'good' if n % 3 else 'bad'} {n}\t{n % 3}\n" for n in range(60))
    (tmp_path / "scored.tsv").write_text(f"text\tlabel\n{lines}", "utf-8")
    by_error = replace(config, train=str(tmp_path / "scored.tsv"), epochs=3, best_metric="rmse", seeds=2)
    finetune(find_task("regression"), by_error, tmp_path / "run")
    settings = json.loads((tmp_path / "run/trials.json").read_text())["settings"]
    found = [result["rmse"] for result in settings[0]["results"]]
    assert json.loads((tmp_path / "run/scores.json").read_text())["rmse"] == min(found)
    for trial in (tmp_path / "run/trials").iterdir():
        measured = [row["rmse"] for row in rows(trial, "validation")]
        assert json.loads((trial / "scores.json").read_text())["rmse"] == min(measured)


@pytest.mark.slow
def test_the_best_checkpoint_has_one_score_whatever_the_precision_of_training(configure, tmp_path):
    lines = [
        f"the {'very ' * (n % 7)}{word} film\t{n % 7 + score}\n" for n, (word, score) in enumerate(SCORED * 7)
    ]
    for name, part in (("train", lines), ("dev", lines[:20])):
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\n" + "".join(part))
    data = tmp_path / "dev.tsv"
    settings = "epochs=4 precision=bfloat16 optimizer.learning_rate=5e-3"
    run = tmp_path / "run"
    finetune(*configure("regression", tmp_path / "train.tsv", settings, dev=data), run)
    scores = json.loads((run / "scores.json").read_text())
    evaluated = cloze.evaluate(model=run, data=data, device="cpu").scores
    best = max(rows(run, "validation"), key=lambda row: row["pearson"])
    assert scores["checkpoint"] == f"step-{best['step']:08}"
    card = (resolve_checkpoint(run, "best") / "README.md").read_text("utf-8")
    for name in ("pearson", "spearman"):
        assert best[name] == pytest.approx(scores[name], abs=1e-7)
        assert evaluated[name] == pytest.approx(scores[name], abs=1e-7)
        assert f"| {name} | {scores[name]:.4f} |" in card


def test_overwrite_of_an_input_is_refused(config, trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run", symlinks=True)
    for seeds in (1, 2):
        again = replace(config, model=str(tmp_path / "run"), seeds=seeds)
        with pytest.raises(InputError, match="is an input, and would be replaced"):
            finetune(REVIEWS, again, tmp_path / "run", overwrite=True)
    assert_same_weights(trained, tmp_path / "run")
    with pytest.raises(InputError, match="is for the task 'classification', not 'rte'"):
        cloze.finetune("rte", output=tmp_path / "run", resume=True)


def test_train_examples_limits_the_training_data(config, capsys):
    """The dev data stay the same, and the labels are those of all examples."""
    whole = prepare(REVIEWS, config)
    parts = []
    for size in (2, 20):
        part = prepare(REVIEWS, replace(config, train_examples=size))
        expected = (whole.task, whole.data.dev, size)
        assert (part.task, part.data.dev, len(part.data.train_features)) == expected
        parts.append(part.data.train)
    assert all(example in parts[1] for example in parts[0])
    assert all(example in whole.data.train for example in parts[1])
    cut = prepare(REVIEWS, replace(config, max_seq_length=8))
    tell(cut.data.findings, Progress())
    told = capsys.readouterr().err
    assert "training examples are longer than 8 tokens: cut" in told
    assert "14 examples to score on: scores are uncertain by up to ±0.26" in told
    with pytest.raises(InputError, match=r"there are \d+ training examples, fewer than train_examples 1,000"):
        prepare(REVIEWS, replace(config, train_examples=1000))


@pytest.mark.protected
@pytest.mark.slow
def test_interrupted_run_resumes_bit_identically(config, tmp_path, monkeypatch):
    settings = {"micro_batch_tokens": 40, "dropout": 0.2, "checkpoints": CheckpointConfig(every_steps=5)}
    config = replace(config, seed=1, **settings)
    micro_batches = interrupt_finetuning(monkeypatch)
    finetune(REVIEWS, config, tmp_path / "whole")
    count = len(micro_batches)
    # in the middle of an epoch, of a step, and twice
    micro_batches = interrupt_finetuning(monkeypatch, count // 3, 3 * count // 4)
    run = tmp_path / "stopped"
    with pytest.raises(Interrupted):
        finetune(REVIEWS, config, run)
    with pytest.raises(Interrupted):
        resume_finetuning(run)
    scores = resume_finetuning(run)
    assert_same_weights(tmp_path / "whole", run)
    assert scores.items() <= json.loads((tmp_path / "whole" / "scores.json").read_text()).items()
    micro_batches.clear()
    assert resume_finetuning(run) == scores, "a finished run is only scored"
    assert not micro_batches


@pytest.mark.protected
def test_halved_micro_batches_give_the_same_step(config, tmp_path, monkeypatch):
    for module in ("bert", "attention", "heads"):  # what is dropped depends on how a step is cut
        monkeypatch.setattr(f"cloze.models.{module}.dropout", lambda hidden, prob: hidden)
    rate = OptimizerConfig(learning_rate=1e-4)
    config = replace(config, dev_fraction=0.1, epochs=1, optimizer=rate, micro_batch_tokens=48)
    expected = tmp_path / "whole"
    finetune(REVIEWS, config, expected)
    forward = FinetuningObjective.forward
    sizes = []

    def refusing(self, batch):
        sizes.append(batch.num_tokens)
        result = forward(self, batch)
        if sizes[-1] > 24 and len(sizes) > 3:
            raise MemoryError
        return result

    monkeypatch.setattr(FinetuningObjective, "forward", refusing)
    finetune(REVIEWS, config, tmp_path / "halved")
    (row,) = rows(tmp_path / "halved", "halved")
    assert row["micro_batch_tokens"] == 24
    assert max(sizes) > 24
    ours, theirs = ([row["loss"] for row in rows(run)] for run in (tmp_path / "halved", expected))
    assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.protected
@pytest.mark.slow
def test_other_programs_read_as_many_tokens_as_the_run(config, trained, tmp_path):
    transformers = pytest.importorskip("transformers")
    checkpoint = resolve_checkpoint(trained, "best")
    text = "the film was " + "very " * 12 + "awful good"  # "good" is the 17th token with [CLS]
    with pytest.warns(UserWarning, match="longer than 16 tokens"):
        [ours] = TextClassifier.load(trained, device="cpu")([text])
    classify = transformers.pipeline("text-classification", model=str(checkpoint), device="cpu")
    theirs = {answer["label"]: answer["score"] for answer in classify(text, truncation=True, top_k=None)}
    assert theirs == pytest.approx(ours.probabilities, abs=1e-5)
    cloze.export_model(trained, output=tmp_path / "graph")
    card = (tmp_path / "graph" / "README.md").read_text("utf-8")
    assert "at most 16 tokens" in card
    snippet = card.partition("```python\n")[2].partition("```")[0].replace("A dog runs.", text)
    snippet += "print(outputs[0][0].tolist())\n"
    printed = subprocess.run(
        [sys.executable, "-c", snippet], cwd=tmp_path / "graph", capture_output=True, text=True, check=True
    )
    logits = torch.tensor(json.loads(printed.stdout.splitlines()[-1]))
    assert logits.softmax(-1).tolist() == pytest.approx(list(ours.probabilities.values()), abs=1e-5)
    # training may continue at any length that the model has positions for
    longer = replace(config, epochs=1, model=str(trained), max_seq_length=40)
    finetune(REVIEWS, longer, tmp_path / "longer")
    assert load_tokenizer(resolve_checkpoint(tmp_path / "longer")).model_max_length == 40


@pytest.mark.protected
@pytest.mark.slow
def test_all_programs_give_the_probabilities_of_a_calibrated_model(config, tmp_path):
    transformers = pytest.importorskip("transformers")
    texts = [f"the {'very ' * (n % 5)}{['good', 'bad'][n % 2]} film" for n in range(60)]
    data = tmp_path / "noisy.tsv"
    labels = (["yes", "no"][n % 2 if n % 3 else 1 - n % 2] for n in range(60))  # a third of them are wrong
    data.write_text("review\tliked\n" + "".join(map("{}\t{}\n".format, texts, labels)))
    settings = replace(config, train=str(data), dev=str(data), epochs=2)
    plain = finetune(REVIEWS, settings, tmp_path / "plain")
    run = tmp_path / "run"
    scores = finetune(REVIEWS.with_settings({"calibrate": True}), settings, run)
    calibration = json.loads((run / "scores.json").read_text())["calibration"]
    temperature = calibration["temperature"]
    assert abs(temperature - 1) > 0.1
    assert scores.items() >= plain.items()
    before, after = (load_file(tmp_path / name / "best" / "model.safetensors") for name in ("plain", "run"))
    scaled = {name for name, weight in before.items() if not torch.equal(weight, after[name])}
    assert scaled == {"classifier.weight", "classifier.bias"}
    torch.testing.assert_close(after["classifier.weight"], before["classifier.weight"] / temperature)

    answers = TextClassifier.load(run, device="cpu")(texts[:4])
    expected = [answer.probabilities for answer in answers]
    classify = transformers.pipeline("text-classification", model=str(run / "best"), device="cpu", top_k=None)
    cloze.export_model(run, output=tmp_path / "graph")
    graph = [answer.probabilities for answer in TextClassifier.load(tmp_path / "graph")(texts[:4])]
    answers_of = {"transformers": classify(texts[:4])}
    pairs = [[text] for text in texts[:4]]
    with client_of({"model": run}) as client:
        request = {"inputs": pairs, "parameters": {"function_to_apply": "softmax", "top_k": 2}}
        answers_of["softmax"] = client.ask("/predict", **request)
        answers_of["default"] = client.ask("/predict", inputs=pairs)
    for number, probabilities in enumerate(expected):
        assert graph[number] == pytest.approx(probabilities, abs=1e-5)
        for rows_of in answers_of.values():
            found = {row["label"]: row["score"] for row in rows_of[number]}
            assert found == pytest.approx(probabilities, abs=1e-5)
    weights_before = weights(run)
    assert resume_finetuning(run)["calibration"] == calibration
    assert all(torch.equal(weight, weights_before[name]) for name, weight in weights(run).items())
    with pytest.warns(DataWarning, match="learned from these data"):
        evaluated = cloze.evaluate(model=run, data=data, device="cpu").calibration
    assert evaluated.temperature == temperature
    assert evaluated.error_before == pytest.approx(calibration["error_before"], abs=1e-6)


@pytest.mark.slow
def test_time_limit_ends_the_run_with_learning_rate_near_zero(config, tmp_path):
    readings = count()  # each a hundredth of a second after the last, however busy the machine is
    clock = Progress(quiet=True, clock=lambda: next(readings) / 100)
    finetune(REVIEWS, replace(config, epochs=10_000, budget_seconds=1.0), tmp_path / "run", progress=clock)
    logged = rows(tmp_path / "run")
    assert 10 < logged[-1]["step"] < 100
    assert logged[-1]["learning_rate"] < 0.05 * config.optimizer.learning_rate


def test_defaults_are_the_papers():
    _, config = finetuning_of("classification", ["model=m", "train=t", "optimizer.learning_rate=2e-5"])
    assert (config.epochs, config.batch_size, config.max_seq_length) == (3, 32, 128)
    assert config.optimizer == OptimizerConfig(learning_rate=2e-5, warmup_fraction=0.1)


ONE_LABEL = "review\tliked\na\tyes\nb\tyes\n"
BAD_RUNS: list[tuple[dict[str, Any], str, str]] = [
    ({"dev": "none.tsv"}, "", "none.tsv: no such file"),
    ({"model": "no/model"}, "", "no/model: no such directory"),
    ({"dev": "data.tsv"}, ONE_LABEL + "c\tperhaps\n", "data.tsv:4: unknown label 'perhaps'"),
    ({"dev": "data.tsv"}, ONE_LABEL + "c\n", "data.tsv:4: 1 cells"),
    ({"max_seq_length": 64, "micro_batch_tokens": 64}, "", "max_seq_length 64, the model takes 40 tokens"),
    ({"train": "data.tsv", "dev_fraction": 0.9}, ONE_LABEL + "c\tno\n", "no training examples are left"),
    (
        {"train": "data.tsv"},
        "review\tliked\n" + "the film\tyes\nthe film\tno\n" * 9,
        "all 18 belong to 1 group (a text, document or query), which stay together",
    ),
    ({"data_sha256": "0" * 64}, "", "not the data that the settings were made for"),
    ({"freeze_layers": 99}, "", "freeze_layers: 99, the model has 2 layers. Say `freeze_layers=2`, or less"),
    ({"best_metric": "loss"}, "", "has no score 'loss' to choose by. It has accuracy, macro_f1"),
    ({"best_metric": "makro_f1", "seeds": 2}, "", "has no score 'makro_f1' to choose by"),
]
"""Changed settings, the content of data.tsv, and the error."""


@pytest.mark.parametrize(("changed", "content", "message"), BAD_RUNS, ids=[row[-1] for row in BAD_RUNS])
@pytest.mark.protected
def test_bad_input_writes_nothing(config, tmp_path, monkeypatch, changed, content, message):
    monkeypatch.chdir(tmp_path)
    Path("data.tsv").write_text(content)
    with pytest.raises(InputError) as raised:
        finetune(REVIEWS, replace(config, **changed), Path("run"))
    assert message in str(raised.value)
    assert not Path("run").exists()


@pytest.mark.protected
@pytest.mark.trials("attack")
def test_a_file_without_end_is_refused_at_its_first_wrong_line(config, tmp_path):
    path = tmp_path / "sparse.tsv"
    path.write_text(ONE_LABEL)
    os.truncate(path, 1 << 40)
    for changed in ({"train": str(path)}, {"dev": str(path)}):
        with pytest.raises(InputError, match=r"sparse.tsv:4: a NUL byte"):
            finetune(REVIEWS, replace(config, **changed), tmp_path / "run")


COLUMNS = "classification.text_column=review classification.label_column=liked"


@pytest.mark.slow
def test_scores_on_the_training_data_are_warned_of(configure, reviews, trained, tmp_path):
    copied = tmp_path / "other-name.tsv"
    shutil.copyfile(reviews, copied)
    lines = reviews.read_text().splitlines(keepends=True)
    dev = tmp_path / "dev.tsv"
    dev.write_text("".join(lines[:1] + lines[40:]))
    finetune(*configure("classification", reviews, f"epochs=1 {COLUMNS}", dev=dev), tmp_path / "scored")
    for run, besides in ((trained, ", all but the rows that its run held out"), (tmp_path / "scored", "")):
        with pytest.warns(DataWarning, match=f"{copied}: the model learned from these data{besides}"):
            cloze.evaluate(model=run, data=copied)
        cloze.evaluate(model=run, data=dev)


def test_classes_without_training_examples_are_warned_of(reviews, tmp_path):
    task = task_of(
        "classification", text_column="review", label_column="liked", labels=("no", "yes", "so-so")
    )
    dev = tmp_path / "dev.tsv"
    dev.write_text("review\tliked\nthe film was good\tyes\nthe film was so\tso-so\nthe book was so\tso-so\n")
    findings = read_examples(task, reviews, dev)[-1]
    with pytest.warns(DataWarning, match=r"dev.tsv: no training example has 'so-so' \(2 examples\)"):
        tell(findings, SILENT)
