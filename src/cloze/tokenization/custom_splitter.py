"""Split text into sentences or words with a function of the user, named as "package.module:function".

The function takes a text and returns its parts in order, as strings of it or as (start, end) in characters. It may
leave out white space only: removing text is the task of cleaning, which counts what it removes.
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

_EXCERPT_CHARACTERS = 40


@functools.cache
def load_splitter(name: str, where: str = "splitter") -> Splitter:
    """Import a function by its name "package.module:function", also from the current directory."""
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise InputError(
            f"{name}: not the name of a function", where=where, remedy="Give package.module:function"
        )
    path = sys.path.copy()
    sys.path.insert(0, os.getcwd())
    try:
        function: Splitter = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # the user's code may raise anything on import
        raise InputError(f"{name}: {type(error).__name__}: {error}", where=where) from error
    finally:
        sys.path[:] = path
    if not callable(function):
        raise InputError(f"{name}: {function_name} is not a function", where=where)
    return function


def hash_splitter(name: str, where: str = "splitter") -> str | None:
    """Return a hash of the source file of the function, or None without one."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(load_splitter(name, where)))
    except TypeError:  # a built-in function, or a callable object
        file = None
    return None if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


def split_with_function(text: str, name: str, where: str = "splitter") -> list[Span]:
    """Return the sentences or words that the user's function finds, without the white space around them."""
    function = load_splitter(name, where)
    unit = "sentence" if where == "splitter" else "word"
    spans: list[Span] = []
    position = 0
    try:
        for sentence in (*function(text), (len(text), len(text))):
            start, end = _find(sentence, text, position)
            if skipped := text[position:start].strip():
                raise ValueError(f"{skipped[:_EXCERPT_CHARACTERS]!r} is in no {unit}")
            if stripped := text[start:end].strip():
                first = text.index(stripped, start)
                spans.append((first, first + len(stripped)))
            position = end
    except Exception as error:
        what = f"{name}: {type(error).__name__}: {error}, with the text {text[:_EXCERPT_CHARACTERS]!r}"
        remedy = f"It takes a text and returns all its {unit}s in order, as strings or as (start, end)"
        raise RunError(what, where=where, remedy=remedy) from error
    return spans


def _find(sentence: str | Span, text: str, position: int) -> Span:
    """Return the span of a sentence at or after a position."""
    if isinstance(sentence, str):
        start = text.find(sentence, position)
        if start < 0:
            what = f"{sentence[:_EXCERPT_CHARACTERS]!r} is not in the text after character {position}"
            raise ValueError(what)
        return start, start + len(sentence)
    start, end = int(sentence[0]), int(sentence[1])
    if not position <= start <= end <= len(text):
        raise ValueError(f"({start}, {end}) is not between {position} and {len(text)}")
    return start, end
