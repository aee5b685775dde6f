"""Read the predictions that `cloze predict` or another program wrote, and match them with examples."""

import json
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from typing import Any

import numpy as np

from cloze.data.reading.columns import Column
from cloze.data.reading.formats import open_source
from cloze.data.reading.json_rows import json_lines
from cloze.data.reading.memory import Data, MemoryRows
from cloze.data.reading.source import ReadOptions, Source
from cloze.data.reading.squad import check_type, get
from cloze.data.reading.tables import parse_rows
from cloze.data.reading.tagged_text import TaggedText
from cloze.data.row_files import PROBABILITY
from cloze.errors import DataWarning, InputError
from cloze.text_encoding import UTF_8

Identity = Mapping[str, str]
IDENTITY = ("id", "text", "pair", "prompt", "question")
"""Columns of predictions that say which example they are for."""
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


def input_values(example: Any) -> dict[str, Any]:
    """Return the id of an example, else its row, if it has one, and its texts, which identify a prediction."""
    if isinstance(example, TaggedText):
        return {"text": example.text_and_offsets()[0]}
    values = {name: getattr(example, name, None) for name in ("id", "row", *IDENTITY[1:])}
    if values["id"] is not None:
        del values["row"]
    return {name: value for name, value in values.items() if value is not None}


def identity_of(values: Mapping[str, Any]) -> Identity:
    """Return the id, the row and the texts of a row that are not empty, without white space."""
    texts = {name: "".join(str(values[name]).split()) for name in _NAMES if values.get(name) is not None}
    return {name: text for name, text in texts.items() if text}


def match_rows(
    rows: Sequence[Identity], examples: Sequence[Identity], predictions: Sequence[Any], where: Data
) -> Sequence[int]:
    """Return the index of the row for each example: of equal id and texts; in order if they share neither.

    More rows than examples are matched by the number of the row, too, and the others are warned of.
    """
    has_others = len(rows) > len(examples)
    names_used = _NAMES if has_others else IDENTITY
    shared = [
        name for name in names_used if any(name in r for r in rows) and any(name in e for e in examples)
    ]
    if len(rows) < len(examples) or (has_others and not shared):
        what = f"{len(rows):,} predictions for {len(examples):,} examples"
        raise InputError(what, where=where, remedy="Give a line for each example, in their order")
    # a name that one of the two lacks says nothing
    if not has_others and all(
        row.get(name, text) == text
        for row, example in zip(rows, examples, strict=True)
        for name, text in example.items()
        if name in shared
    ):
        return range(len(rows))
    for names in (shared, [name for name in shared if name != "row"] or shared):
        by_key = defaultdict[tuple[str, ...], list[int]](list)
        for index, row in enumerate(rows):
            by_key[_key(row, names)].append(index)
        keys = [_key(example, names) for example in examples]
        remaining = {key: iter(indices) for key, indices in by_key.items()}
        matched = [next(remaining.get(key, iter(())), None) for key in keys]
        order = [index for index in matched if index is not None]
        if len(order) < len(examples):
            continue
        for first, *alike in (by_key[key] for key in dict.fromkeys(keys)):
            for index in alike:
                if not _is_close(predictions[first], predictions[index]):
                    both = f"rows {first + 1:,} and {index + 1:,}"
                    what = f"{both} have the same texts and different predictions, the gold data another order or size"
                    remedy = "Give one prediction for each row of the gold data, in order"
                    raise InputError(what, where=where, remedy=remedy)
        if has_others:
            other = rows[min({*range(len(rows))} - {*order})]
            _warn_of_others(where, len(rows) - len(order), len(rows), _show(other, shared))
        return order
    missing = matched.index(None)
    what = f"no prediction for {_show(examples[missing], shared)}, example {missing + 1:,} of the gold data"
    remedy = f"Score predictions of the same data; without {' and '.join(shared)} they are scored in order"
    raise InputError(what, where=where, remedy=remedy)


def _key(identity: Identity, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(identity.get(name, "") for name in names)


def _is_close(one: Any, other: Any) -> bool:
    """Return whether two predictions are equal but for the rounding of numbers."""
    if hasattr(one, "__dataclass_fields__"):
        one, other = astuple(one), astuple(other)
    elif isinstance(one, Mapping):
        one, other = sorted(one.items()), sorted(other.items())
    elif isinstance(one, np.ndarray):
        one, other = one.tolist(), other.tolist()
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_is_close, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, abs_tol=1e-3) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def _show(identity: Identity, names: Sequence[str]) -> str:
    name = next((name for name in names if name in identity), names[0])
    text = identity.get(name, "")
    return f"{name} {text[:40]!r}" + ("…" if len(text) > 40 else "")


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
        _warn_of_others(path, len(others), len(by_id), repr(min(others)))
    return by_id


def _warn_of_others(where: Data, count: int, total: int, first: str) -> None:
    what = f"{count:,} of {total:,} predictions have no gold example, such as {first}. The others are scored"
    warnings.warn(DataWarning(f"{where}: {what}"), stacklevel=2)
