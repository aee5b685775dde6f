"""BERT as a maker of features: a frozen encoder, and a BiLSTM over the vectors of words that learns.

Shapes: T tokens in the packed batch, W words of it, L layers taken, D hidden, X width of a word's features, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.model.bert import BertConfig, BertModel, initialize_weights
from cloze.model.dropout import dropout
from cloze.model.packed import Packed

FrozenLayers: TypeAlias = Literal[
    "embeddings",
    "second-to-last",
    "last",
    "weighted-sum-last-four",
    "concat-last-four",
    "weighted-sum-all",
]
"""What a word's features are made of: the rows of table 7 of the paper."""


class _Choice(NamedTuple):
    layers: slice
    """Of the embeddings, 0, and the layers from 1."""
    weighted: bool = False
    """Sum the layers with weights that are learned, as ELMo's users do, where they would be laid side by side."""
    at_least: int = 1
    """So many layers an encoder has that has these."""


_CHOICES: Mapping[FrozenLayers, _Choice] = MappingProxyType(
    {
        "embeddings": _Choice(slice(0, 1)),
        "second-to-last": _Choice(slice(-2, -1), at_least=2),
        "last": _Choice(slice(-1, None)),
        "weighted-sum-last-four": _Choice(slice(-4, None), weighted=True, at_least=4),
        "concat-last-four": _Choice(slice(-4, None), at_least=4),
        "weighted-sum-all": _Choice(slice(1, None), weighted=True),
    }
)


@dataclass(frozen=True, slots=True)
class PackedWords(Packed):
    """Sequences end to end, and which of their tokens are the words to be classified."""

    positions: Tensor
    """[W], indices into the packed tokens."""
    num_words: tuple[int, ...]
    """Of each sequence."""
    states: Tensor | None = None
    """[W, L, D]: what the frozen encoder says of the words, where that was computed before."""

    def to(self, device: torch.device | str) -> "PackedWords":
        """Copy the tensors to a device, without waiting for it."""
        packed = Packed.to(self, device)
        return PackedWords(
            packed.input_ids,
            packed.token_type_ids,
            packed.position_ids,
            packed.cu_seqlens,
            packed.runs,
            self.positions.to(device, non_blocking=True),
            self.num_words,
            None if self.states is None else self.states.to(device, non_blocking=True),
        )


def count_states(config: BertConfig, layers: FrozenLayers) -> int:
    """Return L: how many vectors of a word are taken from an encoder.

    Raises:
        InputError: it has not as many layers.
    """
    wanted, found = _CHOICES[layers].at_least, config.num_hidden_layers
    if found < wanted:
        what = f"{layers} takes {wanted} layers, the encoder has {found}"
        raise InputError(what, where="layers", remedy="Take another choice, as last, or a deeper encoder")
    return len(range(found + 1)[_CHOICES[layers].layers])


@torch.no_grad()
def frozen_states(bert: BertModel, words: PackedWords, layers: FrozenLayers) -> Tensor:
    """Return what an encoder says of words, [W, L, D], in float32."""
    with torch.autocast(words.positions.device.type, enabled=False):
        hidden_states = bert.forward_packed(words, keep_hidden_states=True).hidden_states
    chosen = hidden_states[_CHOICES[layers].layers]
    return torch.stack([hidden_TD.index_select(0, words.positions) for hidden_TD in chosen], dim=1)


class BertBiLSTMForTokenClassification(nn.Module):
    """A class for each word: a two-layer BiLSTM on features from an encoder that does not learn, and a dense layer.

    Source:
        Devlin et al. 2019, 5.3 and table 7.

    Differs:
        The paper names neither dropout nor how weights of a sum are learned: here dropout is before and after the
        BiLSTM, and the weights are a softmax times a scale (Peters et al. 2018, equation 1).
    """

    dropout_prob = 0.1
    num_layers = 2
    reads_pooled_output = False

    def __init__(
        self,
        bert: BertModel,
        *,
        num_labels: int,
        layers: FrozenLayers,
        lstm_size: int,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.bert = bert.requires_grad_(requires_grad=False)
        self.num_labels = num_labels
        self._layers = layers
        num_states = count_states(bert.config, layers)
        weighted = _CHOICES[layers].weighted
        if weighted:
            self.layer_weights = nn.Parameter(torch.zeros(num_states))
            self.layer_scale = nn.Parameter(torch.ones(1))
        width = bert.config.hidden_size * (1 if weighted else num_states)
        self.lstm = nn.LSTM(width, lstm_size, self.num_layers, batch_first=True, bidirectional=True)
        for parameter in self.lstm.parameters():
            nn.init.uniform_(parameter, -(lstm_size**-0.5), lstm_size**-0.5, generator=generator)
        self.classifier = nn.Linear(2 * lstm_size, num_labels)
        initialize_weights(self.classifier, bert.config.initializer_range, generator)

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.bert.config

    def train(self, mode: bool = True) -> "BertBiLSTMForTokenClassification":  # noqa: FBT001, FBT002 (torch's)
        """Set the mode of all but the encoder, which is never in training."""
        super().train(mode)
        self.bert.eval()
        return self

    def forward(self, words: PackedWords) -> Tensor:
        """Return logits [W, C]."""
        states_WLD = words.states
        if states_WLD is None:
            states_WLD = frozen_states(self.bert, words, self._layers)
        dropout_prob = self.dropout_prob if self.training else 0.0
        # LSTMs of other formats are not everywhere
        with torch.autocast(states_WLD.device.type, enabled=False):
            features_WX = dropout(self.features(states_WLD), dropout_prob)
            sequences = nn.utils.rnn.pack_sequence(
                list(torch.split(features_WX, list(words.num_words))), enforce_sorted=False
            )
            padded, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(sequences)[0], batch_first=True)
            read = torch.cat([own[:count] for own, count in zip(padded, words.num_words, strict=True)])
            logits_WC: Tensor = self.classifier(dropout(read, dropout_prob))
        return logits_WC

    def features(self, states_WLD: Tensor) -> Tensor:
        """Return the layers of each word side by side or as a weighted sum, [W, X]."""
        if not _CHOICES[self._layers].weighted:
            return states_WLD.flatten(1)
        weights_L = self.layer_weights.softmax(0) * self.layer_scale
        return torch.einsum("wld,l->wd", states_WLD, weights_L)
