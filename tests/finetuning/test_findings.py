"""What is told of labeled data before training: kinds, counts and places, for every kind of task."""

import json
from dataclasses import replace

import pytest

import cloze
from cloze.cli import main
from cloze.errors import DataWarning
from cloze.finetuning.data import read_examples
from cloze.finetuning.findings import find_in_examples, find_in_labels, place, tell
from cloze.progress import Progress
from cloze.tasks.data import read_memory
from family_cases import FAMILIES, write_case
from helpers import task_of

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ROWS = {
    "clean": (["fine,good", "dull,bad", "so so,good", "odd,bad"], {}),
    "copies": (
        ['"fine\r\nfilm",good', '"fine\nfilm",good', '"fine\nfilm",good', "dull,bad", "odd,bad"],
        {"copies": (2, [["a.csv:2", "a.csv:4", "a.csv:6"]])},
    ),
    "contradictions": (
        ["fine,good", "fine,bad", "dull,bad", "odd,good"],
        {"contradictions": (1, [["a.csv:2", "a.csv:3"]])},
    ),
    "rare labels": (
        ["fine,good", "dull,bad", "so so,good", "odd,bad", "nice,fair"],
        {"rare_labels": (1, [["a.csv:6"]])},
    ),
    "numbers": (
        [f"text {i},{i}" for i in range(30)],
        {"many_labels": (30, []), "unlearned_labels": (3, None)},
    ),
    "swapped columns": (
        [f"{'good' if i % 2 else 'bad'},text {i}" for i in range(30)],
        {"swapped_columns": (30, [])},  # and nothing that follows from it
    ),
    "placeholders": (
        ["fine,good", "dull,bad", "so so,n/a", "odd,n/a", "nice,good", "grim,bad"],
        {"placeholder_labels": (2, [["a.csv:4"], ["a.csv:5"]])},
    ),
}


@pytest.mark.parametrize(("rows", "expected"), ROWS.values(), ids=ROWS)
def test_kinds_counts_and_places(tmp_path, rows, expected):
    file = tmp_path / "a.csv"
    file.write_text("\n".join(["text,label", *rows]) + "\n")
    findings = {finding.kind: finding for finding in read_examples(task_of("classification"), file, None)[-1]}
    for kind, (count, places) in expected.items():
        assert count in (None, findings[kind].count)
        found = [[where.replace(f"{file}", "a.csv") for where in group] for group in findings[kind].rows]
        assert places is None or sorted(map(sorted, found)) == places
    assert {*findings} == {*expected}


def test_labels_that_settings_name_are_not_doubted(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text,label\nfine,None\ndull,some\nodd,None\nso so,some\n")
    named = task_of("classification", labels=("None", "some"))
    assert not read_examples(named, file, None)[-1]
    assert [finding.kind for finding in read_examples(task_of("classification"), file, None)[-1]] == [
        "placeholder_labels"
    ]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_kind_of_task_is_looked_at(tmp_path, name):
    task, path = write_case(name, tmp_path)
    examples = list(task.examples(path))
    fitted = task.fit(examples)
    assert not find_in_examples(task, fitted, [*examples, *examples], [], is_held_out=False)[:-1]
    found = find_in_examples(task, fitted, [*examples, examples[1]], examples[:1], is_held_out=False)
    assert [(finding.kind, finding.count) for finding in found if finding.kind != "rare_labels"] == [
        ("leaks", 1),
        ("copies", 1),
    ]
    assert found[0].rows == ((place(examples[0]), place(examples[0])),)
    assert str(path) in place(examples[0])
    if getattr(examples[0], "gold", None) is not None:
        other = replace(examples[0], gold=examples[1].gold)
        [same] = find_in_examples(task, fitted, [*examples, *examples, other], [], is_held_out=False)[:1]
        assert (same.kind, same.count) == ("contradictions", 1)


@pytest.mark.slow
def test_five_lines_are_told_and_validate_tells_all(tmp_path, capsys):
    file, dev = tmp_path / "a.csv", tmp_path / "dev.csv"
    long = " ".join(LETTERS)
    rows = ["fine,good", "fine,good", "dull,bad", "dull,good", "odd,rare", f"{long},n/a", "nice,bad"]
    file.write_text("\n".join(["text,label", *rows]) + "\n")
    dev.write_text("text,label\nfine,good\nnew,bad\n")
    command = ["finetune", "classification", "-m", "cloze-mini", "-d", str(file), "--dev", str(dev)]
    command += ["--max-seq-length", "10", "-o", str(tmp_path / "run")]
    assert main([*command, "--validate"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert len(told) == 7
    assert told[1] == (
        "warning: rows to score on that are in the training data: 1 of 2. Leave them out there: scores are too good "
        f"({dev}:2 and {file}:2)"
    )
    assert told[-1].startswith("warning: 1 of 7 training examples are longer than 10 tokens: cut (")
    assert main([*command, "--validate", "--json", "--quiet"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["kind"] for finding in findings] == [
        *("placeholder_labels", "leaks", "contradictions", "copies", "rare_labels"),
        *("few_examples", "long_texts"),
    ]
    assert findings[2]["rows"] == [[f"{file}:4", f"{file}:5"]]
    with pytest.warns(DataWarning) as warned:  # without progress, too
        cloze.finetune(
            "classification", train=file, dev=dev, model="cloze-mini", output=tmp_path / "a", epochs=1
        )
    assert any(
        str(w.message).startswith("rows to score on that are in the training data: 1 of 2") for w in warned
    )
    assert main([*command, "--epochs", "1"]) == 0
    shown = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert shown == [*told[:4], "warning: 3 more remarks on the data: --validate prints all"]


def test_long_lists_are_cut_in_print_alone(tmp_path, capsys):
    file = tmp_path / "a.csv"
    file.write_text("text,label\n" + "".join(f"text {i},label {i // 2}\n" for i in range(60)))
    command = ["finetune", "classification", "-m", "cloze-mini", "-d", str(file), "--validate"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert printed.out.count(", …") == 2
    assert "label 9 " not in printed.out
    assert main([*command, "--json", "--quiet"]) == 0
    assert len(json.loads(capsys.readouterr().out)["settings"]["labels"]) == 30


def test_python_warns_of_labels_that_cannot_be_right(capsys):
    task = task_of("classification")
    examples = [(f"text {i}", "yes" if i % 2 else "-1") for i in range(8)]
    task, rows = read_memory(task, examples, "train")
    read = list(task.examples(rows))
    [finding] = find_in_labels(task, task.fit(read), read)
    assert finding.rows == (("train[0]",), ("train[2]",), ("train[4]",), ("train[6]",))
    with pytest.warns(UserWarning, match=r"train: rows have the label '-1' \(4 of 8\)"):
        tell([finding], Progress())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("count", "is_told"), [(99, True), (100, False)])
def test_few_examples_to_score_on_are_warned_of(tmp_path, capsys, count, is_told):
    for name, size in (("a.csv", 250), ("dev.csv", count)):
        rows = [f"{name} {number},{'xy'[number % 2]}" for number in range(size)]
        (tmp_path / name).write_text("\n".join(["text,label", *rows]) + "\n")
    parts = ["-d", str(tmp_path / "a.csv"), "--dev", str(tmp_path / "dev.csv")]
    assert main(["finetune", "classification", "-m", "cloze-mini", *parts, "--validate"]) == 0
    assert (f"{count} examples to score on: scores are uncertain" in capsys.readouterr().err) == is_told
