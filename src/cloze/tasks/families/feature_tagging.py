"""Tagging with a frozen encoder, whose outputs for the words are computed once."""

from typing import ClassVar

from cloze.choices import FrozenLayers
from cloze.config import check_positive
from cloze.tasks.arrays import split_rows
from cloze.tasks.families.tagging import Tagging
from cloze.tasks.registry import register_task
from cloze.tasks.tagging_formats.settings import Context
from cloze.tasks.task_batch import Array, Encoder, Module, OptionalGenerator, TaskBatch, Tensor


@register_task("feature-tagging")
class FeatureTagging(Tagging):
    """A BiLSTM on the layers of a frozen BERT, for CoNLL-2003 or your own data (Devlin et al. 2019, 5.3 and table 7).

    The vectors are kept in a temporary file: four layers of BERT-Base take 2.5 GB for CoNLL-2003. An epoch then costs
    only the BiLSTM. The paper does not report rate, epochs and batch size.
    """

    source = "Devlin et al. 2019, table 7; score as conlleval"
    model_settings: ClassVar[tuple[str, ...]] = (*Tagging.model_settings, "layers", "lstm_size")
    head_name = "BertBiLSTMForTokenClassification"
    defaults = (
        "max_seq_length=512",
        "epochs=10",
        "optimizer.learning_rate=1e-3",
        "optimizer.bias_correction=true",
    )
    train_files = ("train.conll", "train.txt", "eng.train", "wnut17train.conll")
    dev_files = ("dev.conll", "valid.txt", "eng.testa", "emerging.dev.conll")

    context: Context = "document"
    layers: FrozenLayers = "concat-last-four"
    lstm_size: int = 768
    """Units in each direction."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, lstm_size=10_000)

    def head(self, bert: Encoder, *, generator: OptionalGenerator = None) -> Module:
        from cloze.models.frozen_encoder import BertBiLSTMForTokenClassification

        return BertBiLSTMForTokenClassification(
            bert,
            num_labels=len(self.labels),
            layers=self.layers,
            lstm_size=self.lstm_size,
            generator=generator,
        )

    def frozen_states(self, encoder: Encoder, batch: TaskBatch) -> Tensor:
        from cloze.models.frozen_encoder import frozen_states

        return frozen_states(encoder, batch, self.layers)

    def word_logits(self, logits: Tensor, batch: TaskBatch) -> Tensor:
        """Return the logits, which this head computes for words only."""
        return logits

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        """Return the logits or the states of the words of each sequence."""
        return split_rows(logits, batch.counts)
