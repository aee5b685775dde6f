"""Scores by class and the confusion matrix as text for a terminal."""

from cloze.metrics.breakdown import Breakdown
from cloze.tables import terminal_width, text_table

_MAX_ROWS = 30
_MAX_PAIRS = 10
_MAX_NAME = 24
_INDENT = "  "
_PLURALS = {
    "class": "classes",
    "label": "labels",
    "tag": "tags",
    "entity_type": "entity types",
    "question_type": "kinds of questions",
}
_IN_PERCENT = ("entity_type", "tag", "question_type")


def format_breakdown(breakdown: Breakdown) -> list[str]:
    """Return lines with the scores of each part and the confusion matrix, each after an empty line.

    Of many parts those with the most errors are shown, and a line says how many are left out. In the place of a matrix
    that does not fit the terminal stand the most frequent confusions.
    """
    lines = ["", *_part_lines(breakdown)]
    if breakdown.confusion is not None and len(breakdown.classes) > 1:
        lines += ["", *_confusion_lines(breakdown, (terminal_width() or 80) - len(_INDENT))]
    return [f"{_INDENT}{line}" if line else "" for line in lines]


def _part_lines(breakdown: Breakdown) -> list[str]:
    names = list(breakdown.parts)
    shown = breakdown.worst(names, _MAX_ROWS)
    digits = 2 if breakdown.part in _IN_PERCENT else 4
    rows = [(_short(name), breakdown.parts[name].scores, breakdown.parts[name].support) for name in shown]
    if breakdown.has_means and len(names) > 1:
        mean = "mean" if len(shown) == len(names) else f"mean of all {len(names):,}"
        rows.append((mean, breakdown.means, sum(part.support for part in breakdown.parts.values())))
    cells = [
        [name, *(f"{score:.{digits}f}" for score in scores.values()), f"{support:,}"]
        for name, scores, support in rows
    ]
    lines = text_table([breakdown.part.replace("_", " "), *breakdown.means, "support"], cells).split("\n")
    if len(shown) < len(names):
        what = f"{len(shown):,} of {len(names):,} {_PLURALS[breakdown.part]}"
        lines.append(f"{what}, those with the most errors; --json prints all")
    return lines


def _confusion_lines(breakdown: Breakdown, width: int) -> list[str]:
    classes = breakdown.classes
    names, numbers = list(map(_short, classes)), [str(number) for number in range(1, len(classes) + 1)]
    numbered = [f"{number:>{len(numbers[-1])}} {name}" for number, name in zip(numbers, names, strict=True)]
    matrix = breakdown.matrix(classes) if len(classes) < width else []
    for columns, labels in ((names, names), (numbers, numbered)) if matrix else ():
        rows = [
            [label, *(str(count or ".") for count in row)] for label, row in zip(labels, matrix, strict=True)
        ]
        lines = text_table(["", *columns], rows).split("\n")
        if "" not in lines and max(map(len, lines)) <= width:
            what = "confusion matrix" if breakdown.part == "class" else "confusion matrix of words"
            return [f"{what}: rows are gold, columns predicted", *lines]
    what = f"the confusion matrix of {len(classes):,} {_PLURALS[breakdown.part]} is too large here"
    confusions = [
        [f"{_short(gold)} → {_short(predicted)}", f"{count:,}"]
        for gold, predicted, count in breakdown.confused_pairs(_MAX_PAIRS)
    ]
    title = ["most frequent confusions, gold → predicted", "count"]
    table = text_table(title, confusions).split("\n") if confusions else []
    return [*table, f"{what}; --json prints it"]


def _short(name: str) -> str:
    name = " ".join(name.split()) or "(empty)"
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"
