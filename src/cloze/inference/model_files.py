"""What a directory offers that answers: a checkpoint, computed in PyTorch, or an exported graph, in ONNX Runtime."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from cloze.choices import Combine
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import Engine
from cloze.models.pooling import Pooling
from cloze.tasks.task import AnyTask
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer

HeadKind: TypeAlias = Literal["vectors", "masked-word", "next-sentence"]
"""Vectors of texts, or logits of pre-training."""


@dataclass(frozen=True)
class ModelFiles(ABC):
    """A directory that answers: a checkpoint or an exported graph, read once for all of its heads.

    An engine of a head that it does not have raises an InputError.
    """

    directory: Path

    @property
    @abstractmethod
    def config(self) -> EncoderConfig:
        """The architecture of the encoder."""

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.directory)

    @abstractmethod
    def has(self, head: HeadKind) -> bool:
        """Return whether it has a head; of vectors, every checkpoint has one, and a graph with another head none."""

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
        pooling: Pooling,
        *,
        normalize: bool,
        truncate_dim: int | None,
        layers: tuple[int, ...],
        combine: Combine,
        device: str,
    ) -> Engine:
        """Return the engine for the vectors of texts.

        `truncate_dim` is the number of dimensions kept, None for all; `layers` count from 0, the word-embedding table.
        """
