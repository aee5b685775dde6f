"""Load a model and its tokenizer from a checkpoint or an exported graph; the base of the classes that answer."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Self, get_args

from cloze import artifacts
from cloze.arguments import check_choice, check_path
from cloze.choices import InferencePrecision
from cloze.errors import InputError
from cloze.hub import name_of_snapshot
from cloze.inference.exported_graph import ExportedGraph
from cloze.inference.model_files import ModelFiles
from cloze.model_paths import is_graph, resolve_checkpoint
from cloze.models.engine import Engine
from cloze.models.onnx_engine import OnnxEngine
from cloze.suggestions import suggests_keywords
from cloze.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:  # a graph answers without torch
    from torch import nn

    from cloze.models.encoder import Encoder

_UNITS = ((10**9, "B"), (10**6, "M"), (10**3, "k"))


def open_model(model: Path | str | ModelFiles, *, precision: InferencePrecision | None = None) -> ModelFiles:
    """Return the files of a model that answers: its checkpoint, the best one of a run, or a graph."""
    check_choice(precision, (*get_args(InferencePrecision), None), "precision")
    if isinstance(model, ModelFiles):
        return model
    path = resolve_checkpoint(check_path(model, "model"), graphs=True)
    if is_graph(path):
        return ExportedGraph.open(path, precision)
    from cloze.inference.checkpoint import Checkpoint  # imports torch

    return Checkpoint.open(path, precision=precision)


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

    @property
    def has_module(self) -> bool:
        """Whether one module of PyTorch computes: not of an ensemble or an exported graph."""
        return hasattr(self.engine, "module")

    @property
    def module(self) -> "nn.Module":
        """The model as a module of PyTorch.

        Raises:
            InputError: it is several models, or an exported graph.
        """
        if isinstance(self.engine, OnnxEngine):
            what = "an exported graph has no weights, gradients or hidden layers"
            remedy = "Give the model that it was exported from"
            raise InputError(what, where=self.directory, remedy=remedy)
        module: nn.Module | None = getattr(self.engine, "module", None)
        if module is None:
            raise InputError("an ensemble is several models", remedy="Take each of them")
        return module

    @property
    def encoder(self) -> "Encoder":
        """The encoder below the head, a module for tensors."""
        module = self.module  # first: without torch a graph is refused as one
        from cloze.models.encoder import get_encoder

        return get_encoder(module)

    @property
    def max_positions(self) -> int:
        """The number of tokens that the model takes."""
        return self.engine.config.max_position_embeddings

    def __repr__(self) -> str:
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
        module = self.module
        from cloze.models.checkpoint import KIND
        from cloze.models.encoder import find_encoder
        from cloze.models.quantization import is_quantized

        if is_quantized(module):
            remedy = "Write one with cloze export --to int8"
            raise InputError("an int8 model cannot be saved", where="save", remedy=remedy)
        if getattr(find_encoder(module), "autocast_dtype", None) is not None:
            what, remedy = "the weights are rounded to bfloat16", "Load it with the `precision` float32"
            raise InputError(what, where="save", remedy=remedy)
        path = check_path(path, "path")
        artifacts.check_output_path(path, overwrite=overwrite, inputs=[self.directory])
        with artifacts.write_directory(path, kind=KIND, overwrite=overwrite) as directory:
            self._write(directory)
            if self.directory is not None and (self.directory / artifacts.CARD_FILE).is_file():
                copyfile(self.directory / artifacts.CARD_FILE, directory / artifacts.CARD_FILE)

    def _facts(self) -> list[str]:
        return []

    def _write(self, directory: Path) -> None:
        from cloze.models.checkpoint import save_model

        save_model(directory, self.module, self.tokenizer)


@dataclass(frozen=True, repr=False)
class PretrainedModel(LoadedModel, ABC):
    """A model with a head of pre-training."""

    @classmethod
    @suggests_keywords()
    def load(
        cls,
        model: Path | str | ModelFiles,
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
        files = open_model(model, precision=precision)
        return cls(cls._load_engine(files, device=device), files.tokenizer, directory=files.directory)

    @classmethod
    @abstractmethod
    def _load_engine(cls, files: ModelFiles, *, device: str) -> Engine:
        """Return the engine with the head of the class, if the files can have it."""


def _model_name(checkpoint: Path) -> str:
    """Return the name of a checkpoint's directory, or of the run that it is in."""
    if (hub_name := name_of_snapshot(checkpoint)) is not None:
        return hub_name.repo
    path = checkpoint.resolve()
    for folder in ("checkpoints", "trials"):
        if path.parent.name == folder:
            path = path.parents[1]
    return path.name


@suggests_keywords()
def load_encoder(
    model: Path | str, *, device: str = "auto", precision: InferencePrecision | None = None
) -> "Encoder":
    """Return the encoder of a model, a `torch.nn.Module`; `cloze.load_tokenizer` reads its tokenizer.

    Args, raises: as for the classes that answer; an exported graph is no such model.
    """
    from cloze.inference.checkpoint import Checkpoint

    return Checkpoint.open(model, precision=precision).load_model(lambda encoder: encoder, device=device)


def check_length(
    input_ids: Sequence[int], limit: int, *, where: str = "text", remedy: str = "Give a shorter text"
) -> None:
    """Refuse a text with more tokens than the model takes."""
    if len(input_ids) > limit:
        raise InputError(f"{len(input_ids):,} tokens, the model takes {limit}", where=where, remedy=remedy)
