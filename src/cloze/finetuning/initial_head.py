"""The head of the checkpoint that fine-tuning starts from, which is trained further if it gives the same answers."""

from pathlib import Path

import torch
from torch import Tensor

from cloze.errors import InputError
from cloze.models.checkpoint import load_model
from cloze.models.config_file import load_config
from cloze.models.encoder import Encoder, build_encoder
from cloze.models.external_weights import find_model_class
from cloze.models.heads import (
    BertForFeatureExtraction,
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForPreTraining,
)
from cloze.suggestions import list_names
from cloze.tasks.config import load_task
from cloze.tasks.task import Task

_WITHOUT_HEAD = (
    *(Encoder, BertForFeatureExtraction),
    *(BertForPreTraining, BertForMaskedLM, BertForNextSentencePrediction),  # of pre-training
)
_CONVERTIBLE = {"labels", "class_weights", "positive_weights"}
"""Settings that a head does not depend on: labels may have another order, weights are in the loss."""
_SCALE = {"minimum", "maximum"}
"""Settings that a linear head is converted to."""


def load_trained_head(task: Task, directory: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint's head, converted for a task whose labels are known; empty without a head.

    Raises:
        InputError: the head has other answers than the task.
    """
    stored = load_task(directory)
    with torch.device("meta"):
        encoder = build_encoder(load_config(directory))
        try:
            head_class = type(task.answer.head(encoder))
            model_class = type(stored[0].answer.head(encoder)) if stored else find_model_class(directory)
        except InputError:  # reported when the model is built
            return {}
    if issubclass(model_class, _WITHOUT_HEAD):
        return {}
    if not task.answer.has_head:
        raise InputError(f"{task.name} has none")
    trained = stored[0] if stored else task.for_external_checkpoint(directory)
    _check_same_answers(task, trained)
    if model_class is not head_class:
        raise InputError(f"the model is a {model_class.__name__}")
    model = load_model(directory, trained.answer.head, verify=False)
    weights = {name: weight for name, weight in model.state_dict().items() if not name.startswith("bert.")}
    order, factor, shift = task.answer.conversion_from(trained.answer)
    return {
        name: factor * (weight[order] if len(order) and name.startswith("classifier.") else weight)
        + (shift if name.endswith("bias") else 0.0)
        for name, weight in weights.items()
    }


def _check_same_answers(task: Task, trained: Task) -> None:
    """Refuse a head whose answers mean something else than those of the task.

    Another task may give the same numbers to its classes, or a number to something else.
    """
    names, known = task.answer.class_names, trained.answer.class_names
    has_names = not all(name.isdecimal() or name == "score" for name in names)
    is_other_task = names and not has_names and task.name != trained.name
    # outputs that are trained with the same loss mean the same, as those for both versions of SQuAD
    if type(task.answer).loss is not type(trained.answer).loss or is_other_task:
        raise InputError(f"the model was trained for the task {trained.name}")
    if set(names) != set(known):
        raise InputError(f"the model has the classes {list_names(known)}, the data have {list_names(names)}")
    settings, of_model = task.settings, trained.settings
    is_linear = settings.get("activation") == of_model.get("activation") == "identity"
    convertible = _CONVERTIBLE | (_SCALE if is_linear else set())
    for name in task.answer.weight_settings:
        if name not in convertible and settings[name] != of_model[name]:
            raise InputError(f"the model has {name} {of_model[name]}, not {settings[name]}")
