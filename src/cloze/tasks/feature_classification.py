"""The family of tasks that tell a label by the vectors of an encoder that does not learn.

Shapes: B sequences, D hidden, C classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from cloze.errors import InputError
from cloze.model.bert import BertModel
from cloze.model.frozen_vectors import BertForFeatureClassification, PackedVectors, frozen_vectors
from cloze.model.pooling import Pooling
from cloze.progress import Progress
from cloze.tasks.batches import by_length
from cloze.tasks.sequence_classification import SequenceClassification
from cloze.tasks.task import Array, TargetBatch
from cloze.tasks.texts import TextFeature

_MAX_ITERATIONS = 1000
_UNSEEN = -30.0  # logits of the others sum to 0, so the largest of them is more


@dataclass(frozen=True, eq=False, slots=True)
class FrozenFeature(TextFeature):
    """A feature with what the encoder says of it, [D]."""

    vector: Array


@dataclass(frozen=True, kw_only=True)
class FeatureClassification(SequenceClassification):
    """A logistic regression on vectors of a frozen encoder: seconds on a CPU.

    The vectors are brought to mean 0 and deviation 1; the regression is scikit-learn's with its defaults, on them.
    Both become one dense layer. Nothing is drawn at random: every seed gives the same model.
    """

    libraries: ClassVar[tuple[str, ...]] = ("sklearn",)
    is_solved: ClassVar[bool] = True
    encoder_learns: ClassVar[bool] = False
    learned_settings: ClassVar[tuple[str, ...]] = (
        *SequenceClassification.learned_settings,
        "layer",
        "pooling",
    )

    layer: int = -1
    """From 1; 0 is the embeddings, -1 the last."""
    pooling: Pooling = "mean"
    """How the layer's vectors become one."""

    def head(
        self, bert: BertModel, *, generator: torch.Generator | None = None
    ) -> BertForFeatureClassification:
        """Return the encoder, frozen, with a dense layer on its vectors."""
        return BertForFeatureClassification(
            bert,
            num_labels=len(self.labels),
            layer=self.layer,
            pooling=self.pooling,
            generator=generator,
        )

    def prepared(
        self,
        features: list[list[TextFeature]],
        encoder: Callable[[], BertModel],
        *,
        max_tokens: int,
        progress: Progress,
    ) -> list[list[TextFeature]]:
        """Return features that know their vectors."""
        bert = encoder()
        device = next(bert.parameters()).device
        flat = [feature for own in features for feature in own]
        vectors_ND = np.empty((len(flat), bert.config.hidden_size), np.float32)
        with progress.bar("encoding", total=len(flat), unit="sequences") as bar:
            for indices in by_length([feature.num_tokens for feature in flat], max_tokens):
                packed = self.batch([flat[i] for i in indices]).packed.to(device)
                with torch.no_grad():
                    found = frozen_vectors(bert, packed, layer=self.layer, pooling=self.pooling)
                vectors_ND[indices] = found.cpu().numpy()
                bar.advance(len(indices))
        rest = iter(vectors_ND)
        return [
            [FrozenFeature(f.input_ids, f.token_type_ids, f.target, f.is_truncated, next(rest)) for f in own]
            for own in features
        ]

    def batch(self, features: Sequence[TextFeature]) -> TargetBatch:
        """Pack sequences in the order given, with what the encoder says where that is known."""
        batch = super().batch(features)
        known = [feature.vector for feature in features if isinstance(feature, FrozenFeature)]
        if not known:
            return batch
        packed = batch.packed
        vectors_BD = torch.from_numpy(np.stack(known))
        return replace(
            batch,
            packed=PackedVectors(
                packed.input_ids,
                packed.token_type_ids,
                packed.position_ids,
                packed.cu_seqlens,
                packed.runs,
                vectors_BD,
            ),
        )

    def solve(self, model: nn.Module, features: Sequence[TextFeature]) -> None:
        """Fit the logistic regression.

        Raises:
            InputError: the features have one label only.
        """
        from sklearn.linear_model import LogisticRegression

        assert isinstance(model, BertForFeatureClassification)
        vectors_ND = np.array([f.vector for f in features if isinstance(f, FrozenFeature)], np.float64)
        targets_N = np.array([feature.target for feature in features])
        if len(set(targets_N.tolist())) < 2:
            what = f"every example to learn from has the label {self.labels[targets_N[0]]!r}"
            raise InputError(what, where=self.name, remedy="Give more examples")
        mean_D, deviation_D = vectors_ND.mean(0), vectors_ND.std(0)
        same_in_all_texts_D = deviation_D < 1e-6 * np.abs(mean_D) + 1e-12  # but for rounding
        deviation_D[same_in_all_texts_D] = 1.0
        regression = LogisticRegression(max_iter=_MAX_ITERATIONS).fit(
            (vectors_ND - mean_D) / deviation_D,
            targets_N,
            np.array(self.class_weights)[targets_N] if self.class_weights else None,
        )
        weight_CD = regression.coef_ / deviation_D
        bias_C = regression.intercept_ - weight_CD @ mean_D
        if len(regression.classes_) == 2:
            # one row, of the second class: as a softmax it is half of it, and minus half
            weight_CD = np.concatenate([-weight_CD, weight_CD]) / 2
            bias_C = np.concatenate([-bias_C, bias_C]) / 2
        dense = model.logistic_regression
        with torch.no_grad():
            dense.weight.zero_()
            dense.bias.fill_(_UNSEEN)
            dense.weight[regression.classes_] = torch.from_numpy(weight_CD).to(dense.weight)
            dense.bias[regression.classes_] = torch.from_numpy(bias_C).to(dense.bias)
