"""The family of tasks that put passages in order for a query, as BERT does in web search.

Shapes: B sequences.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.metrics.ranking import CUTOFF, RECALL_CUTOFF, RankedQuery, ranking_scores
from cloze.model.bert import BertModel
from cloze.model.heads import BertForSequenceClassification
from cloze.tasks.probabilities import sigmoid
from cloze.tasks.sequences import LongTexts
from cloze.tasks.task import Array, TargetBatch
from cloze.tasks.texts import LabelledText, Target, TextFeature, TextTask, finite, score_of
from cloze.training.measures import Measures

_FLATNESS = 1e-4  # probabilities that spread less say nothing of an order


@dataclass(frozen=True, slots=True)
class RankedText(LabelledText):
    """A query and a passage, and how relevant that is: 0 = not, more = more."""

    judged: tuple[int, ...] = ()
    """Of all passages that are relevant to the query, those too that are no candidates; empty: the candidates'."""
    numbers: tuple[int, int] | None = None
    """Of the query and the passage, where the file has them by number."""


@dataclass(frozen=True, kw_only=True)
class PassageRanking(TextTask[float]):
    """The probability that a passage is relevant, from the pooled [CLS] of query and passage, learned pair by pair.

    Of a long passage the best window counts: what answers a query may stand anywhere in it (Dai and Callan 2019).

    Source: Nogueira and Cho 2019, 2, with the cross entropy of one output, where theirs has two.
    """

    main_metric: ClassVar[str] = f"ndcg@{CUTOFF}"
    metrics: ClassVar[tuple[str, ...]] = (f"mrr@{CUTOFF}", f"ndcg@{CUTOFF}", "map", f"recall@{RECALL_CUTOFF}")
    problem_type: ClassVar[str | None] = "multi_label_classification"  # how transformers calls a sigmoid
    class_names: ClassVar[tuple[str, ...]] = ("relevant",)

    long_texts: LongTexts = "windows"

    def origin(self, example: LabelledText) -> Hashable:
        """Return the query: no query is both learned and scored."""
        return example.text

    def target(self, example: LabelledText) -> float:
        """Return 1 for a relevant passage, however relevant it is."""
        return float(_relevance(example) > 0)

    def targets(self, targets: Sequence[Target | None]) -> Tensor:
        """Return what is relevant, [B]."""
        return torch.tensor([0.0 if target is None else target for target in targets])

    def head(
        self, bert: BertModel, *, generator: torch.Generator | None = None
    ) -> BertForSequenceClassification:
        """Return the encoder with one output."""
        return BertForSequenceClassification(bert, num_labels=1, generator=generator)

    def loss(self, logits: Tensor, batch: TargetBatch) -> tuple[Tensor, Measures]:
        """Return the summed binary cross entropy of logits [B, 1]."""
        loss = nn.functional.binary_cross_entropy_with_logits(logits[:, 0], batch.targets, reduction="sum")
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def decode(
        self, example: LabelledText, features: Sequence[TextFeature], outputs: Sequence[Array]
    ) -> float:
        """Return the probability that the passage is relevant, of windows the highest."""
        return float(sigmoid(np.max(outputs)))

    def score(self, examples: Sequence[LabelledText], predictions: Sequence[float]) -> dict[str, float]:
        """Return the means over queries of MRR@10, nDCG@10, MAP and recall@100, each query's passages in order.

        Queries to which nothing is relevant are left out: every order is as good. Of passages with one score the less
        relevant stands first: no order is no merit.
        """
        queries = _queries(examples, predictions)
        return {**ranking_scores(queries), "queries": float(len(queries))}

    def fitted(self, examples: Sequence[LabelledText]) -> Self:
        """Return the task.

        Raises:
            InputError: nothing is relevant.
        """
        self.check_scored(examples)
        return self

    def check_scored(self, examples: Sequence[LabelledText]) -> None:
        """Refuse examples of which no passage is relevant."""
        _queries(examples, [0.0] * len(examples))

    def collapse(self, examples: Sequence[LabelledText], predictions: Sequence[float]) -> str | None:
        """Name a model that gives all passages the same score."""
        is_flat = max(predictions) - min(predictions) < _FLATNESS
        return "one score only" if is_flat and len(predictions) > 1 else None

    def to_json(self, example: LabelledText, prediction: float) -> dict[str, Any]:
        """Return the probability that the passage is relevant, and of whom that is said where they have numbers."""
        numbers = example.numbers if isinstance(example, RankedText) else None
        return {"score": prediction} | dict(zip(("query", "document"), numbers or (), strict=False))

    def from_json(self, values: Mapping[str, Any]) -> float:
        """Read the score: any number that is higher for the better passage."""
        return finite(values["score"])


def _queries(examples: Sequence[LabelledText], predictions: Sequence[float]) -> list[RankedQuery]:
    """Return the queries to which something is relevant, their passages in the order of the predictions.

    Raises:
        InputError: there are none.
    """
    candidates: dict[str, list[tuple[float, int]]] = {}
    judged: dict[str, tuple[int, ...]] = {}
    for example, prediction in zip(examples, predictions, strict=True):
        candidates.setdefault(example.text, []).append((-prediction, _relevance(example)))
        judged[example.text] = example.judged if isinstance(example, RankedText) else ()
    queries = []
    for query, own in candidates.items():
        relevance = [each for _, each in sorted(own)]
        if relevant := judged[query] or tuple(each for each in relevance if each > 0):
            queries.append(RankedQuery(relevance, relevant))
    if not queries:
        where = examples[0].where.rpartition(":")[0]
        raise InputError("no passage is relevant to its query", where=where)
    return queries


def _relevance(example: LabelledText) -> int:
    relevance = score_of(example)
    if relevance < 0 or relevance != int(relevance):
        what = f"relevance {example.label!r} is not a whole number of 0 or more"
        raise InputError(what, where=example.where)
    return int(relevance)
