"""Classification with a frozen encoder: a logistic regression on its vectors.

Shapes: B sequences, N training sequences, D hidden, C classes.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.models.encoder import Encoder
from cloze.models.frozen_encoder import BertForFeatureClassification, frozen_vectors
from cloze.models.pooling import Pooling
from cloze.tasks.features import TextFeature
from cloze.tasks.registry import register_task
from cloze.tasks.sequence_classification import SequenceClassification
from cloze.tasks.task_batch import TaskBatch
from cloze.tasks.texts import CustomTexts

_MAX_ITERATIONS = 1000
_UNSEEN_BIAS = -30.0
"""Bias of a class without examples. The other logits sum to 0, so the largest of them is higher."""


@register_task("feature-classification")
class FeatureClassification(CustomTexts, SequenceClassification):
    """A logistic regression on the vectors of a frozen encoder. It takes seconds on a CPU.

    The vectors are standardized to mean 0 and deviation 1; scikit-learn fits the regression with its defaults. The
    head is one dense layer that does both. There is no randomness: all seeds give the same model.
    """

    data_format = "TSV, CSV, JSON lines or Parquet: a text, or two, and a label"
    source = "your own data; Devlin et al. 2019, 5.3, with a linear model"
    libraries = ("sklearn",)
    has_closed_form = True
    trains_encoder = False
    model_settings: ClassVar[tuple[str, ...]] = (*SequenceClassification.model_settings, "layer", "pooling")

    layer: int = -1
    """From 1; 0 is the embeddings, -1 the last."""
    pooling: Pooling = "mean"
    """Pooling of the layer's vectors."""

    def head(self, bert: Encoder, *, generator: torch.Generator | None = None) -> nn.Module:
        """Return the frozen encoder with a dense layer on its vectors."""
        return BertForFeatureClassification(
            bert, num_labels=len(self.labels), layer=self.layer, pooling=self.pooling, generator=generator
        )

    def frozen_states(self, encoder: Encoder, batch: TaskBatch) -> Tensor:
        """Return the encoder's vectors of the sequences, [B, D]."""
        return frozen_vectors(encoder, batch, layer=self.layer, pooling=self.pooling)

    def solve(self, model: nn.Module, features: Sequence[TextFeature]) -> None:
        """Fit the logistic regression."""
        from sklearn.linear_model import LogisticRegression

        assert isinstance(model, BertForFeatureClassification)
        vectors_ND = np.array([feature.states for feature in features], np.float64)
        targets_N = np.array([feature.target for feature in features])
        if len(set(targets_N.tolist())) < 2:
            what = f"every example to learn from has the label {self.labels[targets_N[0]]!r}"
            raise InputError(what, where=self.name, remedy="Give more examples")
        mean_D, deviation_D = vectors_ND.mean(0), vectors_ND.std(0)
        is_constant_D = deviation_D < 1e-6 * np.abs(mean_D) + 1e-12  # up to rounding
        deviation_D[is_constant_D] = 1.0
        regression = LogisticRegression(max_iter=_MAX_ITERATIONS).fit(
            (vectors_ND - mean_D) / deviation_D,
            targets_N,
            np.array(self.loss_weights)[targets_N] if self.loss_weights else None,
        )
        weight_CD = regression.coef_ / deviation_D
        bias_C = regression.intercept_ - weight_CD @ mean_D
        if len(regression.classes_) == 2:
            # one row, the logit of the second class: as a softmax, half of it and minus half
            weight_CD = np.concatenate([-weight_CD, weight_CD]) / 2
            bias_C = np.concatenate([-bias_C, bias_C]) / 2
        dense = model.logistic_regression
        with torch.no_grad():
            dense.weight.zero_()
            dense.bias.fill_(_UNSEEN_BIAS)
            dense.weight[regression.classes_] = torch.from_numpy(weight_CD).to(dense.weight)
            dense.bias[regression.classes_] = torch.from_numpy(bias_C).to(dense.bias)
