"""Labels of tables: texts that may stand for a missing one, and weights of classes."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from cloze.choices import MissingLabels
from cloze.data.reading.annotations import unwrap_labels
from cloze.data.reading.bad_rows import MissingLabelError
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE
from cloze.models.config_file import load_labels
from cloze.models.sentence_transformers import load_activation
from cloze.suggestions import list_names

PLACEHOLDERS = frozenset(
    ["#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null", "-", "--", "–", "—"]
)
"""Texts that programs write for a missing label, and dashes of annotators who disagree, as in SNLI."""
NO_LABELS = PLACEHOLDERS | {"-1", "-100"}
"""Also the numbers of the Hub's test sets and of torch, which may be classes."""
_SHOWN_CLASSES = 20
_TASK_OF_PROBLEM_TYPE = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi-label",
    "regression": "regression",
}


def plain_label(label: str) -> str:
    """Return a label, without the fraction of a whole number: pandas and JSON write 1 as 1.0, too.

    >>> plain_label("1.0"), plain_label("1.5"), plain_label("01"), plain_label("True")
    ('1', '1.5', '01', 'True')
    """
    number, _, fraction = label.partition(".")
    is_whole = number.removeprefix("-").isdecimal() and fraction.strip("0") == ""
    return number if is_whole and fraction else label


def read_label(row: Row, *, labels: Sequence[str] = (), missing: MissingLabels = "refuse") -> str:
    """Return the label of a row as text; raise `MissingLabelError` if there is none.

    Placeholders are labels, unless missing labels are dropped and the task has no such label.
    """
    name, value = row.name("label"), unwrap_labels(row.cells["label"])
    if isinstance(value, list) and len(value) > 1:
        remedy = "The task multi-label learns lists of labels"
        raise InputError(f"{name!r} is a list of {len(value)}", where=row.where, remedy=remedy)
    if isinstance(value, list):  # as annotation tools write one label
        value = value[0] if value else None
    is_null = value is None or (isinstance(value, float) and math.isnan(value))
    label = "" if is_null else (as_text(value) or row.text("label")).strip()
    if not label or (label in PLACEHOLDERS and label not in labels and missing == "drop"):
        what = (
            f"{name!r} is {label!r}, a placeholder and not a label"
            if label
            else f"the cell {name!r} is empty"
        )
        raise MissingLabelError(what, where=row.where, remedy="`missing_labels=drop` leaves out such rows")
    return plain_label(label)


def external_labels(directory: Path, problem_type: str | None) -> tuple[str, ...]:
    """Return the classes in config.json of another program's checkpoint, which are classes of the same problem."""
    names, config = load_labels(directory), read_json(directory / CONFIG_FILE)
    if len(names) < 2:  # a single logit is one number to all kinds
        return names
    named = str(config.get("problem_type"))
    what, task = f"config.json says problem_type {named!r}", _TASK_OF_PROBLEM_TYPE.get(named)
    if load_activation(directory, config) == "sigmoid" and problem_type == "single_label_classification":
        what, task, named = "activation_fn is a sigmoid for each class", "multi-label", "sigmoid"
    if task is not None and named != problem_type:
        raise InputError(f"no model for the task: {what}: see the task {task}")
    return names


def describe_classes(counts: Mapping[str, int]) -> str:
    """Return the classes with the numbers of their examples.

    >>> describe_classes({"neg": 1200, "pos": 3})
    '2 classes: neg (1,200), pos (3)'
    """
    shown = [f"{name} ({count:,})" for name, count in list(counts.items())[:_SHOWN_CLASSES]]
    return f"{len(counts):,} classes: {', '.join([*shown, *['…'][: len(counts) - len(shown)]])}"


def check_unique(labels: Sequence[str]) -> None:
    """Raise `ValueError` if a label occurs twice."""
    if repeated := [label for label, count in Counter(labels).items() if count > 1]:
        raise ValueError(f"labels holds {repeated[0]!r} twice")


def check_weights(
    name: str, weights: Sequence[float] | Mapping[str, float] | Literal["balanced"], labels: Sequence[str]
) -> None:
    """Raise `ValueError` if the setting `name`, weights of labels in a loss, has other numbers than it may."""
    if weights == "balanced":
        return
    numbers = [*(weights.values() if isinstance(weights, Mapping) else map(float, weights))]
    if not all(0 <= weight < math.inf for weight in numbers):
        raise ValueError(f"{name} must be numbers of 0 or more")
    if isinstance(weights, Mapping) or not weights:
        return
    if len(weights) != len(labels):
        raise ValueError(f"{len(weights)} {name} for {len(labels)} labels: give both, in one order")


def order_weights(
    weights: tuple[float, ...] | Mapping[str, float], labels: Sequence[str], where: str
) -> tuple[float, ...]:
    """Return weights by label in the order of the labels, where others have 1; other weights are in this order."""
    if not isinstance(weights, Mapping):
        return weights
    if unknown := [label for label in weights if label not in labels]:
        raise unknown_label(unknown[0], labels, where)
    return tuple(weights.get(label, 1.0) for label in labels)


def unknown_label(label: str | None, labels: Sequence[str], where: str, *, kind: str = "label") -> InputError:
    """Return the error for a label that the task does not have; one that may stand for none can be left out."""
    what, remedy, error = f"unknown {kind} {label!r}", f"The {kind}s are {list_names(labels)}", InputError
    if plain_label(label or "") in NO_LABELS and kind == "label":
        remedy, error = f"{remedy}; `missing_labels=drop` leaves out such rows", MissingLabelError
    return error(what, where=where, remedy=remedy)
