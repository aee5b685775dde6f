"""A model that answers: a checkpoint in PyTorch; an exported graph, or a checkpoint in int8, in ONNX Runtime."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cloze.errors import InputError
from cloze.model_paths import refuse_graph
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import Engine, HeadOutput, MeanEngine, Output, VectorOutput
from cloze.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:  # a graph answers without torch
    from torch import nn

    from cloze.models.encoder import Encoder


class Model(ABC):
    """A model that answers: one encoder, which all outputs share, and its tokenizer."""

    has_vectors = True  # every encoder; not every graph
    is_graph = False

    def __init__(self, directory: Path, config: EncoderConfig, tokenizer: Tokenizer) -> None:
        """Refuse a tokenizer of another model."""
        if tokenizer.vocab_size > config.vocab_size:
            what = f"{tokenizer.vocab_size:,} tokens, the model has {config.vocab_size:,} embeddings"
            raise InputError(what, where=directory, remedy="The files belong to different models")
        self.directory, self.config, self.tokenizer = directory, config, tokenizer
        self._engines: dict[Output, Engine] = {}

    @abstractmethod
    def has(self, output: HeadOutput) -> bool:
        """Return whether there is a head of pre-training."""

    @abstractmethod
    def start(self, output: Output) -> Engine:
        """Return a new engine for an output; an InputError if the model lacks it."""

    def engine(self, output: Output) -> Engine:
        """Return what computes an output, started once."""
        engine = self._engines.get(output)
        if engine is None:
            engine = self._engines[output] = self.start(output)
        return engine

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
