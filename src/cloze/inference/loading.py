"""From a directory to a model that answers."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, overload

from torch import nn

from cloze.model.bert import BertModel
from cloze.model.checkpoint import load_model
from cloze.text.tokenizer import Tokenizer
from cloze.training.checkpoints import resolve_checkpoint
from cloze.training.precision import resolve_device

Model = TypeVar("Model", bound=nn.Module)


@overload
def load(
    directory: Path | str, head: None = None, *, device: str = "auto"
) -> tuple[BertModel, Tokenizer]: ...
@overload
def load(
    directory: Path | str, head: Callable[[BertModel], Model], *, device: str = "auto"
) -> tuple[Model, Tokenizer]: ...
def load(
    directory: Path | str, head: Callable[[BertModel], Model] | None = None, *, device: str = "auto"
) -> tuple[Model | BertModel, Tokenizer]:
    """Read a model and its tokenizer from a checkpoint, or from the newest checkpoint of a run.

    Args:
        directory: ours or Hugging Face's.
        head: builds the head on an encoder, as `BertForPreTraining` does; None reads the encoder alone.
        device: cpu, cuda, mps or auto.

    Raises:
        InputError: the directory holds no such model, or a damaged one.
    """
    checkpoint = resolve_checkpoint(Path(directory))
    model = load_model(checkpoint) if head is None else load_model(checkpoint, head)
    return model.to(resolve_device(device)), Tokenizer.load(checkpoint)
