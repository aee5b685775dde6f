"""Cross-validation: folds, the answer to every row, suspected labels, kills between folds, workers."""

import json
from collections import Counter
from dataclasses import replace
from statistics import fmean, stdev

import numpy as np
import pytest

from cloze.cli import main
from cloze.errors import InputError
from cloze.finetuning import finetune as finetuning
from cloze.finetuning.config import GridConfig
from cloze.finetuning.cross_validation import find_label_errors, write_out_of_fold
from cloze.finetuning.data import divide
from cloze.finetuning.finetune import expand_grid
from cloze.inference.predictor import Predictor
from cloze.progress import SILENT
from cloze.tasks.texts import LabeledText
from cloze.training.interrupts import Interrupted
from family_cases import FAMILIES, REVIEWS, write_case
from helpers import read_rows, task_of
from runs import finetune, interrupt_finetuning, resume_finetuning


def test_folds_have_the_same_shares_of_labels_and_keep_copies_together():
    labels = ["a"] * 40 + ["b"] * 17 + ["c"] * 3
    examples = [LabeledText(f"text {i}", gold=label) for i, label in enumerate(labels)]
    folds = divide(task_of("classification"), examples, 5, where="a.csv")
    assert Counter(folds) == dict.fromkeys(range(1, 6), 12)
    for label in "abc":
        counts = Counter(fold for fold, example in zip(folds, examples, strict=True) if example.gold == label)
        of_folds = [counts[fold] for fold in range(1, 6)]
        assert max(of_folds) - min(of_folds) <= 1
    copied = [*examples, *examples[::3]]
    folds = divide(task_of("classification"), copied, 5, where="a.csv")
    assert folds[60:] == folds[:60][::3]
    queries = [LabeledText(f"query {i % 7}", f"passage {i}", i % 2) for i in range(70)]
    folds = divide(task_of("ranking"), queries, 3, where="a.csv")
    assert all(len({*folds[i::7]}) == 1 for i in range(7))
    assert {*folds} == {1, 2, 3}
    with pytest.raises(InputError, match=r"a.csv: 7 groups .*fewer than 8 folds"):
        divide(task_of("ranking"), queries, 8, where="a.csv")


def test_a_point_of_the_grid_has_a_run_by_seed_and_fold(config):
    config = replace(config, folds=3, seeds=2, seed=1, grid=GridConfig(epochs=(1, 2)))
    runs = [(name, run.seed, run.fold) for name, run in expand_grid(config)]
    assert runs[:4] == [("epochs-1", 1, 1), ("epochs-1", 1, 2), ("epochs-1", 1, 3), ("epochs-1", 2, 1)]
    assert len(runs) == config.num_runs == 12
    assert not any(run.has_trials for _, run in expand_grid(config))


@pytest.fixture(scope="module")
def crossed(config, tmp_path_factory):
    run = tmp_path_factory.mktemp("crossed") / "run"
    finetune(REVIEWS, replace(config, folds=3, epochs=6), run)
    return run


@pytest.mark.slow
def test_every_row_is_answered_by_the_run_that_did_not_learn_it(crossed, reviews):
    summary = json.loads((crossed / "trials.json").read_text())
    data, answers = list(REVIEWS.examples(reviews)), read_rows(crossed / "out-of-fold.csv")
    assert [(row["text"], row["gold"]) for row in answers] == [(e.text, e.gold) for e in data]
    assert summary["examples"] == len(data)
    [setting] = summary["settings"]
    accuracies = [result["accuracy"] for result in setting["results"]]
    assert setting["mean"]["accuracy"] == pytest.approx(fmean(accuracies))
    assert setting["deviation"]["accuracy"] == pytest.approx(stdev(accuracies))
    right = sum(row["gold"] == row["label"] for row in answers) / len(answers)
    sizes = [result["examples"] for result in setting["results"]]
    assert sum(sizes) == len(data)
    assert right == pytest.approx(sum(a * n for a, n in zip(accuracies, sizes, strict=True)) / len(data))
    folds = divide(REVIEWS, data, 3, where=reviews)
    for fold in (1, 2, 3):
        scored = [(e, row) for e, row, f in zip(data, answers, folds, strict=True) if f == fold]
        learned = {example.text for example, f in zip(data, folds, strict=True) if f != fold}
        assert not learned & {example.text for example, _ in scored}
        model = Predictor.load(crossed / f"trials/seed-12345_fold-{fold}", device="cpu")
        for prediction, (_, row) in zip(model.predict([e for e, _ in scored])[0], scored, strict=True):
            assert prediction.probability == pytest.approx(float(row["probability"]), abs=1e-5)


@pytest.mark.slow
def test_flipped_labels_are_suspected_with_a_reason(config, reviews, tmp_path):
    lines = reviews.read_text().splitlines()
    swap = {"yes": "no", "no": "yes"}
    for number in (3, 20, 41):
        text, label = lines[number].rsplit("\t", 1)
        lines[number] = f"{text}\t{swap[label]}"
    file = tmp_path / "flipped.tsv"
    file.write_text("\n".join(lines) + "\n")
    config = replace(config, train=str(file), folds=3, epochs=8)
    report = finetuning.finetune(REVIEWS, config, tmp_path / "run")
    suspects = {suspect["row"]: suspect for suspect in report["suspects"]}
    assert len({3, 20, 41} & suspects.keys()) >= 2
    assert [s["margin"] for s in report["suspects"]] == sorted(s["margin"] for s in report["suspects"])
    written = read_rows(tmp_path / "run/out-of-fold.csv")
    assert {i for i, row in enumerate(written, 1) if row["reason"]} == {*suspects}
    row = written[19]
    assert row["reason"].startswith(f"labeled {row['gold']} (")
    assert row["suspected_label"] == swap[row["gold"]]


