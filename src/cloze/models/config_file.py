"""The file config.json, which other programs read: the architecture of a model, and the names of its classes."""

from pathlib import Path

from cloze.config import from_dict
from cloze.errors import InputError
from cloze.file_io import check_values, read_json
from cloze.file_names import CONFIG_FILE, GOOGLE_CONFIG_FILE
from cloze.models.encoder_config import REQUIRED, EncoderConfig

_NO_CHECKPOINT = "Give the directory of a checkpoint"
_ONE_VALUE = {"is_decoder": False, "position_embedding_type": "absolute", "quantization_config": None}
_CLASSIFIERS = ("ForSequenceClassification", "ForTokenClassification")
_TASKS_OF_HEADS = {
    "ForSequenceClassification": "classification",
    "ForTokenClassification": "tagging",
    "ForMultipleChoice": "multiple-choice",
    "ForQuestionAnswering": "squad_v1",
}
"""The task of a model that another program fine-tuned, by the end of its architecture's name."""


def load_config(directory: Path, file_name: str = CONFIG_FILE) -> EncoderConfig:
    """Load the architecture from config.json, or from Google's file with the same keys."""
    from cloze.models.encoder import encoders, find_encoder_class  # modules of torch

    where = Path(directory) / file_name
    is_google = file_name == CONFIG_FILE and where.with_name(GOOGLE_CONFIG_FILE).is_file()
    remedy = f"Convert it: cloze import {directory} -o NEW" if is_google else _NO_CHECKPOINT
    table = read_json(where, remedy=remedy)
    model_type = str(table.get("model_type", "bert"))
    encoder_class = find_encoder_class(model_type)
    if encoder_class is None:
        known = ", ".join(sorted(encoders()))
        raise InputError(f"model_type {model_type!r}, cloze reads {known}", where=where)
    config_class = encoder_class.config_class
    check_values(table, _ONE_VALUE, where=where)
    for name in REQUIRED:
        if (key := config_class.json_names.get(name, name)) not in table:
            raise InputError(f"{key} is missing", where=where)
    try:
        values = config_class.from_json(table)
    except ValueError as error:
        raise InputError(f"an encoder that cloze does not support: {error}", where=where) from error
    config: EncoderConfig = from_dict(config_class, values, where=str(where))
    return config


def load_labels(directory: Path) -> tuple[str, ...]:
    """Load the names of a classifier's classes from config.json, in order; empty if it has none."""
    table = read_json(Path(directory) / CONFIG_FILE, remedy=_NO_CHECKPOINT)
    labels = table.get("id2label")
    if labels is None:
        # transformers does not write the default names of two classes
        architectures = table.get("architectures") or [""]
        is_classifier = isinstance(architectures, list) and str(architectures[0]).endswith(_CLASSIFIERS)
        return ("LABEL_0", "LABEL_1") if is_classifier else ()
    is_table = isinstance(labels, dict)
    names = [labels.get(str(number)) for number in range(len(labels))] if is_table else [None]
    if not all(isinstance(name, str | int) for name in names):
        what = "id2label does not map the numbers from 0 to labels"
        raise InputError(what, where=Path(directory) / CONFIG_FILE)
    return tuple(map(str, names))


def find_task_of_head(directory: Path) -> str | None:
    """Return the task of a model that another program fine-tuned, by config.json; None for an encoder."""
    file = Path(directory) / CONFIG_FILE
    table = read_json(file) if file.is_file() else {}
    architectures = table.get("architectures")
    name = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    task = next((task for end, task in _TASKS_OF_HEADS.items() if name.endswith(end)), None)
    if task == "classification" and len(load_labels(directory)) == 1:
        return "regression"
    if task == "classification" and table.get("problem_type") == "multi_label_classification":
        return "multi-label"
    return task
