"""Load and save the files of sentence-transformers, which define the vector of a text.

modules.json                      the modules in order: Transformer, Pooling, Normalize
1_Pooling/config.json             the pooling, and whether the prompt is pooled
sentence_bert_config.json         the maximum length in tokens; in version 6 it is in tokenizer_config.json
config_sentence_transformers.json the prompts by name; since version 6 the activation of a cross-encoder
config.json                       the activation in versions 4 and 5, and under another key before

A cross-encoder is a classifier of pairs; its one module is the Transformer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cloze import file_io
from cloze.choices import Pooling
from cloze.errors import InputError
from cloze.file_io import check_values, read_json
from cloze.file_names import (
    CONFIG_FILE,
    MODULES_FILE,
    SENTENCE_LENGTH_FILE,
    SENTENCE_SETTINGS_FILE,
    TOKENIZER_CONFIG_FILE,
)
from cloze.models.pooling import POOLINGS
from cloze.tokenization.loading import load_tokenizer

_POOLING_FOLDER = "1_Pooling"
_MODEL_TYPE, _CROSS_ENCODER = "SentenceTransformer", "CrossEncoder"
_MODULES = ("Transformer", "Pooling", "Normalize")
_REQUIRED_VALUES: Mapping[str, Any] = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}
"""Entries of sentence_bert_config.json that have one value for an encoder whose token vectors are pooled."""
_LOADING = (
    "model_kwargs",
    "processor_kwargs",
    "config_kwargs",
    "model_args",
    "tokenizer_args",
    "config_args",
)
_UNSET: Mapping[str, Any] = dict.fromkeys(
    (
        "processing_kwargs",
        "query_length",
        "document_length",
        "query_expansion",
        "tokenizer_name_or_path",
        *_LOADING,
    )
)
"""Its entries that change the tokens or the model, and that cloze does not have."""
_WITHOUT_EFFECT = {"trust_remote_code", "add_pooling_layer"}
"""Arguments of `_LOADING` that change no vector."""
Activation: TypeAlias = Literal["identity", "sigmoid"]
"""The function from a logit to a score."""

_ACTIVATIONS: dict[str, Activation] = {"Identity": "identity", "Sigmoid": "sigmoid"}
_CLASS_OF_ACTIVATION: dict[Activation, str] = {
    "identity": "torch.nn.modules.linear.Identity",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
}
_CONFIG_KEY = "sentence_transformers"
_OLD_CONFIG_KEY = "sbert_ce_default_activation_function"


@dataclass(frozen=True, kw_only=True, slots=True)
class SentenceEncoderConfig:
    """The way from the vectors of tokens to the vector of a text."""

    pooling: Pooling = "mean"
    normalize: bool = False
    """Whether vectors are scaled to length 1."""
    max_seq_length: int | None = None
    """In tokens; None is the number of positions of the model."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Texts to put before a text, by name, as in {"query": "query: "}."""
    default_prompt_name: str | None = None
    """The prompt to use without a name; None adds none."""
    include_prompt: bool = True
    """Whether the tokens of the prompt are pooled, too."""
    truncate_dim: int | None = None
    """Number of dimensions kept of each vector, after it is normalized; None keeps all."""
    other: Mapping[str, Any] = field(default_factory=dict)
    """Entries of config_sentence_transformers.json that change no vector, such as similarity_fn_name."""

    def prompt(self, name: str | None = None, *, where: Path | str) -> str:
        """Return a prompt, or an empty text if none is the default; refuse one whose tokens must not be pooled."""
        name = self.default_prompt_name if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(map(repr, self.prompts)) or "none"
            raise InputError(f"no prompt {name!r}", where=where, remedy=f"The directory has {known}")
        if self.prompts[name] and not self.include_prompt:
            what = "include_prompt is false: cloze cannot pool without the tokens of the prompt"
            raise InputError(what, where=where)
        return self.prompts[name]


