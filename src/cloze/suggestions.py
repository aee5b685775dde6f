"""Did you mean: the nearest of the names that a flag, a keyword, a setting or a file may have."""

import difflib
import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from cloze.errors import InputError
from cloze.signatures import complete_signature

MAX_LISTED = 10
"""Maximum number of names in a message."""
_MAX_SIBLINGS = 10_000
_MIN_STEM_RATIO = 0.6
_NO_SYNONYMS: Mapping[str, str] = MappingProxyType({})

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def nearest(
    word: str,
    names: Iterable[str],
    *,
    synonyms: Mapping[str, str] = _NO_SYNONYMS,
    separators: str = " .",
    min_ratio: float = 0.6,
) -> str | None:
    """Return the name that a word most likely stands for; None if no name resembles it.

    A name resembles a word that is spelled alike, also without the sections of the name, that consists of its initials
    (lr), or that contains all its words (num_train_epochs).

    Args:
        names: all that are accepted, such as optimizer.learning_rate or "corpus audit".
        synonyms: names by lower-case words with hyphens.
        separators: characters between the sections of a name.
        min_ratio: of characters that a name spelled alike shares with the word, from 0 to 1.
    """
    word = _normalize(word)
    named: dict[str, str] = {}
    for name in names:
        for key in (name, re.split(f"[{separators}]", name)[-1] if separators else name):
            named.setdefault(_normalize(key), name)
    named = named | {other: name for other, name in synonyms.items() if other not in named}
    words = {*word.split("-")}
    matches = [
        [word] if word in named else [],
        difflib.get_close_matches(word, named, n=1, cutoff=0.75),
        [key for key in named if "-" in key and "".join(part[:1] for part in key.split("-")) == word],
        sorted((key for key in named if {*key.split("-")} <= words), key=len, reverse=True),
        difflib.get_close_matches(word, named, n=1, cutoff=min_ratio),
    ]
    return next((named[similar[0]] for similar in matches if similar), None)


def _normalize(name: str) -> str:
    return name.strip("-").replace("_", "-").casefold()


def did_you_mean(
    word: object,
    names: Iterable[str],
    *,
    synonyms: Mapping[str, str] = _NO_SYNONYMS,
    choose: str = "Choose from",
    full_list: str = "",
) -> str:
    """Return the remedy for an unknown name: the nearest accepted name, or a list of up to ten.

    >>> did_you_mean("bf16", ["auto", "float32", "bfloat16"])
    'Did you mean bfloat16?'
    >>> did_you_mean("x", ["auto", "float32", "bfloat16"])
    'Choose from auto, float32, bfloat16'

    Args:
        choose: words before a list of names.
        full_list: what prints the names if there are more than ten, as in "cloze tasks".
    """
    names = [*names]
    if near := nearest(str(word), names, synonyms=synonyms):
        return f"Did you mean {near}?"
    rest = f"; {full_list} lists all" if full_list and len(names) > MAX_LISTED else ""
    return f"{choose} {list_names(names)}{rest}"


def list_names(names: Iterable[str]) -> str:
    """Return up to ten names with commas, and the number of the others.

    >>> list_names("abcdefghijkl")
    'a, b, c, d, e, f, g, h, i, j and 2 others'
    """
    names = [*names]
    more = len(names) - MAX_LISTED
    others = f" and {more:,} other{'s' * (more > 1)}" if more > 0 else ""
    return ", ".join(names[:MAX_LISTED]) + others


def no_such_path(
    path: object,
    what: str = "no such file",
    *,
    remedy: str | None = None,
    other: str | None = None,
    fits: Callable[[Path], bool] = Path.exists,
) -> InputError:
    """Return the error for a local path that does not exist, with the path of a similar name where there is one.

    Args:
        other: what the user may have meant in the place of a path.
        fits: whether a path may be suggested.
    """
    similar = [str(name) for name in (_similar_path(Path(str(path)), fits), other) if name]
    remedies = [
        *([f"Did you mean {' or '.join(similar)}?"] if similar else []),
        *([remedy] if remedy else []),
    ]
    return InputError(what, where=path, remedy=" ".join(remedies) or None)


def _similar_path(path: Path, fits: Callable[[Path], bool]) -> Path | None:
    folder = path.parent
    if not folder.is_dir():
        similar = _similar_path(folder, Path.is_dir) if folder != path else None
        return similar / path.name if similar and fits(similar / path.name) else None
    try:
        siblings = (name for name in islice(os.listdir(folder), _MAX_SIBLINGS) if not name.startswith("."))
        names = [name for name in siblings if fits(folder / name)]
    except OSError:
        return None
    near = nearest(path.name, sorted(names), separators="")
    if near is None:
        return None
    stem, near_stem = path.stem.casefold(), Path(near).stem.casefold()  # equal endings say little
    is_similar = difflib.SequenceMatcher(None, stem, near_stem).ratio() >= _MIN_STEM_RATIO
    return folder / near if is_similar else None


def check_keywords(
    function: str,
    keywords: Iterable[str],
    known: Collection[str],
    settings: Callable[[], Iterable[str]] = tuple,
) -> None:
    """Raise TypeError for keywords that a function does not have, and suggest one.

    Args:
        settings: returns the keys that its argument `settings` may have.
    """
    for word in keywords:
        if word not in known:
            near = nearest(word, [*known, *settings()]) or ""
            form = f'settings={{"{near}": …}}' if "settings" in known else near
            form = f"{near}=…" if near in known else form
            hint = f". Did you mean {form}?" if near else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {word!r}{hint}")


def suggests_keywords(
    settings: Callable[[], Iterable[str]] = tuple,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Complete the signature of a function (`cloze.options`), and let it suggest a keyword for a wrong one.

    Args:
        settings: returns the keys that its argument `settings` may have.
    """

    def wrap(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        signature, docstring = complete_signature(function)
        parameters = inspect.signature(function).parameters
        known = {
            name: parameter.default
            for name, parameter in signature.parameters.items()
            if parameter.kind is not inspect.Parameter.POSITIONAL_ONLY and name not in ("self", "cls")
        }
        of_group = {name: default for name, default in known.items() if name not in parameters}

        @functools.wraps(function)
        def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if not kwargs.keys() <= known.keys():
                check_keywords(function.__qualname__, kwargs, known, settings)
            return function(*args, **(of_group | kwargs))

        checked.__doc__ = docstring
        checked.__signature__ = signature  # type: ignore[attr-defined]
        checked.__annotations__ = {
            name: parameter.annotation for name, parameter in signature.parameters.items()
        } | {"return": signature.return_annotation}
        checked.setting_names = settings  # type: ignore[attr-defined]
        return checked

    return wrap
