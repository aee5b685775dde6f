"""Read the predictions that `cloze predict` or another program wrote, and match them with examples."""

import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cloze.data.reading.columns import Column
from cloze.data.reading.conll import ConllColumns, read_sentences
from cloze.data.reading.files import STDIN
from cloze.data.reading.formats import FORMATS, is_json, open_source
from cloze.data.reading.json_rows import json_lines
from cloze.data.reading.memory import Data, MemoryRows
from cloze.data.reading.source import ReadOptions, Source
from cloze.data.reading.squad import check_type, get
from cloze.data.reading.tables import parse_rows
from cloze.data.reading.tagged_text import Sentence
from cloze.data.row_files import PROBABILITY
from cloze.errors import DataWarning, InputError
from cloze.tasks.features import IDENTITY
from cloze.text_encoding import UTF_8

Identity = Mapping[str, str]
_NAMES = (*IDENTITY, "row")
_TEXTS = {"label", "answer", *IDENTITY}


def open_predictions(data: Data, keys: Sequence[str]) -> Source:
    """Open a file of predictions: a table, or JSON lines under any other name.

    Of a table, the columns of the keys of the answer are read, the required one first, and `IDENTITY`.
    """
    optional, is_by_class = {*keys[1:], *_NAMES}, "probabilities" in keys
    options = ReadOptions(
        reader="predictions",
        columns=tuple(map(Column, keys[:1])),
        is_also_read=lambda name: name in optional or (is_by_class and name.startswith(PROBABILITY)),
        encoding=UTF_8,
    )
    return open_source(data, options)


