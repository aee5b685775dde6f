"""Your own pairs of texts that belong together, with nothing else said of them: questions and answers, paraphrases.

Shapes: B pairs, D hidden, N examples, M different second texts.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.stores import Place
from cloze.tasks.registry import register_task
from cloze.tasks.sentence_vectors import (
    PairFeature,
    VectorTask,
    pack_pairs,
)
from cloze.tasks.tables import read_rows
from cloze.tasks.task import Array, TargetBatch
from cloze.tasks.texts import LabelledText
from cloze.text.tokenizer import Tokenizer
from cloze.training.measures import Measures

_SCALE = 20.0
_FLATNESS = 0.001  # cosines that spread less say nothing
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False, slots=True)
class PairVectors:
    """The vectors of both texts, of length 1, [D] each."""

    first: Array
    second: Array

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, PairVectors)
            and np.array_equal(self.first, other.first)
            and np.array_equal(self.second, other.second)
        )

    __hash__ = None  # type: ignore[assignment]


@register_task("text-pairs")
@dataclass(frozen=True, kw_only=True)
class TextPairs(VectorTask[PairVectors]):
    """Of all second texts of a step, the one that belongs to the first is learned by a softmax over cosines times 20.

    The second texts of other pairs are what is wrong, but for those that belong to the same first text or read as one
    that does. Scores are those of finding, for each first text of the data, its second among all that are wrong.

    Source: Henderson et al. 2017, 4.4 (the negatives); the cosines and the 20 are those of sentence-transformers.
    """

    main_metric: ClassVar[str] = "mrr"
    metrics: ClassVar[tuple[str, ...]] = ("mrr", "accuracy@1")
    data_format: ClassVar[str] = "TSV, CSV, JSON lines or Parquet: two texts that belong together"
    source: ClassVar[str] = "your own data; Henderson et al. 2017, 4.4"
    compares_examples: ClassVar[bool] = True
    defaults: ClassVar[tuple[str, ...]] = ("batch_size=64", "optimizer.learning_rate=2e-5")

    text_column: str = "text"
    pair_column: str = "pair"

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[LabelledText]:
        """Read the rows of a table; of data to learn from, no text is empty."""
        for row in read_rows(path, [self.text_column, self.pair_column]):
            read = row.required if labelled else row.text
            yield LabelledText(read(self.text_column), read(self.pair_column), where=row.where)

    def fitted(self, examples: Sequence[LabelledText]) -> Self:
        """Return the task.

        Raises:
            InputError: all second texts are the same, so that none is wrong.
        """
        if len({example.pair for example in examples}) < 2:
            where = examples[0].where.rpartition(":")[0]
            remedy = "What is wrong is taken from other rows: give two different second texts at least"
            raise InputError(f"every row has the same {self.pair_column!r}", where=where, remedy=remedy)
        return self

    def features(
        self, example: LabelledText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[PairFeature]:
        """Tokenize both texts, each by itself."""
        return [PairFeature(self.sequences(example, tokenizer, max_seq_length=max_seq_length), None)]

    def batch(self, features: Sequence[PairFeature]) -> TargetBatch:
        """Pack the first texts, then the second ones; the targets [B, B] say which second texts are right."""
        first_B, second_B = (
            [tuple(feature.sequences[side].input_ids) for feature in features] for side in (0, 1)
        )
        pairs = set(zip(first_B, second_B, strict=True))
        is_right_BB = [[(first, second) in pairs for second in second_B] for first in first_B]
        return TargetBatch(pack_pairs(features), torch.tensor(is_right_BB))

    def loss(self, logits: Tensor, batch: TargetBatch) -> tuple[Tensor, Measures]:
        """Return the summed cross entropy of the right pairs; also measured: how often they have the largest cosine."""
        first_BD, second_BD = self.vectors(logits, batch)
        is_own_BB = torch.eye(len(first_BD), dtype=torch.bool, device=first_BD.device)
        scores_BB = (_SCALE * first_BD @ second_BD.T).masked_fill(batch.targets & ~is_own_BB, -torch.inf)
        own_B = torch.arange(len(scores_BB), device=scores_BB.device)
        loss = nn.functional.cross_entropy(scores_BB, own_B, reduction="sum")
        correct = (scores_BB.detach().argmax(-1) == own_B).sum()
        count = batch.num_targets
        return loss, {"loss": (loss.detach(), count), "batch_accuracy": (correct, count)}

    def outputs(self, logits: Tensor, batch: TargetBatch) -> list[Array]:
        """Return both vectors of each pair, [2, D]."""
        return list(torch.stack(self.vectors(logits, batch), dim=1).cpu().numpy())

    def decode(
        self, example: LabelledText, features: Sequence[PairFeature], outputs: Sequence[Array]
    ) -> PairVectors:
        """Return the vectors."""
        return PairVectors(*outputs[0])

    def score(self, examples: Sequence[LabelledText], predictions: Sequence[PairVectors]) -> dict[str, float]:
        """Return how often the second text is found first, and the mean of 1 / the rank where it is found.

        One that is no nearer than another stands behind it; others that are right for the same first text do not count.
        """
        number_of = {text: i for i, text in enumerate(dict.fromkeys(example.pair for example in examples))}
        own_N = np.array([number_of[example.pair] for example in examples])
        second_ND = np.array([prediction.second for prediction in predictions])
        right_of = defaultdict(set)
        for example, own in zip(examples, own_N.tolist(), strict=True):
            right_of[example.text].add(own)
        candidates_MD = second_ND[np.unique(own_N, return_index=True)[1]]
        ranks = []
        for start in range(0, len(examples), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            first_ND = np.array([prediction.first for prediction in predictions[part]])
            cosines_NM = first_ND @ candidates_MD.T
            right_N1 = np.take_along_axis(cosines_NM, own_N[part, None], axis=1)
            for cosines_M, example in zip(cosines_NM, examples[part], strict=True):
                cosines_M[list(right_of[example.text])] = -np.inf
            ranks.append(1 + (cosines_NM >= right_N1).sum(1))
        ranks_N = np.concatenate(ranks)
        return {
            "mrr": float((1 / ranks_N).mean()),
            "accuracy@1": float((ranks_N == 1).mean()),
            "candidates": float(len(candidates_MD)),
        }

    def collapse(self, examples: Sequence[LabelledText], predictions: Sequence[PairVectors]) -> str | None:
        """Name a model whose vectors are all alike."""
        cosines = np.array([prediction.second for prediction in predictions]) @ predictions[0].first
        return "one vector only" if np.ptp(cosines) < _FLATNESS and len(predictions) > 1 else None

    def to_json(self, example: LabelledText, prediction: PairVectors) -> dict[str, Any]:
        """Return the cosine, and the vectors that it is of."""
        return {
            "cosine": float(prediction.first @ prediction.second),
            "vectors": [prediction.first.tolist(), prediction.second.tolist()],
        }

    def from_json(self, values: Mapping[str, Any]) -> PairVectors:
        """Read the vectors."""
        first, second = (np.array(own, np.float32) for own in values["vectors"])
        if not (first.ndim == 1 and first.shape == second.shape and np.isfinite([first, second]).all()):
            raise ValueError("its vectors are not two lists of as many numbers")
        return PairVectors(first, second)

    def predictions(self, path: Place, examples: Sequence[LabelledText]) -> list[PairVectors]:
        """Read predictions for examples; all vectors must be of one length."""
        found = super().predictions(path, examples)
        if len(lengths := sorted({len(prediction.first) for prediction in found})) > 1:
            what = f"vectors of {lengths[0]} numbers and of {lengths[-1]}"
            raise InputError(what, where=path, remedy="Give the predictions of one model")
        return found
