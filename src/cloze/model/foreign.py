"""Models as other programs left them: from tensors by their names to a model of ours."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import new_encoder
from cloze.model.layouts import Layout, check_weight
from cloze.text.tokenizer import Tokenizer

Head: TypeAlias = Callable[[BertModel], nn.Module]


@dataclass(frozen=True)
class ForeignModel:
    """A model with its tokenizer, and how it differs from what was found."""

    model: nn.Module
    """In float32, in evaluation mode, with the head that its weights are of."""
    tokenizer: Tokenizer
    labels: tuple[str, ...] = ()
    """Of a classifier."""
    problem_type: str | None = None
    """How transformers calls what a classifier's logits are."""
    left_out: tuple[str, ...] = ()
    """Tensors that are no weights of this model: optimizer slots, counters, parts of another head."""
    new: tuple[str, ...] = ()
    """Weights that were not there and are drawn at random."""


def encoder_alone(bert: BertModel) -> nn.Module:
    """Return the encoder: the head of a model that has none."""
    return bert


def assemble(
    config: BertConfig,
    head: Head,
    layout: Layout,
    names: Collection[str],
    read: Callable[[str], Tensor],
    *,
    where: Path,
) -> tuple[nn.Module, tuple[str, ...]]:
    """Build a model of tensors that are read one by one; return it and the names of those that it has no use for.

    Args:
        config: its architecture.
        head: its head.
        layout: how the tensors are named and laid out.
        names: of the tensors that there are.
        read: gives one of them.
        where: the file or directory that errors name.

    Raises:
        InputError: a tensor is missing, not finite or of another shape than the config says.
    """
    with torch.device("meta"):  # shapes only: the file brings the values
        model = head(new_encoder(config))
    of_encoder = "bert." if isinstance(model, BertModel) else ""
    shapes = {f"{of_encoder}{name}": weight.shape for name, weight in model.state_dict().items()}
    wanted = layout.foreign_shapes(shapes)
    foreign: dict[str, Tensor] = {}
    try:
        for name in sorted(set(wanted).intersection(names)):
            weight = read(name)
            check_weight(name, weight, wanted[name])
            foreign[name] = weight.float()
            if not foreign[name].isfinite().all():
                raise InputError(f"the weight {name} holds NaN or infinite values", where=where)
        weights = layout.from_foreign(foreign, shapes)
    except InputError as error:
        remedy = error.remedy or "Configuration and weights belong to different models, or this is no BERT"
        raise InputError(error.what, where=error.where or where, remedy=remedy) from error
    ours = {name.removeprefix(of_encoder): weight for name, weight in weights.items()}
    model.load_state_dict(ours, assign=True)
    return model.eval(), tuple(sorted(set(names) - set(wanted)))


def load_tokenizer(directory: Path, config: BertConfig) -> Tokenizer:
    """Read the tokenizer of a model.

    Raises:
        InputError: there is none, or it has more pieces than the model has embeddings.
    """
    tokenizer = Tokenizer.load(directory)
    if tokenizer.vocab_size > config.vocab_size:
        what = f"{tokenizer.vocab_size:,} pieces, the configuration says vocab_size = {config.vocab_size:,}"
        raise InputError(what, where=directory, remedy="The files belong to different models")
    return replace(tokenizer, model_max_length=config.max_position_embeddings)
