"""The baselines of each task on small data, and `cloze baseline`."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

import cloze
from cloze.cli import main
from cloze.finetuning.data import read_examples
from helpers import task_of

GOOD, BAD = "a fine , good film", "an awful , bad book"
LABELED = "text\tlabel\n" + f"{GOOD}\tup\n{BAD}\tdown\n{GOOD} .\tup\n" * 10


def read(name: str, path: Path, **settings: Any) -> tuple[cloze.Task, list[Any]]:
    task, train, *_ = read_examples(task_of(name, **settings), path, path)
    return task, train


def squad() -> str:
    context = "The house is old. In the garden of the house lived Marie Curie. It was sold to a baker."
    answers = [{"text": "Marie Curie", "answer_start": context.index("Marie")}]
    questions = [
        {"id": "1", "question": "Who lived in the garden?", "answers": answers},
        {"id": "2", "question": "Who painted the moon?", "answers": []},
    ]
    asked = [{"id": "x", "question": "What was it?", "answers": [{"text": "house", "answer_start": 4}]}]
    other = [{"context": f"The house of it was {i}.", "qas": [asked[0] | {"id": f"x{i}"}]} for i in range(20)]
    paragraphs = [{"context": context, "qas": questions}, *other]
    return json.dumps({"version": "x", "data": [{"title": "t", "paragraphs": paragraphs}]})


PAIRS = [(GOOD, GOOD, 5), (GOOD, "an awful film", 2), (GOOD, BAD, 1), (BAD, "x y z", 0)] * 5
CHOICES = [
    {"prompt": "the cat sat", "choices": ["a dog ran", "the cat slept"], "label": 1},
    {"prompt": "we ate bread", "choices": ["more bread", "rain fell", "sun"], "label": 0},
    {"prompt": "rain fell", "choices": ["sun", "rain stopped"], "label": 1},
]
ENTITIES = "Ann\tI-PER\nmet\tO\nNew\tI-LOC\nYork\tI-LOC\n\nAnn\tI-PER\nBob\tB-PER\n.\tO\n"
PLAIN = "Ann\tNOUN\nran\tVERB\n\nAnn\tNOUN\nBob\tNOUN\n"


@pytest.mark.parametrize(
    ("name", "file", "content", "metric", "expected"),
    [
        ("classification", "a.tsv", LABELED, "accuracy", {"majority": 2 / 3, "tfidf_logistic": 1}),
        (
            "multi-label",
            "a.tsv",
            "text\tlabels\n" + f"{GOOD}\tup, fine\n{BAD}\tdown\n{GOOD} .\tup, fine\n" * 10,
            "micro_f1",
            {"majority": 8 / 11, "tfidf_logistic": 1},
        ),
        (
            "stsb",
            "a.tsv",
            "sentence1\tsentence2\tscore\n" + "".join(f"{a}\t{b}\t{score}\n" for a, b, score in PAIRS),
            "spearman",
            {"mean": math.nan, "tfidf_ridge": 1, "tfidf_cosine": 1},
        ),
        (
            "regression",
            "a.tsv",
            f"text\tlabel\n{GOOD}\t3\n{BAD}\t1\n",
            "rmse",
            {"mean": 1, "tfidf_ridge": pytest.approx(0.515, abs=1e-3)},
        ),
        ("multiple-choice", "a.jsonl", CHOICES, "accuracy", {"majority": 2 / 3}),
        ("tagging", "a.conll", ENTITIES, "f1", {"majority": 100}),
        ("tagging", "a.conll", PLAIN, "tag_accuracy", {"majority": 100}),
        ("squad_v2", "a.json", squad(), "exact", {"no_answer": 100 / 22}),
    ],
)
def test_scores(write, name, file, content, metric, expected):
    data = write(file, content)
    results = {row.baseline: row.scores[metric] for row in cloze.baseline(name, train=data, dev=data)}
    assert results == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(("content", "tags"), [(ENTITIES, ("I-PER", "O", "O")), (PLAIN, ("NOUN", "NOUN"))])
def test_an_unseen_word_has_the_most_frequent_tag_in_the_scheme_of_the_data(write, content, tags):
    task, examples = read("tagging", write("a.conll", content))
    predictions = task.answer.baselines(examples)["majority"](examples[:1], examples)
    assert predictions[1].tags == (tags,)


def test_learning_curve(write, capsys):
    path = str(write("a.tsv", LABELED))
    command = ["baseline", "classification", "-d", path, "--dev", path]
    assert main([*command, "--sizes", "1,12,30,500,all", "--json"]) == 0
    printed = capsys.readouterr()
    shown = cloze.baseline("classification", train=path, dev=path)._repr_html_()
    assert shown.startswith("<table><tr><th>majority, 30 training examples</th><td>{")
    result = json.loads(printed.out)
    assert (result["examples"], result["main_metric"]) == (30, "accuracy")
    assert [scores["train_examples"] for scores in result["baselines"]] == [1, 1, 12, 12, *[30] * 4]
    assert printed.err.startswith("warning: rows to score on that are in the training data: 30 of 30. ")
    assert printed.err.endswith("\n500 examples are left out: there are 30\n")
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["majority", "tfidf_logistic"]
    assert lines[2].split() == ["accuracy", "0.6667", "1.0000"]
    assert lines[-1] == f"  on 30 examples: {path}"
    rows = "".join(f"{GOOD} {n}\tup\n{BAD} {n}\tdown\n{GOOD} . {n}\tup\n" for n in range(10))
    path = str(write("b.tsv", f"text\tlabel\n{rows}"))
    assert main(["baseline", "classification", "-d", path, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    held_out = result["examples"], result["baselines"][0]["train_examples"]
    assert held_out == (3, 27), "a tenth without dev data"


@pytest.mark.parametrize(
    ("task", "content", "flags", "message"),
    [
        ("ax", LABELED, [], "Fine-tune mnli"),
        ("classification", LABELED, ["--sizes", "10,x"], "--sizes: 'x' is not a number"),
        ("classification", LABELED, ["--sizes", "0"], "'0' is not a number"),
        ("classification", "text\tlabel\n \tup\n \tdown\n", [], "hold no word"),
    ],
)
def test_invalid_input_is_refused(task, content, flags, message, write, capsys):
    path = str(write("a.tsv", content))
    assert main(["baseline", task, "-d", path, "--dev", path, *flags]) == 2
    error = capsys.readouterr().err
    lines = [line for line in error.splitlines() if not line.startswith("warning: ")]
    assert len(lines) == 1
    assert message in error
