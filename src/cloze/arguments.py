"""Checks of the arguments of the Python interface: texts, paths, numbers and objects of the right kind.

Ordered collections and iterators are taken as lists. Everything else is refused with the position of the wrong value.
"""

import math
import os
from collections.abc import Iterator, Mapping, Set
from numbers import Number
from operator import index
from pathlib import Path
from typing import Any

from cloze.errors import InputError

_MAX_SHOWN = 40
_MAX_LAYER = 1000


def check_text(text: object, name: str = "text") -> str:
    """Return a text as a str, also if it is a subclass such as NumPy's."""
    if isinstance(text, str):
        return str.__str__(text)
    raise InputError(f"{name} is {describe(text)}", remedy='Give a text, or "" for an empty one')


def check_texts(texts: object, name: str = "texts", *, paired_with: list[str] | None = None) -> list[str]:
    """Return texts as a list, from a list, tuple, array, column of a table or iterator."""
    is_checked = isinstance(texts, list) and set(map(type, texts)) <= {str}  # fast for a corpus
    checked: list[str] = texts if is_checked else list(iterate_texts(texts, name))  # type: ignore[assignment]
    if paired_with is not None and len(checked) != len(paired_with):
        raise InputError(f"{len(checked)} texts, expected {len(paired_with)}", where=name)
    return checked


def check_one_or_many(texts: object, name: str = "texts") -> tuple[list[str], bool]:
    """Return texts as a list, and whether there is one text instead of a list."""
    is_one = isinstance(texts, str)
    return check_texts([texts] if is_one else texts, name), is_one


def check_text_lists(
    texts: object, lists: object, names: tuple[str, str]
) -> tuple[list[str], list[list[str]], bool]:
    """Return texts, the list of texts that belongs to each, and whether there is one text instead of a list."""
    checked, is_one = check_one_or_many(texts, names[0])
    if is_one:
        return checked, [check_texts(lists, names[1])], True
    of_text = [
        check_texts(item, f"{names[1]}[{number}]")
        for number, item in enumerate(iterate(lists, names[1], "list"))
    ]
    if len(of_text) != len(checked):
        raise InputError(f"{len(of_text)} lists, expected {len(checked)}", where=names[1])
    return checked, of_text, False


def check_sentences(sentences: object, name: str = "words") -> tuple[list[list[str]], bool]:
    """Return the words of sentences as lists, and whether there is one sentence instead of a list.

    >>> check_sentences(["Ada", "ran"]), check_sentences([["Ada"], ["Bo", "ran"]])
    (([['Ada', 'ran']], True), ([['Ada'], ['Bo', 'ran']], False))
    """
    items = list(iterate(sentences, name, "word"))
    is_one = bool(items) and isinstance(items[0], str)
    checked = [
        check_texts(words, name if is_one else f"{name}[{number}]")
        for number, words in enumerate([items] if is_one else items)
    ]
    for number, words in enumerate(checked):
        for place, word in enumerate(words):
            if not word.strip():
                where = f"{name}[{place}]" if is_one else f"{name}[{number}][{place}]"
                raise InputError("the word is blank", where=where, remedy="Leave it out")
    return checked, is_one


def iterate_texts(texts: object, name: str = "texts") -> Iterator[str]:
    """Yield what `check_texts` returns, one at a time."""
    for number, text in enumerate(iterate(texts, name, "text")):
        yield text if type(text) is str else check_text(text, f"{name}[{number}]")


def split_names(names: Any) -> tuple[str, ...] | None:
    """Return names that a list has, or a text with commas between them; None if none are given.

    >>> split_names("text, label"), split_names(["text"]), split_names(None)
    (('text', 'label'), ('text',), None)
    """
    if names is None:
        return None
    return tuple(
        name.strip()
        for name in (names.split(",") if isinstance(names, str) else check_texts(names, "column_names"))
    )


