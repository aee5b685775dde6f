"""The families of tasks on the vectors of two texts, each read by itself: how near they are says how alike the texts.

Shapes: T tokens in the packed batch, B pairs, D hidden.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from cloze.metrics.regression import pearson, spearman
from cloze.model.bert import BertModel
from cloze.model.heads import BertForFeatureExtraction
from cloze.model.packed import Packed
from cloze.model.pooling import Pooling, pool
from cloze.model.sentence_transformers import (
    VectorSettings,
    read_sentence_transformer,
    write_sentence_transformer,
)
from cloze.tasks.scales import ScoreScale
from cloze.tasks.sequences import TextSequence, sequences_of
from cloze.tasks.task import Array, TargetBatch, Task
from cloze.tasks.texts import LabelledText, finite, score_of
from cloze.text.tokenizer import Tokenizer
from cloze.training.measures import Measures

_FLATNESS = 0.001  # cosines that spread less say nothing
_PROMPT = "default"

PredictionT = TypeVar("PredictionT")


@dataclass(frozen=True, slots=True)
class PairFeature:
    """The pieces of both texts, and what their cosine should be where that is known."""

    sequences: tuple[TextSequence, TextSequence]
    target: float | None

    @property
    def num_tokens(self) -> int:
        """Tokens of both."""
        return sum(sequence.num_tokens for sequence in self.sequences)

    @property
    def is_truncated(self) -> bool:
        """Whether some of the text did not fit."""
        return any(sequence.is_truncated for sequence in self.sequences)


@dataclass(frozen=True, kw_only=True)
class VectorTask(Task[LabelledText, PairFeature, TargetBatch, PredictionT], Generic[PredictionT]):
    """A task on two texts whose vectors are made by the encoder alone, so that every checkpoint answers it."""

    answered_by_any_encoder: ClassVar[bool] = True

    pooling: Pooling | None = None
    """How the last layer's vectors become one; None takes what sentence-transformers wrote of the model, or mean."""
    normalize: bool | None = None
    """Whether the saved model brings vectors to length 1 for other programs; None likewise, or no. Cosines are the
    same."""
    prompt: str | None = None
    """Put before each text; None takes the default prompt that sentence-transformers wrote of the model, or none."""

    def origin(self, example: LabelledText) -> Hashable:
        """Return both texts: a pair that stands there twice is learned, or scored."""
        return example.text, example.pair

    def begun_from(self, directory: Path) -> Self:
        """Return the task with what sentence-transformers wrote of a checkpoint's vectors, where nothing is set.

        Raises:
            InputError: a prompt's tokens are to be left out of the pooling.
        """
        found = read_sentence_transformer(directory)
        if found is None:
            found = VectorSettings(pooling="mean", normalize=False, max_seq_length=None)
        return replace(
            self,
            pooling=found.pooling if self.pooling is None else self.pooling,
            normalize=found.normalize if self.normalize is None else self.normalize,
            prompt=found.prompt(where=directory) if self.prompt is None else self.prompt,
        )

    def of_checkpoint(self, directory: Path) -> Self:
        """Return the task likewise: there is nothing else to know."""
        return self.begun_from(directory)

    def write_beside(self, directory: Path, model: nn.Module, *, max_seq_length: int) -> None:
        """Write what makes a checkpoint one of sentence-transformers."""
        assert isinstance(model, BertForFeatureExtraction)
        settings = VectorSettings(
            pooling=self.pooling or "mean",
            normalize=self.normalize or False,
            max_seq_length=max_seq_length,
            prompts={_PROMPT: self.prompt} if self.prompt else {},
            default_prompt_name=_PROMPT if self.prompt else None,
        )
        write_sentence_transformer(directory, settings, hidden_size=model.config.hidden_size)

    def head(self, bert: BertModel, *, generator: torch.Generator | None = None) -> BertForFeatureExtraction:
        """Return the encoder: nothing is added to it."""
        return BertForFeatureExtraction(bert)

    def sequences(
        self, example: LabelledText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> tuple[TextSequence, TextSequence]:
        """Tokenize both texts, each by itself, with the prompt before it."""
        first, second = (
            sequences_of(tokenizer, (self.prompt or "") + text, max_seq_length=max_seq_length)[0]
            for text in (example.text, example.pair or "")
        )
        return first, second

    def vectors(self, hidden: Tensor, batch: TargetBatch) -> tuple[Tensor, Tensor]:
        """Return the vectors of all first and of all second texts, [B, D] each, of length 1."""
        vectors_2BD = pool(hidden, batch.packed, self.pooling or "mean")
        first_BD, second_BD = nn.functional.normalize(vectors_2BD, dim=-1).chunk(2)
        return first_BD, second_BD


@dataclass(frozen=True, kw_only=True)
class SentenceVectors(ScoreScale, VectorTask[float]):
    """The cosine of two texts' vectors, learned by its squared error on a scale from 0 to 1: no likeness and all.

    Source: Reimers and Gurevych 2019, 3 (the regression objective).
    """

    main_metric: ClassVar[str] = "spearman"
    metrics: ClassVar[tuple[str, ...]] = ("spearman", "pearson")
    libraries: ClassVar[tuple[str, ...]] = ("scipy",)
    defaults: ClassVar[tuple[str, ...]] = ("batch_size=16", "epochs=4", "optimizer.learning_rate=2e-5")

    def features(
        self, example: LabelledText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[PairFeature]:
        """Tokenize both texts, each by itself.

        Raises:
            InputError: the score is not a number.
        """
        is_known = example.label is not None and self.minimum is not None and self.maximum is not None
        sequences = self.sequences(example, tokenizer, max_seq_length=max_seq_length)
        return [PairFeature(sequences, self.on_scale(example) if is_known else None)]

    def batch(self, features: Sequence[PairFeature]) -> TargetBatch:
        """Pack the first texts in the order given, then the second ones."""
        return TargetBatch(
            pack_pairs(features), torch.tensor([feature.target or 0.0 for feature in features])
        )

    def cosines(self, hidden: Tensor, batch: TargetBatch) -> Tensor:
        """Return the cosine of each pair, [B]."""
        first_BD, second_BD = self.vectors(hidden, batch)
        return (first_BD * second_BD).sum(-1)

    def loss(self, logits: Tensor, batch: TargetBatch) -> tuple[Tensor, Measures]:
        """Return the summed squared error of the cosines of vectors [T, D]."""
        loss = nn.functional.mse_loss(self.cosines(logits, batch), batch.targets, reduction="sum")
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def outputs(self, logits: Tensor, batch: TargetBatch) -> list[Array]:
        """Return the cosine of each pair."""
        return list(self.cosines(logits, batch).cpu().numpy().reshape(-1, 1))

    def decode(
        self, example: LabelledText, features: Sequence[PairFeature], outputs: Sequence[Array]
    ) -> float:
        """Return the cosine."""
        return float(outputs[0][0])

    def score(self, examples: Sequence[LabelledText], predictions: Sequence[float]) -> dict[str, float]:
        """Return both correlations of the cosines with the scores."""
        true = [score_of(example) for example in examples]
        return {"spearman": spearman(true, predictions), "pearson": pearson(true, predictions)}

    def collapse(self, examples: Sequence[LabelledText], predictions: Sequence[float]) -> str | None:
        """Name a model whose vectors are all alike, where the scores are not."""
        is_flat = max(predictions) - min(predictions) < _FLATNESS
        return "one cosine only" if is_flat and len(set(map(score_of, examples))) > 1 else None

    def to_json(self, example: LabelledText, prediction: float) -> dict[str, Any]:
        """Return the cosine."""
        return {"cosine": prediction}

    def from_json(self, values: Mapping[str, Any]) -> float:
        """Read the cosine."""
        return finite(values["cosine"])


def pack_pairs(features: Sequence[PairFeature]) -> Packed:
    """Pack the first texts in the order given, then the second ones."""
    return Packed.from_sequences(
        [feature.sequences[side].input_ids for side in (0, 1) for feature in features]
    )
