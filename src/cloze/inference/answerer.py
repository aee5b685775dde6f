"""Open models, and the base of the classes that answer with one."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Self

from cloze import artifacts
from cloze.choices import InferencePrecision
from cloze.errors import InputError
from cloze.file_names import CARD_FILE
from cloze.hub import name_of_snapshot
from cloze.inference.model import Model
from cloze.model_paths import is_graph, resolve_checkpoint
from cloze.models.engine import Engine, Output
from cloze.options import Device, ModelPrecision
from cloze.signatures import checks_arguments
from cloze.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:  # a graph answers without torch
    from torch import nn

    from cloze.models.encoder import Encoder

_UNITS = ((10**9, "B"), (10**6, "M"), (10**3, "k"), (1, ""))


def open_model(
    model: Path | str | Model, *, device: str = "auto", precision: InferencePrecision | None = None
) -> Model:
    """Open a checkpoint, the best one of a run, or an exported graph; return an open model as it is.

    >>> import cloze
    >>> from cloze.inference.answerer import open_model
    >>> cloze.FillMask(open_model("cloze-mini"))("She closed the [MASK].")[0][0].token
    'door'

    Args:
        model: a directory, a bundled model, or hf://org/name.
        device: cpu, cuda, mps or auto.
        precision: number format of matrix products; None is float32 on a CPU, bfloat16 on a GPU, and for a graph its
            own format. For int8 a checkpoint is traced as a graph, once.
    """
    if isinstance(model, Model):
        return model
    path = resolve_checkpoint(model, graphs=True)
    if is_graph(path):
        from cloze.inference.graph_model import GraphModel

        return GraphModel(path, device, precision)
    from cloze.inference.torch_model import Int8Model, TorchModel

    return Int8Model(path, device) if precision == "int8" else TorchModel(path, device, precision)


@dataclass(frozen=True, repr=False)
class Answerer:
    """Base of the classes that answer with an output of a model."""

    model: Model

    if TYPE_CHECKING:

        @property
        def output(self) -> Output:
            """The output of the model that answers."""

    def __post_init__(self) -> None:
        _ = self.engine  # a model that lacks the output is refused here

    @classmethod
    @checks_arguments()
    def load(
        cls, model: Path | str | Model, *, device: Device = "auto", precision: ModelPrecision = None
    ) -> Self:
        """Load a model and its tokenizer.

        Args:
            model: a checkpoint, a run (its best checkpoint), "cloze-mini", or hf://org/name.
        """
        return cls(open_model(model, device=device, precision=precision))

    @cached_property
    def engine(self) -> Engine:
        return self.model.engine(self.output)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    @property
    def directory(self) -> Path:
        """The directory of the model."""
        return self.model.directory

    @property
    def module(self) -> "nn.Module":
        """The model as a module of PyTorch, with its head; an InputError for an ensemble or an exported graph."""
        return self.model.module(self.output)

    @property
    def encoder(self) -> "Encoder":
        """The encoder below the head, a module for tensors."""
        return self.model.encoder

    @property
    def max_positions(self) -> int:
        """The number of tokens that the model takes."""
        return self.model.config.max_position_embeddings

    def __repr__(self) -> str:
        count = self.engine.num_parameters
        size, unit = next(pair for pair in _UNITS if count >= pair[0])
        facts = [*self._facts(), f"{count / size:.1f}{unit} parameters" if unit else f"{count} parameters"]
        return f"{type(self).__name__}({', '.join([repr(_model_name(self.directory)), *facts])})"

    @checks_arguments()
    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write the model as a checkpoint, with the model card of its source.

        Args:
            path: the directory to write.
            overwrite: replace a directory that cloze wrote.
        """
        _ = self.module  # first: without torch a graph is refused as one
        from cloze.models.checkpoint import KIND

        if (number_format := self.engine.number_format) != "float32":
            what, remedy = (
                f"the weights are rounded to {number_format}",
                "Load it with the `precision` float32",
            )
            raise InputError(what, where="save", remedy=remedy)
        path = Path(path)
        artifacts.check_output_path(path, overwrite=overwrite, inputs=[self.directory])
        with artifacts.write_directory(path, kind=KIND, overwrite=overwrite) as directory:
            self._write(directory)
            if (card := self.directory / CARD_FILE).is_file():
                copyfile(card, directory / CARD_FILE)

    def _facts(self) -> list[str]:
        return []

    def _write(self, directory: Path) -> None:
        from cloze.models.checkpoint import save_model

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


@checks_arguments()
def load_encoder(
    model: Path | str, *, device: str = "auto", precision: InferencePrecision | None = None
) -> "Encoder":
    """Return the encoder of a model, a `torch.nn.Module`; `cloze.load_tokenizer` reads its tokenizer.

    Args, raises: as for the classes that answer; an exported graph is no such model.
    """
    return open_model(resolve_checkpoint(model), device=device, precision=precision or "float32").encoder


def check_length(
    input_ids: Sequence[int], limit: int, *, where: str = "text", remedy: str = "Give a shorter text"
) -> None:
    """Refuse a text with more tokens than the model takes."""
    if len(input_ids) > limit:
        raise InputError(f"{len(input_ids):,} tokens, the model takes {limit}", where=where, remedy=remedy)
