"""What a directory offers that answers: a checkpoint, computed in PyTorch, or an exported graph, in ONNX Runtime."""

from abc import ABC, abstractmethod
from pathlib import Path

from cloze.choices import Combine
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import Engine
from cloze.models.pooling import Pooling
from cloze.tasks.task import AnyTask
from cloze.tokenization.tokenizer import Tokenizer


class ModelFiles(ABC):
    """A directory that answers: a checkpoint or an exported graph, read once for all of its heads."""

    directory: Path

    @property
    @abstractmethod
    def config(self) -> EncoderConfig:
        """The architecture of the encoder."""

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """The tokenizer."""

    @property
    @abstractmethod
    def makes_vectors(self) -> bool:
        """Whether it has vectors of texts: a graph with another head has none."""

    @property
    @abstractmethod
    def fills_masks(self) -> bool:
        """Whether it has the masked-word head of pre-training."""

    @property
    @abstractmethod
    def predicts_next_sentence(self) -> bool:
        """Whether it has the next-sentence head of pre-training."""

    @abstractmethod
    def finetuned_engine(self, task: AnyTask, *, device: str) -> Engine:
        """Return the engine of the model with the head of a task."""

    @abstractmethod
    def masked_lm_engine(self, *, device: str) -> Engine:
        """Return the engine whose `logits` are of masked tokens."""

    @abstractmethod
    def next_sentence_engine(self, *, device: str) -> Engine:
        """Return the engine whose `logits` are of the next-sentence classes."""

    @abstractmethod
    def vector_engine(
        self,
        pooling: Pooling | None,
        *,
        normalize: bool,
        truncate_dim: int | None,
        layers: tuple[int, ...],
        combine: Combine,
        device: str,
    ) -> Engine:
        """Return the engine for the vectors of texts, or of tokens where `pooling` is None."""
