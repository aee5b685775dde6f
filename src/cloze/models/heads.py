"""Heads: an encoder with the layers of one kind of task on top.

Shapes: T tokens in the packed batch, B sequences, L columns, P masked positions, D hidden, V vocabulary, C classes.
"""

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from cloze.data.batch import MaskedBatch, PackedBatch, PretrainingBatch
from cloze.models.bert import DenseTransform, initialize_weights
from cloze.models.encoder import Encoder
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import VectorOutput
from cloze.models.functional import dropout, linear_cross_entropy_sum
from cloze.models.pooling import pool


class PreTrainingLogits(NamedTuple):
    """Scores before softmax."""

    masked_lm_logits: Tensor
    """[P, V]: a row for each masked position."""
    next_sentence_logits: Tensor
    """[B, 2]: 0 = IsNext, 1 = NotNext."""


class PreTrainingLosses(NamedTuple):
    """Sums, in nats; the caller divides by the counts of the whole batch."""

    masked_lm_loss_sum: Tensor
    next_sentence_loss_sum: Tensor


class ModelWithHead(nn.Module):
    """Base class of heads; `bert` is the encoder."""

    token_outputs: ClassVar[tuple[str, ...]] = ()
    """The `named_outputs` that have a value for each token; the others have one for each sequence."""
    marks: ClassVar[tuple[str, ...]] = ()
    """Weights by which files are known to have a head of pre-training."""

    def __init__(self, bert: Encoder) -> None:
        super().__init__()
        self.bert = bert

    @property
    def config(self) -> EncoderConfig:
        return self.bert.config

    @property
    def reads_pooler(self) -> bool:
        """Whether the outputs depend on the pooler; transformers does not write it for a model that does not."""
        return not self.token_outputs

    def named_outputs(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the outputs by their names in transformers; one is that of tokens, or else the logits."""
        (name,) = self.token_outputs or ("logits",)
        return {name: self(batch)}


class MaskedLMHead(DenseTransform):
    """The layers from the vector of a masked position to scores over the vocabulary.

    The output matrix is the table of word embeddings, which the caller passes.

    Source: Devlin et al. 2019, 3.1 (task 1); google-research/bert run_pretraining.py:240 @eedf571.
    """

    def __init__(self, encoder: Encoder, *, generator: torch.Generator | None = None) -> None:
        config = encoder.config
        activation = encoder.masked_lm_activation or config.hidden_act
        super().__init__(config, activation, bias=encoder.has_biases)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        initialize_weights(self, config.initializer_range, generator)

    def forward(self, hidden_PD: Tensor, word_embeddings_VD: Tensor) -> Tensor:
        """Return logits [P, V]."""
        return nn.functional.linear(self.transform(hidden_PD), word_embeddings_VD, self.bias)

    def loss_sum(self, hidden_PD: Tensor, word_embeddings_VD: Tensor, masked_lm_ids: Tensor) -> Tensor:
        """Return the summed cross entropy of the true tokens."""
        return linear_cross_entropy_sum(
            self.transform(hidden_PD), word_embeddings_VD, self.bias, masked_lm_ids
        )


class BertForMaskedLM(ModelWithHead):
    """Masked language modeling alone, with the weights of `BertForPreTraining`.

    Source: Devlin et al. 2019, 3.1 (task 1); google-research/bert run_pretraining.py:240 @eedf571.
    """

    token_outputs: ClassVar[tuple[str, ...]] = ("logits",)
    marks: ClassVar[tuple[str, ...]] = ("masked_lm.bias",)

    def __init__(self, bert: Encoder, *, generator: torch.Generator | None = None) -> None:
        super().__init__(bert)
        self.masked_lm = MaskedLMHead(bert, generator=generator)

    def forward(self, batch: PackedBatch, masked_lm_positions: Tensor | None) -> Any:
        """Return logits [P, V] at masked positions, [P] indices into the packed tokens; None is every token."""
        hidden_PD, _ = self._encode(batch, masked_lm_positions)
        return self.masked_lm(hidden_PD, self.bert.embeddings.word_embeddings.weight)

    def named_outputs(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the logits at the masked tokens of a `MaskedBatch`, or at every token."""
        return {"logits": self(batch, batch.masked_lm_positions if isinstance(batch, MaskedBatch) else None)}

    def _encode(self, batch: PackedBatch, masked_lm_positions: Tensor | None) -> tuple[Tensor, Tensor]:
        hidden_TD, pooled_BD, _ = self.bert(batch)
        # not hidden_TD[...]: on a CPU the gradient of indexing is summed in a different order each time
        chosen = hidden_TD if masked_lm_positions is None else hidden_TD.index_select(0, masked_lm_positions)
        return chosen, pooled_BD


class BertForPreTraining(BertForMaskedLM):
    """Masked language modeling and next sentence prediction.

    Source: Devlin et al. 2019, 3.1; google-research/bert run_pretraining.py:240, 285 @eedf571.
    """

    token_outputs = ("prediction_logits",)
    marks = ("masked_lm.bias", "next_sentence.bias")
    reads_pooler = True

    def __init__(self, bert: Encoder, *, generator: torch.Generator | None = None) -> None:
        super().__init__(bert, generator=generator)
        self.next_sentence = nn.Linear(bert.config.hidden_size, 2)
        initialize_weights(self.next_sentence, bert.config.initializer_range, generator)

    def forward(self, batch: PackedBatch, masked_lm_positions: Tensor | None) -> PreTrainingLogits:
        """Return the scores of the vocabulary and of both classes; positions are as in `BertForMaskedLM`."""
        hidden_PD, pooled_BD = self._encode(batch, masked_lm_positions)
        word_embeddings_VD = self.bert.embeddings.word_embeddings.weight
        return PreTrainingLogits(self.masked_lm(hidden_PD, word_embeddings_VD), self.next_sentence(pooled_BD))

    def losses(self, batch: PretrainingBatch) -> PreTrainingLosses:
        """Return both loss sums, without storing the logits."""
        hidden_PD, pooled_BD = self._encode(batch, batch.masked_lm_positions)
        word_embeddings_VD = self.bert.embeddings.word_embeddings.weight
        logits_B2, labels_B = self.next_sentence(pooled_BD).float(), batch.next_sentence_labels
        return PreTrainingLosses(
            self.masked_lm.loss_sum(hidden_PD, word_embeddings_VD, batch.masked_lm_ids),
            nn.functional.cross_entropy(logits_B2, labels_B, reduction="sum"),
        )

    def named_outputs(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the scores of the vocabulary at every token, and of the next-sentence classes."""
        return dict(zip(("prediction_logits", "seq_relationship_logits"), self(batch, None), strict=True))

    def without_next_sentence(self) -> BertForMaskedLM:
        """Return the encoder and the masked-LM head, the same modules, as a model of masked language modeling."""
        with torch.device("meta"):  # its own head is replaced
            model = BertForMaskedLM(self.bert)
        model.masked_lm = self.masked_lm
        return model


class OutputLayer(nn.Linear):
    """A dense layer that computes in the dtype of its weights under autocast, too.

    Logits in bfloat16 have steps of 1/128 of their size: rankings and scores of texts would tie.
    """

    def forward(self, input: Tensor) -> Tensor:
        device = input.device.type
        if not torch.is_autocast_enabled(device):
            return super().forward(input)
        with torch.autocast(device, enabled=False):
            return super().forward(input.to(self.weight.dtype))


class ModelWithOutputLayer(ModelWithHead):
    """Dropout and one dense layer: on every token if there are `token_outputs`, else on the pooled output."""

    layer_name: ClassVar[str] = "classifier"
    """The attribute with the layer, as transformers calls it."""
    dropout_prob: float = 0.1
    """In Google's code, whatever the encoder's is."""
    has_labels: ClassVar[bool] = True
    """Whether the files of a model name the outputs."""
    num_labels: int = 1
    """Outputs of the layer, unless the constructor takes another number."""

    def __init__(
        self, bert: Encoder, *, num_labels: int | None = None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(bert)
        if num_labels is not None:
            self.num_labels = num_labels
        layer = OutputLayer(bert.config.hidden_size, self.num_labels)
        initialize_weights(layer, bert.config.initializer_range, generator)
        self.add_module(self.layer_name, layer)

    @property
    def reads_pooler(self) -> bool:
        return not self.token_outputs or self.bert.pools_tokens

    @property
    def output_layer(self) -> OutputLayer:
        layer: OutputLayer = self.get_submodule(self.layer_name)  # type: ignore[assignment]
        return layer

    def forward(self, batch: PackedBatch) -> Tensor:
        """Return logits [B, C] or [T, C]."""
        output = self.bert(batch)
        hidden = output.sequence_output if self.token_outputs else output.pooled_output
        if self.token_outputs and self.bert.pools_tokens:
            hidden = self.bert.pooler(hidden)
        logits: Tensor = self.output_layer(dropout(hidden, self.dropout_prob if self.training else 0.0))
        return logits


class BertForNextSentencePrediction(ModelWithOutputLayer):
    """Next sentence prediction alone, with the weights of `BertForPreTraining`; logits [B, 2], 0 = IsNext, 1 = NotNext.

    Source: Devlin et al. 2019, 3.1 (task 2); google-research/bert run_pretraining.py:285 @eedf571.
    """

    layer_name = "next_sentence"
    marks = ("next_sentence.bias",)
    has_labels = False
    dropout_prob = 0.0
    num_labels = 2


class BertForSequenceClassification(ModelWithOutputLayer):
    """A class for each sequence or pair of sequences; logits [B, C].

    Source: Devlin et al. 2019, 4.1; google-research/bert run_classifier.py:574 @eedf571.
    """


class BertForTokenClassification(ModelWithOutputLayer):
    """A class for each token; logits [T, C].

    Source: Devlin et al. 2019, 5.3; the released code has no such head.
    """

    token_outputs = ("logits",)


class BertForMultipleChoice(ModelWithOutputLayer):
    """A score for each sequence, to compare with those of the other choices.

    Source: Devlin et al. 2019, 4.4.

    Differs: The paper's score is a dot product with C, the last layer at [CLS]; this takes the pooled output, with
        dropout, as Google's classifiers do.
    """

    has_labels = False

    def forward(self, batch: PackedBatch) -> Tensor:
        """Return scores [B]."""
        return super().forward(batch).squeeze(-1)


class BertForQuestionAnswering(ModelWithOutputLayer):
    """Two scores for each token, as the first and as the last of the answer; logits [T, 2], without dropout.

    Source: Devlin et al. 2019, 4.2; google-research/bert run_squad.py:548 @eedf571.
    """

    token_outputs = ("start_logits", "end_logits")
    layer_name = "qa_outputs"
    has_labels = False
    dropout_prob = 0.0
    num_labels = 2

    def named_outputs(self, batch: PackedBatch) -> dict[str, Tensor]:
        """Return the two scores of each token, [T] each."""
        return dict(zip(self.token_outputs, self(batch).unbind(-1), strict=True))


class BertForFeatureExtraction(ModelWithHead):
    """The vectors of the last layer, for tasks that learn from them alone; it has no weights of its own."""

    architecture = "BertModel"
    token_outputs: ClassVar[tuple[str, ...]] = ("last_hidden_state",)
    reads_pooler = False

    def forward(self, batch: PackedBatch) -> Tensor:
        """Return vectors [T, D]."""
        hidden_TD: Tensor = self.bert(batch).sequence_output
        return hidden_TD


class TokenEncoder(BertForFeatureExtraction):
    """A vector for each token."""

    token_outputs: ClassVar[tuple[str, ...]] = ("token_embeddings",)

    def __init__(self, bert: Encoder, output: VectorOutput) -> None:
        super().__init__(bert)
        self.output = output

    def forward(self, batch: PackedBatch) -> Tensor:
        layers = self.output.layers or (self.config.num_hidden_layers,)
        if layers == (self.config.num_hidden_layers,):
            return super().forward(batch)
        if layers == (0,):
            return self._rows(batch)
        hidden_states = self.bert(batch, output_hidden_states=True).hidden_states
        hidden = [hidden_states[layer] if layer else self._rows(batch) for layer in layers]
        return torch.cat(hidden, -1) if self.output.combine == "concat" else torch.stack(hidden).sum(0)

    def _rows(self, batch: PackedBatch) -> Tensor:
        """Return the rows of the word-embedding table, without position or context."""
        rows_TD: Tensor = self.bert.embeddings.word_embeddings(batch.input_ids)
        return rows_TD.float()


class SentenceEncoder(TokenEncoder):
    """A vector for each text, as the files of sentence-transformers describe it."""

    token_outputs = ()

    def forward(self, batch: PackedBatch) -> Tensor:
        """Return vectors [B, D]."""
        assert self.output.pooling is not None
        vectors_BD = pool(super().forward(batch), batch, self.output.pooling)
        vectors_BD = nn.functional.normalize(vectors_BD, dim=-1) if self.output.normalize else vectors_BD
        return vectors_BD[:, : self.output.truncate_dim]

    def named_outputs(self, batch: PackedBatch) -> dict[str, Tensor]:
        return {"sentence_embedding": self(batch)}
