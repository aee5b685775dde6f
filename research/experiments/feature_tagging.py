"""Tagging with the features of a frozen encoder (Devlin et al. 2019, 5.3 and table 7).

Importing the file registers the task `feature-tagging`.

Shapes: T tokens in the packed batch, W words, L layers used, D hidden, X features of a word, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import torch
from torch import Tensor, nn

from cloze.config import Range
from cloze.errors import InputError
from cloze.models.bert import initialize_weights
from cloze.models.encoder import Encoder
from cloze.models.functional import dropout
from cloze.models.heads import ModelWithHead
from cloze.tasks.answers.tags import Tags
from cloze.tasks.arrays import split_rows
from cloze.tasks.registry import register_task
from cloze.tasks.tagged_reader import TaggedReader
from cloze.tasks.task import Task
from cloze.tasks.task_batch import Array, TaskBatch

FrozenLayers: TypeAlias = Literal[
    "embeddings",
    "second-to-last",
    "last",
    "weighted-sum-last-four",
    "concat-last-four",
    "weighted-sum-all",
]
"""The features of a word: the rows of table 7 of the paper."""


class _LayerChoice(NamedTuple):
    layers: slice
    """Of the embeddings, 0, and the layers from 1."""
    weighted: bool = False
    """Whether to sum the layers with learned weights, as users of ELMo do, instead of concatenating them."""
    min_layers: int = 1
    """Number of layers that the encoder must have."""


_CHOICES: Mapping[FrozenLayers, _LayerChoice] = MappingProxyType(
    {
        "embeddings": _LayerChoice(slice(0, 1)),
        "second-to-last": _LayerChoice(slice(-2, -1), min_layers=2),
        "last": _LayerChoice(slice(-1, None)),
        "weighted-sum-last-four": _LayerChoice(slice(-4, None), weighted=True, min_layers=4),
        "concat-last-four": _LayerChoice(slice(-4, None), min_layers=4),
        "weighted-sum-all": _LayerChoice(slice(1, None), weighted=True),
    }
)


@torch.no_grad()
def frozen_states(bert: Encoder, words: Any, layers: FrozenLayers) -> Tensor:
    """Return hidden states of words, [W, L, D], in float32.

    Args:
        words: a `PackedBatch` with `positions`, [W], of its tokens that are words.
    """
    with torch.autocast(words.positions.device.type, enabled=False):
        hidden_states = bert(words, output_hidden_states=True).hidden_states
    chosen = hidden_states[_CHOICES[layers].layers]
    return torch.stack([hidden_TD.index_select(0, words.positions) for hidden_TD in chosen], dim=1)


class BertBiLSTMForTokenClassification(ModelWithHead):
    """A class for each word: a two-layer BiLSTM on the features of a frozen encoder, and a dense layer.

    The encoder is not trained, and always in evaluation mode.

    Source:
        Devlin et al. 2019, 5.3 and table 7.

    Differs:
        The paper describes neither dropout nor the weights of sums: here dropout is before and after the BiLSTM, and
        the weights are a softmax times a scale (Peters et al. 2018, equation 1).
    """

    dropout_prob = 0.1
    num_layers = 2
    reads_pooler = False

    def __init__(
        self,
        bert: Encoder,
        *,
        num_labels: int,
        layers: FrozenLayers,
        lstm_size: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(bert.requires_grad_(requires_grad=False))
        self.num_labels = num_labels
        self._layers = layers
        num_layers, choice = bert.config.num_hidden_layers, _CHOICES[layers]
        if num_layers < choice.min_layers:
            what = f"{layers} takes {choice.min_layers} layers, the encoder has {num_layers}"
            raise InputError(what, where="layers", remedy="Choose `last`, or a deeper encoder")
        num_states = len(range(num_layers + 1)[choice.layers])
        if choice.weighted:
            self.layer_weights = nn.Parameter(torch.zeros(num_states))
            self.layer_scale = nn.Parameter(torch.ones(1))
        width = bert.config.hidden_size * (1 if choice.weighted else num_states)
        self.lstm = nn.LSTM(width, lstm_size, self.num_layers, batch_first=True, bidirectional=True)
        for parameter in self.lstm.parameters():
            nn.init.uniform_(parameter, -(lstm_size**-0.5), lstm_size**-0.5, generator=generator)
        self.classifier = nn.Linear(2 * lstm_size, num_labels)
        initialize_weights(self.classifier, bert.config.initializer_range, generator)

    def train(self, mode: bool = True) -> Self:  # noqa: FBT001, FBT002 (torch's)
        """Set the mode of all modules but the encoder."""
        super().train(mode)
        self.bert.eval()
        return self

    def forward(self, words: Any) -> Tensor:
        """Return logits [W, C].

        Args:
            words: as in `frozen_states`, with the `counts` of words in the sequences.
        """
        states_WLD = frozen_states(self.bert, words, self._layers)
        dropout_prob = self.dropout_prob if self.training else 0.0
        # not all devices have LSTMs in other dtypes
        with torch.autocast(states_WLD.device.type, enabled=False):
            features_WX = dropout(self.features(states_WLD), dropout_prob)
            sequences = nn.utils.rnn.pack_sequence(
                list(torch.split(features_WX, list(words.counts))), enforce_sorted=False
            )
            padded, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(sequences)[0], batch_first=True)
            read = torch.cat([row[:count] for row, count in zip(padded, words.counts, strict=True)])
            logits_WC: Tensor = self.classifier(dropout(read, dropout_prob))
        return logits_WC

    def features(self, states_WLD: Tensor) -> Tensor:
        """Return the layers of each word, concatenated or as a weighted sum, [W, X]."""
        if not _CHOICES[self._layers].weighted:
            return states_WLD.flatten(1)
        weights_L = self.layer_weights.softmax(0) * self.layer_scale
        return torch.einsum("wld,l->wd", states_WLD, weights_L)


@dataclass(frozen=True, kw_only=True)
class FrozenTags(Tags):
    """A BiLSTM on the layers of a frozen BERT."""

    weight_settings: ClassVar[tuple[str, ...]] = (*Tags.weight_settings, "layers", "lstm_size")

    layers: FrozenLayers = "concat-last-four"
    lstm_size: Annotated[int, Range("[1, 10000]")] = 768
    """Units in each direction."""

    def head(self, bert: Encoder, *, generator: torch.Generator | None = None) -> nn.Module:
        """Return the BiLSTM on the encoder."""
        return BertBiLSTMForTokenClassification(
            bert,
            num_labels=len(self.labels),
            layers=self.layers,
            lstm_size=self.lstm_size,
            generator=generator,
        )

    def word_logits(self, logits: Tensor, batch: TaskBatch) -> Tensor:
        """Return the logits, which this head computes for words only."""
        return logits

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        """Return the logits of the words of each sequence."""
        return split_rows(logits, batch.counts)


register_task(
    Task(
        "feature-tagging",
        "Tagged words; a BiLSTM on a frozen BERT. The paper does not report rate, epochs and batch size.",
        "Devlin et al. 2019, table 7; score as conlleval",
        TaggedReader(context="document"),
        FrozenTags(),
        defaults=(
            "max_seq_length=512",
            "epochs=10",
            "optimizer.learning_rate=1e-3",
            "optimizer.bias_correction=true",
        ),
        train_files=("train.conll", "train.txt", "eng.train", "wnut17train.conll"),
        dev_files=("dev.conll", "valid.txt", "eng.testa", "emerging.dev.conll"),
    )
)