@pytest.mark.protected
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_cross_validation_resumes_to_the_same_answers(config, crossed, tmp_path, monkeypatch, workers):
    interrupt_finetuning(monkeypatch, 45)  # of the second fold
    with pytest.raises(Interrupted):
        finetune(REVIEWS, replace(config, folds=3, epochs=6), tmp_path / "cut")
    assert len(list((tmp_path / "cut/trials").glob("*/scores.json"))) == 1
    monkeypatch.undo()
    resume_finetuning(tmp_path / "cut", workers=workers)
    assert (tmp_path / "cut/out-of-fold.csv").read_text() == (crossed / "out-of-fold.csv").read_text()


def test_answers_may_have_line_ends_of_unicode(tmp_path):
    row = {"text": "a\u2028b", "gold": 1.0, "answer": 2.0}
    (tmp_path / "answers.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", "utf-8")
    write_out_of_fold(task_of("regression"), [1], {1: tmp_path / "answers.jsonl"}, tmp_path / "all.csv")
    assert read_rows(tmp_path / "all.csv")[0]["text"] == row["text"]


@pytest.mark.slow
def test_the_shell_names_the_file_and_refuses_what_contradicts(reviews, nano_checkpoint, tmp_path, capsys):
    command = ["finetune", "classification", "-m", str(nano_checkpoint), "-d", str(reviews), "-o"]
    command += [str(tmp_path / "run"), "--text-column", "review", "--label-column", "liked", "--folds", "2"]
    command += ["--max-seq-length", "16", "--epochs", "1", "--device", "cpu"]
    assert main([*command, "--dev", str(reviews)]) == 2
    assert capsys.readouterr().err.startswith(
        "error: --folds: cannot be combined with --dev, --train-examples, --data-fractions or --teacher. Leave out one"
    )
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "runs: 2" in printed
    assert f"on 70 examples: 2 folds of {reviews}" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_every_kind_of_task_has_its_answers_in_one_file(config, tmp_path, name):
    task, path = write_case(name, tmp_path)
    config = replace(config, train=str(path), folds=2, epochs=1, max_seq_length=32, batch_size=2)
    report = finetuning.finetune(task, config, tmp_path / "run")
    examples = list(task.examples(path))
    assert len(read_rows(tmp_path / "run/out-of-fold.csv")) == report["examples"] == len(examples)
    assert (report["suspects"] == []) or name == "classification"
    with pytest.raises(InputError, match="fewer than 9 folds"):
        finetuning.validate(task, replace(config, folds=9), progress=SILENT)
    plan = finetuning.plan_finetuning(task, config)
    assert plan.runs == 2


def test_small_example_by_hand():
    """Thresholds: 0.55 = (0.9 + 0.6 + 0.15) / 3 of the first class, 0.6 = (0.8 + 0.7 + 0.3) / 3 of the second."""
    first = np.array([0.9, 0.6, 0.15, 0.2, 0.3, 0.7])
    labels = np.array([0, 0, 0, 1, 1, 1])
    errors = find_label_errors(np.stack([first, 1 - first], axis=1), labels)
    assert [(row, label) for row, label, _ in errors] == [(2, 1), (5, 0)]
    np.testing.assert_allclose([margin for *_, margin in errors], [-0.7, -0.4])


def test_no_row_is_suspected_of_the_label_that_it_is_answered_with():
    """The third row reaches the threshold of the rare class, not that of its own, which is answered."""
    probabilities = np.array([[0.95, 0.05], [0.95, 0.05], [0.6, 0.4], [0.7, 0.3]])
    assert find_label_errors(probabilities, np.array([0, 0, 0, 1])) == []
    assert find_label_errors(np.array([[0.9, 0.1]]), np.array([0])) == []


def test_no_row_is_suspected_of_a_label_that_is_less_probable_than_its_own():
    """A model that has not learned the only row of the third class gives it, and the class, a low probability."""
    first = np.array([0.9, 0.8, 0.45, 0.2, 0.1, 0.6])
    probabilities = np.stack([first, 0.99 - first, np.full(6, 0.01)], axis=1)
    assert find_label_errors(probabilities, np.array([0, 0, 0, 1, 1, 2])) == []


def test_the_most_probable_label_is_named():
    """The last row reaches the threshold of the third class, which has one row, but not the first one's."""
    first = np.array([0.9, 0.9, 0.2, 0.1, 0.5, 0.8])
    probabilities = np.stack([first, 0.98 - first, np.full(6, 0.01), np.full(6, 0.01)], axis=1)
    probabilities[5] = [0.8, 0.178, 0.02, 0.002]
    errors = find_label_errors(probabilities, np.array([0, 0, 1, 1, 2, 3]))
    assert [(row, label) for row, label, _ in errors] == [(5, 0)]
    assert errors[0][2] == pytest.approx(0.002 - 0.8)


def test_rows_and_order_are_those_of_cleanlab():
    """`find_label_issues` of cleanlab 2.9.0: filter_by="confident_learning", ranked by "normalized_margin"."""
    random = np.random.default_rng(7)
    true = random.integers(0, 4, 60)
    labels = np.where(random.random(60) < 0.2, (true + 1) % 4, true)
    logits = random.normal(0, 1, (60, 4))
    logits[np.arange(60), true] += 2
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    errors = find_label_errors(probabilities, labels)
    assert [row for row, *_ in errors] == [16, 22, 40, 33, 53, 3, 49, 36, 45, 29, 17]
    assert all(label != labels[row] for row, label, _ in errors)
