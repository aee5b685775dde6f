"""The examples of files on the page "Shapes of files" are read as it says."""

import re
from pathlib import Path
from typing import Any

import pytest
from running import REPOSITORY

import cloze
from helpers import task_of

PAGE = (REPOSITORY / "docs" / "reference" / "table-files.md").read_text("utf-8")
SECTION = PAGE.split("\n## ")[0]
NAMES = re.findall(r"\(`([a-z]+\.[a-z]+)`\)", SECTION)
EXAMPLES = dict(zip(NAMES, re.findall(r"```text\n(.*?)```", SECTION, re.DOTALL), strict=True))
TASKS = {
    "reviews": "classification",
    "topics": "multi-label",
    "stars": "regression",
    "scored": "scored-pairs",
    "judged": "ranking",
    "pairs": "text-pairs",
    "triplets": "text-pairs",
    "quiz": "multiple-choice",
    "questions": "squad_v1",
    "asked": "squad_v1",
}
"""By the stem of a file, its task."""


def read(name: str, directory: Path) -> tuple[cloze.Task, list[Any]]:
    file = directory / name
    file.write_text(EXAMPLES[name], "utf-8")
    task = cloze.find_task(TASKS[file.stem])
    examples = list(task.examples(file))
    return task.fit(examples), examples


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_read_for_their_task(name, tmp_path):
    _, examples = read(name, tmp_path)
    assert len(examples) == 2


@pytest.mark.parametrize("stem", ["reviews", "topics"])
def test_shapes_of_a_task_are_read_alike(stem, tmp_path):
    shapes = [read(name, tmp_path) for name in EXAMPLES if name.startswith(stem)]
    answers = [
        [(example.text, task.answer.target(example.gold)) for example in examples]
        for task, examples in shapes
    ]
    assert len(answers) > 1
    assert all(answer == answers[0] for answer in answers)


def test_every_task_of_the_page_has_an_example():
    assert set(TASKS) == {name.partition(".")[0] for name in EXAMPLES}
    for task in TASKS.values():
        assert f"`{task}`" in SECTION


def test_shapes_of_several_labels_are_read_alike(tmp_path):
    cells, flags = re.findall(r"```text\n(.*?)```", PAGE.split("\n## Several labels\n")[1], re.DOTALL)[:2]
    labels = ("negative", "positive", "music")
    answers = []
    for name, content, settings in (
        ("a.tsv", cells, {"labels": labels}),
        ("a.csv", flags, {"label_columns": labels}),
    ):
        (tmp_path / name).write_text(content, "utf-8")
        task = task_of("multi-label", **settings)
        examples = list(task.examples(tmp_path / name))
        task = task.fit(examples)
        answers.append([(example.text, task.answer.target(example.gold)) for example in examples])
    assert len(answers[0]) == 3
    assert answers[0][:2] == answers[1]
