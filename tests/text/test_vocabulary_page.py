"""docs/vocabulary.md: its examples run."""

import doctest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "vocabulary.md"


def test_examples_of_the_vocabulary_page() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 5
    assert result.failed == 0
