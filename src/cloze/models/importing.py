"""Convert models of other programs to checkpoints."""

import shutil
from dataclasses import replace
from pathlib import Path

from cloze import artifacts
from cloze.errors import InputError
from cloze.file_names import (
    CONFIG_FILE,
    GOOGLE_CONFIG_FILE,
    MODULES_FILE,
    SENTENCE_LENGTH_FILE,
    SENTENCE_SETTINGS_FILE,
    TASK_FILE,
)
from cloze.hub import name_of_snapshot
from cloze.model_paths import resolve_checkpoint
from cloze.models.cross_encoder import is_cross_encoder
from cloze.models.encoder import get_encoder
from cloze.models.external_weights import ExternalModel
from cloze.models.sentence_transformers import load_sentence_encoder_config, save_sentence_encoder_config


def find_source(source: Path | str) -> Path:
    """Return the directory of a model, or the prefix of a TensorFlow checkpoint."""
    if not Path(
        f"{source}.index"
    ).is_file():  # the prefix of a TensorFlow checkpoint is not the name of a file
        source = resolve_checkpoint(source, files="pickle")
    source = Path(source)
    if source.is_dir() and not any((source / name).exists() for name in (CONFIG_FILE, GOOGLE_CONFIG_FILE)):
        what = f"no model here: neither {CONFIG_FILE} nor {GOOGLE_CONFIG_FILE}"
        raise InputError(what, where=source, remedy="Give the directory of a model")
    return source


def write_imported(external: ExternalModel, source: Path, directory: Path) -> None:
    """Write a model as a checkpoint, with its settings of sentence-transformers.

    The task of a model that cloze fine-tuned is copied if all its weights are imported.
    """
    sentence_encoder = load_sentence_encoder_config(source)
    external.save(directory)
    _copy_card(source, directory)
    if (source / TASK_FILE).is_file() and not external.unexpected_keys:
        shutil.copyfile(source / TASK_FILE, directory / TASK_FILE)
    if is_cross_encoder(source):
        for name in (SENTENCE_SETTINGS_FILE, MODULES_FILE, SENTENCE_LENGTH_FILE):
            if (source / name).is_file():
                shutil.copyfile(source / name, directory / name)
    if sentence_encoder is not None:
        config = get_encoder(external.model).config
        if sentence_encoder.max_seq_length is not None:  # transformers writes 10**30 for no limit
            length = min(sentence_encoder.max_seq_length, config.max_position_embeddings)
            sentence_encoder = replace(sentence_encoder, max_seq_length=length)
        save_sentence_encoder_config(directory, sentence_encoder, hidden_size=config.hidden_size)


def _copy_card(source: Path, directory: Path) -> None:
    """Copy the model card, which has the license, and add the commit of a model of the Hub."""
    card, name = source / artifacts.CARD_FILE, name_of_snapshot(source)
    if card.is_file():
        shutil.copyfile(card, directory / artifacts.CARD_FILE)
    if name is not None:
        with (directory / artifacts.CARD_FILE).open("a", encoding="utf-8") as stream:
            stream.write(f"\nImported by cloze from `{name}`.\n")