def save_sentence_encoder_config(
    directory: Path, settings: SentenceEncoderConfig, *, hidden_size: int
) -> None:
    """Write the files with which `SentenceTransformer(directory)` loads a model.

    The files are those of sentence-transformers 2 to 5; version 6 reads them, too.
    """
    modules = [("", "Transformer"), (_POOLING_FOLDER, "Pooling")]
    if settings.normalize:
        modules.append(("2_Normalize", "Normalize"))
    module_table = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(modules)
    ]
    flags = {entry.flag: pooling == settings.pooling for pooling, entry in POOLINGS.items()}
    (directory / _POOLING_FOLDER).mkdir()
    _write_json(directory / MODULES_FILE, module_table)
    pooling = {"word_embedding_dimension": hidden_size, **flags, "include_prompt": settings.include_prompt}
    _write_json(directory / _POOLING_FOLDER / CONFIG_FILE, pooling)
    length = {"max_seq_length": settings.max_seq_length, "do_lower_case": False}
    _write_json(directory / SENTENCE_LENGTH_FILE, length)
    table = dict(settings.other)
    if settings.prompts:
        table |= {"prompts": dict(settings.prompts), "default_prompt_name": settings.default_prompt_name}
    if settings.truncate_dim is not None:
        table["truncate_dim"] = settings.truncate_dim
    if table:
        _write_json(directory / SENTENCE_SETTINGS_FILE, table)


def load_sentence_encoder_config(directory: Path) -> SentenceEncoderConfig | None:
    """Load the settings of sentence-transformers; return None if there are none, or for a cross-encoder."""
    directory = Path(directory)
    file = directory / MODULES_FILE
    if not file.is_file() or is_cross_encoder(directory):
        return None
    modules = read_json(file, list)
    try:
        paths = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
        has_kwargs = any(module.get("kwargs") for module in modules)
    except (AttributeError, KeyError, TypeError):
        raise InputError("not a list of modules with type and path", where=file) from None
    is_known = tuple(paths) in (_MODULES, _MODULES[:2]) and len(paths) == len(modules)
    if not is_known or has_kwargs or paths["Transformer"]:
        what = f"the modules {', '.join(paths)}{' with kwargs' * has_kwargs}"
        reads = "cloze reads Transformer with the path '', Pooling and, if there is one, Normalize, without kwargs"
        raise InputError(f"{what}: {reads}", where=file)
    pooling_file = file_io.safe_join(directory, paths["Pooling"], where=file) / CONFIG_FILE
    pooling = read_json(pooling_file)
    length_file, length = _read_length_file(directory)
    if length.get("do_lower_case") and not load_tokenizer(directory).lowercase:
        what = "do_lower_case is true, but the tokenizer is cased"
        raise InputError(
            what, where=length_file, remedy="Set do_lower_case to false, and give lower-cased texts"
        )
    check_values(length, _REQUIRED_VALUES, where=length_file)
    if "Normalize" in paths:
        normalize_file = file_io.safe_join(directory, paths["Normalize"], where=file) / CONFIG_FILE
        names = dict.fromkeys(("module_input_name", "module_output_name"), "sentence_embedding")
        check_values(_read_if_exists(normalize_file), names, where=normalize_file)
    return SentenceEncoderConfig(
        pooling=_find_pooling(pooling, pooling_file),
        normalize="Normalize" in paths,
        max_seq_length=load_max_seq_length(directory),
        include_prompt=pooling.get("include_prompt", True) is True,
        **_read_settings(directory / SENTENCE_SETTINGS_FILE),
    )


def _read_length_file(directory: Path) -> tuple[Path, dict[str, Any]]:
    """Read sentence_bert_config.json, or the file of another family that old versions wrote in its place."""
    others = sorted(directory.glob("sentence_*_config.json"))
    file = next((file for file in (directory / SENTENCE_LENGTH_FILE, *others) if file.is_file()), None)
    table = {} if file is None else read_json(file)
    file = file or directory / SENTENCE_LENGTH_FILE
    loading = {
        key: {name: value for name, value in table[key].items() if name not in _WITHOUT_EFFECT}
        for key in _LOADING
        if isinstance(table.get(key), dict)
    }
    check_values({**table, **loading}, _UNSET, where=file)
    return file, table


