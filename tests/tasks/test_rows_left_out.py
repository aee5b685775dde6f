"""Rows without a label and rows that cannot be read, in the tables of all tasks: refused, or left out and counted."""

from pathlib import Path

import pytest

from cloze.cli import main
from cloze.errors import DataWarning, InputError
from cloze.tasks.registry import TASKS, find_task

# a row, and one without a label; {} is the text
ROWS = {
    "classification": ("a.tsv", "text\tlabel\n", "{}\tyes\n", "{}\t\n"),
    "sst2": ("a.tsv", "sentence\tlabel\n", "{}\t1\n", "{}\tnan\n"),
    "mrpc": ("a.tsv", "Quality\t#1 String\t#2 String\n", "1\t{}\ta\n", "\t{}\ta\n"),
    "cola": ("a.tsv", "", "x\t0\t*\t{}\n", "x\t-1\t*\t{}\n"),
    "qqp": ("a.csv", "question1,question2,label\n", "{},a,0\n", "{},a,\n"),
    "mnli": ("a.tsv", "sentence1\tsentence2\tgold_label\n", "{}\ta\tneutral\n", "{}\ta\t-\n"),
    "qnli": (
        "a.jsonl",
        "",
        '{{"question": "{}", "sentence": "a", "label": 1}}\n',
        '{{"question": "{}", "sentence": "a", "label": -1}}\n',
    ),
    "stsb": ("a.tsv", "sentence1\tsentence2\tscore\n", "{}\ta\t3.5\n", "{}\ta\tNaN\n"),
    "swag": (
        "a.csv",
        "sent1,sent2,ending0,ending1,ending2,ending3,label\n",
        "{},a,b,c,d,e,3\n",
        "{},a,b,c,d,e,-1\n",
    ),
    "multiple-choice": ("a.csv", "prompt;choices;label\n", '{};["a","b"];1.0\n', '{};["a","b"];\n'),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_without_a_label_are_refused_or_left_out(name: str, tmp_path: Path) -> None:
    file, header, good, unlabeled = ROWS[name]
    path = tmp_path / file
    path.write_text(header + good.format("one") + unlabeled.format("two") + good.format("three"))
    task = find_task(name)
    line = 2 + bool(header)
    with pytest.raises(InputError, match=rf":{line}: "):
        list(task.examples(path))
    for settings in ({"missing_labels": "drop"}, {"skip_bad_rows": True}):
        with pytest.warns(DataWarning, match=f"1 of 3 rows are left out: line {line}: "):
            examples = list(task.with_settings(settings).examples(path))
        assert [example.where for example in examples] == [f"{path}:{line - 1}", f"{path}:{line + 1}"]
        assert all(example.gold not in (None, "") for example in examples)
    assert len(list(task.examples(path, labeled=False))) == 3


def test_every_task_that_says_so_reads_such_rows() -> None:
    reading_tables = {name for name, task in TASKS.items() if "missing_labels" in task.settings}
    assert reading_tables > ROWS.keys()
    assert TASKS.keys() - reading_tables == {
        "conll2003",
        "gum",
        "squad_v1",
        "squad_v2",
        "tagging",
        "text-pairs",
        "wnut17",
    }


@pytest.mark.parametrize(
    ("task", "flag", "error"),
    [
        ("sst2", "--missing-labels drop", ""),
        ("sst2", "--skip-bad-rows", ""),
        (
            "squad_v1",
            "--missing-labels drop",
            "--missing-labels: the task squad_v1 has no such setting. Leave it out",
        ),
        (
            "text-pairs",
            "--missing-labels drop",
            "--missing-labels: the task text-pairs has no such setting. Leave",
        ),
    ],
)
def test_the_flags_on_the_command_line(
    task: str, flag: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.tsv").write_text("sentence\tlabel\n" + "one\t1\ntwo\t0\n" * 8 + "three\t\n")
    code = main(["baseline", task, "-d", str(tmp_path / "a.tsv"), *flag.split()])
    printed = capsys.readouterr().err
    assert code == (2 if error else 0)
    assert (error or "1 of 17 rows are left out: line 18: the cell 'label' is empty") in printed
