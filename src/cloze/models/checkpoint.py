"""Load and save checkpoints in the layout of transformers: configuration, weights and tokenizer.

Checkpoints of cloze have a manifest, against which their files are verified.
"""

import copy
import dataclasses
import json
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar, overload

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from cloze import artifacts, file_io
from cloze.errors import InputError, RunError
from cloze.file_names import (
    CONFIG_FILE,
    MANIFEST,
    TRAINING_FOLDER,
    VOCAB_FILE,
    WEIGHTS_FILE,
    WEIGHTS_INDEX_FILE,
)
from cloze.models.bert import initialize_weights
from cloze.models.config_file import load_config
from cloze.models.encoder import Encoder, build_encoder, get_encoder
from cloze.models.encoder_config import EncoderConfig
from cloze.models.sentence_transformers import Activation, activation_to_json
from cloze.models.weight_files import load_weights, weight_files
from cloze.models.weight_mapping import MissingWeightsError, WeightMapping
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.vocabulary import MAX_VOCABULARY_BYTES

KIND = "checkpoint"
_POOLER_SEED = 12345
_MAX_NAME = 100  # characters of a weight's name in a message

Model = TypeVar("Model", bound=nn.Module)
Head: TypeAlias = Callable[[Encoder], Model]
Weights: TypeAlias = dict[str, Tensor]


def save_model(
    directory: Path,
    model: nn.Module,
    tokenizer: Tokenizer,
    *,
    labels: Sequence[str] = (),
    problem_type: str | None = None,
    activation: Activation | None = None,
    max_length: int | None = None,
    weights: bool = True,
) -> None:
    """Write the files of a model into a directory, which `artifacts.write_directory(..., kind=KIND)` yields.

    Args:
        problem_type: the name in transformers for the meaning of a classifier's logits.
        activation: of the logit of a regression, for sentence-transformers.
        max_length: maximum number of tokens of a text; by default the model's number of positions.
    """
    encoder, class_name = get_encoder(model), type(model).__name__
    config = encoder.config
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(f"{tokenizer.vocab_size} tokens, the model has {config.vocab_size} embeddings")
    architecture = getattr(model, "architecture", class_name)
    if architecture == "BertForPreTraining" and not encoder.trains_on_pairs:
        architecture = "BertForMaskedLM"
    table = {
        "model_type": encoder.model_type,
        **config.to_json(),
        "architectures": [encoder.names.architecture(architecture)],
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
    }
    table.setdefault("pad_token_id", tokenizer.pad_id)
    table |= {key: getattr(tokenizer, f"{role}_id") for key, role in encoder.names.special_ids.items()}
    if labels:
        table["id2label"] = {str(number): label for number, label in enumerate(labels)}
        table["label2id"] = {label: number for number, label in enumerate(labels)}
    if problem_type is not None:
        table["problem_type"] = problem_type
    if activation is not None:
        table |= activation_to_json(activation)
    (directory / CONFIG_FILE).write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", "utf-8")
    if weights:
        # a pooler that is part of heads is written only with a head that reads it
        writes_pooler = encoder.names.has_pooler or getattr(model, "reads_pooler", False)
        saved = {
            name: weight
            for name, weight in named_weights(model).items()
            if writes_pooler or not name.startswith("bert.pooler.")
        }
        external = encoder.names.mapping.to_external(saved)
        save_weights(encoder.names.to_class(external, class_name), directory / WEIGHTS_FILE)
    max_length = max_length or config.max_position_embeddings
    dataclasses.replace(tokenizer, model_max_length=max_length).save(directory)


def save_weights(weights: dict[str, Tensor], file: Path) -> None:
    """Write tensors by name."""
    try:
        save_file(weights, file, metadata={"format": "pt"})
        file.chmod(file.parent.stat().st_mode & 0o666)  # since 0.8 safetensors makes it private
    except SafetensorError as error:  # which replaces an OSError
        if number := re.search(r"\(os error (\d+)\)", str(error)):
            with file_io.disk_errors(file):
                raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
        raise RunError(f"cannot write: {error}", where=file) from error


@overload
def load_model(
    directory: Path, head: None = None, *, verify: bool = True, weights: Weights | None = None
) -> Encoder: ...
@overload
def load_model(
    directory: Path, head: Head[Model], *, verify: bool = True, weights: Weights | None = None
) -> Model: ...
def load_model(
    directory: Path, head: Head[Model] | None = None, *, verify: bool = True, weights: Weights | None = None
) -> Model | Encoder:
    """Load a model of cloze or transformers, in float32, in evaluation mode.

    Args:
        head: constructor of the model from an encoder; the file must have its weights. With None, or a head without
            weights, heads in the file are ignored.
        weights: those of the files, if they are already in memory; those of the encoder lose their values.

    Raises:
        MissingWeightsError: the file lacks weights of the model.
    """
    directory = Path(directory)
    if verify:
        verify_checkpoint(directory)
    config = load_config(directory)
    _check_vocabulary(directory, config)
    with torch.device("meta"):  # shapes only: the file has the values
        encoder = build_encoder(config)
        model = encoder if head is None else head(encoder)
    where = directory / (WEIGHTS_FILE if (directory / WEIGHTS_FILE).exists() else WEIGHTS_INDEX_FILE)
    weights = load_weights(directory, encoder.names) if weights is None else weights
    _, unexpected = assign_weights(model, weights, encoder.names.mapping, where=where)
    has_head = any(not name.startswith("bert.") for name in named_weights(model))
    for key in unexpected:
        # the encoder, and one head of pre-training, can be loaded without the other heads
        is_of_encoder = key.startswith(encoder.names.prefix)
        if is_of_encoder or (has_head and not encoder.names.is_pretraining_head(key)):
            what = f"unexpected weight {key}: a {type(model if has_head else encoder).__name__} of this config has none"
            raise InputError(what, where=where)
    return model


