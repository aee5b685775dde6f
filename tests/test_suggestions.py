"""Wrong names lead to the right ones, in Python's words in Python and in the shell's in the shell."""

import inspect
from typing import Any

import pytest

import cloze
from cloze.cli import main
from cloze.suggestions import MAX_LISTED, did_you_mean, list_names
from helpers import task_of


def _keywords(function: Any) -> list[str]:
    kind = inspect.Parameter.KEYWORD_ONLY
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind is kind]


def test_every_public_function_suggests_its_keywords():
    """And the methods of public classes with which one loads and asks a model."""
    public = [getattr(cloze, name) for name in cloze.__all__]
    functions = [value for value in public if inspect.isfunction(value)]
    for kind in public:
        functions += [kind.load, kind.__call__] if hasattr(kind, "load") and "encoder" in dir(kind) else []
    for function in filter(_keywords, functions):
        keyword = _keywords(function)[0]
        with pytest.raises(TypeError, match=rf"'{keyword}x'. Did you mean {keyword}=…\?"):
            function(**{f"{keyword}x": 1})


def test_settings_tasks_and_the_module_suggest_their_names():
    with pytest.raises(TypeError) as raised:
        cloze.finetune("classification", train=[], model="m", output="none", weight_decay=0.1)
    form = 'settings={"optimizer.weight_decay": …}'
    unknown = "finetune() got an unexpected keyword argument 'weight_decay'"
    assert str(raised.value) == f"{unknown}. Did you mean {form}?"
    with pytest.raises(cloze.InputError, match=r"Did you mean classification\.label_column\?"):
        task_of("classification", label_colum="stars")
    with pytest.raises(AttributeError, match=r"Did you mean cloze.FillMask\?"):
        getattr(cloze, "FilMask")  # noqa: B009


FINETUNE = f"finetune classification -o none -m cloze-mini -d {__file__} "


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("audit", "no verb 'audit'. Did you mean corpus audit?"),
        ("fine-tune", "no verb 'fine-tune'. Did you mean finetune?"),
        *(
            (f"{verb} {flag} 3", f"no flag {flag}. Did you mean {right}? See cloze {verb} --help.")
            for verb, flag, right in (
                ("finetune", "--lerning-rate", "--learning-rate"),
                ("finetune", "--warmup_ratio", "--set optimizer.warmup_fraction=VALUE"),
            )
        ),
        (FINETUNE + "--learning-rate -1", "--learning-rate: -1.0 is not above 0 and below 1"),
        (FINETUNE + "--set optimizer.beta1=-1", "--set optimizer.beta1: -1.0 is not at least 0 and below 1"),
        (
            FINETUNE + "--set class_weight=x",
            "--set: unknown key class_weight. Did you mean classification.class_weights?",
        ),
        (FINETUNE + "--format conl", "--format: 'conl' is not a choice. Did you mean conllu?"),
        (FINETUNE + "--config glu", "--config: no recipe 'glu'. Did you mean glue?"),
    ],
)
def test_the_shell_names_flags_and_verbs(command, line, capsys):
    assert main(command.split()) == 2
    assert capsys.readouterr().err == f"error: {line}\n"


def test_no_list_has_more_than_ten_names(capsys):
    names = [f"name{number}" for number in range(30)]
    assert list_names(names).count("name") == MAX_LISTED
    assert did_you_mean("x", names, full_list="cloze tasks").endswith(" and 20 others; cloze tasks lists all")
    for command in ("tasks zzz", "finetune classification -o x -m x -d x --set zzz=1"):
        assert main(command.split()) == 2
        assert capsys.readouterr().err.count(", ") == MAX_LISTED - 1
