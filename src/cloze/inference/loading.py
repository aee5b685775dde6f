"""Load a model and its tokenizer from a checkpoint, and make a batch of texts that must fit the model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from shutil import copyfile
from typing import Any, TypeVar, get_args, overload

from torch import Tensor, nn

from cloze import artifacts
from cloze.arguments import check_path
from cloze.choices import InferencePrecision
from cloze.data.batch import PackedBatch, collate
from cloze.errors import InputError
from cloze.hub import name_of_snapshot
from cloze.model_paths import resolve_checkpoint
from cloze.models.batch import to_device
from cloze.models.checkpoint import KIND, load_model, save_model, verify_checkpoint
from cloze.models.config_file import load_config
from cloze.models.encoder import Encoder, get_encoder, get_encoder_class
from cloze.models.quantization import is_quantized, stored_precision
from cloze.models.weight_files import load_weights
from cloze.models.weight_mapping import MissingWeightsError
from cloze.tasks.config import load_task
from cloze.tokenization.tokenizer import Encoding, Tokenizer
from cloze.training.precision import prepare_for_inference, resolve_device

_UNITS = ((10**9, "B"), (10**6, "M"), (10**3, "k"))

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are verified and read once for all the models that are built from it."""

    directory: Path
    precision: InferencePrecision = "float32"
    """Number format of matrix products."""

    @classmethod
    def open(
        cls, directory: "Path | str | Checkpoint", *, precision: InferencePrecision | None = None
    ) -> "Checkpoint":
        """Return the checkpoint in a directory, or the best one of a run.

        Args:
            directory: the directory, or the checkpoint itself.
            precision: number format of matrix products; None is float32, or int8 for the directory of an int8 model.

        Raises:
            InputError: no model or bundled model has that name, a run has no checkpoint, or there is no such precision.
        """
        if precision is not None and precision not in get_args(InferencePrecision):
            remedy = f"Choose from {', '.join(get_args(InferencePrecision))}"
            raise InputError(f"is {precision!r}", where="precision", remedy=remedy)
        if isinstance(directory, Checkpoint):
            return directory if precision is None else replace(directory, precision=precision)
        path = resolve_checkpoint(check_path(directory, "directory"))
        return cls(path, precision or stored_precision(path))

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """The weights by their Hugging Face names."""
        verify_checkpoint(self.directory)
        # a directory without a model is reported as such, not as missing weights
        return load_weights(self.directory, self.encoder_class.names)

    @cached_property
    def encoder_class(self) -> type[Encoder]:
        """The class of the encoder."""
        return get_encoder_class(load_config(self.directory))

    def has_weight(self, name: str) -> bool:
        """Whether the files hold a weight of a head, by its name in cloze."""
        return all(external in self.weights for external in dict(self.encoder_class.names.heads)[name])

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""
        return Tokenizer.load(self.directory)

    def load_model(self, head: Callable[[Encoder], Model], *, device: str) -> Model:
        """Return a model in evaluation mode; models on the CPU share their weights."""
        model = load_model(self.directory, head, verify=False, weights=self.weights)
        model = model.to(resolve_device(device))
        prepare_for_inference(model, self.precision)
        return model