def assign_weights(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    mapping: WeightMapping,
    *,
    where: Path,
    new_pooler: bool = False,
) -> tuple[list[str], list[str]]:
    """Load weights into a model on the device meta, in float32 and evaluation mode; return missing and unexpected keys.

    A pooler that the head does not use may be missing, since transformers does not write it, or any with `new_pooler`;
    it gets random weights, with a warning if the model is an encoder, to which a head that uses it may be added. The
    weights of the encoder lose their values in a dictionary.
    """
    shapes = {name: weight.shape for name, weight in named_weights(model).items()}
    expected = mapping.external_shapes(shapes)
    # another mapping reads each weight when it is looked up
    external = weights if isinstance(weights, dict) else {n: weights[n] for n in expected if n in weights}
    pooler = {name: mapping.external_names(name)[0] for name in shapes if name.startswith("bert.pooler.")}
    missing = {name: file_name for name, file_name in pooler.items() if file_name not in weights}
    # a file with one of the pooler's weights is damaged
    lacks_pooler = isinstance(model, Encoder) and len(missing) == len(pooler)
    if not (new_pooler or lacks_pooler or not getattr(model, "reads_pooler", True)):
        missing = {}
    try:
        assigned = mapping.from_external(
            external, {name: shape for name, shape in shapes.items() if name not in missing}
        )
    except InputError as error:
        what, remedy = (
            error.what,
            error.remedy or "Configuration, head and weights belong to different models",
        )
        if isinstance(error, MissingWeightsError) and (others := sorted(set(weights) - set(expected))):
            more = f" and {len(others) - 3} more" if len(others) > 3 else ""
            what += f", but has {', '.join(name[:_MAX_NAME] for name in others[:3])}{more}"
        raise type(error)(what, where=where, remedy=remedy) from error
    if missing:
        encoder = get_encoder(model)
        if lacks_pooler and not new_pooler and encoder.names.has_pooler:
            warnings.warn(f"{where}: no pooler: it starts with random weights", stacklevel=2)
        new = copy.deepcopy(encoder.pooler).to_empty(device="cpu")
        generator = torch.Generator().manual_seed(_POOLER_SEED)
        initialize_weights(new, encoder.config.initializer_range, generator)
        assigned |= {name: new.get_parameter(name.removeprefix("bert.pooler.")).detach() for name in missing}
    prefix = "bert." if isinstance(model, Encoder) else ""
    model.load_state_dict(
        {name.removeprefix(prefix): weight for name, weight in assigned.items()}, assign=True
    )
    model.eval()
    return sorted(missing.values()), sorted(set(weights) - set(expected))


def verify_checkpoint(directory: Path) -> None:
    """Verify the files of a model, without the training state, against the manifest if there is one."""
    if (directory / MANIFEST).exists():
        artifacts.verify(directory, kind=KIND, only=lambda name: not name.startswith(f"{TRAINING_FOLDER}/"))
        verify_shared_weights(directory)


def verify_shared_weights(directory: Path) -> None:
    """Verify the files that a bundled model shares with another one, against the other's manifest."""
    for file in weight_files(directory):
        if file.parent != directory:
            artifacts.verify(file.parent.resolve(), kind=KIND, only={file.name}.__contains__)


def _check_vocabulary(directory: Path, config: EncoderConfig) -> None:
    """Refuse more tokens than embeddings; fewer are fine, since some programs round the number of embeddings up."""
    file = directory / VOCAB_FILE
    if not file.exists():
        return
    vocabulary = file_io.read_file(file, max_bytes=MAX_VOCABULARY_BYTES)
    num_tokens = vocabulary.rstrip().count(b"\n") + 1
    if num_tokens > config.vocab_size:
        what = f"{num_tokens:,} tokens, {CONFIG_FILE} says vocab_size = {config.vocab_size:,}"
        raise InputError(what, where=file, remedy="The files belong to different models")


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights by their names in the mappings, where those of an encoder have the prefix `bert.`."""
    prefix = "bert." if isinstance(model, Encoder) else ""
    return {f"{prefix}{name}": weight for name, weight in model.state_dict().items()}
