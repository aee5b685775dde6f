"""The examples in the docstrings of the text room run."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["characters", "reference", "sentences", "tokenizer", "words"])
def test_examples(name):
    result = doctest.testmod(importlib.import_module(f"cloze.text.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
