"""JSON as the standard has it, and no deeper than it need be: what Python's reader is generous about is refused."""

import json
import math
from typing import Any

_MOST_KEYS = 64
"""Of an object; no route knows as many. Each unknown one would be an error to be told."""


def check_json(body: bytes, *, depth: int) -> None:
    """Refuse a body that is not plain JSON.

    Args:
        body: as it came.
        depth: lists and objects within each other, at most.

    Raises:
        ValueError: it is not UTF-8 or not JSON, has a key twice or very many, a number that is none, half a character,
            or is too deep.
    """
    text = body.decode("utf-8")  # no UTF-16, which Python's reader would take
    too_deep = f"more than {depth} lists and objects within each other"
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite
        )
    except RecursionError:
        raise ValueError(too_deep) from None
    if text.count("[") + text.count("{") > depth and _depth(value, depth) > depth:
        raise ValueError(too_deep)
    if "\\u" in text:  # half a character can only come this way
        json.dumps(value, ensure_ascii=False).encode("utf-8")


def _depth(value: Any, most: int) -> int:
    """Return how many lists and objects are within each other; what is deeper than `most` is not looked at."""
    depth, level = 0, [value]
    while depth <= most and (level := [each for each in level if isinstance(each, list | dict)]):
        depth += 1
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
    return depth


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("an object has a key twice")
    if len(table) > _MOST_KEYS:
        raise ValueError(f"an object has {len(table):,} keys, more than {_MOST_KEYS}")
    return table


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value
