"""Load models that other programs wrote, with the head that their weights belong to, and convert them."""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from cloze.choices import GeluForm
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import (
    CARD_FILE,
    CONFIG_FILE,
    GOOGLE_CONFIG_FILE,
    MODULES_FILE,
    SENTENCE_LENGTH_FILE,
    SENTENCE_SETTINGS_FILE,
    TASK_FILE,
    TORCH_WEIGHTS_FILE,
    VOCAB_FILE,
    WEIGHTS_FILE,
)
from cloze.hub import name_of_snapshot
from cloze.model_paths import resolve_checkpoint
from cloze.models.bert import GOOGLE
from cloze.models.checkpoint import Head, assign_weights, save_model, verify_checkpoint
from cloze.models.config_file import load_config, load_labels
from cloze.models.encoder import build_encoder, get_encoder, get_encoder_class
from cloze.models.heads import (
    BertForMaskedLM,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    ModelWithOutputLayer,
)
from cloze.models.sentence_transformers import (
    Activation,
    is_cross_encoder,
    load_activation,
    load_max_seq_length,
    load_sentence_encoder_config,
    save_sentence_encoder_config,
)
from cloze.models.tensor_bundle import read_bundle
from cloze.models.weight_files import has_weights, load_weights_or_pickle, read_weight_headers
from cloze.models.weight_mapping import WeightMapping
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer

OPTIMIZER_SUFFIXES = ("/adam_m", "/adam_v")
"""The ends of the names of the two slots that Google's optimizer keeps for each weight."""

_TENSORFLOW_SUFFIX = re.compile(r"\.(index|meta|data-\d{5}-of-\d{5})$")
_MAX_LABELS = 100_000


@dataclass(frozen=True)
class ExternalModel:
    """A model with its tokenizer, and how it differs from the files."""

    model: nn.Module
    """In float32, in evaluation mode."""
    tokenizer: Tokenizer
    labels: tuple[str, ...] = ()
    """Of a classifier."""
    problem_type: str | None = None
    """The name in transformers for the meaning of a classifier's logits."""
    activation: Activation | None = None
    """The function that sentence-transformers applies to a classifier's logits, where the files name one."""
    unexpected_keys: tuple[str, ...] = ()
    """Tensors that are not weights of this model: optimizer slots, counters, parts of another head."""
    missing_keys: tuple[str, ...] = ()
    """Weights of a pooler that the files lack; they are random."""

    def save(self, directory: Path, *, weights: bool = True) -> None:
        save_model(
            directory,
            self.model,
            self.tokenizer,
            labels=self.labels,
            problem_type=self.problem_type,
            activation=self.activation,
            max_length=self.tokenizer.model_max_length,
            weights=weights,
        )


def load_external_model(source: Path, *, gelu: GeluForm = "gelu_tanh") -> ExternalModel:
    """Load a model of transformers, google-research/bert or cloze; one with a manifest is verified.

    Args:
        source: its directory; or the prefix of a TensorFlow checkpoint, as in uncased_L-12_H-768_A-12/bert_model.ckpt.
        gelu: the form that "gelu" in bert_config.json means. Google's program computed the erf form until February
            2019 and the tanh form since; transformers reads the published models as erf.
    """
    source = Path(source)
    if source.is_file() and not _TENSORFLOW_SUFFIX.search(source.name):
        name = WEIGHTS_FILE if source.suffix == ".safetensors" else TORCH_WEIGHTS_FILE
        remedy = f"Give a directory with this file as {name}, {CONFIG_FILE} and {VOCAB_FILE}"
        raise InputError("is a file, not the directory of a model", where=source, remedy=remedy)
    if is_google := is_google_checkpoint(source):
        source = _find_prefix(source)
    else:
        verify_checkpoint(source)
    directory = source.parent if is_google else source
    file = directory / CONFIG_FILE
    if is_google or (not file.is_file() and (directory / GOOGLE_CONFIG_FILE).is_file()):
        file = directory / GOOGLE_CONFIG_FILE
    config, table = load_config(directory, file.name), read_json(file)
    if is_google and config.hidden_act == "gelu":
        config = replace(config, hidden_act=gelu)
    tokenizer = load_tokenizer(directory)
    if tokenizer.vocab_size > config.vocab_size:
        what = f"{tokenizer.vocab_size:,} tokens, the configuration says vocab_size = {config.vocab_size:,}"
        raise InputError(what, where=directory, remedy="The files belong to different models")
    weights: Mapping[str, Tensor]
    weights = (
        read_bundle(source) if is_google else load_weights_or_pickle(source, get_encoder_class(config).names)
    )
    with torch.device("meta"):  # shapes only: the file has the values
        encoder = build_encoder(config)
        mapping = GOOGLE if is_google else encoder.names.mapping
        head, num_labels = _find_head(weights, mapping, source, table.get("architectures"))
        model = head(encoder)
    missing, unexpected = assign_weights(model, weights, mapping, where=source, new_pooler=not is_google)
    labels = load_labels(directory) if num_labels and file.name == CONFIG_FILE else ()
    if len(labels) != num_labels:
        if file.name == CONFIG_FILE and table.get("id2label"):
            what = f"id2label has {len(labels)} labels, the classifier {num_labels} outputs"
            raise InputError(what, where=file, remedy="The files belong to different models")
        labels = tuple(f"{'' if is_google else 'LABEL_'}{number}" for number in range(num_labels))
    positions = config.max_position_embeddings
    return ExternalModel(
        model,
        replace(tokenizer, model_max_length=min(load_max_seq_length(directory) or positions, positions)),
        labels,
        problem_type=table.get("problem_type") if labels else None,
        activation=load_activation(directory, table) if labels else None,
        unexpected_keys=tuple(unexpected),
        missing_keys=tuple(missing),
    )


