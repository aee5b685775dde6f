"""The answers of a cross-validation to all rows, and the rows whose label is probably wrong."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cloze.data.row_files import write_rows
from cloze.tasks.answers.one_label import OneLabel
from cloze.tasks.label_errors import find_label_errors
from cloze.tasks.task import Task

OUT_OF_FOLD = "out-of-fold.csv"


def write_out_of_fold(
    task: Task, folds: Sequence[int], answers: Mapping[int | None, Path], file: Path
) -> list[dict[str, Any]]:
    """Write the answer to each row by the run that did not learn from it, in the order of the data.

    Args:
        folds: the fold of each row.
        answers: the JSON lines with the answers to each fold.

    Returns:
        For a task with one label a row, the rows whose label is probably wrong, the surest first.
    """
    rows: list[dict[str, Any]] = [{}] * len(folds)
    for fold, path in answers.items():
        lines = path.read_text("utf-8").splitlines()
        places = [i for i, of_row in enumerate(folds) if of_row == fold]
        for i, line in zip(places, lines, strict=True):
            rows[i] = json.loads(line)
    suspects = dict[int, dict[str, Any]]()
    if isinstance(task.answer, OneLabel):
        names, gold = task.answer.labels, [task.answer.labels.index(row["gold"]) for row in rows]
        probabilities = np.array([[row["probabilities"][name] for name in names] for row in rows])
        for i, label, margin in find_label_errors(probabilities, np.array(gold)):
            labeled, probable = (f"{names[k]} ({probabilities[i, k]:.1%})" for k in (gold[i], label))
            reason = f"labeled {labeled}, probably {probable}"
            suspects[i] = {"suspected_label": names[label], "margin": margin, "reason": reason}
        empty = dict.fromkeys(("suspected_label", "margin", "reason"))
        rows = [row | suspects.get(i, empty) for i, row in enumerate(rows)]
    write_rows(rows, str(file))
    return [
        {"row": rows[i].get("id", rows[i].get("row", i + 1)), **suspect} for i, suspect in suspects.items()
    ]
