"""What google-research/bert writes: bert_config.json, vocab.txt and a TensorFlow checkpoint beside them."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from cloze import artifacts
from cloze.errors import InputError
from cloze.model.checkpoint import load_config
from cloze.model.foreign import ForeignModel, Head, assemble, encoder_alone, load_tokenizer
from cloze.model.heads import BertForPreTraining, BertForQuestionAnswering, BertForSequenceClassification
from cloze.model.layouts import GOOGLE
from cloze.model.tensor_bundle import TensorBundle, read_bundle

CONFIG_FILE = "bert_config.json"
OPTIMIZER_SUFFIXES = ("/adam_m", "/adam_v")
"""Of the names of the two slots that Google's optimizer keeps for each weight."""

Activation: TypeAlias = Literal["gelu", "gelu_tanh"]

_MOST_LABELS = 100_000
_MOST_POINTER_BYTES = 1 << 20


def load_google(source: Path, *, hidden_act: Activation = "gelu_tanh") -> ForeignModel:
    """Read a model of google-research/bert, in float32, in evaluation mode, with the head that its weights are of.

    Args:
        source: the prefix of the checkpoint, as in uncased_L-12_H-768_A-12/bert_model.ckpt, or its directory.
        hidden_act: the form of what bert_config.json calls "gelu". Google's program computed the erf form until
            February 2019 and the tanh form since; transformers reads the published models as erf.

    Raises:
        InputError: a file is missing or damaged, or the files belong to different models.
    """
    prefix = _find_prefix(Path(source))
    config = load_config(prefix.parent, CONFIG_FILE)
    if config.hidden_act == "gelu":
        config = replace(config, hidden_act=hidden_act)
    tokenizer = load_tokenizer(prefix.parent, config)
    bundle = read_bundle(prefix)
    head, labels = _head_of(bundle)
    model, left_out = assemble(config, head, GOOGLE, bundle.entries, bundle.tensor, where=prefix)
    return ForeignModel(model, tokenizer, labels, left_out=left_out)


def _find_prefix(source: Path) -> Path:
    """Return the prefix of the checkpoint in a directory; that of several which training wrote last.

    Raises:
        InputError: there is none, or nothing says which of several is meant.
    """
    if not source.is_dir():
        return Path(re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", str(source)))
    found = sorted(Path(str(index).removesuffix(".index")) for index in source.glob("*.index"))
    if not found:
        what = "no TensorFlow checkpoint here: no file ends in .index"
        raise InputError(what, where=source, remedy="Give the directory that holds bert_model.ckpt.index")
    if len(found) > 1:
        newest = _newest(source)
        if newest not in {prefix.name for prefix in found}:
            names = ", ".join(prefix.name for prefix in found)
            raise InputError(f"several checkpoints: {names}", where=source, remedy="Give the prefix of one")
        return source / newest
    return found[0]


def _newest(directory: Path) -> str | None:
    """Read from TensorFlow's file `checkpoint` which it wrote last; the name alone counts, directories may move."""
    try:
        text = artifacts.read_file(directory / "checkpoint", most_bytes=_MOST_POINTER_BYTES).decode()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    match = re.search(r'^model_checkpoint_path: "(?:[^"]*/)?([^"/]+)"', text, re.MULTILINE)
    return match and match[1]


def _head_of(bundle: TensorBundle) -> tuple[Head, tuple[str, ...]]:
    """Return the head that a checkpoint's names tell of, and the labels of a classifier: it numbers them."""
    names = set(bundle.entries)
    if {"cls/predictions/output_bias", "cls/seq_relationship/output_weights"} <= names:
        return BertForPreTraining, ()
    if "cls/squad/output_weights" in names:
        return BertForQuestionAnswering, ()
    if "output_weights" in names:
        num_labels = (*bundle.entries["output_weights"].shape, 0)[0]
        if not 0 < num_labels <= _MOST_LABELS:
            raise InputError(f"a classifier of {num_labels:,} labels", where=bundle.prefix)
        labels = tuple(str(number) for number in range(num_labels))
        return partial(BertForSequenceClassification, num_labels=num_labels), labels
    return encoder_alone, ()
