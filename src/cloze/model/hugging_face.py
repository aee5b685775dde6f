"""What transformers writes and has written: config.json, a tokenizer, and weights in one of several forms."""

import warnings
import zipfile
from functools import partial
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.model.bert import BertConfig, initialize_weights
from cloze.model.checkpoint import (
    CONFIG_FILE,
    TORCH_WEIGHTS_FILE,
    WEIGHTS_FILE,
    WEIGHTS_INDEX_FILE,
    load_config,
    load_labels,
    read_json,
    read_weights,
    verify_model,
)
from cloze.model.foreign import ForeignModel, Head, assemble, encoder_alone, load_tokenizer
from cloze.model.heads import (
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from cloze.model.layouts import HUGGING_FACE, modern_hugging_face_names

_POOLER = ("bert.pooler.dense.bias", "bert.pooler.dense.weight")
_SEED = 12345  # of a pooler that is not there


def load_hugging_face(directory: Path) -> ForeignModel:
    """Read a model of transformers with the head that its weights are of; safetensors, or pytorch_model.bin.

    One that cloze wrote has a manifest and is checked against it.
    A pooler that is not there is drawn at random, and `new` says so.

    Raises:
        InputError: a file is missing or damaged, holds more than tensors, or is of no BERT.
    """
    verify_model(directory)
    config = load_config(directory)
    tokenizer = load_tokenizer(directory, config)
    weights = _read_weights_in_any_form(directory)
    head, labels = _head_of(weights, directory)
    new = [name for name in _POOLER if name not in weights]
    model, left_out = assemble(
        config,
        head,
        HUGGING_FACE,
        [*weights, *new],
        # drawn when everything that the file holds has been found to be as large as the config says
        lambda name: weights[name] if name in weights else _new_pooler(config)[name],
        where=directory,
    )
    problem_type = read_json(directory / CONFIG_FILE).get("problem_type") if labels else None
    return ForeignModel(model, tokenizer, labels, problem_type, left_out, new=tuple(new))


def _read_weights_in_any_form(directory: Path) -> dict[str, Tensor]:
    if any((directory / name).exists() for name in (WEIGHTS_FILE, WEIGHTS_INDEX_FILE)):
        return read_weights(directory)
    if not (directory / TORCH_WEIGHTS_FILE).exists():
        what = f"no weights here: neither {WEIGHTS_FILE} nor {TORCH_WEIGHTS_FILE}"
        raise InputError(what, where=directory)
    return modern_hugging_face_names(_read_torch_file(directory / TORCH_WEIGHTS_FILE))


def _read_torch_file(file: Path) -> dict[str, Tensor]:
    """Read tensors that `torch.save` wrote, and nothing else: no code of the file is run."""
    if not file.is_file():
        raise InputError("is no file", where=file)
    try:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                    raise InputError("compressed, as torch.save never writes it", where=file)
        with warnings.catch_warnings(action="ignore"):  # of pickles that it may not read; it says so below
            tensors = torch.load(file, map_location="cpu", weights_only=True)
    except (
        UnpicklingError,
        RuntimeError,
        EOFError,
        ValueError,
        OSError,
        KeyError,
        zipfile.BadZipFile,
    ) as error:
        what = f"cannot be read as tensors alone: {str(error).splitlines()[0]}"
        raise InputError(
            what, where=file, remedy="The file is damaged, or holds code, which is not run"
        ) from error
    if not isinstance(tensors, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in tensors.items()
    ):
        raise InputError("holds something else than tensors by name", where=file)
    for name, tensor in tensors.items():
        if not _is_whole(tensor):
            raise InputError(f"{name} is a tensor without all of its numbers", where=file)
    return tensors


def _is_whole(tensor: Tensor) -> bool:
    """Whether a tensor has in memory every number that it shows: a small file can show the same one many times."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return False
    return tensor.untyped_storage().nbytes() >= tensor.nbytes


def _head_of(weights: dict[str, Tensor], directory: Path) -> tuple[Head, tuple[str, ...]]:
    """Return the head that the names of weights tell of, and the labels of a classifier."""
    has_masked_lm, has_next_sentence = (
        f"{name}.bias" in weights for name in ("cls.predictions", "cls.seq_relationship")
    )
    if has_masked_lm or has_next_sentence:
        both = has_masked_lm and has_next_sentence
        alone: Head = BertForMaskedLM if has_masked_lm else BertForNextSentencePrediction
        return BertForPreTraining if both else alone, ()
    if "qa_outputs.weight" in weights:
        return BertForQuestionAnswering, ()
    if "classifier.weight" not in weights:
        return encoder_alone, ()
    architectures = read_json(directory / CONFIG_FILE).get("architectures")
    if architectures == ["BertForMultipleChoice"]:
        return BertForMultipleChoice, ()
    num_labels = len(weights["classifier.weight"])
    labels = load_labels(directory)
    if len(labels) != num_labels:
        labels = tuple(f"LABEL_{number}" for number in range(num_labels))
    is_tagger = architectures == ["BertForTokenClassification"]
    kind = BertForTokenClassification if is_tagger else BertForSequenceClassification
    return partial(kind, num_labels=num_labels), labels


def _new_pooler(config: BertConfig) -> dict[str, Tensor]:
    """Draw a pooler as an untrained model has it."""
    pooler = nn.Linear(config.hidden_size, config.hidden_size)
    initialize_weights(pooler, config.initializer_range, torch.Generator().manual_seed(_SEED))
    return HUGGING_FACE.to_foreign(
        {f"bert.pooler.{name}": weight for name, weight in pooler.state_dict().items()}
    )
