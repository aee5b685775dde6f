"""Strict JSON: refuse what Python's parser accepts beyond the standard, and bodies that are nested too deep."""

import json
import math
from typing import Any

_MAX_KEYS = 64
"""Of an object; no route has as many. Each unknown key would become an error message."""


def check_json(body: bytes, *, depth: int) -> None:
    """Refuse a body that is not strict JSON.

    Args:
        body: the bytes of the request.
        depth: maximum nesting of lists and objects.

    Raises:
        ValueError: the body is not UTF-8 or not JSON, repeats a key, has too many keys, NaN, an infinite number or a
            lone surrogate, or is nested too deep.
    """
    text = body.decode("utf-8")  # Python's parser would accept UTF-16, too
    too_deep = f"more than {depth} lists and objects within each other"
    try:
        value = json.loads(
            text, object_pairs_hook=_check_object, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except RecursionError:
        raise ValueError(too_deep) from None
    if text.count("[") + text.count("{") > depth and _depth(value, depth) > depth:
        raise ValueError(too_deep)
    if "\\u" in text:  # the only way to write a lone surrogate
        json.dumps(value, ensure_ascii=False).encode("utf-8")


def _depth(value: Any, limit: int) -> int:
    """Return the nesting of lists and objects, counted up to just above `limit`."""
    depth, level = 0, [value]
    while depth <= limit and (level := [node for node in level if isinstance(node, list | dict)]):
        depth += 1
        level = [item for node in level for item in (node.values() if isinstance(node, dict) else node)]
    return depth


def _check_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("an object has a key twice")
    if len(table) > _MAX_KEYS:
        raise ValueError(f"an object has {len(table):,} keys, more than {_MAX_KEYS}")
    return table


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value
