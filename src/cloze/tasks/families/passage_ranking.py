"""The family of ranking tasks: passages in order of their relevance to a query.

Shapes: B sequences.
"""

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from cloze.choices import LongTexts
from cloze.data.reading.bad_rows import source_of
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE
from cloze.metrics.ranking import CUTOFF, RECALL_CUTOFF, RankedQuery, ranking_scores
from cloze.models.config_file import load_labels
from cloze.models.cross_encoder import Activation, load_score_activation
from cloze.tasks.arrays import sigmoid
from cloze.tasks.families.text_regression import NumberAnswers
from cloze.tasks.features import TextFeatures
from cloze.tasks.task_batch import Array, Baseline, Outputs, Scores, SummedLoss, TaskBatch, Tensor
from cloze.tasks.texts import LabeledText, Texts, TextTask
from cloze.tasks.tfidf import tfidf_cosines


@dataclass(frozen=True, kw_only=True)
class PassageRanking(NumberAnswers, TextTask[float]):
    """The relevance of a passage, from the pooled [CLS] of query and passage: the probability, or the logit.

    A long passage has the score of its best window (Dai and Callan 2019).

    Source: Nogueira and Cho 2019, 2.

    Differs: one output with binary cross entropy instead of two with cross entropy.
    """

    metrics: ClassVar[tuple[str, ...]] = (f"ndcg@{CUTOFF}", f"mrr@{CUTOFF}", "map", f"recall@{RECALL_CUTOFF}")
    problem_type = "multi_label_classification"  # transformers' name for a sigmoid
    model_settings: ClassVar[tuple[str, ...]] = ("labels", "activation")
    min_spread = 1e-4

    long_texts: LongTexts = "windows"
    labels: tuple[str, str] | None = None
    """Both classes of another program's model, the second for relevant passages; None: one output."""
    activation: Activation = "sigmoid"
    """The function from the logit to the score: a sigmoid, or none, as some cross-encoders of other programs have."""

    @property
    def class_names(self) -> tuple[str, ...]:
        return self.labels or ("relevant",)

    def for_external_checkpoint(self, directory: Path) -> Self:
        """Return the task for a cross-encoder with one output, or two: the second class is relevance.

        The score of one output is that of sentence-transformers, which applies the activation and truncates texts.

        Raises:
            InputError: it has more classes, or its classes do not exclude each other.
        """
        labels = load_labels(directory)
        if len(labels) < 2:
            return replace(self, activation=load_score_activation(directory), long_texts="truncate")
        if len(labels) > 2 or read_json(directory / CONFIG_FILE).get("problem_type") == self.problem_type:
            what = (
                f"no ranker: config.json names {len(labels)} classes, not one, or two that exclude each other"
            )
            raise InputError(what)
        what = f"two classes: passages are ranked by the probability of the second, {labels[1]!r}"
        warnings.warn(f"{directory}: {what}", stacklevel=2)
        return replace(self, labels=(labels[0], labels[1]))

    def split_group(self, example: LabeledText) -> Hashable:
        return example.text

    def check_label(self, label: str, where: str) -> str:
        """Return a relevance as it is written; it must be a number of 0 or more."""
        self.gold(LabeledText("", label=label, where=where))
        return label

    def gold(self, example: LabeledText) -> int:
        relevance = super().gold(example)
        if relevance < 0 or relevance != int(relevance):
            what = f"relevance {example.label!r} is not a whole number of 0 or more"
            raise InputError(what, where=example.where)
        return int(relevance)

    def target(self, example: LabeledText) -> float:
        """Return 1 for a relevant passage, whatever its grade."""
        return float(self.gold(example) > 0)

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the summed binary cross entropy of logits [B, 1] or [B, 2]."""
        from torch import nn

        margins_B = _margins(logits)[:, 0]
        loss = nn.functional.binary_cross_entropy_with_logits(margins_B, batch.targets, reduction="sum")
        return loss, {"loss": (loss.detach(), batch.num_targets)}

    def soft_loss(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        from cloze.training.losses import sigmoid_divergence

        return sigmoid_divergence(_margins(logits), batch.teacher, temperature).sum()

    def check_teacher(self, teacher: Self) -> None:
        """Accept any teacher: one with two classes has the same outputs."""

    def teacher_rows(self, output: Array, teacher: Self) -> Array:
        """Return the logit of relevance, [1, 1]."""
        return output[None]

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        return super().outputs(logits if logits.shape[1] == 1 else np.diff(logits), batch)

    def decode(self, example: LabeledText, features: TextFeatures, outputs: Outputs) -> float:
        (logit,) = self.raw_scores(outputs)
        return float(sigmoid(logit)) if self.activation == "sigmoid" else logit

    def raw_scores(self, outputs: Outputs) -> list[float]:
        """Return the highest logit of the windows."""
        return [float(np.max(outputs))]

    def score(self, examples: Texts, predictions: Sequence[float]) -> Scores:
        """Return the means over queries of MRR@10, nDCG@10, MAP and recall@100.

        Queries without a relevant passage are left out. Of passages with equal scores the less relevant is ranked
        first, so that the order of the file does not help.
        """
        queries = self._relevant_queries(examples, predictions)
        return {**ranking_scores(queries), "queries": float(len(queries))}

    def rank_passages(self, examples: Texts, predictions: Sequence[float]) -> dict[str, list[int]]:
        """Return the relevance of the passages of each query, ranked by the predictions."""
        candidates: dict[str, list[tuple[float, int]]] = {}
        for example, prediction in zip(examples, predictions, strict=True):
            candidates.setdefault(example.text, []).append((-prediction, self.gold(example)))
        return {query: [gold for _, gold in sorted(passages)] for query, passages in candidates.items()}

    def _relevant_queries(self, examples: Texts, predictions: Sequence[float]) -> list[RankedQuery]:
        """Return the queries with a relevant passage, their passages ranked by the predictions."""
        rankings = self.rank_passages(examples, predictions).values()
        queries = [
            RankedQuery(ranked, relevant)
            for ranked in rankings
            if (relevant := [relevance for relevance in ranked if relevance > 0])
        ]
        if not queries:
            raise InputError("no passage is relevant to its query", where=source_of(examples[0].where))
        return queries

    def baselines(self) -> Mapping[str, Baseline]:
        return {"tfidf_cosine": tfidf_cosines}

    def fit_labels(self, examples: Texts) -> Self:
        self.check_scorable(examples)
        return self

    def check_scorable(self, examples: Texts) -> None:
        self._relevant_queries(examples, [0.0] * len(examples))


def _margins(logits: Tensor) -> Tensor:
    """Return the logits of relevance, [B, 1]; of two classes the difference, whose sigmoid is the second's softmax."""
    return logits if logits.shape[1] == 1 else logits.diff()
