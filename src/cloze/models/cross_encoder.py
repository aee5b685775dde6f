"""Read the settings of a classifier that sentence-transformers calls a cross-encoder.

config_sentence_transformers.json the activation and the prompts, since version 6
config.json                       the activation in versions 4 and 5, and under another key before
modules.json                      one module, Transformer, since version 6
"""

from pathlib import Path
from typing import Any, Literal, TypeAlias

from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE, MODULES_FILE, SENTENCE_SETTINGS_FILE

CROSS_ENCODER = "CrossEncoder"
"""The `model_type` of config_sentence_transformers.json."""

Activation: TypeAlias = Literal["identity", "sigmoid"]
"""The function from a logit to a score."""

_ACTIVATIONS: dict[str, Activation] = {"Identity": "identity", "Sigmoid": "sigmoid"}
_CLASS_OF_ACTIVATION: dict[Activation, str] = {
    "identity": "torch.nn.modules.linear.Identity",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
}
_CONFIG_KEY = "sentence_transformers"
_OLD_CONFIG_KEY = "sbert_ce_default_activation_function"


def activation_to_json(activation: Activation) -> dict[str, Any]:
    """Return the entry of config.json from which sentence-transformers 4 to 6 read an activation."""
    return {_CONFIG_KEY: {"activation_fn": _CLASS_OF_ACTIVATION[activation]}}


def is_cross_encoder(directory: Path) -> bool:
    """Return whether sentence-transformers 6 or later saved a cross-encoder."""
    return _read_settings(directory).get("model_type") == CROSS_ENCODER


def load_score_activation(directory: Path) -> Activation:
    """Load the activation of the logit of a single label.

    Source: sentence-transformers `CrossEncoder.get_default_activation_fn`, the sigmoid of one label; transformers
    `TextClassificationPipeline`, where problem_type "regression" means the logit itself.
    """
    config = read_json(directory / CONFIG_FILE)
    default: Activation = "identity" if config.get("problem_type") == "regression" else "sigmoid"
    return load_activation(directory, config) or default


def load_activation(directory: Path, config: dict[str, Any]) -> Activation | None:
    """Load the activation of a classifier's logit for sentence-transformers, or None if the files name none.

    Programs then apply a sigmoid to the logit of a single label.

    Raises:
        InputError: a file is damaged, or requires an activation, a module or a prompt that cloze does not support.
    """
    settings = _read_settings(directory) if is_cross_encoder(directory) else {}
    if settings:
        _check_modules(directory)
        default = settings.get("default_prompt_name")
        if default is not None and (settings.get("prompts") or {}).get(default):
            what = f"default_prompt_name {default!r}: cloze has no prompts for cross-encoders"
            remedy = "Set it to null, and put the prompt before your texts"
            raise InputError(what, where=directory / SENTENCE_SETTINGS_FILE, remedy=remedy)
    in_config = config.get(_CONFIG_KEY)
    name = settings.get("activation_fn")
    if name is None and isinstance(in_config, dict):
        name = in_config.get("activation_fn")
    if name is None:
        name = config.get(_OLD_CONFIG_KEY)
    if name is None:
        return None
    module, _, kind = str(name).rpartition(".")
    if not module.startswith("torch.nn") or kind not in _ACTIVATIONS:
        where = directory / (SENTENCE_SETTINGS_FILE if "activation_fn" in settings else CONFIG_FILE)
        what = f"activation_fn {name!r}: cloze has {' and '.join(_CLASS_OF_ACTIVATION.values())}"
        raise InputError(what, where=where)
    return _ACTIVATIONS[kind]


def _check_modules(directory: Path) -> None:
    """Refuse other modules than the classifier, such as a score from one token's logit."""
    file = directory / MODULES_FILE
    modules = read_json(file, list) if file.is_file() else []
    for module in modules:
        kind = str(module.get("type") if isinstance(module, dict) else module).rpartition(".")[2]
        if kind != "Transformer":
            raise InputError(
                f"a module {kind!r}: cloze reads cross-encoders of a Transformer alone", where=file
            )


def _read_settings(directory: Path) -> dict[str, Any]:
    file = directory / SENTENCE_SETTINGS_FILE
    return read_json(file) if file.is_file() else {}
