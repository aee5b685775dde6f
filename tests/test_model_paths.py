"""Directories of other programs, given as models."""

from pathlib import Path

import pytest

import cloze
from cloze.errors import InputError
from cloze.model_paths import resolve_checkpoint

DIRECTORIES = {
    "adapter_config.json adapter_model.safetensors": "adapter of PEFT",
    "checkpoint-500/model.safetensors checkpoint-500/config.json": "checkpoint-N",
    "config.json training_args.bin": "output of a Trainer",
    "config.json tf_model.h5": "from_tf=True",
    "config.json flax_model.msgpack": "from_flax=True",
    "bert.Q4_K_M.gguf": "GGUF",
    "config.json model.weights.h5": "Keras",
    "classifier.keras": "Keras",
    "saved_model.pb variables/variables.index": "SavedModel",
    "final-model.pt": "flair",
    "meta.json config.cfg": "spaCy",
}


def _write(directory: Path, names: str) -> None:
    for name in names.split():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text("{}")


@pytest.mark.parametrize("names", DIRECTORIES)
def test_directory_of_another_program_is_named(names: str, tmp_path: Path) -> None:
    _write(tmp_path, names)
    with pytest.raises(InputError, match=DIRECTORIES[names]):
        cloze.load(tmp_path)
    with pytest.raises(InputError, match=DIRECTORIES[names]):
        cloze.import_model(tmp_path, tmp_path / "output")


def test_directory_with_weights_beside_those_of_other_programs_is_read(tmp_path: Path) -> None:
    _write(tmp_path, "config.json model.safetensors tf_model.h5 training_args.bin checkpoint-5/config.json")
    assert resolve_checkpoint(tmp_path) == tmp_path
