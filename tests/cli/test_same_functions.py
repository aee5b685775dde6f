"""Python and shell are the same functions: names, defaults and types of flags are those of keywords."""

import inspect
import typing

import pytest

import cloze
from cloze.cli import VERBS, load_verb
from cloze.cli.parser import COMMON, IN_MEMORY, IN_PYTHON, Command, Verb

IN_SHELL = {"completion", "help"}
"""Verbs about the command line itself."""


@pytest.mark.parametrize("verb", sorted({*VERBS} - IN_SHELL))
def test_flags_are_the_keywords_of_a_public_function(verb: str) -> None:
    loaded = load_verb(verb)
    assert isinstance(loaded, Verb)
    for function in (loaded.function, *(mode.function for mode in loaded.modes.values())):
        assert getattr(cloze, function.__name__) is function
    flags = {
        parameter.name: parameter
        for parameter in Command(loaded, verb).parameters.values()
        if parameter.owner != COMMON and parameter.name not in loaded.modes
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
        assert flag.is_positional == (keyword.kind is not inspect.Parameter.KEYWORD_ONLY), name
        members = {*typing.get_args(keyword.annotation), keyword.annotation}
        assert not {bool, int, float} & members or {flag.kind, *typing.get_args(flag.kind)} & members, name
        assert flag.help, name


def test_every_verb_that_is_derived_is_tried() -> None:
    derived = {verb for verb in VERBS if isinstance(load_verb(verb), Verb)}
    assert derived == {*VERBS} - IN_SHELL
