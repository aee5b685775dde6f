"""Scores by class and the confusion matrix as text for a terminal of 80 columns."""

from collections.abc import Sequence

from cloze.metrics.breakdown import Breakdown
from cloze.tables import terminal_width, text_table

_MAX_ROWS = 30
_MAX_PAIRS = 10
_MAX_NAME = 24
_INDENT = "  "
_GAP = 2  # of `text_table`, between columns
_MIN_SHARE = 0.3  # of the classes that a matrix must show
_PLURALS = {
    "class": "classes",
    "label": "labels",
    "tag": "tags",
    "entity_type": "entity types",
    "question_type": "kinds of questions",
}


def format_breakdown(breakdown: Breakdown) -> list[str]:
    """Return lines with the scores of each part and the confusion matrix, each after an empty line.

    Of many parts those with the most errors are shown, and a line says how many are left out.
    """
    lines = ["", *_part_lines(breakdown)]
    if breakdown.confusion is not None and len(breakdown.classes) > 1:
        lines += ["", *_matrix_lines(breakdown, (terminal_width() or 80) - len(_INDENT))]
    return [f"{_INDENT}{line}" if line else "" for line in lines]


def _part_lines(breakdown: Breakdown) -> list[str]:
    names = list(breakdown.parts)
    shown = breakdown.worst(names, _MAX_ROWS)
    scores = list(breakdown.means)
    digits = 2 if breakdown.part in ("entity_type", "tag", "question_type") else 4  # these are in percent

    def cells(values: Sequence[float]) -> list[str]:
        return [f"{value:.{digits}f}" for value in values]

    rows = [
        [_short(name), *cells([part.scores[score] for score in scores]), f"{part.support:,}"]
        for name, part in ((name, breakdown.parts[name]) for name in shown)
    ]
    if breakdown.has_means and len(names) > 1:
        support = sum(part.support for part in breakdown.parts.values())
        mean = "mean" if len(shown) == len(names) else f"mean of all {len(names):,}"
        rows.append([mean, *cells(list(breakdown.means.values())), f"{support:,}"])
    lines = text_table([breakdown.part.replace("_", " "), *scores, "support"], rows).split("\n")
    return [*lines, *_left_out(breakdown, len(shown), len(names))]


def _matrix_lines(breakdown: Breakdown, width: int) -> list[str]:
    names = breakdown.classes
    counts = [count for row in (breakdown.confusion or {}).values() for count in row.values()]
    cell = max(len(str(max(counts))), len(str(len(names)))) + _GAP
    first = len(f"{len(names)} ") + min(_MAX_NAME, max(map(len, names)))
    fits = (width - first) // cell
    if fits < len(names):
        fits -= 2  # the sums of the others are longer
    if fits < max(2, _MIN_SHARE * len(names)):
        what = f"the confusion matrix of {len(names):,} {_PLURALS[breakdown.part]} is too large here"
        return [*_pair_lines(breakdown), f"{what}; --json prints it"]
    shown = breakdown.worst(names, fits)
    has_others = len(shown) < len(names)
    labels = [*map(_short, shown), *(["(others)"] if has_others else [])]
    columns = labels
    if max(map(len, labels)) + sum(max(len(label) + _GAP, cell) for label in labels) > width:
        columns = [*map(str, range(1, len(shown) + 1)), *(["…"] if has_others else [])]
        labels = [
            f"{column:>{len(str(len(shown)))}} {label}" for column, label in zip(columns, labels, strict=True)
        ]
    rows = [
        [label, *(str(count or ".") for count in row)]
        for label, row in zip(labels, breakdown.matrix(shown), strict=True)
    ]
    lines = [
        f"confusion matrix{'' if breakdown.part == 'class' else ' of words'}: rows are gold, columns predicted",
        *text_table(["", *columns], rows).split("\n"),
    ]
    if has_others:
        lines += [*_left_out(breakdown, len(shown), len(names)), "", *_pair_lines(breakdown)]
    return lines


def _pair_lines(breakdown: Breakdown) -> list[str]:
    pairs = [
        [f"{_short(gold)} → {_short(predicted)}", f"{count:,}"]
        for gold, predicted, count in breakdown.confused_pairs(_MAX_PAIRS)
    ]
    return (
        text_table(["most frequent confusions, gold → predicted", "count"], pairs).split("\n")
        if pairs
        else []
    )


def _left_out(breakdown: Breakdown, shown: int, total: int) -> list[str]:
    if shown == total:
        return []
    plural = _PLURALS[breakdown.part]
    return [f"{shown:,} of {total:,} {plural}, those with the most errors; --json prints all"]


def _short(name: str) -> str:
    name = " ".join(name.split()) or "(empty)"
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"
