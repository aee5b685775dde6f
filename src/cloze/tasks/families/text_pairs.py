"""Pairs of texts without scores, such as questions and answers: retrieval of the second text by the first.

Shapes: B pairs, C second texts and hard negatives, D hidden, N examples, M distinct second texts.
"""

import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cloze.data.reading.bad_rows import source_of
from cloze.data.reading.columns import Column
from cloze.data.reading.json_rows import as_text
from cloze.data.reading.memory import Source
from cloze.data.reading.tables import Row, TableConfig
from cloze.errors import DataWarning, InputError
from cloze.tasks.families.sentence_vectors import MIN_COSINE_SPREAD, VectorTask
from cloze.tasks.features import TextFeatures
from cloze.tasks.registry import register_task
from cloze.tasks.task_batch import Array, Baseline, Outputs, Scores, SummedLoss, TaskBatch, Tensor
from cloze.tasks.texts import LabeledText, Texts
from cloze.tasks.tfidf import fit_tfidf
from cloze.tokenization.tokenizer import Tokenizer

_SCALE = 20.0
_ROWS_AT_ONCE = 1024
_NEGATIVE = re.compile(r"negative(_[0-9]+)?")
_LABEL = Column("label", "label", ("label", "score"), is_required=False)


@dataclass(frozen=True, eq=False, slots=True)
class PairVectors:
    """The normalized vectors of both texts, [D] each."""

    first: Array
    second: Array

    def __eq__(self, other: object) -> bool:
        vectors = (other.first, other.second) if isinstance(other, PairVectors) else ()
        return np.array_equal((self.first, self.second), vectors)


@dataclass(frozen=True, slots=True)
class TextTriplet(LabeledText):
    """A pair, and texts that do not belong to the first one."""

    negatives: tuple[str, ...] = ()


