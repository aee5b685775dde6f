"""A function of the user's own that splits text into sentences, named as "package.module:function".

It takes a text and returns its sentences in order, either as they stand in the text or as (start, end) in characters.
It may leave out white space, but nothing else: what a corpus drops, cleaning drops, and counts.
"""

import functools
import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from cloze.errors import InputError, RunError

Span = tuple[int, int]
Splitter = Callable[[str], Iterable[Span] | Iterable[str]]

_EXCERPT = 40


@functools.cache
def load_splitter(name: str) -> Splitter:
    """Import the function called "package.module:function"; the current directory is looked in, too.

    Raises:
        InputError: there is none.
    """
    where = f"--splitter {name}"
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        remedy = "Give package.module:function"
        raise InputError("not the name of a function", where=where, remedy=remedy)
    path = sys.path.copy()
    sys.path.insert(0, os.getcwd())
    try:
        function: Splitter = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # importing runs the user's code, which may fail in any way
        raise InputError(f"{type(error).__name__}: {error}", where=where) from error
    finally:
        sys.path[:] = path
    if not callable(function):
        raise InputError(f"{function_name} is not a function", where=where)
    return function


def source_of(name: str) -> str | None:
    """Return a hash of the file that the function is in, which changes when its user mends it; None: it has none.

    Raises:
        InputError: there is no such function.
    """
    try:
        file = inspect.getsourcefile(inspect.unwrap(load_splitter(name)))
    except TypeError:  # it is one of Python's own, or no function
        file = None
    return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


def spans_of_function(text: str, name: str) -> list[Span]:
    """Return the sentences that the user's function finds, without the white space around them.

    Raises:
        InputError: there is no such function.
        RunError: it fails, or returns anything but the sentences of the text in their order.
    """
    function = load_splitter(name)
    spans: list[Span] = []
    done = 0
    try:
        for sentence in (*function(text), (len(text), len(text))):
            start, end = _place(sentence, text, done)
            if left_out := text[done:start].strip():
                raise ValueError(f"{left_out[:_EXCERPT]!r} is in no sentence")
            if inner := text[start:end].strip():
                first = text.index(inner, start)
                spans.append((first, first + len(inner)))
            done = end
    except Exception as error:
        what = f"{type(error).__name__}: {error}, with the text {text[:_EXCERPT]!r}"
        remedy = "It takes a text and returns all its sentences in order, as strings or as (start, end)"
        raise RunError(what, where=f"--splitter {name}", remedy=remedy) from error
    return spans


def _place(sentence: str | Span, text: str, done: int) -> Span:
    """Return where a sentence stands in the text behind `done`."""
    if isinstance(sentence, str):
        start = text.find(sentence, done)
        if start < 0:
            raise ValueError(f"{sentence[:_EXCERPT]!r} does not stand in the text behind character {done}")
        return start, start + len(sentence)
    start, end = int(sentence[0]), int(sentence[1])
    if not done <= start <= end <= len(text):
        raise ValueError(f"({start}, {end}) does not lie between {done} and {len(text)}")
    return start, end
