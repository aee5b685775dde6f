"""The file config.json, which other programs read: the architecture of a model, and the names of its classes."""

from pathlib import Path
from typing import Any

from cloze.config import from_dict
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.models.bert import BertConfig
from cloze.models.encoder import encoders, get_config_class, get_model_type
from cloze.models.quantization import INT8_PREFIX

CONFIG_FILE = "config.json"
GOOGLE_CONFIG_FILE = "bert_config.json"

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
}
_HUGGING_FACE_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new"}
_REQUIRED_KEYS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
_MAX_VALUES = dict.fromkeys((*_REQUIRED_KEYS, "type_vocab_size"), 10_000_000) | {"num_hidden_layers": 1000}
"""Limits against damaged files and settings, from which a model would be built before anything is missing."""
_MAX_PARAMETERS = 4_000_000_000
_NO_CHECKPOINT = "Give the directory of a checkpoint"
_CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification")
_CAUSAL_MODEL_TYPE = "one-way-bert"
"""The model type of a BERT whose tokens attend to one side. Other programs refuse it, instead of attending to both.
(`is_decoder` of transformers is causal, but pools [CLS], which sees no text.)"""


def load_config(directory: Path, file_name: str = CONFIG_FILE) -> BertConfig:
    """Load the architecture from config.json, or from Google's file with the same keys.

    Raises:
        InputError: the file is missing or not JSON, does not describe a BERT, or has impossible values.
    """
    is_google = file_name == CONFIG_FILE and (Path(directory) / GOOGLE_CONFIG_FILE).is_file()
    remedy = f"Convert it: cloze import {directory} -o NEW" if is_google else _NO_CHECKPOINT
    table = read_json(Path(directory) / file_name, remedy=remedy)
    where = str(Path(directory) / file_name)
    model_type = str(table.get("model_type", "bert")).removeprefix(INT8_PREFIX)
    config_class = get_config_class("bert" if model_type == _CAUSAL_MODEL_TYPE else model_type)
    if config_class is None:
        known = ", ".join(sorted(encoders()))
        raise InputError(f"model_type {model_type!r}, cloze reads {known}", where=where)
    if table.get("is_decoder"):
        what = "is_decoder is true: a causal model"
        raise InputError(what, where=where, remedy="cloze reads encoders")
    if table.get("position_embedding_type", "absolute") != "absolute":
        raise InputError("position_embedding_type must be 'absolute'", where=where)
    required = [config_class.json_names.get(key, key) for key in _REQUIRED_KEYS]
    if missing := [key for key in required if key not in table]:
        raise InputError(f"{missing[0]} is missing", where=where)
    try:
        values = config_class.from_json(table)
    except ValueError as error:
        raise InputError(f"another encoder than cloze has: {error}", where=where) from error
    if "hidden_act" in values:
        values["hidden_act"] = _ACTIVATIONS.get(str(values["hidden_act"]), values["hidden_act"])
    config: BertConfig = from_dict(config_class, values, where=where)
    try:
        check_size(config)
    except ValueError as error:
        raise InputError(str(error), where=where) from None
    return config


def check_size(config: BertConfig) -> None:
    """Check an encoder's sizes before it is built.

    Raises:
        ValueError: it is too large.
    """
    for key, limit in _MAX_VALUES.items():
        if getattr(config, key) > limit:
            raise ValueError(f"{key} = {getattr(config, key)} is more than {limit:,}")
    if (num_parameters := count_parameters(config)) > _MAX_PARAMETERS:
        raise ValueError(f"a model of {num_parameters:,} parameters, more than {_MAX_PARAMETERS:,}")


def count_parameters(config: BertConfig) -> int:
    """Return the number of weights in the embeddings, the layers and the pooler, without biases and LayerNorms."""
    layers = config.num_hidden_layers * config.layer_weights
    return config.embedding_weights + layers + config.hidden_size**2


def load_labels(directory: Path) -> tuple[str, ...]:
    """Load the names of a classifier's classes from config.json, in order; empty if it has none."""
    table = read_json(Path(directory) / CONFIG_FILE, remedy=_NO_CHECKPOINT)
    labels = table.get("id2label")
    if labels is None:
        # transformers does not write the default names of two classes
        architectures = table.get("architectures") or [""]
        is_classifier = isinstance(architectures, list) and str(architectures[0]).endswith(_CLASSIFIERS)
        return ("LABEL_0", "LABEL_1") if is_classifier else ()
    numbers = [str(number) for number in range(len(labels))] if isinstance(labels, dict) else ["0"]
    if not isinstance(labels, dict) or set(labels) != set(numbers):
        what = "id2label does not map the numbers from 0 to labels"
        raise InputError(what, where=Path(directory) / CONFIG_FILE)
    return tuple(str(labels[number]) for number in numbers)


def config_to_json(config: BertConfig) -> dict[str, Any]:
    """Return the table of config.json, by the names of transformers."""
    table = config.to_json()
    for name in (config.json_names.get("hidden_act") or "hidden_act", "classifier_activation"):
        if name in table:
            table[name] = _HUGGING_FACE_ACTIVATIONS[config.hidden_act]
    model_type = get_model_type(config)
    if config.attends_to == "all":
        table.pop("attends_to", None)
    elif model_type == "bert":
        model_type = _CAUSAL_MODEL_TYPE
    return {"model_type": model_type, **table}
