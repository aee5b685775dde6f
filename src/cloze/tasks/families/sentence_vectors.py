"""The families of tasks on the vectors of two texts, each encoded alone; their cosine measures the similarity.

Shapes: T tokens in the packed batch, B pairs, D hidden.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self

import numpy as np
import numpy.typing as npt

from cloze.config import check_positive
from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.models.pooling import Pooling
from cloze.models.sentence_transformers import (
    SentenceEncoderConfig,
    load_sentence_encoder_config,
    save_sentence_encoder_config,
)
from cloze.tasks.arrays import normalize
from cloze.tasks.families.text_regression import ScoreScale
from cloze.tasks.features import TextFeature, TextFeatures, encode_text
from cloze.tasks.table_task import TableTask
from cloze.tasks.task import PredictionT
from cloze.tasks.task_batch import (
    Array,
    Baseline,
    Encoder,
    Module,
    OptionalGenerator,
    Outputs,
    SummedLoss,
    TaskBatch,
    Tensor,
)
from cloze.tasks.texts import LabeledText
from cloze.tasks.tfidf import tfidf_cosines
from cloze.tokenization.tokenizer import Tokenizer

MIN_COSINE_SPREAD = 0.001
"""Cosines that spread less are constant."""
_PROMPT = "default"


@dataclass(frozen=True, kw_only=True)
class VectorTask(TableTask[LabeledText, TextFeature, PredictionT], Generic[PredictionT]):
    """A task on the vectors of two texts. The head has no weights, so every checkpoint answers it."""

    has_head = False
    head_settings: ClassVar[tuple[str, ...]] = ("pooling", "truncate_dim")

    pooling: Pooling | None = None
    """Pooling of the last layer; None: that of sentence-transformers in the checkpoint, else mean."""
    normalize: bool | None = None
    """Whether other programs normalize the saved model's vectors to length 1; None: as in the checkpoint, else no.
    The cosines are the same."""
    prompt: str | None = None
    """Text before each text; None: the default prompt of sentence-transformers in the checkpoint, else no prompt."""
    truncate_dim: int | None = None
    """Number of dimensions compared; None: as in the checkpoint, else all."""

    def __post_init__(self) -> None:
        check_positive(self, "truncate_dim")

    def split_group(self, example: LabeledText) -> Hashable:
        """Return both texts, so that duplicates are all in the training or all in the dev data."""
        return example.text, example.pair

    def with_checkpoint_settings(self, directory: Path) -> Self:
        """Return the task with unset settings as sentence-transformers has them in a checkpoint."""
        config = load_sentence_encoder_config(directory) or SentenceEncoderConfig()
        return replace(
            self,
            pooling=config.pooling if self.pooling is None else self.pooling,
            normalize=config.normalize if self.normalize is None else self.normalize,
            prompt=config.prompt(where=directory) if self.prompt is None else self.prompt,
            truncate_dim=config.truncate_dim if self.truncate_dim is None else self.truncate_dim,
        )

    def for_external_checkpoint(self, directory: Path) -> Self:
        return self.with_checkpoint_settings(directory)

    def check_teacher(self, teacher: Self) -> None:
        if teacher.prompt != self.prompt:
            what = f"the teacher's prompt is {teacher.prompt or ''!r}, the student's {self.prompt or ''!r}"
            raise InputError(what, remedy=f"Say `{self.name}.prompt={teacher.prompt or ''}`")

    def write_checkpoint_files(self, directory: Path, model: Module, *, max_seq_length: int) -> None:
        from cloze.models.sentence_encoder import SentenceEncoder

        assert isinstance(model, SentenceEncoder)
        config = SentenceEncoderConfig(
            pooling=self.pooling or "mean",
            normalize=self.normalize or False,
            max_seq_length=max_seq_length,
            prompts={_PROMPT: self.prompt} if self.prompt else {},
            default_prompt_name=_PROMPT if self.prompt else None,
            truncate_dim=self.truncate_dim,
        )
        save_sentence_encoder_config(directory, config, hidden_size=model.config.hidden_size)

    def features(
        self, example: LabeledText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[TextFeature]:
        """Tokenize all texts of an example, each alone, after the prompt."""
        sequences = (
            encode_text(tokenizer, (self.prompt or "") + text, max_seq_length=max_seq_length)[0]
            for text in self.texts(example)
        )
        return [TextFeature(tuple(sequences), self.target(example))]

    def texts(self, example: LabeledText) -> tuple[str, ...]:
        """Return the first text, the second, and others that training compares with the first."""
        return example.text, example.pair or ""

    def target(self, example: LabeledText) -> float | None:
        """Return the cosine to learn, if the task has one."""
        return None

    def batch(self, features: TextFeatures) -> TaskBatch:
        """Pack all first texts, then all second texts, then the others."""
        sides = range(max(len(feature.sequences) for feature in features))
        batch = collate(
            [f.sequences[side].input_ids for side in sides for f in features if side < len(f.sequences)]
        )
        return TaskBatch.extend(batch, targets=self.targets(features))

    def targets(self, features: TextFeatures) -> npt.NDArray[Any]:
        """Return the targets of a batch, [B]; an unknown one is 0."""
        return np.array([feature.target or 0.0 for feature in features], np.float32)

    def head(self, bert: Encoder, *, generator: OptionalGenerator = None) -> Module:
        from cloze.models.sentence_encoder import SentenceEncoder

        return SentenceEncoder(bert, pooling=self.pooling or "mean")

    def vectors(self, pooled: Tensor, batch: TaskBatch) -> tuple[Tensor, Tensor]:
        """Return the normalized vectors of all first texts, [B, D], and of all others, those of second texts first."""
        from torch import nn

        vectors = nn.functional.normalize(pooled[:, : self.truncate_dim], dim=-1)
        return vectors[: batch.num_targets], vectors[batch.num_targets :]

    def vector_arrays(self, pooled: Array, batch: TaskBatch) -> tuple[Array, Array]:
        """Return the same in NumPy, of first and of second texts."""
        vectors = normalize(pooled[:, : self.truncate_dim])
        return vectors[: batch.num_targets], vectors[batch.num_targets : 2 * batch.num_targets]


@dataclass(frozen=True, kw_only=True)
class SentenceVectors(ScoreScale, VectorTask[float]):
    """The cosine of two vectors, trained with the squared error on a scale from 0 to 1.

    Source: Reimers and Gurevych 2019, 3 (the regression objective).
    """

    answer_keys = ("cosine",)
    min_spread = MIN_COSINE_SPREAD
    defaults: ClassVar[tuple[str, ...]] = ("batch_size=16", "epochs=4", "optimizer.learning_rate=2e-5")

    def __post_init__(self) -> None:
        ScoreScale.__post_init__(self)
        VectorTask.__post_init__(self)

    def baselines(self) -> Mapping[str, Baseline]:
        return {"tfidf_cosine": tfidf_cosines}

    def target(self, example: LabeledText) -> float | None:
        """Return the score on a scale from 0 to 1, where it is known."""
        is_known = example.label is not None and self.minimum is not None and self.maximum is not None
        return self.scaled_score(example) if is_known else None

    def cosines(self, pooled: Tensor, batch: TaskBatch) -> Tensor:
        """Return the cosine of each pair, [B]."""
        first_BD, second_BD = self.vectors(pooled, batch)
        return (first_BD * second_BD).sum(-1)

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the summed squared error of the cosines, from pooled vectors [2B, D]."""
        from torch import nn

        loss = nn.functional.mse_loss(self.cosines(logits, batch), batch.targets, reduction="sum")
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def soft_loss(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        from torch import nn

        return nn.functional.mse_loss(self.cosines(logits, batch), batch.teacher, reduction="sum")

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        first_BD, second_BD = self.vector_arrays(logits, batch)
        return list((first_BD * second_BD).sum(-1, keepdims=True))

    def decode(self, example: LabeledText, features: TextFeatures, outputs: Outputs) -> float:
        return float(outputs[0][0])
