"""Labels as people write them: missing ones, placeholders, numbers and booleans, lists, other separators."""

import itertools
import re
import warnings
from typing import Any

import pytest

from cloze.cli import main
from cloze.errors import DataWarning, InputError
from cloze.finetuning.data import count_classes, read_examples
from cloze.tasks.labels import PLACEHOLDERS
from helpers import task_of, write_rows

Rows = list[tuple[str, Any]]


def _write(path, rows):
    write_rows(path, [{"text": text, "label": label} for text, label in rows])


KINDS = ("tsv", "csv", "jsonl", "parquet")


@pytest.mark.parametrize(("kind", "empty"), [*itertools.product(KINDS, ("", " ", None, float("nan")))])
def test_an_empty_label_is_refused_or_left_out(tmp_path, kind, empty):
    file = tmp_path / f"a.{kind}"
    if kind in ("tsv", "csv"):
        empty = empty or ""
        if not isinstance(empty, str):
            pytest.skip("a text")
    labels = ("1", empty, "2") if isinstance(empty, str) else (1.0, empty, 2.0)
    _write(file, list(zip("abc", labels, strict=True)))
    number = 2 if kind in ("jsonl", "parquet") else 3
    for task in (task_of("classification"), task_of("regression")):
        with pytest.raises(
            InputError, match=rf":{number}: the cell 'label' is empty\. `missing_labels=drop`"
        ):
            list(task.examples(file))
        with pytest.warns(DataWarning, match=rf"1 of 3 rows are left out: line {number}: "):
            examples = list(task.with_settings(dict(missing_labels="drop")).examples(file))
        assert [example.text for example in examples] == ["a", "c"]


@pytest.mark.parametrize("placeholder", sorted(PLACEHOLDERS))
def test_a_placeholder_is_a_class_unless_missing_labels_are_dropped(tmp_path, placeholder):
    file = tmp_path / "a.tsv"
    rows = [(f"text {number}", label) for number, label in enumerate(["x", placeholder, "y"] * 2)]
    _write(file, rows)
    message = (
        rf"a\.tsv: rows have the label {re.escape(repr(placeholder))} \(2 of 6\)\. .*`missing_labels=drop`"
    )
    for task in (task_of("classification"), task_of("multi-label", label_column="label")):
        examples = list(task.examples(file))
        with pytest.warns(DataWarning, match=message) as warned:
            assert {*task.fit(examples).answer.labels} == {"x", placeholder, "y"}
        assert len(warned) == 1
        named = task.with_settings(dict(labels=("x", "y", placeholder), missing_labels="drop"))
        assert len(list(named.fit(examples).examples(file))) == 6
        with pytest.warns(DataWarning, match="2 of 6 rows are left out: .*lines? 3"):
            dropped = list(task.with_settings(dict(missing_labels="drop")).examples(file))
        assert {*task.fit(dropped).answer.labels} == {"x", "y"}
    with pytest.raises(InputError, match=r":2: score 'x' is not a number.*2: .*line 3: "):
        list(task_of("regression").examples(file))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([1, 0, 1, 0], {"0": 2, "1": 2}),
        ([1.0, 0.0, 2.0, 0.0], {"0": 2, "1": 1, "2": 1}),
        ([0.5, 1.5, 0.5, 1.5], {"0.5": 2, "1.5": 2}),
    ],
    ids=["integers", "floats", "fractions"],
)
def test_numbers_are_the_same_classes_in_all_formats(tmp_path, labels, classes):
    for kind in KINDS:
        _write(tmp_path / f"a.{kind}", list(zip("abcd", labels, strict=True)))
        task, train, _ = read_examples(
            task_of("classification"), tmp_path / f"a.{kind}", tmp_path / f"a.{kind}"
        )
        assert count_classes(task, train) == classes
        assert task.answer.from_json({"label": labels[0]}).label == task.answer.gold(train[0])


@pytest.mark.parametrize("other", ["01", "+1", "True", "one", "ONE", "One ", "o-ne"])
def test_other_spellings_are_other_classes(tmp_path, other):
    rows = [("a", "1"), ("b", other), ("c", "two"), ("d", "1.0")]
    _write(tmp_path / "a.tsv", rows)
    task, train, _ = read_examples(task_of("classification"), tmp_path / "a.tsv", tmp_path / "a.tsv")
    assert count_classes(task, train) == {"1": 2, other.strip(): 1, "two": 1}
    with pytest.raises(InputError, match=r"a\.tsv:3: unknown label .*\. The labels are 1, two\.$"):
        list(task_of("classification", labels=("1", "two")).examples(tmp_path / "a.tsv"))


def test_the_printed_remedies_work(tmp_path, capsys):
    file = tmp_path / "a.csv"
    _write(file, [("a", "x"), ("b", ""), ("c", "y"), *[("d", "x")] * 20])
    command = ["finetune", "classification", "-m", "cloze-mini", "-d", str(file), "--validate"]
    assert main(command) == 2
    assert "--missing-labels drop leaves out such rows" in capsys.readouterr().err
    assert main([*command, "--missing-labels", "drop"]) == 0
    printed = capsys.readouterr()
    assert "classes          x 1, y 1" in printed.out
    assert "warning: " in printed.err
    assert "1 of 23 rows are left out: line 3: the cell 'label' is empty" in printed.err
    assert "2 classes: x (" in printed.err
    with file.open("a") as stream:
        stream.write("e\n")
    assert main([*command, "--skip-bad-rows", "--quiet"]) == 0
    assert "2 of 24 rows are left out: line 3: " in capsys.readouterr().err


def test_few_examples_to_score_on_are_warned_of(tmp_path, capsys):
    rows = [(f"{number}", "xy"[number % 2]) for number in range(250)]
    _write(tmp_path / "a.csv", rows)
    _write(tmp_path / "dev.csv", rows[:100])
    command = ["finetune", "classification", "-m", "cloze-mini", "-d", str(tmp_path / "a.csv"), "--validate"]
    assert main(command) == 0
    warning = "warning: 25 examples to score on: scores are uncertain by up to ±0.20 (95%)."
    assert warning in capsys.readouterr().err
    assert main([*command, "--dev", str(tmp_path / "dev.csv")]) == 0
    assert "uncertain" not in capsys.readouterr().err


FILMS = "text\tlabel\n" + "".join(f"film {i}\tgood\nbook {i}\tbad\n" for i in range(15))


def _file(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path / name


def _warnings(task, path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read_examples(task, path, path)
    return [str(warning.message) for warning in caught if issubclass(warning.category, DataWarning)]


def test_labeled_rows_without_a_text_are_told(tmp_path):
    (warning, _) = _warnings(task_of("classification"), _file(tmp_path, "a.tsv", FILMS + " \tgood\n\tbad\n"))
    assert "a.tsv:32: the text of a labeled row is empty (the first of 2)" in warning
    assert _warnings(task_of("classification"), _file(tmp_path, "a.tsv", FILMS)) == []


def test_a_class_for_every_example_is_told(tmp_path):
    path = _file(tmp_path, "a.tsv", "text\tlabel\n" + "".join(f"film {i}\t{i / 7:.3f}\n" for i in range(30)))
    (warning,) = _warnings(task_of("classification"), path)
    assert (
        "30 classes in 30 examples: most have one example. Numbers are learned by the task regression"
        in warning
    )
    assert _warnings(task_of("regression"), path) == []
