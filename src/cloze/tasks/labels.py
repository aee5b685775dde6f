"""Labels of tables: texts that may stand for a missing one, and weights of classes."""

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from cloze.data.reading.bad_rows import MissingLabelError
from cloze.errors import DataWarning, InputError
from cloze.suggestions import list_names

PLACEHOLDERS = frozenset(
    ["#N/A", "<NA>", "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null", "-", "--", "–", "—"]
)
"""Texts that programs write for a missing label, and dashes of annotators who disagree, as in SNLI."""
NO_LABELS = PLACEHOLDERS | {"-1", "-100"}
"""Also the numbers of the Hub's test sets and of torch, which may be classes."""
_SHOWN_CLASSES = 20


def plain_label(label: str) -> str:
    """Return a label, without the fraction of a whole number: pandas and JSON write 1 as 1.0, too.

    >>> plain_label("1.0"), plain_label("1.5"), plain_label("01"), plain_label("True")
    ('1', '1.5', '01', 'True')
    """
    number, _, fraction = label.partition(".")
    is_whole = number.removeprefix("-").isdecimal() and fraction.strip("0") == ""
    return number if is_whole and fraction else label


def warn_of_placeholders(labels: Iterable[str], classes: Sequence[str], where: str, task: str) -> None:
    """Warn of classes that may stand for a missing label, as -1 beside numbers that have no opposites.

    Args:
        labels: those of all rows.
        classes: the different ones.
        where: the data.
        task: name of the task, for the remedy.
    """
    numbers = {float(name) for name in classes if name.lstrip("+-").replace(".", "", 1).isdecimal()}
    has_opposites = numbers == {-number for number in numbers}
    known = PLACEHOLDERS if has_opposites else NO_LABELS
    suspects = [name for name in classes if name in known]
    if suspects and "+" not in classes:
        counts = Counter(labels)
        shown = ", ".join(f"{name!r} ({counts[name]:,} of {counts.total():,})" for name in suspects)
        remedy = f"If it stands for none, say `missing_labels=drop`, and for -1 also the classes: `{task}.labels=[…]`"
        warnings.warn(DataWarning(f"{where}: rows have the label {shown}. {remedy}"), stacklevel=2)


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
    by_label = isinstance(weights, Mapping)
    if weights and not by_label and len(weights) != len(labels):
        raise ValueError(f"{len(weights)} {name} for {len(labels)} labels: give both, in one order")
    numbers = [*(weights.values() if isinstance(weights, Mapping) else map(float, weights))]
    if not all(0 <= weight < math.inf for weight in numbers):
        raise ValueError(f"{name} must be numbers of 0 or more")
    if numbers and not by_label and not any(numbers):
        raise ValueError(f"{name} are all 0: nothing would be learned")


def order_weights(
    weights: tuple[float, ...] | Mapping[str, float], labels: Sequence[str], where: str
) -> tuple[float, ...]:
    """Return weights by label in the order of the labels, where others have 1; other weights are in this order.

    Raises:
        InputError: a label is unknown.
    """
    if not isinstance(weights, Mapping):
        return weights
    if unknown := [label for label in weights if label not in labels]:
        raise unknown_label(unknown[0], labels, where)
    return tuple(weights.get(label, 1.0) for label in labels)


def unknown_label(label: str | None, labels: Sequence[str], where: str, *, kind: str = "label") -> InputError:
    """Return the error for a label that the task does not have; one that may stand for none can be left out."""
    what, remedy = f"unknown {kind} {label!r}", f"The {kind}s are {list_names(labels)}"
    if plain_label(label or "") in NO_LABELS and kind == "label":
        remedy = f"{remedy}; `missing_labels=drop` leaves out such rows"
        return MissingLabelError(what, where=where, remedy=remedy)
    return InputError(what, where=where, remedy=remedy)
