"""The baselines of each family on small data, and `cloze baseline`."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from families import CASES

from cloze.cli import main
from cloze.tasks.baselines import baselines_of, score_baselines
from cloze.tasks.batches import sample_indices
from cloze.tasks.data import read_examples
from cloze.tasks.registry import find_task, tasks
from cloze.tasks.task import AnyTask

Capture = pytest.CaptureFixture[str]
Write = Callable[[str, str], Path]

GOOD, BAD = "a fine , good film", "an awful , bad book"
LABELED = "text\tlabel\n" + f"{GOOD}\tup\n{BAD}\tdown\n{GOOD} .\tup\n" * 10
LEARNABLE = sorted(name for name, task in tasks().items() if task.trained_as is None and name in CASES)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: str) -> Path:
        (tmp_path / name).write_text(content, encoding="utf-8")
        return tmp_path / name

    return write


def read(name: str, path: Path, **settings: Any) -> tuple[AnyTask, list[Any]]:
    task, train, _ = read_examples(find_task(name)(**settings), path, path)
    return task, train


def scores(name: str, path: Path, **settings: Any) -> dict[str, dict[str, float]]:
    task, examples = read(name, path, **settings)
    return {result.baseline: result.scores for result in score_baselines(task, examples, examples)}


@pytest.mark.parametrize("name", LEARNABLE)
def test_baseline_predictions_are_scored_and_written_like_those_of_a_model(name, write):
    case = CASES[name]
    task, examples = read(name, write(case.file, case.content), **case.settings)
    for baseline in baselines_of(task, examples).values():
        predictions = baseline(task, examples, examples)
        result = task.score(examples, predictions)
        assert task.metrics[0] in result
        written = [
            json.loads(json.dumps(task.to_json(example, prediction)))
            for example, prediction in zip(examples, predictions, strict=True)
        ]
        assert task.score(examples, [task.from_json(values) for values in written]) == result
        assert baseline(task, examples, examples) == predictions


def test_classification(write):
    result = scores("classification", write("a.tsv", LABELED))
    assert result["majority"]["accuracy"] == pytest.approx(2 / 3)
    assert result["tfidf_logistic"]["accuracy"] == 1


def test_multi_label(write):
    content = "text\tlabels\n" + f"{GOOD}\tup, fine\n{BAD}\tdown\n{GOOD} .\tup, fine\n" * 10
    result = scores("multi-label", write("a.tsv", content))
    assert result["tfidf_logistic"]["micro_f1"] == 1
    assert 0 < result["majority"]["micro_f1"] < 1


def test_regression_of_pairs(write):
    rows = [(GOOD, GOOD, 5), (GOOD, "an awful film", 2), (GOOD, BAD, 1), (BAD, "x y z", 0)] * 5
    content = "sentence1\tsentence2\tscore\n" + "".join(f"{a}\t{b}\t{score}\n" for a, b, score in rows)
    result = scores("stsb", write("a.tsv", content))
    assert math.isnan(result["mean"]["pearson"])
    assert result["tfidf_cosine"]["spearman"] == pytest.approx(1)
    assert result["tfidf_ridge"]["pearson"] > 0.9


def test_regression_of_single_texts_has_no_cosine(write):
    result = scores("regression", write("a.tsv", f"text\tlabel\n{GOOD}\t3\n{BAD}\t1\n"))
    assert set(result) == {"mean", "tfidf_ridge"}


def test_multiple_choice(write):
    rows = [
        {"prompt": "the cat sat", "choices": ["a dog ran", "the cat slept"], "label": 1},
        {"prompt": "we ate bread", "choices": ["more bread", "rain fell", "sun"], "label": 0},
        {"prompt": "rain fell", "choices": ["sun", "rain stopped"], "label": 1},
    ]
    result = scores("multiple-choice", write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    assert result["tfidf_overlap"]["accuracy"] == 1
    assert result["majority"]["accuracy"] == pytest.approx(2 / 3)


def test_tagging(write):
    content = "Ann\tI-PER\nmet\tO\nNew\tI-LOC\nYork\tI-LOC\n\nAnn\tI-PER\nBob\tB-PER\n.\tO\n"
    path = write("a.conll", content)
    result = scores("tagging", path)
    assert result["all_o"]["f1"] == 0
    assert result["majority"]["f1"] == 100
    task, examples = read("tagging", path)
    tags = baselines_of(task, examples)["majority"](task, examples[:1], examples)
    assert tags[1].tags == (("I-PER", "O", "O"),), "an unseen word is O, and the scheme is that of the data"


def test_plain_tags(write):
    path = write("a.conll", "Ann\tNOUN\nran\tVERB\n\nAnn\tNOUN\nBob\tNOUN\n")
    result = scores("tagging", path)
    assert set(result) == {"majority"}
    assert result["majority"]["tag_accuracy"] == 100
    task, examples = read("tagging", path)
    assert baselines_of(task, examples)["majority"](task, examples[:1], examples)[1].tags == (
        ("NOUN", "NOUN"),
    )


def squad(allows_no_answer: bool) -> str:
    context = "The house is old. In the garden of the house lived Marie Curie. It was sold to a baker."
    answers = [{"text": "Marie Curie", "answer_start": context.index("Marie")}]
    questions = [{"id": "1", "question": "Who lived in the garden?", "answers": answers}]
    if allows_no_answer:
        questions.append({"id": "2", "question": "Who painted the moon?", "answers": []})
    asked = [{"id": "x", "question": "What was it?", "answers": [{"text": "house", "answer_start": 4}]}]
    other = [{"context": f"The house of it was {i}.", "qas": [asked[0] | {"id": f"x{i}"}]} for i in range(20)]
    paragraphs = [{"context": context, "qas": questions}, *other]
    return json.dumps({"version": "x", "data": [{"title": "t", "paragraphs": paragraphs}]})


def test_span_overlap(write):
    path = write("a.json", squad(allows_no_answer=False))
    task, examples = read("squad_v1", path)
    known = baselines_of(task, examples)
    assert set(known) == {"idf_sentence", "idf_span"}
    (sentence,) = known["idf_sentence"](task, examples, examples[:1])
    assert sentence.text == "In the garden of the house lived Marie Curie."
    (span,) = known["idf_span"](task, examples, examples[:1])
    assert span.text == "Marie Curie"
    assert examples[0].paragraph.text[span.start : span.end] == span.text


def test_no_answer_baseline(write):
    result = scores("squad_v2", write("a.json", squad(allows_no_answer=True)))
    assert result["no_answer"]["f1"] == pytest.approx(100 / 22)
    assert set(result) == {"no_answer", "idf_sentence", "idf_span"}


def test_samples_are_nested_and_deterministic():
    parts = [sample_indices(1000, size, seed=0) for size in (10, 100, 1000)]
    assert [len(part) for part in parts] == [10, 100, 1000]
    assert set(parts[0]) < set(parts[1]) < set(parts[2])
    assert parts[1] == sample_indices(1000, 100, seed=0) != list(range(100))


def test_learning_curve(write, capsys):
    path = str(write("a.tsv", LABELED))
    command = ["baseline", "classification", "-d", path, "--dev", path]
    assert main([*command, "--sizes", "1,12,500,all", "--json"]) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    assert (result["examples"], result["main_metric"]) == (30, "accuracy")
    assert [scores["train_examples"] for scores in result["baselines"]] == [1, 1, 12, 12, 30, 30]
    assert printed.err == "500 examples are left out: there are 30\n"
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["majority", "tfidf_logistic"]
    assert lines[2].split() == ["accuracy", "0.6667", "1.0000"]
    assert lines[-1] == f"  on 30 examples: {path}"


def test_without_dev_data_a_tenth_is_held_out(write, capsys):
    rows = "".join(f"{GOOD} {n}\tup\n{BAD} {n}\tdown\n{GOOD} . {n}\tup\n" for n in range(10))
    path = write("a.tsv", f"text\tlabel\n{rows}")
    assert main(["baseline", "classification", "-d", str(path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["examples"], result["baselines"][0]["train_examples"]) == (3, 27)


@pytest.mark.parametrize(
    ("task", "content", "flags", "message"),
    [
        ("nothing", LABELED, [], "no task 'nothing'"),
        ("ax", LABELED, [], "Fine-tune mnli"),
        ("classification", LABELED, ["--sizes", "10,x"], "--sizes: 'x' is not a number"),
        ("classification", LABELED, ["--sizes", "0"], "'0' is not a number"),
        ("classification", LABELED, ["--sizes", ""], "'' is not a number"),
        ("classification", LABELED, ["--label-column", "stars"], "stars"),
        ("classification", LABELED, ["--set", "classification.nothing=1"], "nothing"),
        ("classification", "text\tlabel\nx\tup\n", [], "every row has the label 'up'"),
        ("classification", "", [], "a.tsv"),
        ("classification", "text\tlabel\n \tup\n \tdown\n", [], "hold no word"),
        ("regression", "text\tlabel\nx\tup\n", [], "a.tsv:2: score 'up' is not a number"),
    ],
)
def test_invalid_input_is_refused(task, content, flags, message, write, capsys):
    path = str(write("a.tsv", content))
    assert main(["baseline", task, "-d", path, "--dev", path, *flags]) == 2
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 1
    assert message in error


def test_dev_label_without_training_examples_is_refused(write, capsys):
    train = str(write("a.tsv", LABELED))
    dev = str(write("b.tsv", "text\tlabel\nx\tsideways\n"))
    assert main(["baseline", "classification", "-d", train, "--dev", dev]) == 2
    assert "b.tsv:2: unknown label 'sideways'" in capsys.readouterr().err


def test_missing_file_is_refused(tmp_path, capsys):
    assert main(["baseline", "classification", "-d", str(tmp_path / "nothing.tsv")]) == 2
    assert "nothing.tsv" in capsys.readouterr().err


def test_missing_scikit_learn_is_named(write, monkeypatch, capsys):
    monkeypatch.setattr("cloze.optional_dependencies.find_spec", lambda package: None)
    assert main(["baseline", "classification", "-d", str(write("a.tsv", LABELED))]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: a baseline: needs the package sklearn. Run pip install '")
    assert message.endswith("[tasks]'.\n")
