"""Checkpoint directories as transformers reads and writes them: configuration, weights, tokenizer.

Those that cloze wrote have a manifest and are checked against it first; those of others are read as they are.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cloze import artifacts
from cloze.config import from_table
from cloze.errors import InputError, RunError
from cloze.model.bert import BertConfig, BertModel
from cloze.model.layouts import HUGGING_FACE, modern_hugging_face_names
from cloze.model.registry import encoder_for, find_config_class, name_of
from cloze.text.tokenizer import Tokenizer
from cloze.text.vocabulary import MOST_BYTES

KIND = "checkpoint"
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
WEIGHTS_INDEX_FILE = "model.safetensors.index.json"
TORCH_WEIGHTS_FILE = "pytorch_model.bin"
TASK_FILE = "task.toml"
"""What a model was fine-tuned for, and with what settings of the task."""
TRAINING_FOLDER = "training"
"""What a run goes on with; no model is read from it."""

_OUR_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
}
_THEIR_ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_new"}
_REQUIRED_KEYS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
_MOST = dict.fromkeys((*_REQUIRED_KEYS, "type_vocab_size"), 10_000_000) | {"num_hidden_layers": 1000}
"""No BERT is larger; from a damaged file one would be built before its weights are found to be missing."""
_MOST_PARAMETERS = 4_000_000_000
_MOST_JSON_BYTES = 1 << 24

_CLASSIFIERS = (["BertForSequenceClassification"], ["BertForTokenClassification"])

_ONE_WAY = "one-way-bert"
"""Called so in config.json, an encoder that looks one way is refused by other programs, which would let it look both
ways. (transformers' `is_decoder` looks left, but pools [CLS], which sees nothing.)"""

Model = TypeVar("Model", bound=nn.Module)
Json = TypeVar("Json", dict[str, Any], list[Any])


def write_model_files(
    directory: Path,
    model: nn.Module,
    tokenizer: Tokenizer,
    *,
    labels: Sequence[str] = (),
    problem_type: str | None = None,
) -> None:
    """Write what transformers needs to read a model into a directory that is being written.

    Args:
        directory: the one that `artifacts.write_directory(..., kind=KIND)` yields.
        model: a `BertModel` or one of the heads on it; its class name, or the `architecture` it says,
            goes into config.json.
        tokenizer: is written with the model's number of positions as its limit.
        labels: the names of a classifier's classes, in order.
        problem_type: how transformers calls what its logits are, as in "multi_label_classification".

    Raises:
        RunError: the disk is full or cannot be written.
        ValueError: the tokenizer has more pieces than the model has embeddings.
    """
    config = _encoder_of(model).config
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(f"{tokenizer.vocab_size} pieces, the model has {config.vocab_size} embeddings")
    write_config(directory, model, tokenizer, labels=labels, problem_type=problem_type)
    write_weights(HUGGING_FACE.to_foreign(_our_weights(model)), directory / WEIGHTS_FILE)
    dataclasses.replace(tokenizer, model_max_length=config.max_position_embeddings).save(directory)


def write_config(
    directory: Path,
    model: nn.Module,
    tokenizer: Tokenizer,
    *,
    labels: Sequence[str] = (),
    problem_type: str | None = None,
) -> None:
    """Write config.json alone; else as `write_model_files`."""
    table = _config_to_json(_encoder_of(model).config) | {
        "architectures": [getattr(model, "architecture", type(model).__name__)],
        "dtype": str(next(model.parameters()).dtype).removeprefix("torch."),
        "pad_token_id": tokenizer.pad_id,
    }
    if labels:
        table["id2label"] = {str(number): label for number, label in enumerate(labels)}
        table["label2id"] = {label: number for number, label in enumerate(labels)}
    if problem_type is not None:
        table["problem_type"] = problem_type
    (directory / CONFIG_FILE).write_text(json.dumps(table, indent=2, ensure_ascii=False) + "\n", "utf-8")


def write_weights(weights: dict[str, Tensor], file: Path) -> None:
    """Write tensors by name.

    Raises:
        RunError: the disk is full or cannot be written.
    """
    try:
        save_file(weights, file, metadata={"format": "pt"})
        file.chmod(file.parent.stat().st_mode & 0o666)  # from 0.8 safetensors lets nobody else read it
    except SafetensorError as error:  # what it makes of an OSError
        raise RunError(f"cannot write: {error}", where=file) from error


@overload
def load_model(directory: Path, head: None = None, *, verify: bool = True) -> BertModel: ...
@overload
def load_model(directory: Path, head: Callable[[BertModel], Model], *, verify: bool = True) -> Model: ...
def load_model(
    directory: Path, head: Callable[[BertModel], Model] | None = None, *, verify: bool = True
) -> Model | BertModel:
    """Read a model, ours or Hugging Face's, in float32, in evaluation mode.

    Args:
        directory: with config.json and model.safetensors, or the files that model.safetensors.index.json names.
        head: builds the head on an encoder (`BertForPreTraining`, or a `partial` that knows the number of
            labels); its weights must be there. None, or a head without weights, reads the encoder and leaves the
            heads of the file out.
        verify: as `verify_model` does.

    Raises:
        InputError: a file is missing or damaged; weights are missing, unexpected, not finite or of another shape
            than the config says; there are more word pieces than embeddings.
    """
    directory = Path(directory)
    if verify:
        verify_model(directory)
    config = load_config(directory)
    _check_vocabulary(directory, config)
    with torch.device("meta"):  # shapes only: the file brings the values
        encoder = new_encoder(config)
        model = encoder if head is None else head(encoder)
    foreign = read_weights(directory)
    shapes = {name: weight.shape for name, weight in _our_weights(model).items()}
    if not getattr(model, "reads_pooled_output", True):
        foreign = _pooler_of_zeros(shapes) | foreign
    try:
        weights = HUGGING_FACE.from_foreign(foreign, shapes)
    except InputError as error:
        raise type(error)(error.what, where=directory / WEIGHTS_FILE) from error
    known = {their for name in shapes for their in HUGGING_FACE.foreign_names(name)}
    has_head = any(not name.startswith("bert.") for name in shapes)
    for name in foreign:
        may_stay = not has_head or name.startswith("cls.")  # each head of pre-training can be read alone
        if name not in known and (name.startswith("bert.") or not may_stay):
            what = f"unexpected weight {name}: a {type(model).__name__} of this config has none"
            raise InputError(what, where=directory / WEIGHTS_FILE)
        if name in known and not foreign[name].float().isfinite().all():
            what, remedy = f"the weight {name} holds NaN or infinite values", "Use an earlier checkpoint"
            raise InputError(what, where=directory / WEIGHTS_FILE, remedy=remedy)
    prefix = "bert." if head is None else ""
    model.load_state_dict(
        {name.removeprefix(prefix): weight.float() for name, weight in weights.items()}, assign=True
    )
    return model.eval()


def verify_model(directory: Path) -> None:
    """Check the files of a model against the manifest, where there is one: all but what only training goes on with.

    Raises:
        InputError: a file is not as it was written, or the manifest is not that of a checkpoint.
    """
    if not (directory / artifacts.MANIFEST).exists():
        return
    listed = artifacts.read_manifest(directory, kind=KIND).files
    names = {name for name in listed if not name.startswith(f"{TRAINING_FOLDER}/")}
    artifacts.verify(directory, kind=KIND, names=names)


def new_encoder(config: BertConfig) -> BertModel:
    """Return the encoder that a configuration is of, with weights that a file is to replace."""
    encoder = encoder_for(config)(config)
    assert isinstance(encoder, BertModel)
    return encoder


def load_config(directory: Path, file_name: str = CONFIG_FILE) -> BertConfig:
    """Read the architecture from config.json, or from Google's file of the same keys.

    Raises:
        InputError: no such file, not JSON, not a BERT, or values that no BERT can have.
    """
    table = read_json(Path(directory) / file_name)
    where = str(Path(directory) / file_name)
    model_type = table.get("model_type", "bert")
    config_class = find_config_class("bert" if model_type == _ONE_WAY else str(model_type))
    if config_class is None:
        raise InputError(f"model_type {model_type!r}, cloze reads 'bert'", where=where)
    if table.get("is_decoder"):
        what = "is_decoder: a model that looks to the left alone, whose weights were learned so"
        raise InputError(what, where=where, remedy="cloze reads encoders")
    if table.get("position_embedding_type", "absolute") != "absolute":
        raise InputError("position_embedding_type must be 'absolute'", where=where)
    if missing := [key for key in _REQUIRED_KEYS if key not in table]:
        raise InputError(f"{missing[0]} is missing", where=where)
    fields = {field.name for field in dataclasses.fields(config_class)}
    own = {key: value for key, value in table.items() if key in fields}
    if "hidden_act" in own:
        own["hidden_act"] = _OUR_ACTIVATIONS.get(str(own["hidden_act"]), own["hidden_act"])
    config: BertConfig = from_table(config_class, own, where=where)
    for key, most in _MOST.items():
        if getattr(config, key) > most:
            raise InputError(f"{key} = {getattr(config, key)} is more than {most:,}", where=where)
    if (parameters := _count_parameters(config)) > _MOST_PARAMETERS:
        what = f"a model of {parameters:,} parameters, the largest that is read has {_MOST_PARAMETERS:,}"
        raise InputError(what, where=where)
    return config


def _count_parameters(config: BertConfig) -> int:
    """Return the weights of the matrices and tables: the rest is next to nothing."""
    rows = config.vocab_size + config.max_position_embeddings + config.type_vocab_size
    layer = 4 * config.hidden_size**2 + 2 * config.hidden_size * config.intermediate_size
    return config.hidden_size * (rows + config.hidden_size) + config.num_hidden_layers * layer


def load_labels(directory: Path) -> tuple[str, ...]:
    """Read the names of a classifier's classes from config.json, in order; none where it names none."""
    table = read_json(Path(directory) / CONFIG_FILE)
    labels = table.get("id2label")
    if labels is None:
        # transformers leaves out what it calls two classes that nobody named
        is_classifier = table.get("architectures") in _CLASSIFIERS
        return ("LABEL_0", "LABEL_1") if is_classifier else ()
    numbers = [str(number) for number in range(len(labels))] if isinstance(labels, dict) else ["0"]
    if not isinstance(labels, dict) or set(labels) != set(numbers):
        what = "id2label is not a table of the numbers from 0 to labels"
        raise InputError(what, where=Path(directory) / CONFIG_FILE)
    return tuple(str(labels[number]) for number in numbers)


def _pooler_of_zeros(shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Return what transformers leaves out of models whose head does not read it."""
    pooler = {name: shape for name, shape in shapes.items() if name.startswith("bert.pooler.")}
    # one zero, shown many times: memory is taken when the sizes are known to be right
    return {
        name: torch.zeros(()).expand(shape) for name, shape in HUGGING_FACE.foreign_shapes(pooler).items()
    }


def _config_to_json(config: BertConfig) -> dict[str, Any]:
    table = dataclasses.asdict(config)
    table["hidden_act"] = _THEIR_ACTIVATIONS[config.hidden_act]
    if config.attends_to == "all":
        del table["attends_to"]
        return {"model_type": name_of(config), **table}
    model_type = name_of(config)
    return {"model_type": _ONE_WAY if model_type == "bert" else model_type, **table}


@overload
def read_json(file: Path) -> dict[str, Any]: ...
@overload
def read_json(file: Path, kind: type[Json]) -> Json: ...
def read_json(file: Path, kind: type[Any] = dict) -> Any:
    """Read a JSON file of a checkpoint.

    Args:
        file: there must be one.
        kind: dict or list, what it must hold.

    Raises:
        InputError: no such file, not JSON, or something else.
    """
    try:
        value = json.loads(artifacts.read_file(file, most_bytes=_MOST_JSON_BYTES).decode())
    except FileNotFoundError:
        remedy = "Give the directory of a checkpoint"
        raise InputError("no such file", where=file, remedy=remedy) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON file: {error}", where=file) from error
    if not isinstance(value, kind):
        raise InputError(f"not a JSON {'object' if kind is dict else 'list'}", where=file)
    return value


def read_weights(directory: Path) -> dict[str, Tensor]:
    """Read all weights by today's Hugging Face names, from one file or from several with an index.

    Raises:
        InputError: a file is missing or damaged.
    """
    files, named = weight_files(directory)
    weights: dict[str, Tensor] = {}
    for file in files:
        weights |= _read_weights_file(file)
    if missing := sorted(named - set(weights)):
        where = directory / WEIGHTS_INDEX_FILE
        raise InputError(f"the weight {missing[0]} is in none of its files", where=where)
    return modern_hugging_face_names(weights)


def read_weight_headers(directory: Path) -> tuple[dict[str, Tensor], set[str]]:
    """Read what weights there are, from the headers alone: shapes on the meta device by today's names, and formats.

    Raises:
        InputError: a file is missing or damaged.
    """
    shapes: dict[str, Tensor] = {}
    formats: set[str] = set()
    for file in weight_files(directory)[0]:
        try:
            with safe_open(file, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118 (no mapping)
                    part = weights.get_slice(name)
                    shapes[name] = torch.empty(part.get_shape(), device="meta")
                    formats.add(part.get_dtype())
        except FileNotFoundError:
            raise InputError("no such file", where=file) from None
        except (SafetensorError, OSError) as error:
            remedy = "The file is damaged: copy or write it anew"
            raise InputError(f"cannot be read: {error}", where=file, remedy=remedy) from error
    return modern_hugging_face_names(shapes), formats


def weight_files(directory: Path) -> tuple[list[Path], set[str]]:
    """Return the files that hold a model's weights, and the names of weights that an index promises.

    Raises:
        InputError: the index is none.
    """
    index = directory / WEIGHTS_INDEX_FILE
    if (directory / WEIGHTS_FILE).exists() or not index.exists():
        return [directory / WEIGHTS_FILE], set()
    named = read_json(index).get("weight_map")
    if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
        raise InputError("weight_map is not a table of file names", where=index)
    files = sorted(set(named.values()))
    for name in files:
        if Path(name).name != name or Path(name).suffix != ".safetensors":
            raise InputError(f"names the file {name!r}, which is no .safetensors beside it", where=index)
    return [directory / name for name in files], set(named)


def _read_weights_file(file: Path) -> dict[str, Tensor]:
    if file.exists() and not file.is_file():
        raise InputError("is no file", where=file)
    try:
        return load_file(file)
    except FileNotFoundError:
        remedy = None
        if file.with_name(TORCH_WEIGHTS_FILE).exists():
            remedy = f"cloze import {file.parent} -o DIR makes one of {TORCH_WEIGHTS_FILE}"
        raise InputError("no such file", where=file, remedy=remedy) from None
    except (SafetensorError, OSError) as error:
        remedy = "The file is damaged: copy or write it anew"
        raise InputError(f"cannot be read: {error}", where=file, remedy=remedy) from error


def _check_vocabulary(directory: Path, config: BertConfig) -> None:
    """Refuse more pieces than embeddings; fewer are fine, since some round the number of embeddings up."""
    file = directory / "vocab.txt"
    if not file.exists():
        return
    vocabulary = artifacts.read_file(file, most_bytes=MOST_BYTES)
    num_pieces = vocabulary.count(b"\n") + (not vocabulary.endswith(b"\n"))
    if num_pieces > config.vocab_size:
        what = f"{num_pieces:,} pieces, {CONFIG_FILE} says vocab_size = {config.vocab_size:,}"
        raise InputError(what, where=file, remedy="The files belong to different models")


def _our_weights(model: nn.Module) -> Mapping[str, Tensor]:
    """Return the weights by the names of the layout tables, where an encoder is always called `bert`."""
    prefix = "bert." if isinstance(model, BertModel) else ""
    return {f"{prefix}{name}": weight for name, weight in model.state_dict().items()}


def _encoder_of(model: nn.Module) -> BertModel:
    encoder = model if isinstance(model, BertModel) else getattr(model, "bert", None)
    assert isinstance(encoder, BertModel), f"{type(model).__name__} has no BERT in it"
    return encoder
