"""Did you mean: the nearest of the names that a flag, a keyword or a setting may have."""

import difflib
import re
from collections.abc import Iterable

MAX_LISTED = 10
"""Maximum number of names in a message."""
_MIN_RATIO = 0.7


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that is spelled most like a word, also by its last section alone; None if no name is.

    Args:
        names: all that are accepted, such as optimizer.learning_rate or "corpus audit".
    """
    spelled: dict[str, str] = {}
    for name in names:
        for key in (name, re.split("[ .]", name)[-1]):
            spelled.setdefault(_normalize(key), name)
    similar = difflib.get_close_matches(_normalize(word), spelled, n=1, cutoff=_MIN_RATIO)
    return spelled[similar[0]] if similar else None


def _normalize(name: str) -> str:
    return name.strip("-").replace("_", "-").casefold()


def did_you_mean(
    word: object, names: Iterable[str], *, choose: str = "Choose from", full_list: str = ""
) -> str:
    """Return the remedy for an unknown name: the nearest accepted name, or a list of up to ten.

    >>> did_you_mean("bfloat", ["auto", "float32", "bfloat16"])
    'Did you mean bfloat16?'
    >>> did_you_mean("x", ["auto", "float32", "bfloat16"])
    'Choose from auto, float32, bfloat16'

    Args:
        choose: words before a list of names.
        full_list: what prints the names if there are more than ten, as in "cloze tasks".
    """
    names = [*names]
    if near := nearest(str(word), names):
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
