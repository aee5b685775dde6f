"""The model and the data of nano_fixtures, and a run on them."""

from dataclasses import replace
from pathlib import Path

import pytest

from cloze.finetuning.config import FinetuneConfig
from family_cases import REVIEWS
from helpers import make_once
from nano_fixtures import (  # noqa: F401 (fixtures)
    build_encoder,
    config,
    configure,
    nano_checkpoint,
    reviews,
    tokenizer,
    write,
)
from runs import finetune


@pytest.fixture(scope="session")
def trained(config: FinetuneConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """A finished run that tells praise from blame; tests copy it to change it."""

    def make(directory: Path) -> None:
        finetune(REVIEWS, replace(config, epochs=8), directory / "run")

    return make_once(tmp_path_factory, "trained", make) / "run"
