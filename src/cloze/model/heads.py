"""Heads: what stands on the encoder for one kind of task. Each takes an encoder and adds its own few weights.

Shapes: T tokens in the packed batch, B sequences, P masked positions, D hidden, V vocabulary, C classes.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from cloze.model.bert import ACTIVATIONS, BertConfig, BertModel, Packed, initialize_weights
from cloze.model.cross_entropy import linear_cross_entropy_sum
from cloze.model.dropout import dropout


class PreTrainingLogits(NamedTuple):
    """Scores before softmax."""

    masked_lm_logits: Tensor
    """[P, V]: a row for each masked position."""
    next_sentence_logits: Tensor
    """[B, 2]: 0 = IsNext, 1 = NotNext."""


class PreTrainingLosses(NamedTuple):
    """Sums, in nats; whoever knows the whole batch divides by its counts."""

    masked_lm_loss_sum: Tensor
    next_sentence_loss_sum: Tensor


class MaskedLMHead(nn.Module):
    """Turns the vector of a masked position into scores over the vocabulary.

    The word embeddings serve as the output matrix: they are handed in at every call, so there is one copy.

    Source:
        Devlin et al. 2019, 3.1 (task 1); google-research/bert run_pretraining.py:240 @eedf571.
    """

    def __init__(self, config: BertConfig, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self._activation = ACTIVATIONS[config.hidden_act]
        initialize_weights(self, config.initializer_range, generator)

    def transform(self, hidden_PD: Tensor) -> Tensor:
        """Apply all but the output matrix."""
        transformed_PD: Tensor = self.layer_norm(self._activation(self.dense(hidden_PD)))
        return transformed_PD

    def forward(self, hidden_PD: Tensor, word_embeddings_VD: Tensor) -> Tensor:
        """Return logits [P, V]."""
        return nn.functional.linear(self.transform(hidden_PD), word_embeddings_VD, self.bias)

    def loss_sum(self, hidden_PD: Tensor, word_embeddings_VD: Tensor, masked_lm_ids: Tensor) -> Tensor:
        """Return the summed cross entropy of the true pieces."""
        return linear_cross_entropy_sum(
            self.transform(hidden_PD), word_embeddings_VD, self.bias, masked_lm_ids
        )


class BertForPreTraining(nn.Module):
    """Masked words and next sentence, on one encoder.

    Source:
        Devlin et al. 2019, 3.1; google-research/bert run_pretraining.py:240, 285 @eedf571.
    """

    def __init__(self, bert: BertModel, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.bert = bert
        self.masked_lm = MaskedLMHead(bert.config, generator=generator)
        self.next_sentence = nn.Linear(bert.config.hidden_size, 2)
        initialize_weights(self.next_sentence, bert.config.initializer_range, generator)

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.bert.config

    def forward(self, packed: Packed, masked_lm_positions: Tensor) -> PreTrainingLogits:
        """Score the vocabulary at the masked positions only, and the two next-sentence classes.

        Args:
            masked_lm_positions: [P], indices into the packed tokens.
        """
        hidden_PD, pooled_BD = self._encode(packed, masked_lm_positions)
        return PreTrainingLogits(
            self.masked_lm(hidden_PD, self.bert.embeddings.word_embeddings.weight),
            self.next_sentence(pooled_BD),
        )

    def losses(
        self,
        packed: Packed,
        masked_lm_positions: Tensor,
        masked_lm_ids: Tensor,
        next_sentence_labels: Tensor,
    ) -> PreTrainingLosses:
        """Return both loss sums, without ever keeping the logits.

        Args:
            masked_lm_positions: [P], indices into the packed tokens.
            masked_lm_ids: [P], the pieces that stood there.
            next_sentence_labels: [B], 0 = IsNext, 1 = NotNext.
        """
        hidden_PD, pooled_BD = self._encode(packed, masked_lm_positions)
        word_embeddings_VD = self.bert.embeddings.word_embeddings.weight
        next_sentence_logits_B2 = self.next_sentence(pooled_BD).float()
        return PreTrainingLosses(
            self.masked_lm.loss_sum(hidden_PD, word_embeddings_VD, masked_lm_ids),
            nn.functional.cross_entropy(next_sentence_logits_B2, next_sentence_labels, reduction="sum"),
        )

    def _encode(self, packed: Packed, masked_lm_positions: Tensor) -> tuple[Tensor, Tensor]:
        output = self.bert.forward_packed(packed)
        # not sequence_output[...]: on a CPU the gradient of indexing adds up in another order each time
        hidden_PD = output.sequence_output.index_select(0, masked_lm_positions)
        return hidden_PD, output.pooled_output


class BertForMaskedLM(nn.Module):
    """Masked words alone: the half of `BertForPreTraining` that fills in, with the same weights.

    Source:
        Devlin et al. 2019, 3.1 (task 1); google-research/bert run_pretraining.py:240 @eedf571.
    """

    reads_pooled_output = False

    def __init__(self, bert: BertModel, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.bert = bert
        self.masked_lm = MaskedLMHead(bert.config, generator=generator)

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.bert.config

    def forward(self, packed: Packed, masked_lm_positions: Tensor) -> Tensor:
        """Return logits [P, V], at the masked positions only.

        Args:
            masked_lm_positions: [P], indices into the packed tokens.
        """
        hidden_PD = self.bert.forward_packed(packed).sequence_output.index_select(0, masked_lm_positions)
        logits_PV: Tensor = self.masked_lm(hidden_PD, self.bert.embeddings.word_embeddings.weight)
        return logits_PV


class BertForNextSentencePrediction(nn.Module):
    """Next sentence alone: the other half of `BertForPreTraining`, with the same weights.

    Source:
        Devlin et al. 2019, 3.1 (task 2); google-research/bert run_pretraining.py:285 @eedf571.
    """

    def __init__(self, bert: BertModel, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.bert = bert
        self.next_sentence = nn.Linear(bert.config.hidden_size, 2)
        initialize_weights(self.next_sentence, bert.config.initializer_range, generator)

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.bert.config

    def forward(self, packed: Packed) -> Tensor:
        """Return logits [B, 2]: 0 = IsNext, 1 = NotNext."""
        logits_B2: Tensor = self.next_sentence(self.bert.forward_packed(packed).pooled_output)
        return logits_B2


class _OutputLayer(nn.Linear):
    """A dense layer in its weights' own format under autocast, too.

    Logits in bfloat16 have steps of 1/128 of their size: passages in order and scores of texts would tie.
    """

    def forward(self, input: Tensor) -> Tensor:
        device = input.device.type
        if not torch.is_autocast_enabled(device):
            return super().forward(input)
        with torch.autocast(device, enabled=False):
            return super().forward(input.to(self.weight.dtype))


class BertForSequenceClassification(nn.Module):
    """A class for each sequence or sequence pair: dropout and one dense layer on the pooled output.

    Source:
        Devlin et al. 2019, 4.1; google-research/bert run_classifier.py:574 @eedf571.
    """

    dropout_prob = 0.1  # fixed in Google's code, whatever the encoder's

    def __init__(self, bert: BertModel, *, num_labels: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.bert = bert
        self.num_labels = num_labels
        self.classifier = _OutputLayer(bert.config.hidden_size, num_labels)
        initialize_weights(self.classifier, bert.config.initializer_range, generator)

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.bert.config

    def forward(self, packed: Packed) -> Tensor:
        """Return logits [B, C]."""
        pooled_BD = self.bert.forward_packed(packed).pooled_output
        logits_BC: Tensor = self.classifier(dropout(pooled_BD, self.dropout_prob if self.training else 0.0))
        return logits_BC


class BertForMultipleChoice(nn.Module):
    """A score for each sequence, to be compared with those of the other choices: a dense layer on the pooled output.

    Source:
        Devlin et al. 2019, 4.4.

    Differs:
        The paper's score is a dot product with C, the last layer at [CLS]; this takes the pooled output, with
        dropout, as Google's classifiers do.
    """

    dropout_prob = 0.1

    def __init__(self, bert: BertModel, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.bert = bert
        self.classifier = _OutputLayer(bert.config.hidden_size, 1)
        initialize_weights(self.classifier, bert.config.initializer_range, generator)

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.bert.config

    def forward(self, packed: Packed) -> Tensor:
        """Return scores [B]."""
        pooled_BD = self.bert.forward_packed(packed).pooled_output
        scores_B1: Tensor = self.classifier(dropout(pooled_BD, self.dropout_prob if self.training else 0.0))
        return scores_B1.squeeze(-1)


class BertForTokenClassification(nn.Module):
    """A class for every token: dropout and one dense layer on the last layer's vectors.

    Source:
        Devlin et al. 2019, 5.3; the released code has no such head.
    """

    dropout_prob = 0.1
    reads_pooled_output = False

    def __init__(self, bert: BertModel, *, num_labels: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.bert = bert
        self.num_labels = num_labels
        self.classifier = _OutputLayer(bert.config.hidden_size, num_labels)
        initialize_weights(self.classifier, bert.config.initializer_range, generator)

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.bert.config

    def forward(self, packed: Packed) -> Tensor:
        """Return logits [T, C]."""
        hidden_TD = self.bert.forward_packed(packed).sequence_output
        logits_TC: Tensor = self.classifier(dropout(hidden_TD, self.dropout_prob if self.training else 0.0))
        return logits_TC


class BertForQuestionAnswering(nn.Module):
    """Two scores for every token, as the first and as the last of the answer: one dense layer, without dropout.

    Source:
        Devlin et al. 2019, 4.2; google-research/bert run_squad.py:548 @eedf571.
    """

    reads_pooled_output = False

    def __init__(self, bert: BertModel, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.bert = bert
        self.qa_outputs = _OutputLayer(bert.config.hidden_size, 2)
        initialize_weights(self.qa_outputs, bert.config.initializer_range, generator)

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.bert.config

    def forward(self, packed: Packed) -> Tensor:
        """Return logits [T, 2]: begin and end."""
        logits_T2: Tensor = self.qa_outputs(self.bert.forward_packed(packed).sequence_output)
        return logits_T2


class BertForFeatureExtraction(nn.Module):
    """The last layer's vectors as they are, for tasks that learn by these alone; it has no weights of its own."""

    architecture = "BertModel"
    reads_pooled_output = False

    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.bert.config

    def forward(self, packed: Packed) -> Tensor:
        """Return vectors [T, D]."""
        return self.bert.forward_packed(packed).sequence_output
