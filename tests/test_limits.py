"""Wrong settings and numbers beyond reason are refused when settings are read, before any work."""

import dataclasses
import json
import types
import typing
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import cloze
from cloze import config as configuration
from cloze.arguments import parse_layers
from cloze.parallel_map import map_ordered
from cloze.pretraining.config import PAPER_PHASES, PretrainConfig
from cloze.pretraining.data import steps_per_phase
from cloze.tasks.config import with_settings
from cloze.tasks.registry import TASKS, find_task
from helpers import finetuning_of, resolve_finetuning, resolve_pretraining

pytestmark = [pytest.mark.protected, pytest.mark.trials("bad input")]

PRETRAIN = {"data": "d", "steps": 1}
FINETUNE = {"model": "m", "train": "t", "max_seq_length": 128}
WITHOUT_LIMIT = {
    "checkpoints.every_steps", "checkpoints.keep_newest", "checkpoints.keep_every_steps", "log_every_steps",
    "evaluation.log_every_steps", "evaluation.patience", "patience", "train_examples", "freeze_layers",
    "distillation.student_layers",
}  # fmt: skip
"""Larger numbers than a run has steps, examples or layers mean no limit, or are refused once these are known."""

COUNTED_BACKWARDS = {"word_column", "tag_column"}


def number_settings(config: type[Any], prefix: str = "") -> Iterator[tuple[str, type[Any], bool]]:
    """Yield the key of each setting that is a number, its type, and whether it is a list."""
    hints = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        hint = hints[field.name]
        is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
        for kind in typing.get_args(hint) if is_union else (hint,):
            item = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None
            if dataclasses.is_dataclass(kind):
                yield from number_settings(typing.cast(type, kind), f"{prefix}{field.name}.")
            elif kind in (int, float) or item in (int, float):
                yield f"{prefix}{field.name}", item or kind, item is not None


SETTINGS = [
    (config, *setting)
    for config in (PretrainConfig, cloze.FinetuneConfig)
    for setting in number_settings(config)
]


def load(config: type[Any], override: str) -> object:
    base = PRETRAIN if config is PretrainConfig else FINETUNE
    table = configuration.merge(base, configuration.read_dict(overrides=[override]))
    if config is PretrainConfig:
        return resolve_pretraining(settings=table)
    return resolve_finetuning("classification", settings=table)


@pytest.mark.parametrize(("config", "key", "kind", "is_list"), SETTINGS)
def test_every_number_has_a_limit(config, key, kind, is_list):
    values = ["1" + "0" * 30, "-1" + "0" * 30, "9" * 5000]
    values += ["1" + "0" * 15] if kind is int and key not in WITHOUT_LIMIT else []
    values += ["nan"] if kind is float else []
    for value in values:
        override = f"{key}=[{value}]" if is_list else f"{key}={value}"
        with pytest.raises(cloze.InputError) as refused:
            load(config, override)
        assert len(str(refused.value)) <= 2000


@pytest.mark.parametrize(
    ("task", "key", "kind", "is_list"),
    [
        (name, *setting)
        for name, task in TASKS.items()
        for part in (task.reader, task.answer)
        for setting in number_settings(type(part))
    ],
)
def test_every_number_of_a_task_has_a_limit(task, key, kind, is_list):
    values = ["1" + "0" * 30, "9" * 5000, "nan", "1e-320"]
    values += ["-1"] if kind is int and key not in COUNTED_BACKWARDS else []
    for value in values:
        override = f"{task}.{key}=[{value}, 1]" if is_list else f"{task}.{key}={value}"
        with pytest.raises(cloze.InputError) as refused:
            with_settings(find_task(task), configuration.read_dict(overrides=[override]))
        assert len(str(refused.value)) <= 2000


def test_seeds_go_up_to_the_largest():
    assert cloze.FinetuneConfig(model="m", train="t", seed=2**31 - 2, seeds=2).seeds == 2


@pytest.mark.parametrize(
    ("task", "overrides", "message"),
    json.loads(Path(__file__).with_name("wrong_settings.json").read_text("utf-8")),
)
def test_wrong_settings_are_refused_with_a_message(task, overrides, message):
    read = partial(finetuning_of, task, ["model=m", "train=t", *overrides])
    if task == "pretrain":
        read = partial(configuration.load, PretrainConfig, None, ["data=d", "steps=10", *overrides])
    with pytest.raises(cloze.InputError) as raised:
        read()
    assert message in str(raised.value)


@pytest.mark.parametrize("layers", ["0:99999999999", "-99999999999:0", "9" * 5000, f"1:{'9' * 5000}"])
def test_layers_beyond_reason_are_refused(layers):
    with pytest.raises(cloze.InputError, match="names no layers"):
        parse_layers(layers)


def test_workers_are_limited_and_steps_are_counted_without_a_list_of_them():
    with pytest.raises(cloze.InputError, match="more than 1,024 processes"):
        next(map_ordered(str, [1, 2], workers=10**9))
    assert steps_per_phase(10**9, PAPER_PHASES) == [899_999_999, 100_000_001]
    assert steps_per_phase(10, PAPER_PHASES) == [9, 1]
