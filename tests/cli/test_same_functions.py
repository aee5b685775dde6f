"""Python and shell are the same functions: names, defaults and types of flags are those of keywords."""

import inspect
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import cloze
from cloze.cli import VERBS, load_verb
from cloze.cli.parameters import IN_MEMORY, IN_PYTHON
from cloze.cli.parser import COMMON_FLAGS, Command
from cloze.signatures import evaluate_annotation

IN_SHELL = {"completion", "help"}
"""Verbs about the command line itself."""


def members_of(hint: Any) -> set[Any]:
    """Return the types in a union, and the choices of a Literal; of a sequence, those of its items."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType, Sequence):
        return {member for part in typing.get_args(hint) for member in members_of(part)}
    return set(typing.get_args(hint)) if typing.get_origin(hint) is typing.Literal else {hint}


@pytest.mark.parametrize("verb", sorted({*VERBS} - IN_SHELL))
def test_flags_are_the_keywords_of_a_public_function(verb):
    loaded = load_verb(verb)
    for function in (loaded.function, *(mode.function for mode in loaded.modes.values())):
        assert getattr(cloze, function.__name__) is function
    flags = {
        parameter.name: parameter
        for parameter in Command(loaded, verb).parameters.values()
        if parameter.name not in {*COMMON_FLAGS, *loaded.modes}
    }
    keywords = inspect.signature(loaded.function).parameters
    only_python = {
        name
        for name, keyword in keywords.items()
        if keyword.kind is inspect.Parameter.KEYWORD_ONLY
        and (name in IN_PYTHON or (name == IN_MEMORY and keyword.annotation is typing.Any))
    }
    assert flags.keys() == keywords.keys() - only_python
    for name, flag in flags.items():
        keyword = keywords[name]
        assert keyword.kind is not inspect.Parameter.VAR_KEYWORD, name
        assert flag.default is keyword.default, name
        assert flag.default is not True, name  # no word turns a switch off
        assert flag.is_positional == (keyword.kind is not inspect.Parameter.KEYWORD_ONLY), name
        kind = evaluate_annotation(keyword.annotation, loaded.function)
        kind = kind.__origin__ if typing.get_origin(kind) is typing.Annotated else kind
        members = members_of(kind) - {types.NoneType}
        if flag.kind is str:  # paths and names; what is in memory has no word
            assert {str, Path, Any} & members or flag.shape == "table", name
        else:
            assert members_of(flag.kind) == members - {cloze.RayCluster}, name
        assert flag.help, name


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("`skip_bad_rows` leaves out such rows", "--skip-bad-rows leaves out such rows"),
        ("Say `text_column=NAME`", "Say --text-column NAME"),
        ("`optimizer.weight_decay=0`", "--set optimizer.weight_decay=0"),
        ('`multi-label.labels=["a b", "c"]`', """--set 'multi-label.labels=["a b", "c"]'"""),
        ("the column `stars`", "the column `stars`"),
    ],
)
def test_the_shell_prints_parameters_and_settings_of_a_text_as_flags(text, printed):
    assert Command(load_verb("finetune"), "cloze finetune").in_flags(text) == printed