def check_pairs(
    first: Any, second: Any = None, names: tuple[str, str] = ("texts", "pairs"), *, required: bool = False
) -> tuple[list[tuple[str, Any]], bool]:
    """Return the two texts of every input, and whether there is one input instead of a list.

    Args:
        first: a text, a tuple of two, or a list of either.
        second: the second text of each, if `first` has no tuples.
        required: whether every input has two texts; else the second is None where none is given.
    """
    is_pair = second is None and _is_pair(first)
    if is_pair or isinstance(first, str):
        if is_pair:
            names, (first, second) = (f"{names[0]}[0]", f"{names[0]}[1]"), first
        has_second = is_pair or required or second is not None
        return [(check_text(first, names[0]), check_text(second, names[1]) if has_second else None)], True
    if second is None:
        first = list(iterate(first, names[0], "text"))
        if first and all(map(_is_pair, first)):
            first, second = map(list, zip(*first, strict=True))
    first = check_texts(first, names[0])
    if second is None and not (required and first):
        return [(text, None) for text in first], False
    return list(zip(first, check_texts(second, names[1], paired_with=first), strict=True)), False


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 2


def check_path(path: object, name: str) -> Path:
    """Return a path of a file or directory."""
    if not isinstance(path, (str, os.PathLike)):
        raise InputError(f"{name} is {describe(path)}", remedy="Give a path as str or Path")
    if not str(path) or "\0" in str(path):
        raise InputError(f"{name} is {str(path)!r}", remedy="Give the path of a file or directory")
    return Path(path)


def check_paths(paths: object, name: str = "inputs") -> list[str | Path]:
    """Return paths as a list; one path is a list of one. Text such as URLs, globs and - stays as it is."""
    items = [paths] if isinstance(paths, (str, os.PathLike)) else list(iterate(paths, name, "path"))
    for i, item in enumerate(items):
        check_path(item, f"{name}[{i}]" if item is not paths else name)
    return [item if isinstance(item, str) else Path(item) for item in items]


def check_integer(value: Any, name: str, *, minimum: int | None = 1, maximum: int | None = None) -> int:
    """Return an integer, also of NumPy or torch, as an int."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None:
        raise InputError(f"{name} is {describe(value)}", remedy="Give a whole number")
    if minimum is not None and number < minimum:
        raise InputError(f"{number} is less than {minimum}", where=name)
    if maximum is not None and number > maximum:
        raise InputError(f"{number} is more than {maximum}", where=name)
    return number


def parse_layers(text: str, name: str = "layers") -> tuple[int, ...]:
    """Parse layer numbers and inclusive ranges.

    >>> parse_layers("0,-4:-2")
    (0, -4, -3, -2)
    """
    layers: list[int] = []
    try:
        for part in text.split(","):
            first, colon, last = part.partition(":")
            numbers = range(int(first), int(last if colon else first) + 1)
            if not numbers or max(abs(numbers[0]), abs(numbers[-1])) > _MAX_LAYER:
                raise ValueError(part)
            layers += numbers
    except ValueError:
        what = f"{text[:40]!r} names no layers"
        raise InputError(what, where=name, remedy="Write them as in 12, -2, 1,6 or -4:-1") from None
    return tuple(layers)


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN, or the missing value of a table library."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")


def describe(value: object) -> str:
    """Name a value of a wrong kind in a few words.

    >>> describe(None), describe(float("nan")), describe(5), describe({"a": 1})
    ('None', 'nan', '5, an int', 'a dict')
    """
    kind = type(value).__name__
    if is_missing(value):
        return str(value)
    article = "an" if kind[:1].lower() in "aeio" else "a"
    if isinstance(value, (Number, str)):
        shown = repr(value) if isinstance(value, str) else str(value)
        return f"{shown[:_MAX_SHOWN]}, {article} {kind}"
    return f"{article} {kind}"


def iterate(values: Any, name: str, of: str) -> Iterator[Any]:
    """Iterate over an ordered collection or an iterator."""
    if is_ordered(values):
        # the items of a column of Arrow are no objects of Python
        return iter(values.to_pylist() if hasattr(values, "to_pylist") else values)
    what = f"is one {of}" if isinstance(values, str) else f"is {describe(values)}"
    remedy = f"Give a list of {of}s{', such as one of its columns' if _is_table(values) else ''}"
    raise InputError(what, where=name, remedy=remedy)


def is_ordered(values: Any) -> bool:
    """Return whether a value is an ordered collection or an iterator.

    A text is not, nor are dicts and tables, whose items would be keys and columns, and sets, which have no order.
    """
    if isinstance(values, (str, bytes, bytearray, Mapping, Set)) or _is_table(values):
        return False
    try:
        iter(values)
    except TypeError:
        return False
    return True


def _is_table(values: object) -> bool:
    return hasattr(values, "column_names") or hasattr(values, "columns")
