"""The examples in docstrings run."""

import doctest
import importlib
from pathlib import Path

import pytest

import cloze

SOURCE = Path(cloze.__file__).parent
WITH_EXAMPLES = [path for path in sorted(SOURCE.rglob("*.py")) if "\n    >>> " in path.read_text("utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_examples(path: Path) -> None:
    name = ".".join(("cloze", *path.relative_to(SOURCE).with_suffix("").parts))
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0 or "+SKIP" in path.read_text("utf-8")
    assert result.failed == 0
