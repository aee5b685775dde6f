"""Labels as people write them: missing ones, placeholders, numbers and booleans, lists, other separators."""

import warnings

from cloze.cli import main
from cloze.errors import DataWarning
from cloze.finetuning.data import read_examples
from helpers import task_of, write_rows


def _write(path, rows):
    write_rows(path, [{"text": text, "label": label} for text, label in rows])


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
