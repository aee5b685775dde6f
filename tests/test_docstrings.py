"""The examples in docstrings run."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import cloze

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGES = (
    Path(cloze.__file__).parent,
    REPOSITORY / "research/benchmarks",
    REPOSITORY / "research/experiments",
)
WITH_EXAMPLES = [
    path.relative_to(package.parent)
    for package in PACKAGES
    for path in sorted(package.rglob("*.py"))
    if "\n    >>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples(path):
    name = ".".join(path.with_suffix("").parts)
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.attempted > 0 or "+SKIP" in inspect.getsource(module)
    assert result.failed == 0