def read_prediction_rows(source: Source, keys: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the keys and values of each prediction, and "file:line".

    Cells of a table are JSON but for texts and labels; probabilities may have a column per class.
    """
    for values, where in source.rows() if source.format.is_json else _table_rows(source, keys):
        if isinstance(values, InputError):
            raise values
        answer = values.get(keys[0], ...) if keys else ...
        if answer is None or (isinstance(answer, str) and not answer.strip()):
            remedy = "Give each row an answer, or leave it out of the data to score on, too"
            raise InputError(f"no answer: {keys[0]!r} is empty", where=where, remedy=remedy)
        yield values, where


def _table_rows(source: Source, keys: Sequence[str]) -> Iterator[tuple[Mapping[str, Any], str]]:
    for row in parse_rows(source, lambda row: row):
        values, by_class = dict[str, Any](), dict[str, float]()
        for name, cell in row.cells.items():
            is_by_class = "probabilities" in keys and name.startswith(PROBABILITY)
            is_json = name in keys and name not in _TEXTS
            if name != keys[0] and (cell is None or (cell == "" and (is_by_class or is_json))):
                continue
            if is_by_class:
                by_class[name.removeprefix(PROBABILITY)] = _parse(finite_number, cell, name, row.where)
            elif is_json and isinstance(cell, str) and cell:
                values[name] = _parse(json.loads, cell, name, row.where)
            else:
                values[name] = cell
        yield values | ({"probabilities": by_class} if by_class else {}), row.where


def _parse(parse: Callable[[Any], Any], cell: Any, name: str, where: str) -> Any:
    try:
        return parse(cell)
    except (TypeError, ValueError, RecursionError) as error:
        kind = f"JSON: {error}" if parse is json.loads else "a number"
        raise InputError(f"the cell {name!r} is not {kind}", where=where) from error


def finite_number(value: Any) -> float:
    """Return a number of JSON as a float.

    Raises:
        TypeError, ValueError: it is not a number, or infinite, NaN or too large.
    """
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a number")
    return number


def identity_of(values: Mapping[str, Any]) -> Identity:
    """Return the id, the row and the texts of a row that are not empty, without white space."""
    texts = {name: "".join(str(values[name]).split()) for name in _NAMES if values.get(name) is not None}
    return {name: text for name, text in texts.items() if text}


def match_rows(rows: Sequence[Identity], examples: Sequence[Identity], where: Data) -> Sequence[int]:
    """Return the index of the row for each example: by ids if all have one of their own, else by numbers, or in order.

    Row numbers that do not fit the examples are ignored. Additional rows and another order are warned of.
    """
    order: Sequence[int] = range(len(rows))
    has_others = len(rows) > len(examples)
    for name in ("id", "row"):
        index_of = {row.get(name): index for index, row in enumerate(rows)}
        if len(index_of) == len(rows) and None not in index_of and all(name in e for e in examples):
            if missing := [example[name] for example in examples if example[name] not in index_of]:
                if name == "row" and not has_others:
                    break
                what = f"no prediction for {len(missing):,} examples, such as {name} {missing[0]!r}"
                raise InputError(what, where=where, remedy="Score predictions of the same data")
            order = [index_of[example[name]] for example in examples]
            if name == "row" and order != sorted(order):
                what = f"{where}: matched by the numbers of its rows, not by their order"
                warnings.warn(what, DataWarning, stacklevel=2)
            break
    if len(order) != len(examples):
        what = f"{len(rows):,} predictions for {len(examples):,} examples"
        raise InputError(what, where=where, remedy="Give a line for each example, in their order")
    for number, (example, index) in enumerate(zip(examples, order, strict=True), 1):
        for name in IDENTITY:
            text, predicted = example.get(name), rows[index].get(name)
            if None not in (text, predicted) and text != predicted:
                what = f"prediction {index + 1:,} has another {name} than example {number:,} of the gold data"
                remedy = "Give the predictions in the order of the gold data, or both an id for each row"
                raise InputError(what, where=where, remedy=remedy)
    if has_others:
        other = rows[min({*range(len(rows))} - {*order})]
        _warn_of_others(where, len(rows) - len(order), len(rows), next(iter(other.values())))
    return order


def are_columns(source: Source) -> bool:
    """Return whether predictions are in columns without names, not as `cloze predict` writes them."""
    is_text = source.format.is_json or source.format is FORMATS["table"]
    if str(source.data) == STDIN or isinstance(source.data, MemoryRows) or not is_text:
        return False
    first = next(iter(source.sample), "")
    return not (is_json(first) or '"sentences"' in first)


def read_tag_columns(source: Source, gold: Iterable[Sentence]) -> Iterator[tuple[str, ...]]:
    """Yield the tags of each sentence from columns, the word first and the predicted tag last."""
    sentences = (s for s in read_sentences(source, ConllColumns(0, -1), source.lines) if s.words)
    for sentence in gold:
        predicted = next(sentences, None)
        if predicted is None:
            raise InputError(f"no prediction for {sentence.where(0)} and what follows it", where=source)
        if predicted.words != sentence.words:
            remedy = "Give the same words in the same order"
            raise InputError(f"not the words of {sentence.where(0)}", where=predicted.where(0), remedy=remedy)
        yield predicted.tags or ()
    if (more := next(sentences, None)) is not None:
        raise InputError("more sentences than there are to score", where=more.where(0))


def read_by_id(path: Data, key: str, asked: Sequence[str], *types: type) -> dict[str, Mapping[str, Any]]:
    """Read the predictions for all `asked` ids: a JSON object of values by id, or rows with "id" and `key`."""
    keys = ("id", key, "probability", "null_odds")
    source = open_predictions(path, keys)
    rows, whole = read_prediction_rows(source, keys), None
    if source.format.is_json and not isinstance(path, MemoryRows):
        text = source.read_whole()
        rows = json_lines((line, f"{path}:{number}") for number, line in enumerate(text.split("\n"), 1))
        with suppress(ValueError, RecursionError):
            whole = json.loads(text)
    by_id: dict[str, Mapping[str, Any]] = {}
    if whole is not None and not (isinstance(whole, dict) and "id" in whole):
        for name, value in check_type(whole, "all of it", path, dict).items():
            by_id[name] = {key: check_type(value, f"the value of {name!r}", path, *types)}
        rows = iter(())
    for row, where in rows:
        name, value = str(get(row, "id", where, str, int)), get(row, key, where, *types)
        if name in by_id and by_id[name][key] != value:
            raise InputError(f"two different answers to the question {name!r}", where=where)
        by_id[name] = row
    if missing := [name for name in asked if name not in by_id]:
        what = f"{len(missing):,} of {len(asked):,} questions are missing, such as {missing[0]!r}"
        raise InputError(what, where=path, remedy='Give "" for no answer')
    if others := by_id.keys() - set(asked):
        _warn_of_others(path, len(others), len(by_id), min(others))
    return by_id


def _warn_of_others(where: Data, count: int, total: int, first: str) -> None:
    what = (
        f"{count:,} of {total:,} predictions have no gold example, such as {first!r}. The others are scored"
    )
    warnings.warn(DataWarning(f"{where}: {what}"), stacklevel=2)
