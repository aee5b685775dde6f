"""Vectors of two texts, each encoded alone; their cosine measures the similarity.

Shapes: B pairs, C second texts and hard negatives, D hidden, N examples, M distinct second texts.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cloze.choices import MissingLabels, Pooling
from cloze.config import Positive
from cloze.data.batch import collate
from cloze.data.reading.bad_rows import source_of
from cloze.data.reading.memory import Data
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.models.engine import VectorOutput
from cloze.models.sentence_transformers import (
    SentenceEncoderConfig,
    load_sentence_encoder_config,
    save_sentence_encoder_config,
)
from cloze.tasks.answers.kind import AnswerKind, AnswerT
from cloze.tasks.answers.number import DecimalMark, are_constant, check_scale, fit_scale, read_number
from cloze.tasks.arrays import normalize
from cloze.tasks.features import TextFeature, TextFeatures, encode_text
from cloze.tasks.task_batch import (
    Array,
    Baseline,
    Encoder,
    Module,
    OptionalGenerator,
    Outputs,
    Scores,
    SummedLoss,
    TaskBatch,
    Tensor,
)
from cloze.tasks.texts import LabeledText, Texts
from cloze.tasks.tfidf import fit_tfidf, tfidf_cosines
from cloze.tokenization.tokenizer import Tokenizer

_MIN_SPREAD = 0.001
"""Cosines that spread less are constant."""
_PROMPT = "default"
_SCALE = 20.0
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, kw_only=True)
class Vectors(AnswerKind[LabeledText, AnswerT]):
    """The vectors of two texts. The head has no weights, so every checkpoint answers."""

    head_name = None

    pooling: Pooling | None = None
    """Pooling of the last layer; None: as the checkpoint's files of sentence-transformers say, else mean."""
    normalize: bool | None = None
    """Whether other programs normalize the saved model's vectors to length 1; None: as in the checkpoint, else no.
    The cosines are the same."""
    prompt: str | None = None
    """Text before each text; None: the default prompt of sentence-transformers in the checkpoint, else no prompt."""
    truncate_dim: Positive[int | None] = None
    """Number of dimensions compared; None: as in the checkpoint, else all."""

    def with_checkpoint_settings(self, directory: Path) -> Self:
        """Return the kind with unset settings as sentence-transformers has them in a checkpoint."""
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

    def write_checkpoint_files(self, directory: Path, model: Module, *, max_seq_length: int) -> None:
        from cloze.models.heads import SentenceEncoder

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

    def check_teacher(self, teacher: Self) -> None:
        if teacher.prompt != self.prompt:
            what = f"the teacher's prompt is {teacher.prompt or ''!r}, the student's {self.prompt or ''!r}"
            raise InputError(what, remedy="Set the teacher's prompt")

    def features(
        self, example: LabeledText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[TextFeature]:
        sequences = (
            encode_text(tokenizer, (self.prompt or "") + text, max_seq_length=max_seq_length)[0]
            for text in (example.text, example.pair or "", *example.negatives)
        )
        return [TextFeature(tuple(sequences), None if example.gold is None else self.target(example.gold))]

    def batch(self, features: TextFeatures) -> TaskBatch:
        """Pack all first texts, then all second texts, then the negatives."""
        sides = range(max(len(feature.sequences) for feature in features))
        batch = collate(
            [f.sequences[side].input_ids for side in sides for f in features if side < len(f.sequences)]
        )
        return TaskBatch.extend(batch, targets=self.targets(features))

    def target(self, gold: Any) -> float:
        """Return the training target of a pair."""
        return 0.0

    def targets(self, features: TextFeatures) -> npt.NDArray[Any]:
        """Return the targets of a batch; an unknown one is 0."""
        return np.array([feature.target or 0.0 for feature in features], np.float32)

    def head(self, bert: Encoder, *, generator: OptionalGenerator = None) -> Module:
        from cloze.models.heads import SentenceEncoder

        return SentenceEncoder(bert, VectorOutput(self.pooling or "mean"))

    def vectors(self, pooled: Tensor, batch: TaskBatch) -> tuple[Tensor, Tensor]:
        """Return the normalized vectors of all first texts, [B, D], and of all others, second texts first."""
        from torch import nn

        vectors = nn.functional.normalize(pooled[:, : self.truncate_dim], dim=-1)
        return vectors[: batch.num_targets], vectors[batch.num_targets :]

    def vector_arrays(self, pooled: Array, batch: TaskBatch) -> tuple[Array, Array]:
        """Return the same in NumPy, of first and of second texts."""
        vectors = normalize(pooled[:, : self.truncate_dim])
        return vectors[: batch.num_targets], vectors[batch.num_targets : 2 * batch.num_targets]


@dataclass(frozen=True, kw_only=True)
class Cosine(Vectors[float]):
    """The cosine of two vectors, trained with the squared error on a scale from 0 to 1.

    Source: Reimers and Gurevych 2019, 3 (the regression objective).
    """

    metrics: ClassVar[tuple[str, ...]] = ("spearman", "pearson")
    keys: ClassVar[tuple[str, ...]] = ("cosine",)

    label_column: str = "score"
    missing_labels: MissingLabels = "refuse"
    """Refuse rows without a score, or drop and count them."""
    minimum: float | None = None
    """Score that is a cosine of 0; by default the lowest of the training data."""
    maximum: float | None = None
    """Score that is a cosine of 1; by default the highest of the training data."""
    decimal: DecimalMark = "."
    """Decimal mark of the scores in files."""

    def __post_init__(self) -> None:
        check_scale(self.minimum, self.maximum)

    def read(self, row: Row) -> float:
        return read_number(row, self.missing_labels, self.decimal)

    def fit(self, examples: Texts) -> Self:
        minimum, maximum = fit_scale(examples, self.minimum, self.maximum)
        return replace(self, minimum=minimum, maximum=maximum)

    def target(self, gold: float) -> float:
        if self.minimum is None or self.maximum is None:
            return 0.0
        return (gold - self.minimum) / (self.maximum - self.minimum)

    def cosines(self, pooled: Tensor, batch: TaskBatch) -> Tensor:
        """Return the cosine of each pair, [B]."""
        first_BD, second_BD = self.vectors(pooled, batch)
        return (first_BD * second_BD).sum(-1)

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the squared error of the cosines, from pooled vectors [2B, D]."""
        from torch import nn

        loss = nn.functional.mse_loss(self.cosines(logits, batch), batch.targets, reduction="sum")
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def distance(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        from torch import nn

        return nn.functional.mse_loss(self.cosines(logits, batch), batch.teacher, reduction="sum")

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        first_BD, second_BD = self.vector_arrays(logits, batch)
        return list((first_BD * second_BD).sum(-1, keepdims=True))

    def decode(self, example: LabeledText, features: TextFeatures, outputs: Outputs) -> float:
        return float(outputs[0][0])

    def collapse(self, examples: Texts, answers: Sequence[float], metrics: Sequence[str]) -> str | None:
        return "one cosine only" if are_constant(examples, answers, _MIN_SPREAD) else None

    def baselines(self, train: Sequence[Any]) -> Mapping[str, Baseline]:
        return {"tfidf_cosine": tfidf_cosines}


@dataclass(frozen=True, eq=False, slots=True)
class PairVectors:
    """The normalized vectors of both texts, [D] each."""

    first: Array
    second: Array

    def __eq__(self, other: object) -> bool:
        vectors = (other.first, other.second) if isinstance(other, PairVectors) else ()
        return np.array_equal((self.first, self.second), vectors)


@dataclass(frozen=True, kw_only=True)
class Retrieval(Vectors[PairVectors]):
    """Vectors by which each first text finds its second text: a softmax over the cosines, times 20, of a step.

    The second texts of other pairs are negatives, unless they also belong to the first text or read the same.
    So are the hard negatives of all pairs, texts that are like the first one and do not belong to it.
    The metrics measure retrieval: for each first text of the data, its second text among all others.

    Source: Henderson et al. 2017, 4.4 (in-batch negatives); cosine and scale as in sentence-transformers.
    """

    metrics: ClassVar[tuple[str, ...]] = ("mrr", "accuracy@1")
    keys: ClassVar[tuple[str, ...]] = ("vectors",)
    uses_in_batch_negatives = True

    def notes(self, train: Texts, dev: Texts, tokenizer: Tokenizer) -> Iterator[str]:
        if count := sum(bool(example.negatives) for example in train):
            yield f"{count:,} of {len(train):,} training examples have a hard negative"

    def fit(self, examples: Texts) -> Self:
        if len({text for example in examples for text in (example.pair, *example.negatives)}) < 2:
            remedy = "Negatives are the texts of other rows: give two different second texts at least"
            what = "every row has the same second text"
            raise InputError(what, where=source_of(examples[0].where), remedy=remedy)
        return self

    def gold(self, example: LabeledText) -> None:
        """Pairs have no labels."""

    def targets(self, features: TextFeatures) -> npt.NDArray[np.bool_]:
        """Return whether each first text [B] belongs to each second text and hard negative [C]."""
        first_B, second_B, *negatives = (
            [tuple(f.sequences[side].input_ids) for f in features if side < len(f.sequences)]
            for side in range(max(len(f.sequences) for f in features))
        )
        pairs = set(zip(first_B, second_B, strict=True))
        others_C = list(chain(second_B, *negatives))
        return np.array([[(first, other) in pairs for other in others_C] for first in first_B])

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the cross entropy of the right pairs, and the share that have the largest cosine."""
        import torch

        from cloze.training.metric_sums import cross_entropy

        first_BD, others_CD = self.vectors(logits, batch)
        is_same_pair_BC = torch.eye(len(first_BD), len(others_CD), dtype=torch.bool, device=first_BD.device)
        is_no_negative_BC = batch.targets & ~is_same_pair_BC
        scores_BC = (_SCALE * first_BD @ others_CD.T).masked_fill(is_no_negative_BC, -torch.inf)
        targets_B = torch.arange(len(scores_BC), device=scores_BC.device)
        return cross_entropy(scores_BC, targets_B, metric="batch_accuracy")

    def distance(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        """Return the divergence of the softmax over the second texts of the step, whose cosines are compared."""
        from cloze.training.metric_sums import softmax_divergence

        first_BD, others_CD = self.vectors(logits, batch)
        scores_BB = _SCALE * first_BD @ others_CD[: len(first_BD)].T
        teacher_BB = _SCALE * batch.teacher[0::2] @ batch.teacher[1::2].T
        return softmax_divergence(scores_BB, teacher_BB, temperature)

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        return list(np.stack(self.vector_arrays(logits, batch), axis=1))

    def decode(self, example: LabeledText, features: TextFeatures, outputs: Outputs) -> PairVectors:
        return PairVectors(*outputs[0])

    def score(self, examples: Texts, answers: Sequence[PairVectors], metrics: Sequence[str]) -> Scores:
        """Return the mean reciprocal rank of the second text, the share ranked first, and the number of candidates.

        Of equal cosines the right text is ranked last. Other right texts of the same first text are not ranked.
        """
        index_of = {text: i for i, text in enumerate(dict.fromkeys(example.pair for example in examples))}
        target_N = np.array([index_of[example.pair] for example in examples])
        second_ND = np.array([answer.second for answer in answers])
        right = defaultdict(set)
        for example, target in zip(examples, target_N.tolist(), strict=True):
            right[example.text].add(target)
        candidates_MD = second_ND[np.unique(target_N, return_index=True)[1]]
        ranks = []
        for start in range(0, len(examples), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            first_ND = np.array([answer.first for answer in answers[part]])
            cosines_NM = first_ND @ candidates_MD.T
            right_N1 = np.take_along_axis(cosines_NM, target_N[part, None], axis=1)
            for cosines_M, example in zip(cosines_NM, examples[part], strict=True):
                cosines_M[list(right[example.text])] = -np.inf
            ranks.append(1 + (cosines_NM >= right_N1).sum(1))
        ranks_N = np.concatenate(ranks)
        mrr, accuracy = (1 / ranks_N).mean(), (ranks_N == 1).mean()
        return {"mrr": float(mrr), "accuracy@1": float(accuracy), "candidates": float(len(candidates_MD))}

    def baselines(self, train: Sequence[Any]) -> Mapping[str, Baseline]:
        return {"tfidf_cosine": _tfidf_vectors}

    def collapse(self, examples: Texts, answers: Sequence[PairVectors], metrics: Sequence[str]) -> str | None:
        cosines = np.array([answer.second for answer in answers]) @ answers[0].first
        return "one vector only" if np.ptp(cosines) < _MIN_SPREAD and len(answers) > 1 else None

    def to_json(self, example: LabeledText, answer: PairVectors) -> dict[str, Any]:
        first, second = answer.first, answer.second
        return {"cosine": float(first @ second), "vectors": [first.tolist(), second.tolist()]}

    def from_json(self, values: Mapping[str, Any]) -> PairVectors:
        first, second = (np.array(vector, np.float32) for vector in values["vectors"])
        if not (first.ndim == 1 and first.shape == second.shape and np.isfinite([first, second]).all()):
            raise ValueError("its vectors are not two lists of as many numbers")
        return PairVectors(first, second)

    def read_answers(self, source: Data, examples: Texts) -> list[PairVectors]:
        answers = super().read_answers(source, examples)
        if len(lengths := sorted({len(answer.first) for answer in answers})) > 1:
            what = f"vectors of {lengths[0]} numbers and of {lengths[-1]}"
            raise InputError(what, where=source, remedy="Give the predictions of one model")
        return answers


def _tfidf_vectors(train: Texts, dev: Texts) -> list[PairVectors]:
    """Return the weights of the words that occur in first and in second texts."""
    vectorizer = fit_tfidf([text for example in train for text in (example.text, example.pair or "")])
    first = vectorizer.transform([example.text for example in dev])
    second = vectorizer.transform([example.pair or "" for example in dev])
    is_in_both = (first.getnnz(0) > 0) & (second.getnnz(0) > 0)
    vectors = (weights[:, is_in_both].toarray().astype(np.float32) for weights in (first, second))
    return [PairVectors(*pair) for pair in zip(*vectors, strict=True)]
