"""Labels of tables: placeholders for missing ones, and different spellings of one class."""

import math
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from typing import Literal

from cloze.data.reading.bad_rows import MissingLabelError
from cloze.errors import DataWarning, InputError
from cloze.suggestions import list_names, nearest

PLACEHOLDERS = frozenset(
    [
        "#N/A",
        "#N/A N/A",
        "#NA",
        "-NaN",
        "-nan",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "NaT",
        "None",
        "n/a",
        "nan",
        "null",
    ]
)
"""Texts that programs write for a missing value; pandas reads them as one."""
_NO_TEXTS = PLACEHOLDERS - {"NA", "None"} | {""}
DASHES = frozenset(["-", "--", "\N{EN DASH}", "\N{EM DASH}"])
"""Labels that annotators write where they do not agree, as in SNLI."""
_NUMERAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_TRUTH_VALUES = ("true", "false")
_SHOWN_CLASSES = 20


def merge_labels(labels: Iterable[str]) -> dict[str, str]:
    """Return the class of each label: equal numbers and truth values are one class, however a file writes them.

    >>> merge_labels(["1.0", "0.0"]), merge_labels(["True", "false"]), merge_labels(["1.0", "1.1"])
    ({'0.0': '0', '1.0': '1'}, {'True': 'true', 'false': 'false'}, {'1.0': '1.0', '1.1': '1.1'})
    """
    labels = sorted(set(labels), key=lambda label: (len(label), label))
    is_whole = all(_NUMERAL.fullmatch(label) and not Decimal(label) % 1 for label in labels)
    names: dict[object, str] = {}
    for label in labels:  # the shortest spelling names a class
        name = label.lower() if label.lower() in _TRUTH_VALUES else label
        names.setdefault(_value(label), name.partition(".")[0] if is_whole else name)
    return {label: names[_value(label)] for label in sorted(labels)}


def plain_label(label: str) -> str:
    """Return the one spelling of a number or truth value; other labels stay as they are.

    >>> plain_label("1.50"), plain_label("10.0"), plain_label("True"), plain_label("Yes")
    ('1.5', '10', 'true', 'Yes')
    """
    value = _value(label)
    return f"{value.normalize():f}" if isinstance(value, Decimal) else str(value)


def find_class(label: str, classes: Sequence[str]) -> str | None:
    """Return the class that a label names, if there is one: the same text, number or truth value."""
    if label in classes:
        return label
    equal = [name for name in classes if _value(name) == _value(label)]
    return equal[0] if len(equal) == 1 else None


def stands_for_none(label: str) -> bool:
    """Return whether a label that is no class stands for none: a dash, -1 of the Hub's test sets, or torch's -100."""
    return label in DASHES or _value(label) in (-1, -100)


def is_no_text(text: str) -> bool:
    """Return whether a text is blank, or one that programs write for a missing one."""
    return text.strip() in _NO_TEXTS


def find_labels_for_none(labels: Iterable[str]) -> list[str]:
    """Return the labels that stand for none beside the others: dashes, -100, and -1 beside names or numbers over 1.

    Beside 1 and 0, -1 is a class, beside other negative numbers -100, too; so are all labels if one has a plus sign.

    >>> find_labels_for_none(["-", "no", "yes"]), find_labels_for_none(["-1", "0", "2"])
    (['-'], ['-1'])
    >>> find_labels_for_none(["-100", "0", "1"]), find_labels_for_none(["-100", "-50", "0"])
    (['-100'], [])
    >>> find_labels_for_none(["-", "+"]), find_labels_for_none(["-1", "0", "1"]), find_labels_for_none(["-1"])
    ([], [], ['-1'])
    """
    labels = set(labels)
    for_none = {label for label in labels if stands_for_none(label)}
    numbers = [Decimal(label) for label in labels - for_none if _NUMERAL.fullmatch(label)]
    if any(label.startswith("+") for label in labels):
        return []
    if numbers and len(numbers) == len(labels - for_none):
        if min(numbers) < 0:
            for_none &= DASHES
        elif max(numbers) <= 1:
            for_none = {label for label in for_none if _value(label) != -1}
    return sorted(for_none)


def warn_of_minus_one(labels: Iterable[str], where: str, task: str) -> None:
    """Warn of the classes -1, 0 and 1, which may be two and labels that stand for none."""
    values = {_value(label) for label in labels}
    if -1 in values and 0 in values and values <= {-1, 0, 1}:
        what = "-1 is a class beside 0 and 1"
        remedy = f"""If it stands for no label, say `missing_labels=drop` `{task}.labels=["0", "1"]`"""
        warnings.warn(DataWarning(f"{where}: {what}. {remedy}"), stacklevel=2)


def _value(label: str) -> object:
    if _NUMERAL.fullmatch(label):
        return Decimal(label)  # a float has 16 digits, and some labels are longer numbers
    return label.lower() if label.lower() in _TRUTH_VALUES else label


def similar_classes(classes: Iterable[str]) -> list[list[str]]:
    """Return groups of classes that are equal as numbers, or but for case, spaces, hyphens and underscores.

    Characters that look alike or cannot be seen do not count either; true is 1 and false 0.

    >>> similar_classes(["01", "1", "Pos", "neg", "pos", "true"])
    [['01', '1', 'true'], ['Pos', 'pos']]
    """
    groups: dict[object, list[str]] = {}
    for name in classes:
        visible = (c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
        key: object = " ".join("".join(visible).casefold().replace("_", " ").replace("-", " ").split())
        with suppress(InvalidOperation):
            number = Decimal({"true": "1", "false": "0"}.get(str(key), name))
            key = number if number.is_finite() else key
        groups.setdefault(key, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def warn_of_similar_classes(classes: Iterable[str], rows: Iterable[tuple[str, str]], where: str) -> None:
    """Warn of classes that differ only in spelling, each group once.

    Args:
        rows: class and place of each row of it.
    """
    groups = similar_classes(classes)
    if not groups:
        return
    counts: Counter[str] = Counter()
    places: dict[str, str] = {}
    for name, place in rows:
        counts[name] += 1
        places.setdefault(name, place)
    for group in groups:
        what = f"the classes {' and '.join(map(repr, group))} differ only in spelling"
        kept = max(group, key=counts.__getitem__)
        others = [f"{name!r} (first {places[name]})" for name in group if name != kept and name in places]
        remedy = f". If they are one class, write {kept!r} for {' and '.join(others)}" if others else ""
        warnings.warn(DataWarning(f"{where}: {what}{remedy}"), stacklevel=2)


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
    """Return the error for a label that the task does not have, which may stand for none."""
    if kind == "label" and stands_for_none(label or ""):
        what = f"unknown label {label!r}, which stands for none"
        return MissingLabelError(what, where=where, remedy="`missing_labels=drop` leaves out such rows")
    near = (
        nearest(label or "", labels, separators="") if kind == "label" else None
    )  # tags are alike: I-LOC, I-ORG
    remedy = f"{f'Did you mean {near}? ' if near else ''}The {kind}s are {list_names(labels)}"
    return InputError(f"unknown {kind} {label!r}", where=where, remedy=remedy)