def _find_pooling(table: Mapping[str, Any], file: Path) -> Pooling:
    mode = table.get("pooling_mode")
    if mode is None:
        known = {entry.flag: pooling for pooling, entry in POOLINGS.items()}
        modes = [key for key, value in table.items() if key.startswith("pooling_mode_") and value is True]
    else:
        known = {entry.name: pooling for pooling, entry in POOLINGS.items()}
        modes = list(map(str, mode)) if isinstance(mode, list) else [str(mode)]
    if len(modes) != 1 or modes[0] not in known:
        what = f"pooling by {' and '.join(modes) or 'nothing'}"
        raise InputError(f"{what}: cloze has one of {', '.join(known)}", where=file)
    return known[modes[0]]


def load_max_seq_length(directory: Path) -> int | None:
    """Load the maximum number of tokens of a text from the files of sentence-transformers or transformers, or None."""
    file = directory / TOKENIZER_CONFIG_FILE
    tables = (
        (*_read_length_file(directory), "max_seq_length"),
        (file, _read_if_exists(file), "model_max_length"),
    )
    for file, table, key in tables:
        length = table.get(key)
        if length is not None:
            if not isinstance(length, int) or length < 1:
                raise InputError(f"{key} {length!r} is not a positive number", where=file)
            return length
    return None


def _read_settings(file: Path) -> dict[str, Any]:
    table = _read_if_exists(file)
    prompts, default = table.pop("prompts", None) or {}, table.pop("default_prompt_name", None)
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise InputError("prompts is not a table of texts", where=file)
    if default is not None and default not in prompts:
        raise InputError(f"default_prompt_name {default!r} is not one of the prompts", where=file)
    truncate_dim = table.pop("truncate_dim", None)
    if truncate_dim is not None and (type(truncate_dim) is not int or truncate_dim < 1):
        raise InputError(f"truncate_dim {truncate_dim!r} is not a positive number", where=file)
    check_values(table, {"model_type": _MODEL_TYPE}, where=file)
    return {
        "prompts": prompts,
        "default_prompt_name": default,
        "truncate_dim": truncate_dim,
        "other": {key: value for key, value in table.items() if key != "__version__"},
    }


def activation_to_json(activation: Activation) -> dict[str, Any]:
    """Return the entry of config.json from which sentence-transformers 4 to 6 read an activation."""
    return {_CONFIG_KEY: {"activation_fn": _CLASS_OF_ACTIVATION[activation]}}


def is_cross_encoder(directory: Path) -> bool:
    """Return whether sentence-transformers 6 or later saved a cross-encoder."""
    return _read_if_exists(directory / SENTENCE_SETTINGS_FILE).get("model_type") == _CROSS_ENCODER


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
    """
    settings = _read_if_exists(directory / SENTENCE_SETTINGS_FILE) if is_cross_encoder(directory) else {}
    if settings:
        file = directory / MODULES_FILE
        for module in read_json(file, list) if file.is_file() else []:
            kind = str(module.get("type") if isinstance(module, dict) else module).rpartition(".")[2]
            if kind != "Transformer":  # as one that scores by a token's logit
                what = f"a module {kind!r}: cloze reads cross-encoders of a Transformer alone"
                raise InputError(what, where=file)
        default = settings.get("default_prompt_name")
        if default is not None and (settings.get("prompts") or {}).get(default):
            what = f"default_prompt_name {default!r}: cloze has no prompts for cross-encoders"
            remedy = "Set it to null, and put the prompt before your texts"
            raise InputError(what, where=directory / SENTENCE_SETTINGS_FILE, remedy=remedy)
    in_config = config.get(_CONFIG_KEY)
    name = settings.get("activation_fn") or (isinstance(in_config, dict) and in_config.get("activation_fn"))
    if not (name := name or config.get(_OLD_CONFIG_KEY)):
        return None
    module, _, kind = str(name).rpartition(".")
    if not module.startswith("torch.nn") or kind not in _ACTIVATIONS:
        where = directory / (SENTENCE_SETTINGS_FILE if "activation_fn" in settings else CONFIG_FILE)
        what = f"activation_fn {name!r}: cloze has {' and '.join(_CLASS_OF_ACTIVATION.values())}"
        raise InputError(what, where=where)
    return _ACTIVATIONS[kind]


def _read_if_exists(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}


def _write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
