"""What sentence-transformers writes beside a model: how its token vectors become a vector of the text.

modules.json                      which modules follow each other: Transformer, Pooling, Normalize
1_Pooling/config.json             which pooling, and whether over the prompt too
sentence_bert_config.json         how many tokens are read; version 6 leaves that to tokenizer_config.json
config_sentence_transformers.json what is said before a text, by name
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cloze import artifacts
from cloze.errors import InputError
from cloze.model.checkpoint import read_json
from cloze.model.pooling import Pooling
from cloze.text.tokenizer import TOKENIZER_CONFIG_FILE, Tokenizer

MODULES_FILE = "modules.json"

_LENGTH_FILE = "sentence_bert_config.json"
_PROMPTS_FILE = "config_sentence_transformers.json"
_POOLING_FOLDER = "1_Pooling"
# until version 5 each pooling had a flag, since then there is one name
_FLAGS: MappingProxyType[Pooling, str] = MappingProxyType(
    {
        "cls": "pooling_mode_cls_token",
        "mean": "pooling_mode_mean_tokens",
        "max": "pooling_mode_max_tokens",
        "mean_sqrt_len": "pooling_mode_mean_sqrt_len_tokens",
    }
)
_NAMES: MappingProxyType[Pooling, str] = MappingProxyType(
    {"cls": "cls", "mean": "mean", "max": "max", "mean_sqrt_len": "mean_sqrt_len_tokens"}
)
_KNOWN_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, kw_only=True, slots=True)
class VectorSettings:
    """How a model's token vectors become the vector of a text."""

    pooling: Pooling
    normalize: bool
    """Whether vectors are brought to length 1."""
    max_seq_length: int | None
    """Tokens that are read; None is as many as the model has positions."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What is said before a text, by name, as in {"query": "query: "}."""
    default_prompt_name: str | None = None
    """The prompt of texts for which none is named; None is no prompt."""
    include_prompt: bool = True
    """Whether the tokens of the prompt are pooled, too."""

    def prompt(self, name: str | None = None, *, where: Path) -> str:
        """Return what is put before each text: the prompt of that name, else the default one's, which may be none.

        Args:
            name: of a prompt; None is the default.
            where: the directory that has them, for what is said of an error.

        Raises:
            InputError: there is no such prompt, or its tokens are to be left out of the pooling.
        """
        name = self.default_prompt_name if name is None else name
        if name is None:
            return ""
        if name not in self.prompts:
            known = ", ".join(map(repr, self.prompts)) or "none"
            raise InputError(f"no prompt {name!r}", where=where, remedy=f"The directory has {known}")
        if self.prompts[name] and not self.include_prompt:
            what = "pools without the tokens of the prompt (include_prompt is false), which cloze cannot"
            raise InputError(what, where=where)
        return self.prompts[name]


def write_sentence_transformer(directory: Path, settings: VectorSettings, *, hidden_size: int) -> None:
    """Write, beside the files of a model, what makes `SentenceTransformer(directory)` read it.

    The files are those of sentence-transformers 2 to 5, which version 6 reads, too.
    """
    modules = [("", "Transformer"), (_POOLING_FOLDER, "Pooling")]
    if settings.normalize:
        modules.append(("2_Normalize", "Normalize"))
    table = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(modules)
    ]
    flags = {flag: pooling == settings.pooling for pooling, flag in _FLAGS.items()}
    (directory / _POOLING_FOLDER).mkdir()
    _write_json(directory / MODULES_FILE, table)
    pooling = {"word_embedding_dimension": hidden_size, **flags, "include_prompt": settings.include_prompt}
    _write_json(directory / _POOLING_FOLDER / "config.json", pooling)
    length = {"max_seq_length": settings.max_seq_length, "do_lower_case": False}
    _write_json(directory / _LENGTH_FILE, length)
    if settings.prompts:
        said = {"prompts": dict(settings.prompts), "default_prompt_name": settings.default_prompt_name}
        _write_json(directory / _PROMPTS_FILE, said)


def read_sentence_transformer(directory: Path) -> VectorSettings | None:
    """Read how sentence-transformers makes vectors of a model; None where it says nothing of it.

    Raises:
        InputError: a file is damaged, or asks for a module, a pooling or a lower-casing that cloze has not.
    """
    file = Path(directory) / MODULES_FILE
    if not file.is_file():
        return None
    modules = read_json(file, list)
    try:
        kinds = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    except (KeyError, TypeError):
        raise InputError("not a list of modules with type and path", where=file) from None
    unknown = [kind for kind in kinds if kind not in _KNOWN_MODULES]
    if unknown or "Pooling" not in kinds:
        what = f"a module {unknown[0]!r}" if unknown else "no module Pooling"
        raise InputError(f"{what}: cloze reads {', '.join(_KNOWN_MODULES)}", where=file)
    pooling_file = artifacts.file_in(Path(directory), kinds["Pooling"], where=file) / "config.json"
    _check_case(Path(directory))
    prompts, default_prompt_name = _read_prompts(Path(directory) / _PROMPTS_FILE)
    return VectorSettings(
        pooling=_read_pooling(pooling_file),
        normalize="Normalize" in kinds,
        max_seq_length=_read_length(Path(directory)),
        prompts=prompts,
        default_prompt_name=default_prompt_name,
        include_prompt=read_json(pooling_file).get("include_prompt", True) is True,
    )


def _read_pooling(file: Path) -> Pooling:
    table = read_json(file)
    named = table.get("pooling_mode")
    if named is None:
        known = {flag: pooling for pooling, flag in _FLAGS.items()}
        modes = [key for key, value in table.items() if key.startswith("pooling_mode_") and value is True]
    else:
        known = {name: pooling for pooling, name in _NAMES.items()}
        modes = [str(mode) for mode in named] if isinstance(named, list) else [str(named)]
    if len(modes) != 1 or modes[0] not in known:
        what = f"pooling by {' and '.join(modes) or 'nothing'}"
        raise InputError(f"{what}: cloze has one of {', '.join(known)}", where=file)
    return known[modes[0]]


def _check_case(directory: Path) -> None:
    """Refuse what lower-cases a text before a tokenizer that keeps its case."""
    file = directory / _LENGTH_FILE
    asked = file.is_file() and read_json(file).get("do_lower_case")
    if asked and not Tokenizer.load(directory).lowercase:
        what = (
            "lower-cases texts before a tokenizer that keeps their case (do_lower_case), which cloze does not"
        )
        raise InputError(what, where=file, remedy="Set do_lower_case to false, and give it lower-cased texts")


def _read_length(directory: Path) -> int | None:
    for name, key in ((_LENGTH_FILE, "max_seq_length"), (TOKENIZER_CONFIG_FILE, "model_max_length")):
        file = directory / name
        length = read_json(file).get(key) if file.is_file() else None
        if length is not None:
            if not isinstance(length, int) or length < 1:
                raise InputError(f"{key} {length!r} is not a positive number", where=file)
            return length
    return None


def _read_prompts(file: Path) -> tuple[dict[str, str], str | None]:
    """Return the prompts by name, and the name of that which is meant where none is named."""
    table = read_json(file) if file.is_file() else {}
    prompts, default = table.get("prompts") or {}, table.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise InputError("prompts is not a table of texts", where=file)
    if default is not None and default not in prompts:
        raise InputError(f"default_prompt_name {default!r} is none of its prompts", where=file)
    return prompts, default


def _write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