def is_google_checkpoint(source: Path) -> bool:
    """Whether a model is a TensorFlow checkpoint: its prefix, or a directory without weights for PyTorch."""
    has_google_config = not source.is_dir() or (source / GOOGLE_CONFIG_FILE).is_file()
    return has_google_config and not ((source / CONFIG_FILE).is_file() or has_weights(source))


def find_model_class(directory: Path) -> type[nn.Module]:
    """Return the class of the model whose weights a directory has: an encoder, or one with a head."""
    with torch.device("meta"):
        encoder = build_encoder(load_config(directory))
        weights, _ = read_weight_headers(directory, encoder.names)
        architectures = read_json(directory / CONFIG_FILE).get("architectures")
        head, _ = _find_head(weights, encoder.names.mapping, directory, architectures)
        return type(head(encoder))


def _find_head(
    weights: Mapping[str, Tensor], mapping: WeightMapping, where: Path, architectures: object = None
) -> tuple[Head[nn.Module], int]:
    """Return the head to which the weights belong, and the number of labels of a classifier or 0."""
    for pretraining_head in (BertForPreTraining, BertForMaskedLM, BertForNextSentencePrediction):
        if all(mapping.external_names(name)[0] in weights for name in pretraining_head.marks):
            return pretraining_head, 0
    # some families have one name for the output layers of all heads
    name = str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    suffixes = {head.__name__.removeprefix("Bert"): head for head in ModelWithOutputLayer.__subclasses__()}
    heads = [head for suffix, head in suffixes.items() if name.endswith(suffix)]
    heads += [BertForSequenceClassification, BertForQuestionAnswering]
    for head in heads:
        (layer,) = mapping.external_names(f"{head.layer_name}.weight")
        if layer not in weights:
            continue
        if not head.has_labels:
            return head, 0
        num_labels = (*weights[layer].shape, 0)[0]
        if not 0 < num_labels <= _MAX_LABELS:
            raise InputError(f"a classifier of {num_labels:,} labels", where=where)
        return partial(head, num_labels=num_labels), num_labels
    return lambda encoder: encoder, 0


def _find_prefix(source: Path) -> Path:
    """Return a prefix, given it, a file or a directory with one checkpoint."""
    prefix = _TENSORFLOW_SUFFIX.sub("", str(source))
    indexes = sorted(source.glob("*.index")) if source.is_dir() else [Path(f"{prefix}.index")]
    if len(indexes) != 1 or not indexes[0].exists():
        what = "no such file or directory, and no TensorFlow checkpoint"
        if source.is_dir():
            names = ", ".join(index.stem for index in indexes)
            what = f"several checkpoints: {names}" if names else "no checkpoint here: no file ends in .index"
        remedy = "Give the directory of a model, or a prefix, as in uncased_L-12_H-768_A-12/bert_model.ckpt"
        raise InputError(what, where=source, remedy=remedy)
    return indexes[0].with_suffix("")


def find_source(source: Path | str) -> Path:
    """Return the directory of a model, or the prefix of a TensorFlow checkpoint."""
    # the prefix of a TensorFlow checkpoint is not the name of a file
    if not Path(f"{source}.index").is_file():
        source = resolve_checkpoint(source, files="pickle")
    source = Path(source)
    if source.is_dir() and not any((source / name).exists() for name in (CONFIG_FILE, GOOGLE_CONFIG_FILE)):
        what = f"no model here: neither {CONFIG_FILE} nor {GOOGLE_CONFIG_FILE}"
        raise InputError(what, where=source, remedy="Give the directory of a model")
    return source


def write_imported(external: ExternalModel, source: Path, directory: Path) -> None:
    """Write a model as a checkpoint, with its settings of sentence-transformers.

    The task of a model that cloze fine-tuned is copied if all its weights are imported.
    """
    sentence_encoder = load_sentence_encoder_config(source)
    external.save(directory)
    card, origin = directory / CARD_FILE, name_of_snapshot(source)
    if (source / CARD_FILE).is_file():  # which has the license
        shutil.copyfile(source / CARD_FILE, card)
    if origin is not None:
        with card.open("a", encoding="utf-8") as stream:
            stream.write(f"\nImported by cloze from `{origin}`.\n")
    if (source / TASK_FILE).is_file() and not external.unexpected_keys:
        shutil.copyfile(source / TASK_FILE, directory / TASK_FILE)
    if is_cross_encoder(source):
        for name in (SENTENCE_SETTINGS_FILE, MODULES_FILE, SENTENCE_LENGTH_FILE):
            if (source / name).is_file():
                shutil.copyfile(source / name, directory / name)
    if sentence_encoder is not None:
        config = get_encoder(external.model).config
        if sentence_encoder.max_seq_length is not None:  # transformers writes 10**30 for no limit
            length = min(sentence_encoder.max_seq_length, config.max_position_embeddings)
            sentence_encoder = replace(sentence_encoder, max_seq_length=length)
        save_sentence_encoder_config(directory, sentence_encoder, hidden_size=config.hidden_size)
