"""The answers of a cross-validation to all rows, and the rows whose label is probably wrong.

Shapes: N rows, C classes.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cloze.data.row_files import write_rows
from cloze.tasks.answers.one_label import OneLabel
from cloze.tasks.task import Task

OUT_OF_FOLD = "out-of-fold.csv"
_TOLERANCE = 1e-6  # of cleanlab


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
    # not splitlines, which also splits at Unicode's line ends
    lines = {fold: iter(path.read_text("utf-8").split("\n")) for fold, path in answers.items()}
    rows: list[dict[str, Any]] = [json.loads(next(lines[fold])) for fold in folds]
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


def find_label_errors(
    probabilities: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]
) -> list[tuple[int, int, float]]:
    """Return the rows whose label is probably wrong by confident learning, the surest first.

    Each is its index, its most probable class, and the probability of its label minus the largest of another class.

    A class is likely for a row if its probability is at least its mean among the rows with this label. A row is
    suspected if a likely class is more probable than its label.

    Shapes: `probabilities` [N, C], `labels` [N].

    Source: Northcutt, Jiang and Chuang 2021, "Confident learning", 3.1 and 3.2 (the confident joint, ranked by margin).
    """
    classes = range(probabilities.shape[1])
    own_N = probabilities[np.arange(len(labels)), labels]
    threshold_C = np.array([own_N[labels == k].mean() if (labels == k).any() else np.inf for k in classes])
    is_likely_NC = probabilities >= threshold_C - _TOLERANCE
    suspected = np.flatnonzero((is_likely_NC & (probabilities > own_N[:, None])).any(1))
    margin_N = own_N - probabilities.max(1)
    ranked = suspected[np.argsort(margin_N[suspected], kind="stable")]
    return [(int(n), int(probabilities[n].argmax()), float(margin_N[n])) for n in ranked]
