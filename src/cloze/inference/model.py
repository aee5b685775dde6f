"""A model that answers: a checkpoint in PyTorch; an exported graph, or a checkpoint in int8, in ONNX Runtime."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Self

from cloze import artifacts
from cloze.choices import InferencePrecision
from cloze.data.batch import Indices
from cloze.errors import InputError
from cloze.file_names import CARD_FILE
from cloze.hub import name_of_snapshot
from cloze.model_paths import is_graph, refuse_graph, resolve_checkpoint
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import (
    Batches,
    BatchT,
    Engine,
    FloatArray,
    HeadOutput,
    MeanEngine,
    Output,
    VectorOutput,
    run_batches,
)
from cloze.options import Device, ModelPrecision
from cloze.signatures import checks_arguments
from cloze.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:  # a graph answers without torch
    from torch import nn

    from cloze.models.encoder import Encoder

_UNITS = ((10**9, "B"), (10**6, "M"), (10**3, "k"), (1, ""))


class Model(ABC):
    """A model that answers: one encoder, which all outputs share, and its tokenizer.

    >>> import cloze
    >>> from cloze.inference.model import Model
    >>> model = Model.open("cloze-mini")
    >>> cloze.FillMask(model)("She closed the [MASK].")[0][0].token
    'door'
    """

    has_vectors = True  # every encoder; not every graph
    is_graph = False

    def __init__(self, directory: Path, config: EncoderConfig, tokenizer: Tokenizer) -> None:
        """Refuse a tokenizer of another model."""
        if tokenizer.vocab_size > config.vocab_size:
            what = f"{tokenizer.vocab_size:,} tokens, the model has {config.vocab_size:,} embeddings"
            raise InputError(what, where=directory, remedy="The files belong to different models")
        self.directory, self.config, self.tokenizer = directory, config, tokenizer
        self._engines: dict[Output, Engine] = {}

    @staticmethod
    def open(
        model: "Path | str | Model", *, device: str = "auto", precision: InferencePrecision | None = None
    ) -> "Model":
        """Open a checkpoint, the best one of a run, or an exported graph; return an open model as it is.

        Args:
            model: a directory, a bundled model, or hf://org/name.
            device: cpu, cuda, mps or auto.
            precision: number format of matrix products; None is that of a graph, else bfloat16 on a GPU and float32 on
                a CPU. For int8 a checkpoint is traced as a graph, once.
        """
        if isinstance(model, Model):
            return model
        path = resolve_checkpoint(model, graphs=True)
        if is_graph(path):
            from cloze.inference.graph_model import GraphModel

            return GraphModel(path, device, precision)
        from cloze.inference.torch_model import Int8Model, TorchModel

        return Int8Model(path, device) if precision == "int8" else TorchModel(path, device, precision)

    @abstractmethod
    def has(self, output: HeadOutput) -> bool:
        """Return whether there is a head of pre-training."""

    @abstractmethod
    def start(self, output: Output) -> Engine:
        """Return a new engine for an output; an InputError if the model lacks it."""

    def engine(self, output: Output) -> Engine:
        """Return what computes an output, started once."""
        if output not in self._engines:
            self._engines[output] = self.start(output)
        return self._engines[output]

    def run(
        self, output: Output, batches: Batches[BatchT]
    ) -> Iterator[tuple[Indices, BatchT, Mapping[str, FloatArray]]]:
        """Yield the indices of inputs, their batch and its outputs by their names in transformers."""
        return run_batches(self.engine(output), batches)

    def module(self, output: Output) -> "nn.Module":
        """Return the module of PyTorch that computes an output; an InputError for a graph or an ensemble."""
        refuse_graph(self.directory)
        if self.is_graph:
            what = "int8 is computed by a graph, which has no weights, gradients or hidden layers"
            raise InputError(what, where="precision", remedy="Use float32 or bfloat16")
        module: nn.Module | None = getattr(self.engine(output), "module", None)
        if module is None:
            what = "an ensemble has no weights, gradients or hidden layers of its own"
            raise InputError(what, where="model", remedy="Give one of its models")
        return module

    @property
    def encoder(self) -> "Encoder":
        """The encoder, a module of PyTorch."""
        module = self.module(VectorOutput(None))  # first: without torch a graph is refused as one
        from cloze.models.encoder import get_encoder

        return get_encoder(module)


class Ensemble(Model):
    """Several models of one task, whose outputs are averaged."""

    def __init__(self, models: Sequence[Model]) -> None:
        super().__init__(models[0].directory, models[0].config, models[0].tokenizer)
        self._models = models

    def has(self, output: HeadOutput) -> bool:
        return all(model.has(output) for model in self._models)

    def start(self, output: Output) -> MeanEngine:
        return MeanEngine([model.engine(output) for model in self._models])


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
        return cls(Model.open(model, device=device, precision=precision))

    @property
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
        """Write the model as a checkpoint, with the model card of the one that it was loaded from.

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
    return Model.open(resolve_checkpoint(model), device=device, precision=precision or "float32").encoder


def check_length(
    input_ids: Sequence[int], limit: int, *, where: str = "text", remedy: str = "Give a shorter text"
) -> None:
    """Refuse a text with more tokens than the model takes."""
    if len(input_ids) > limit:
        raise InputError(f"{len(input_ids):,} tokens, the model takes {limit}", where=where, remedy=remedy)