@register_task("text-pairs")
class TextPairs(VectorTask[PairVectors]):
    """A softmax over the cosines, times 20, of a first text with all second texts of the step.

    The second texts of other pairs are negatives, except those that also belong to the first text or read the same.
    So are the hard negatives of all pairs, texts that are like the first one and do not belong to it.
    The metrics are those of retrieving, for each first text of the data, its second text among all others.

    Source: Henderson et al. 2017, 4.4 (in-batch negatives); cosine and scale as in sentence-transformers.
    """

    answer_keys = ("vectors",)
    metrics: ClassVar[tuple[str, ...]] = ("mrr", "accuracy@1")
    data_format = (
        "TSV, CSV, JSON lines or Parquet: two texts that belong together; a column negative is optional"
    )
    source = "your own data; Henderson et al. 2017, 4.4"
    uses_in_batch_negatives = True
    defaults: ClassVar[tuple[str, ...]] = ("batch_size=64", "optimizer.learning_rate=2e-5")

    columns = (  # some are called otherwise by sentence-transformers
        Column("text", names=("text", "anchor", "sentence1"), setting="text_column"),
        Column("pair", names=("pair", "positive", "sentence2"), setting="pair_column"),
        Column("negative", "label", setting="negative_column"),
        Column("negatives", "texts", ("negative",), is_required=False),
        _LABEL,
    )

    text_column: str = "text"
    pair_column: str = "pair"
    negative_column: str | None = None
    """Column of hard negatives; None takes the columns negative, negative_1, negative_2, … of data that have them.

    A cell is a text or a list of texts; an empty one is no text."""
    skip_bad_rows: bool = False
    """Leave out and count rows that cannot be read, instead of refusing the file."""

    def table(self, *, labeled: bool) -> TableConfig:
        table = super().table(labeled=labeled)
        leave_out = (InputError,) if self.skip_bad_rows else ()
        return replace(
            table, is_also_read=lambda name: labeled and self._is_negative(name), leave_out=leave_out
        )

    def _is_negative(self, name: str) -> bool:
        """Return whether a column has further hard negatives."""
        is_asked = any(name in column.names for column in self.named_columns())
        return self.negative_column is None and _NEGATIVE.fullmatch(name) is not None and not is_asked

    def example(self, row: Row) -> TextTriplet:
        """Return the texts of a row; in labeled data no text is empty."""
        text, pair = map(row.required if row.labeled else row.text, ("text", "pair"))
        first = "negatives" if self.negative_column is None else "negative"
        columns = [key for key in row.cells if key == first or self._is_negative(key)]
        negatives = tuple(negative for key in columns for negative in _negatives(row, key))
        if pair in negatives:
            what = f"{pair!r} is in the column {self.pair_column!r} and among the negatives"
            raise InputError(what, where=row.where, remedy="Give another negative, or leave its cell empty")
        label = as_text(row.cells.get("label"))
        return TextTriplet(text, pair, label, row.where, negatives=negatives, row=row.number)

    def with_plain_labels(self, examples: Iterator[LabeledText]) -> Iterator[LabeledText]:
        """Yield examples without the cell of a label, and warn of labels that differ: they are not used."""
        labels = set()
        for example in examples:
            labels.add(example.label)
            yield replace(example, label=None)
        if len(labels) > 1:
            what = f"the column {' or '.join(map(repr, _LABEL.names))} is not used"
            what = f"{what}: in every row the two texts are taken to belong together"
            remedy = "The tasks ranking and scored-pairs learn from it"
            warning = f"{source_of(example.where)}: {what}. {remedy}"
            warnings.warn(DataWarning(warning), stacklevel=2)

    def texts(self, example: LabeledText) -> tuple[str, ...]:
        return (*super().texts(example), *(example.negatives if isinstance(example, TextTriplet) else ()))

    def notes(self, examples: Texts, tokenizer: Tokenizer) -> list[str]:
        count = sum(len(self.texts(example)) > 2 for example in examples)
        return [f"{count:,} of {len(examples):,} training examples have a hard negative"] if count else []

    def fit_labels(self, examples: Texts) -> Self:
        """Refuse examples whose second texts are all equal, so that there are no negatives."""
        if len({text for example in examples for text in self.texts(example)[1:]}) < 2:
            where = source_of(examples[0].where)
            remedy = "Negatives are the texts of other rows: give two different second texts at least"
            raise InputError(f"every row has the same {self.pair_column!r}", where=where, remedy=remedy)
        return self

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
        """Return the summed cross entropy of the right pairs, and the share that have the largest cosine."""
        import torch

        from cloze.training.losses import cross_entropy

        first_BD, others_CD = self.vectors(logits, batch)
        is_same_pair_BC = torch.eye(len(first_BD), len(others_CD), dtype=torch.bool, device=first_BD.device)
        is_no_negative_BC = batch.targets & ~is_same_pair_BC
        scores_BC = (_SCALE * first_BD @ others_CD.T).masked_fill(is_no_negative_BC, -torch.inf)
        targets_B = torch.arange(len(scores_BC), device=scores_BC.device)
        return cross_entropy(scores_BC, targets_B, metric="batch_accuracy")

    def soft_loss(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        """Return the divergence of the softmax over the second texts of the step from the teacher's.

        Only cosines are compared, so that vectors may have other lengths. Hard negatives are left to the labels.
        """
        from cloze.training.losses import softmax_divergence

        first_BD, others_CD = self.vectors(logits, batch)
        scores_BB = _SCALE * first_BD @ others_CD[: len(first_BD)].T
        teacher_BB = _SCALE * batch.teacher[0::2] @ batch.teacher[1::2].T
        return softmax_divergence(scores_BB, teacher_BB, temperature)

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        return list(np.stack(self.vector_arrays(logits, batch), axis=1))

    def decode(self, example: LabeledText, features: TextFeatures, outputs: Outputs) -> PairVectors:
        return PairVectors(*outputs[0])

    def score(self, examples: Texts, predictions: Sequence[PairVectors]) -> Scores:
        """Return the mean reciprocal rank of the second text, the share ranked first, and the number of candidates.

        Of equal cosines the right text is ranked last. Other right texts of the same first text are not ranked.
        """
        index_of = {text: i for i, text in enumerate(dict.fromkeys(example.pair for example in examples))}
        target_N = np.array([index_of[example.pair] for example in examples])
        second_ND = np.array([prediction.second for prediction in predictions])
        right = defaultdict(set)
        for example, target in zip(examples, target_N.tolist(), strict=True):
            right[example.text].add(target)
        candidates_MD = second_ND[np.unique(target_N, return_index=True)[1]]
        ranks = []
        for start in range(0, len(examples), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            first_ND = np.array([prediction.first for prediction in predictions[part]])
            cosines_NM = first_ND @ candidates_MD.T
            right_N1 = np.take_along_axis(cosines_NM, target_N[part, None], axis=1)
            for cosines_M, example in zip(cosines_NM, examples[part], strict=True):
                cosines_M[list(right[example.text])] = -np.inf
            ranks.append(1 + (cosines_NM >= right_N1).sum(1))
        ranks_N = np.concatenate(ranks)
        mrr, accuracy = (1 / ranks_N).mean(), (ranks_N == 1).mean()
        return {"mrr": float(mrr), "accuracy@1": float(accuracy), "candidates": float(len(candidates_MD))}

    def baselines(self) -> Mapping[str, Baseline]:
        return {"tfidf_cosine": self._tfidf_vectors}

    def _tfidf_vectors(self, train: Texts, dev: Texts) -> list[PairVectors]:
        """Return the weights of the words that occur in first and in second texts."""
        vectorizer = fit_tfidf([text for example in train for text in (example.text, example.pair or "")])
        first = vectorizer.transform([example.text for example in dev])
        second = vectorizer.transform([example.pair or "" for example in dev])
        is_in_both = (first.getnnz(0) > 0) & (second.getnnz(0) > 0)
        vectors = (weights[:, is_in_both].toarray().astype(np.float32) for weights in (first, second))
        return [PairVectors(*pair) for pair in zip(*vectors, strict=True)]

    def collapse(self, examples: Texts, predictions: Sequence[PairVectors]) -> str | None:
        cosines = np.array([prediction.second for prediction in predictions]) @ predictions[0].first
        return "one vector only" if np.ptp(cosines) < MIN_COSINE_SPREAD and len(predictions) > 1 else None

    def to_json(self, example: LabeledText, prediction: PairVectors) -> dict[str, Any]:
        first, second = prediction.first, prediction.second
        return {"cosine": float(first @ second), "vectors": [first.tolist(), second.tolist()]}

    def from_json(self, values: Mapping[str, Any]) -> PairVectors:
        first, second = (np.array(vector, np.float32) for vector in values["vectors"])
        if not (first.ndim == 1 and first.shape == second.shape and np.isfinite([first, second]).all()):
            raise ValueError("its vectors are not two lists of as many numbers")
        return PairVectors(first, second)

    def read_predictions(self, source: Source, examples: Texts) -> list[PairVectors]:
        """Read predictions for examples; all vectors must have the same length."""
        predictions = super().read_predictions(source, examples)
        if len(lengths := sorted({len(prediction.first) for prediction in predictions})) > 1:
            what = f"vectors of {lengths[0]} numbers and of {lengths[-1]}"
            raise InputError(what, where=source, remedy="Give the predictions of one model")
        return predictions


def _negatives(row: Row, column: str) -> list[str]:
    """Return the texts of a cell of hard negatives."""
    cell = row.cells[column]
    texts = row.texts(column) if isinstance(cell, list) else [] if cell is None else [row.text(column)]
    return [text for text in texts if text.strip()]
