"""Tokenizer classes of transformers: most read the vocabulary of `tokenizer.json` alone and build its other parts.

Source: transformers 5, `AutoTokenizer.from_pretrained` and the classes that `_MODELS` names.
"""

import base64
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import normalizers, pre_tokenizers, processors

from cloze.errors import InputError
from cloze.file_names import CONFIG_FILE, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from cloze.tokenization.library_limits import tables
from cloze.tokenization.special_tokens import CONTINUATION

MAX_INPUT_CHARS_PER_WORD = 100
"""Longer words become [UNK]. Differs: 200 in Google's code; BERT's published tokenizer.json files all have 100."""
GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend", "PythonBackend")
"""They read all of `tokenizer.json`."""
GENERIC_REMEDY = f"If {TOKENIZER_FILE} is right, write PreTrainedTokenizerFast as tokenizer_class"
BERT_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer")
_MODELS: Mapping[str, str] = {
    **dict.fromkeys((*BERT_CLASSES, "MPNetTokenizer"), "WordPiece"),
    "RobertaTokenizer": "BPE",
    "XLMRobertaTokenizer": "Unigram",
}
"""The model of each class that is not generic."""
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


def read_class(directory: Path, config: Mapping[str, Any], model: Mapping[str, Any]) -> str | None:
    """Return the class that transformers chooses by both files, without "Fast", or None; refuse an unknown one."""
    of_model = _OF_MODELS.get(str(model.get("model_type")))
    where = directory / TOKENIZER_CONFIG_FILE
    name = config.get("tokenizer_class")
    if name is None and model.get("tokenizer_class") is not None:
        name, where = model["tokenizer_class"], directory / CONFIG_FILE
    if name is None or model.get("model_type") in _MODELS_WITH_OTHER_CLASSES:
        return of_model
    name = str(name).removesuffix("Fast")
    if name not in (*GENERIC_CLASSES, *_MODELS):
        what = f"tokenizer_class is {name}, which cloze does not know"
        remedy = f"If {TOKENIZER_FILE} describes the whole tokenizer, write PreTrainedTokenizerFast"
        raise InputError(what, where=where, remedy=remedy)
    return name


def feeds_segments(
    directory: Path, tokenizer_class: str | None, config: Mapping[str, Any], model: Mapping[str, Any]
) -> bool:
    """Return whether a model gets the segments of its tokenizer; else every token has segment 0."""
    if model.get("model_type") == "distilbert":  # which has no segments, but keeps them for a teacher
        return True
    names = config.get("model_input_names")
    if names is None:
        return tokenizer_class in (None, "BertTokenizer", "ElectraTokenizer")
    if not isinstance(names, list):
        where = directory / TOKENIZER_CONFIG_FILE
        raise InputError(f"model_input_names is {names!r}, not a list", where=where)
    return "token_type_ids" in names


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
    kind = _MODELS[tokenizer_class]
    if type(backend.model).__name__ != kind:
        what = f"the model is {type(backend.model).__name__}, where {tokenizer_class} has {kind}"
        raise InputError(what, where=where, remedy=f"Correct tokenizer_class in {TOKENIZER_CONFIG_FILE}")
    if kind == "Unigram" and (unk_id := library["model"].get("unk_id")) != _UNIGRAM_UNK_ID:
        what = f"unk_id is {unk_id}, where {tokenizer_class} has {_UNIGRAM_UNK_ID}"
        raise InputError(what, where=where, remedy=GENERIC_REMEDY)
    process_as_roberta = partial(processors.RobertaProcessing, sep, cls)
    if kind == "WordPiece":
        backend.model.max_input_chars_per_word = MAX_INPUT_CHARS_PER_WORD
        backend.model.continuing_subword_prefix = CONTINUATION
        backend.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=bool(config.get("tokenize_chinese_chars", True)),
            strip_accents=config.get("strip_accents"),
            lowercase=bool(config.get("do_lower_case", True)),
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.post_processor = (
            processors.BertProcessing(sep, cls)
            if tokenizer_class in BERT_CLASSES
            else process_as_roberta(add_prefix_space=False)
        )
    elif kind == "BPE":
        for name in ("fuse_unk", "byte_fallback", "ignore_merges"):
            setattr(backend.model, name, False)
        backend.model.unk_token = None
        backend.normalizer = None
        prefix = bool(config.get("add_prefix_space", False))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        backend.post_processor = process_as_roberta(add_prefix_space=prefix)
    else:
        steps = tables(library.get("normalizer"))
        maps = [step["precompiled_charsmap"] for step in steps if step.get("type") == "Precompiled"]
        backend.normalizer = normalizers.Precompiled(base64.b64decode(maps[0])) if maps else None
        scheme = "always" if config.get("add_prefix_space", True) else "never"
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme=scheme)]
        )
        backend.post_processor = process_as_roberta(trim_offsets=False)
