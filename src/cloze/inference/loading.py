"""Load a model and its tokenizer from a checkpoint, and make a batch of texts that must fit the model."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from pathlib import Path
from shutil import copyfile
from typing import Self, TypeAlias, TypeVar, get_args

from torch import Tensor, nn

from cloze import artifacts
from cloze.arguments import check_choice, check_path
from cloze.choices import InferencePrecision
from cloze.errors import InputError
from cloze.hub import name_of_snapshot
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import KIND, load_model, save_model, verify_checkpoint
from cloze.models.config_file import load_config
from cloze.models.encoder import Encoder, get_encoder, get_encoder_class
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import Engine, TorchEngine
from cloze.models.quantization import is_quantized, stored_precision
from cloze.models.weight_files import load_weights
from cloze.models.weight_mapping import MissingWeightsError
from cloze.tasks.config import load_task
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer
from cloze.training.precision import prepare_for_inference, resolve_device

_UNITS = ((10**9, "B"), (10**6, "M"), (10**3, "k"))

Model = TypeVar("Model", bound=nn.Module)
BuildHead: TypeAlias = Callable[[Encoder], nn.Module]
"""Builds the head of a model on an encoder, such as `BertForPreTraining`."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint whose files are verified and read once for all the models that are built from it."""

    directory: Path
    precision: InferencePrecision = "float32"
    """Number format of matrix products."""

    @classmethod
    def open(
        cls, model: "Path | str | Checkpoint", *, precision: InferencePrecision | None = None
    ) -> "Checkpoint":
        """Return the checkpoint of a model, or the best one of a run.

        Args:
            model: a directory, the name of a model, or the checkpoint itself.
            precision: number format of matrix products; None is float32, or int8 for the directory of an int8 model.

        Raises:
            InputError: no model or bundled model has that name, a run has no checkpoint, or there is no such precision.
        """
        check_choice(precision, (*get_args(InferencePrecision), None), "precision")
        if isinstance(model, Checkpoint):
            return model if precision is None else replace(model, precision=precision)
        path = resolve_checkpoint(check_path(model, "model"))
        return cls(path, precision or stored_precision(path))

    @cached_property
    def weights(self) -> dict[str, Tensor]:
        """The weights by their Hugging Face names."""
        return load_weights(self.directory, self.encoder_class.names)

    @cached_property
    def config(self) -> EncoderConfig:
        """The architecture of the encoder."""
        verify_checkpoint(self.directory)  # first: a directory of another kind is reported as such
        return load_config(self.directory)

    @property
    def encoder_class(self) -> type[Encoder]:
        """The class of the encoder."""
        return get_encoder_class(self.config)

    @property
    def fills_masks(self) -> bool:
        """Whether it has the masked-word head of pre-training."""
        return self.config.attends_to == "all" and self.has_weight("masked_lm.bias")

    def has_weight(self, name: str) -> bool:
        """Whether the files hold a weight of a head, by its name in cloze."""
        return all(external in self.weights for external in self.encoder_class.names.heads[name])

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""
        return load_tokenizer(self.directory)

    def load_model(self, head: Callable[[Encoder], Model], *, device: str) -> Model:
        """Return a model in evaluation mode; models on the CPU share their weights.

        Args:
            head: builds the head on an encoder, such as `BertForPreTraining`.
            device: cpu, cuda, mps or auto.

        Raises:
            InputError: it is damaged, or was fine-tuned for another task.
        """
        try:
            model = load_model(self.directory, head, verify=False, weights=self.weights)
        except MissingWeightsError as error:
            finetuned = load_task(self.directory)
            if finetuned is None:
                raise
            what = f"a model for the task {finetuned[0].name!r}: {error.what}"
            raise InputError(what, where=self.directory, remedy="Give a pre-trained model") from error
        model = model.to(resolve_device(device))
        prepare_for_inference(model, self.precision)
        return model

    def load_engine(self, head: BuildHead, *, device: str) -> TorchEngine:
        """Return the engine of the same model."""
        return TorchEngine(self.load_model(head, device=device))


@dataclass(frozen=True, repr=False)
class LoadedModel:
    """Base of the classes that answer with a model."""

    engine: Engine
    tokenizer: Tokenizer
    _: KW_ONLY
    directory: Path | None = None
    """The checkpoint that the model was loaded from; None for one that was built in memory."""

    def __post_init__(self) -> None:
        num_tokens, num_embeddings = self.tokenizer.vocab_size, self.engine.config.vocab_size
        if num_tokens > num_embeddings:
            what = f"{num_tokens:,} tokens, the model has {num_embeddings:,} embeddings"
            raise InputError(what, where=self.directory, remedy="The files belong to different models")

    @classmethod
    def load(
        cls,
        model: Path | str | Checkpoint,
        *,
        device: str = "auto",
        precision: InferencePrecision | None = None,
    ) -> Self:
        """Load a model and its tokenizer.

        Args:
            model: a checkpoint, a run (its best checkpoint), "cloze-mini", or hf://org/name.
            device: cpu, cuda, mps or auto.
            precision: number format of matrix products: float32, bfloat16, int8 or auto; None is float32, or int8 for
                the directory of an int8 model.

        Raises:
            InputError: there is no such model, it is damaged, or its head is another one.
        """
        checkpoint = Checkpoint.open(model, precision=precision)
        engine = checkpoint.load_engine(cls._find_head(checkpoint), device=device)
        return cls(engine, checkpoint.tokenizer, directory=checkpoint.directory)

    @classmethod
    def _find_head(cls, checkpoint: Checkpoint) -> BuildHead:
        """Return the head of the class, if a checkpoint can have it."""
        raise NotImplementedError

    @property
    def module(self) -> nn.Module:
        """The model as a module of PyTorch.

        Raises:
            InputError: it is several models, or not one of PyTorch.
        """
        if not isinstance(self.engine, TorchEngine):
            raise InputError("an ensemble is several models", remedy="Take each of them")
        return self.engine.module

    @property
    def encoder(self) -> Encoder:
        """The encoder below the head, a module for tensors."""
        return get_encoder(self.module)

    @property
    def max_positions(self) -> int:
        """The number of tokens that the model takes."""
        return self.engine.config.max_position_embeddings

    def __repr__(self) -> str:
        """Return class, name, main facts and the number of parameters."""
        count = self.engine.num_parameters
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
        if is_quantized(self.module):
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
        save_model(directory, self.module, self.tokenizer)


def _model_name(checkpoint: Path) -> str:
    """Return the name of a checkpoint's directory, or of the run that it is in."""
    if (hub_name := name_of_snapshot(checkpoint)) is not None:
        return hub_name.repo
    path = checkpoint.resolve()
    for folder in ("checkpoints", "trials"):
        if path.parent.name == folder:
            path = path.parents[1]
    return path.name


def load_encoder(
    model: Path | str, *, device: str = "auto", precision: InferencePrecision | None = None
) -> Encoder:
    """Return the encoder of a model, a `torch.nn.Module`; `cloze.load_tokenizer` reads its tokenizer.

    Args, raises: as for the classes that answer.
    """
    return Checkpoint.open(model, precision=precision).load_model(lambda encoder: encoder, device=device)


def check_length(
    input_ids: Sequence[int], limit: int, *, where: str = "text", remedy: str = "Give a shorter text"
) -> None:
    """Refuse a text with more tokens than the model takes.

    Raises:
        InputError: it has more than `limit`.
    """
    if len(input_ids) > limit:
        raise InputError(f"{len(input_ids):,} tokens, the model takes {limit}", where=where, remedy=remedy)
