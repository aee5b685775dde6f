"""Tokenizer classes of transformers: most read the vocabulary of `tokenizer.json` alone and build its other parts.

Source: transformers 5, `AutoTokenizer.from_pretrained` and the classes that `_BUILDERS` names.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import normalizers, pre_tokenizers, processors

from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from cloze.tokenization.library_limits import tables
from cloze.tokenization.special_tokens import CONTINUATION

MAX_INPUT_CHARS_PER_WORD = 100
"""Longer words become [UNK]. Differs: 200 in Google's code; BERT's published tokenizer.json files all have 100."""
GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend", "PythonBackend")
"""They read all of `tokenizer.json`."""
GENERIC_REMEDY = f"If {TOKENIZER_FILE} is right, write PreTrainedTokenizerFast as tokenizer_class"
BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
_UNIGRAM_UNK_ID = 3
_OF_MODELS = {
    "bert": "BertTokenizer",
    "distilbert": "BertTokenizer",
    "mpnet": "MPNetTokenizer",
    "roberta": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
    "modernbert": "TokenizersBackend",
}
"""The class of a model whose files name none."""
_MODELS_WITH_OTHER_CLASSES = ("modernbert",)
"""Models for which transformers ignores the class that their files name."""


def read_class(directory: Path, config: Mapping[str, Any]) -> str | None:
    """Return the class that transformers chooses for a directory, without "Fast", or None; refuse an unknown one."""
    model = _read_model(directory)
    of_model = _OF_MODELS.get(str(model.get("model_type")))
    where = directory / TOKENIZER_CONFIG_FILE
    name = config.get("tokenizer_class")
    if name is None and model.get("tokenizer_class") is not None:
        name, where = model["tokenizer_class"], directory / CONFIG_FILE
    if name is None or model.get("model_type") in _MODELS_WITH_OTHER_CLASSES:
        return of_model
    name = str(name).removesuffix("Fast")
    if name not in (*GENERIC_CLASSES, *_BUILDERS):
        what = f"tokenizer_class is {name}, which cloze does not know"
        remedy = f"If {TOKENIZER_FILE} describes the whole tokenizer, write PreTrainedTokenizerFast"
        raise InputError(what, where=where, remedy=remedy)
    return name


def feeds_segments(directory: Path, tokenizer_class: str | None, config: Mapping[str, Any]) -> bool:
    """Return whether a model gets the segments of its tokenizer; else every token has segment 0.

    DistilBERT, which has no segments, keeps them for a teacher.
    """
    if _read_model(directory).get("model_type") == "distilbert":
        return True
    names = config.get("model_input_names")
    if names is None:
        return tokenizer_class in (None, "BertTokenizer", "ElectraTokenizer")
    if not isinstance(names, list):
        where = directory / TOKENIZER_CONFIG_FILE
        raise InputError(f"model_input_names is {names!r}, not a list", where=where)
    return "token_type_ids" in names


def _read_model(directory: Path) -> dict[str, Any]:
    file = directory / CONFIG_FILE
    return read_json(file) if file.is_file() else {}


@dataclass(frozen=True, slots=True)
class _Parts:
    """A tokenizer that reads all of `tokenizer.json`, and what a class needs to build its parts."""

    backend: tokenizers.Tokenizer
    library: dict[str, Any]
    config: Mapping[str, Any]
    sep: tuple[str, int]
    """[SEP] with its id."""
    cls: tuple[str, int]

    def build_wordpiece(self) -> None:
        self.backend.model.max_input_chars_per_word = MAX_INPUT_CHARS_PER_WORD
        self.backend.model.continuing_subword_prefix = CONTINUATION
        self.backend.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=bool(self.config.get("tokenize_chinese_chars", True)),
            strip_accents=self.config.get("strip_accents"),
            lowercase=bool(self.config.get("do_lower_case", True)),
        )
        self.backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def build_bert(self) -> None:
        self.build_wordpiece()
        self.backend.post_processor = processors.BertProcessing(self.sep, self.cls)

    def build_mpnet(self) -> None:
        self.build_wordpiece()
        self.backend.post_processor = processors.RobertaProcessing(self.sep, self.cls, add_prefix_space=False)

    def build_roberta(self) -> None:
        for name in ("fuse_unk", "byte_fallback", "ignore_merges"):
            setattr(self.backend.model, name, False)
        self.backend.model.unk_token = None
        self.backend.normalizer = None
        prefix = bool(self.config.get("add_prefix_space", False))
        self.backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        self.backend.post_processor = processors.RobertaProcessing(
            self.sep, self.cls, add_prefix_space=prefix
        )

    def build_xlm_roberta(self) -> None:
        steps = tables(self.library.get("normalizer"))
        maps = [step["precompiled_charsmap"] for step in steps if step.get("type") == "Precompiled"]
        self.backend.normalizer = normalizers.Precompiled(base64.b64decode(maps[0])) if maps else None
        scheme = "always" if self.config.get("add_prefix_space", True) else "never"
        self.backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme=scheme)]
        )
        self.backend.post_processor = processors.RobertaProcessing(self.sep, self.cls, trim_offsets=False)


_BUILDERS: Mapping[str, tuple[str, Callable[[_Parts], None]]] = {
    **dict.fromkeys(BERT_CLASSES, ("WordPiece", _Parts.build_bert)),
    "MPNetTokenizer": ("WordPiece", _Parts.build_mpnet),
    "RobertaTokenizer": ("BPE", _Parts.build_roberta),
    "XLMRobertaTokenizer": ("Unigram", _Parts.build_xlm_roberta),
}
"""The model of each class, and the method that builds its other parts."""


def build_parts(
    backend: tokenizers.Tokenizer,
    library: dict[str, Any],
    tokenizer_class: str,
    config: Mapping[str, Any],
    *,
    sep: tuple[str, int],
    cls: tuple[str, int],
    where: Path,
) -> None:
    """Replace the parts of a tokenizer by the parts that its class builds; `read_class` must return no generic one."""
    kind, build = _BUILDERS[tokenizer_class]
    if type(backend.model).__name__ != kind:
        what = f"the model is {type(backend.model).__name__}, where {tokenizer_class} has {kind}"
        raise InputError(what, where=where, remedy=f"Correct tokenizer_class in {TOKENIZER_CONFIG_FILE}")
    if kind == "Unigram" and (unk_id := library["model"].get("unk_id")) != _UNIGRAM_UNK_ID:
        what = f"unk_id is {unk_id}, where {tokenizer_class} has {_UNIGRAM_UNK_ID}"
        raise InputError(what, where=where, remedy=GENERIC_REMEDY)
    build(_Parts(backend, library, config, sep, cls))
