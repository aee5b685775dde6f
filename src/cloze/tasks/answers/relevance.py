"""The relevance of a passage to a query, from the pooled [CLS] of both; the passages of a query are ranked by it.

Shapes: B sequences.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from cloze.choices import LongTexts
from cloze.data.reading.bad_rows import source_of
from cloze.data.reading.tables import Row
from cloze.errors import InputError
from cloze.metrics.ranking import CUTOFF, RECALL_CUTOFF, RankedQuery, ranking_scores
from cloze.models.config_file import load_labels
from cloze.models.sentence_transformers import Activation, load_score_activation
from cloze.tasks.answers.kind import TextAnswer
from cloze.tasks.answers.number import are_constant, read_number
from cloze.tasks.arrays import sigmoid
from cloze.tasks.task_batch import Baseline, Outputs, Scores, SummedLoss, TaskBatch, Tensor
from cloze.tasks.texts import LabeledText, Texts
from cloze.tasks.tfidf import tfidf_cosines

_MIN_SPREAD = 1e-4


@dataclass(frozen=True, kw_only=True)
class Relevance(TextAnswer[float]):
    """The relevance of a passage: its probability, or the logit. A long passage has that of its best window.

    Source: Nogueira and Cho 2019, 2; Dai and Callan 2019 (windows).

    Differs: one output with binary cross entropy instead of two with cross entropy.
    """

    metrics: ClassVar[tuple[str, ...]] = (f"ndcg@{CUTOFF}", f"mrr@{CUTOFF}", "map", f"recall@{RECALL_CUTOFF}")
    keys: ClassVar[tuple[str, ...]] = ("score",)
    problem_type = "multi_label_classification"  # transformers' name for a sigmoid
    weight_settings: ClassVar[tuple[str, ...]] = ("activation",)

    long_texts: LongTexts = "windows"
    """Truncate a long passage, or read it in windows."""
    activation: Activation = "sigmoid"
    """The function from the logit to the score: a sigmoid, or none, as some cross-encoders of other programs have."""

    def read(self, row: Row) -> int:
        relevance = read_number(row, self.missing_labels)
        if relevance < 0 or relevance != int(relevance):
            raise InputError(f"relevance {relevance:g} is not a whole number of 0 or more", where=row.where)
        return int(relevance)

    def fit(self, examples: Texts) -> Self:
        self.check_scorable(examples)
        return self

    def check_scorable(self, examples: Texts) -> None:
        super().check_scorable(examples)
        _relevant_queries(examples, [0.0] * len(examples))

    @property
    def class_names(self) -> tuple[str, ...]:
        return ("relevant",)

    def for_external_checkpoint(self, directory: Path) -> Self:
        """Return the kind for a cross-encoder, whose score equals sentence-transformers', which truncates texts."""
        if (num_classes := len(load_labels(directory))) != 1:
            raise InputError(f"no ranker: config.json names {num_classes} classes, not one")
        return replace(self, activation=load_score_activation(directory), long_texts="truncate")

    def target(self, gold: int) -> float:
        """Return 1 for a relevant passage, whatever its grade."""
        return float(gold > 0)

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the binary cross entropy of logits [B, 1]."""
        from torch import nn

        logits_B = logits[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(logits_B, batch.targets, reduction="sum")
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def distance(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        from cloze.training.metric_sums import sigmoid_divergence

        return sigmoid_divergence(logits, batch.teacher, temperature).sum()

    def raw_scores(self, outputs: Outputs) -> list[float]:
        return [float(np.max(outputs))]

    def decode(self, example: LabeledText, features: Sequence[Any], outputs: Outputs) -> float:
        (logit,) = self.raw_scores(outputs)
        return float(sigmoid(logit)) if self.activation == "sigmoid" else logit

    def score(self, examples: Texts, answers: Sequence[float], metrics: Sequence[str]) -> Scores:
        """Return the means over queries of MRR@10, nDCG@10, MAP and recall@100.

        Queries without a relevant passage are left out. Of passages with equal scores the less relevant is ranked
        first, so that the order of the file does not help.
        """
        queries = _relevant_queries(examples, answers)
        return {**ranking_scores(queries), "queries": float(len(queries))}

    def collapse(self, examples: Texts, answers: Sequence[float], metrics: Sequence[str]) -> str | None:
        return "one score only" if are_constant(examples, answers, _MIN_SPREAD) else None

    def baselines(self, train: Sequence[Any]) -> Mapping[str, Baseline]:
        return {"tfidf_cosine": tfidf_cosines}


def _relevant_queries(examples: Texts, answers: Sequence[float]) -> list[RankedQuery]:
    """Return the queries with a relevant passage, their passages ranked by the answers."""
    candidates: dict[str, list[tuple[float, int]]] = {}
    for example, answer in zip(examples, answers, strict=True):
        candidates.setdefault(example.text, []).append((-answer, example.gold))
    ranked = ([gold for _, gold in sorted(passages)] for passages in candidates.values())
    queries = [
        RankedQuery(golds, relevant) for golds in ranked if (relevant := [gold for gold in golds if gold > 0])
    ]
    if not queries:
        raise InputError("no passage is relevant to its query", where=source_of(examples[0].where))
    return queries
