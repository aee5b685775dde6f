"""The call tables of docs/explanation/architecture.md: every function exists and is named where it is called."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "architecture.md"
_ROW = re.compile(r"^\| (\d+) \| `(cloze[\w.]+)` \| (\d*) ?\|", re.MULTILINE)


class Call(NamedTuple):
    """A row of a table."""

    number: int
    name: str
    caller: int | None


def calls(heading: str) -> list[Call]:
    section = PAGE.read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = (match.groups() for match in _ROW.finditer(section))
    return [Call(int(number), name, int(caller) if caller else None) for number, name, caller in rows]


LIMITS = {"From a file to the loss": 35, "From a request to its answer": 20}


@pytest.mark.parametrize("heading", LIMITS)
def test_a_path_is_short_and_numbered(heading: str) -> None:
    path = calls(heading)
    assert 10 < len(path) <= LIMITS[heading]
    assert [call.number for call in path] == list(range(1, len(path) + 1))


@pytest.mark.parametrize(
    ("heading", "call"),
    [pytest.param(heading, call, id=call.name) for heading in LIMITS for call in calls(heading)],
)
def test_a_function_exists_and_is_used_where_its_caller_is_defined(heading: str, call: Call) -> None:
    find(call.name)
    if call.caller is not None:
        by_number = {row.number: row.name for row in calls(heading)}
        assert call.caller < call.number
        assert is_reached(by_number[call.caller], call.name), (
            f"{by_number[call.caller]} does not lead to {call.name}"
        )


def find(dotted_name: str) -> Any:
    """Return the function or class of a dotted name."""
    parts = dotted_name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        try:
            value: Any = import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for name in parts[end:]:
            value = getattr(value, name)
        return value
    raise AssertionError(f"no module in {dotted_name}")


def is_reached(caller: str, callee: str) -> bool:
    """Return whether the module of the caller uses the callee."""
    source = inspect.getsource(inspect.getmodule(find(caller)) or pytest.fail(f"{caller} has no module"))
    *_, owner, name = callee.split(".")
    # a module is called by the name of the attribute that holds it
    names = {owner, "bert", "layer", "embeddings"} if name == "forward" else {name}
    return any(re.search(rf"\b{re.escape(word)}\b", source) for word in names)
