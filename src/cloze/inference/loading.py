"""From a directory to a model that answers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, overload

from torch import nn

from cloze.errors import InputError
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import load_model
from cloze.model.layouts import MissingWeightsError
from cloze.tasks.config import load_task
from cloze.text.tokenizer import Encoding, Tokenizer
from cloze.training.precision import resolve_device

Model = TypeVar("Model", bound=nn.Module)


def refuse_one_text(texts: Sequence[str], name: str = "texts") -> None:
    """Refuse one text where several are meant: it would be read letter by letter.

    Raises:
        InputError: it is one.
    """
    if isinstance(texts, str):
        raise InputError("is one text", where=name, remedy="Give a list of texts")


def encode_whole(config: BertConfig, tokenizer: Tokenizer, text: str, pair: str | None = None) -> Encoding:
    """Encode a text, or a pair, of which nothing may be cut.

    Raises:
        InputError: it has more tokens than the model takes.
    """
    encoding = tokenizer.encode(text, pair)
    if len(encoding) > config.max_position_embeddings:
        what = f"{len(encoding):,} tokens, the model takes {config.max_position_embeddings}"
        raise InputError(what, where="text", remedy="Give a shorter text")
    return encoding


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
        InputError: the directory holds no such model, one that was fine-tuned for another task, or a damaged one.
    """
    checkpoint = resolve_checkpoint(Path(directory))
    try:
        model = load_model(checkpoint) if head is None else load_model(checkpoint, head)
    except MissingWeightsError as error:
        stored = load_task(checkpoint)
        if stored is None:
            raise
        what = f"a model for the task {stored[0].name!r}: {error.what}"
        raise InputError(what, where=checkpoint, remedy="Give a pre-trained one") from error
    return model.to(resolve_device(device)), Tokenizer.load(checkpoint)
