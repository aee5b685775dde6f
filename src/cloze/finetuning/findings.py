"""Findings in labeled data that are valid: copies, contradictions, leaks, labels that cannot be learned."""

import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from cloze.data.reading.bad_rows import source_of
from cloze.data.reading.tagged_text import TaggedText
from cloze.errors import DataWarning
from cloze.progress import Progress
from cloze.suggestions import list_names
from cloze.tables import format_count
from cloze.tasks.labels import NO_LABELS, PLACEHOLDERS
from cloze.tasks.task import Task

_SHOWN_FINDINGS, _SHOWN_ROWS, _MAX_RARE = 5, 2, 20


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in labeled data."""

    kind: str
    count: int
    """Number of rows, texts or labels."""
    rows: tuple[tuple[str, ...], ...]
    """The places of the rows, "file:line", grouped by text; empty if the finding is about all rows."""
    what: str
    remedy: str = ""
    is_warned: bool = False
    """Whether it is a `DataWarning`, too."""

    @property
    def sentence(self) -> str:
        """The finding with the places of two rows or texts."""
        shown = [" and ".join(places[:_SHOWN_ROWS]) for places in self.rows[:_SHOWN_ROWS]]
        rows = f" ({'; '.join(shown)})" if shown else ""
        return f"{self.what}{'. ' if self.remedy else ''}{self.remedy}{rows}"

    def to_dict(self) -> dict[str, Any]:
        """Return what `--json` prints, with the places of all rows."""
        return {"kind": self.kind, "count": self.count, "sentence": self.sentence, "rows": self.rows}


def tell(findings: Iterable[Finding], progress: Progress, *, most: int | None = _SHOWN_FINDINGS) -> None:
    """Print findings, warnings first, in at most `most` lines."""
    ordered = sorted(findings, key=lambda finding: not finding.is_warned)
    shown = ordered if most is None or len(ordered) <= most else ordered[: most - 1]
    for finding in shown:
        if finding.is_warned:
            warnings.warn(DataWarning(finding.sentence), stacklevel=2)
        else:
            progress.note(f"warning: {finding.sentence}")
    if len(shown) < len(ordered):
        progress.note(f"warning: {len(ordered) - len(shown)} more remarks on the data: `validate` prints all")


def find_in_examples(
    task: Task, fitted: Task, train: Sequence[Any], dev: Sequence[Any], *, is_held_out: bool
) -> list[Finding]:
    """Return the findings in the training and dev examples.

    Args:
        task: with the settings that were given.
        fitted: fitted to the training data.
        is_held_out: whether the dev examples were part of the training data.
    """
    learned = [*train, *dev] if is_held_out else train
    findings = list(find_in_labels(task, fitted, learned))
    kinds = {finding.kind for finding in findings}
    if "swapped_columns" in kinds:
        return findings  # the others would be about texts in place of labels
    findings += _unlearned_labels(fitted, train, dev)
    findings += _repeated_texts(fitted, [learned] if is_held_out else [train, dev])
    counts = count_classes(fitted, learned)
    rare = {name for name, count in counts.items() if count == 1}
    if rare and "many_labels" not in kinds:
        rows = tuple((place(example),) for example in learned if classes_of(example) & rare)
        what = f"labels with one row: {list_names(sorted(rare))}"
        findings.append(Finding("rare_labels", len(rare), rows, what, "Label more, or leave them out"))
    return findings


def find_in_labels(task: Task, fitted: Task, examples: Sequence[Any]) -> Iterator[Finding]:
    """Yield labels that may stand for a missing one, or that nearly all differ, unless settings name the labels."""
    labels = list(chain.from_iterable(map(classes_of, examples)))
    if not labels or any(task.settings.get(name) for name in ("labels", "label_columns")):
        return
    classes, counts, where = fitted.answer.class_names, Counter(labels), source_of(place(examples[0]))
    numbers = {float(name) for name in classes if name.lstrip("+-").replace(".", "", 1).isdecimal()}
    has_opposites = numbers == {-number for number in numbers}  # as -1, 0, 1 of a scale
    suspects = [name for name in classes if name in (PLACEHOLDERS if has_opposites else NO_LABELS)]
    if suspects and "+" not in classes:
        shown = ", ".join(f"{name!r} ({counts[name]:,} of {len(labels):,})" for name in suspects)
        remedy = "`missing_labels=drop` leaves them out, -1 if the setting labels names the classes"
        rows = tuple((place(example),) for example in examples if classes_of(example) & {*suspects})
        what = f"{where}: rows have the label {shown}"
        yield Finding("placeholder_labels", len(rows), rows, what, remedy, is_warned=True)
    if len(classes) > max(20, len(labels) / 2):
        kind = "many_labels"
        what = f"{where}: {len(classes):,} classes in {len(labels):,} examples: most have one example"
        remedy = "Numbers are learned by the task regression; `label_column` names another column"
        texts = {task.reader.key(example) for example in examples}
        if len(texts) < len(classes) / 2:
            kind, remedy = "swapped_columns", "Are `text_column` and `label_column` swapped?"
            what += f", and there are {format_count(len(texts), 'text')}"
        yield Finding(kind, len(classes), (), what, remedy, is_warned=True)


def _unlearned_labels(task: Task, train: Sequence[Any], dev: Sequence[Any]) -> Iterator[Finding]:
    """Yield the labels of dev examples that no training example has."""
    trained = count_classes(task, train)
    counts = {name: count for name, count in count_classes(task, dev).items() if count and not trained[name]}
    if counts:
        names = list_names(f"{name!r} ({format_count(count, 'example')})" for name, count in counts.items())
        what = f"no training example has {names} of the data to score on, which cannot be learned"
        rows = tuple((place(example),) for example in dev if classes_of(example) & counts.keys())
        where, remedy = source_of(place(dev[0])), "Label more, or leave them out"
        yield Finding("unlearned_labels", len(counts), rows, f"{where}: {what}", remedy, is_warned=True)


def _repeated_texts(task: Task, parts: Sequence[Sequence[Any]]) -> Iterator[Finding]:
    """Yield leaks, contradictions and copies; the second of two parts is the dev examples."""
    same: list[dict[Hashable, list[Any]]] = [{} for _ in parts]
    for of_part, examples in zip(same, parts, strict=True):
        for example in examples:
            if (key := task.reader.key(example)) is not None:
                of_part.setdefault(key, []).append(example)
    leaked = [(key, example) for of_part in same[1:] for key, group in of_part.items() for example in group]
    leaks = [(place(example), place(same[0][key][0])) for key, example in leaked if key in same[0]]
    contradictions, copies = list[tuple[str, ...]](), list[tuple[str, ...]]()
    for group in chain.from_iterable(of_part.values() for of_part in same):
        if len(group) > 1:
            by_gold: dict[str, list[str]] = {}
            for example in group:
                by_gold.setdefault(repr(task.answer.gold(example)), []).append(place(example))
            if len(by_gold) > 1:
                contradictions.append(tuple(places[0] for places in by_gold.values()))
            copies += [tuple(places) for places in by_gold.values() if len(places) > 1]
    if leaks:
        what = f"rows to score on that are in the training data: {len(leaks):,} of {len(parts[1]):,}"
        remedy = "Leave them out there: scores are too good"
        yield Finding("leaks", len(leaks), tuple(leaks), what, remedy, is_warned=True)
    if contradictions:
        what = f"texts with different labels: {len(contradictions):,}"
        yield Finding("contradictions", len(contradictions), tuple(contradictions), what, "Decide on one")
    if num_copies := sum(len(places) - 1 for places in copies):
        yield Finding("copies", num_copies, tuple(copies), f"exact copies of other rows: {num_copies:,}")


def place(example: Any) -> str:
    """Return the file and line of an example."""
    if isinstance(example, TaggedText):
        return example.sentences[0].where(0) if example.sentences else ""
    return str(example.where)


def count_classes(task: Task, examples: Sequence[Any]) -> dict[str, int]:
    """Return the number of examples of each class; empty if the task has no classes."""
    counts = Counter(chain.from_iterable(map(classes_of, examples)))
    return {name: counts[name] for name in task.answer.class_names} if counts else {}


def classes_of(example: Any) -> frozenset[str]:
    """Return the label or the labels of an example; empty if it has an answer of another kind."""
    gold = getattr(example, "gold", None)
    return gold if isinstance(gold, frozenset) else frozenset([gold] if isinstance(gold, str) else [])