class LoadedModel:
    """Mixin of the classes that answer with a model: a short repr, and a method that writes it."""

    __slots__ = ()
    model: nn.Module
    tokenizer: Tokenizer
    directory: Path | None
    """The checkpoint that the model was loaded from; None for one that was built in memory."""

    def __repr__(self) -> str:
        """Return class, name, main facts and the number of parameters."""
        count = sum(parameter.numel() for parameter in self.model.parameters())
        size, unit = next((pair for pair in _UNITS if count >= pair[0]), (1, ""))
        facts = [*self._facts(), f"{count / size:.1f}{unit} parameters" if unit else f"{count} parameters"]
        name = [] if self.directory is None else [repr(_model_name(self.directory))]
        return f"{type(self).__name__}({', '.join([*name, *facts])})"

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write the model as a checkpoint, with the model card of the one that it was loaded from.

        Args:
            path: the directory to write.
            overwrite: replace a directory that cloze wrote.

        Raises:
            InputError: `path` exists, or a checkpoint cannot hold such a model.
            RunError: the disk is full or cannot be written.
        """
        if is_quantized(self.model):
            remedy = "Write one with cloze export --to int8"
            raise InputError("an int8 model cannot be saved", where="save", remedy=remedy)
        path = check_path(path, "path")
        artifacts.check_output_path(path, overwrite=overwrite, inputs=[self.directory])
        with artifacts.write_directory(path, kind=KIND, overwrite=overwrite) as directory:
            self._write(directory)
            if self.directory is not None and (self.directory / artifacts.CARD_FILE).is_file():
                copyfile(self.directory / artifacts.CARD_FILE, directory / artifacts.CARD_FILE)

    def _facts(self) -> list[str]:
        return []

    def _write(self, directory: Path) -> None:
        save_model(directory, self.model, self.tokenizer)


def _model_name(checkpoint: Path) -> str:
    """Return the name of a checkpoint's directory, or of the run that it is in."""
    if (hub_name := name_of_snapshot(checkpoint)) is not None:
        return hub_name.repo
    path = checkpoint.resolve()
    for folder in ("checkpoints", "trials"):
        if path.parent.name == folder:
            path = path.parents[1]
    return path.name


@overload
def load(
    directory: Path | str,
    head: None = None,
    *,
    device: str = "auto",
    precision: InferencePrecision | None = None,
) -> tuple[Encoder, Tokenizer]: ...
@overload
def load(
    directory: Path | str | Checkpoint,
    head: Callable[[Encoder], Model],
    *,
    device: str = "auto",
    precision: InferencePrecision | None = None,
) -> tuple[Model, Tokenizer]: ...
def load(
    directory: Path | str | Checkpoint,
    head: Callable[[Encoder], Any] | None = None,
    *,
    device: str = "auto",
    precision: InferencePrecision | None = None,
) -> tuple[Any, Tokenizer]:
    """Load a model and its tokenizer from a checkpoint, or from the best checkpoint of a run.

    Args:
        directory: a checkpoint of cloze or Hugging Face, or a run.
        head: builds the head on an encoder, such as `BertForPreTraining`; None loads the encoder alone.
        device: cpu, cuda, mps or auto.
        precision: number format of matrix products: float32, bfloat16, int8 or auto; models in bfloat16 and int8 are
            for inference alone. None is float32, or int8 for the directory of an int8 model.

    Raises:
        InputError: there is no such model, it is damaged, or it was fine-tuned for another task.
    """
    checkpoint = Checkpoint.open(directory, precision=precision)
    try:
        return checkpoint.load_model(head or (lambda encoder: encoder), device=device), checkpoint.tokenizer
    except MissingWeightsError as error:
        finetuned = load_task(checkpoint.directory)
        if finetuned is None:
            raise
        what = f"a model for the task {finetuned[0].name!r}: {error.what}"
        raise InputError(what, where=checkpoint.directory, remedy="Give a pre-trained model") from error


def encode_untruncated(
    model: nn.Module, tokenizer: Tokenizer, text: str, pair: str | None = None
) -> tuple[Encoding, PackedBatch]:
    """Encode a text or a pair that must fit the model; return it and a batch of it on the model's device.

    Raises:
        InputError: the text is no str, or has more tokens than the model takes.
    """
    encoding = tokenizer.encode(text, pair)
    limit = get_encoder(model).config.max_position_embeddings
    if len(encoding) > limit:
        what = f"{len(encoding):,} tokens, the model takes {limit}"
        raise InputError(what, where="text", remedy="Give a shorter text")
    return encoding, batch_of(model, encoding)


def batch_of(model: nn.Module, *encodings: Encoding) -> PackedBatch:
    """Return a batch of encodings on the model's device."""
    batch = collate([e.input_ids for e in encodings], [e.token_type_ids for e in encodings])
    return to_device(batch, next(model.parameters()).device)
