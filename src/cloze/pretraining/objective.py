"""The objective of pre-training: the mean loss of masked words plus the mean loss of next sentences.

Source: Devlin et al. 2019, A.2 ("the sum of the mean masked LM likelihood and the mean next sentence prediction
likelihood"); google-research/bert run_pretraining.py:149 @eedf571.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from cloze.data.batch import PretrainingBatch
from cloze.models.batch import to_device
from cloze.models.checkpoint import save_model
from cloze.models.heads import BertForPreTraining, PreTrainingLogits
from cloze.tokenization.tokenizer import Tokenizer
from cloze.training.distributed import DistributedContext
from cloze.training.metric_sums import MetricSums, cross_entropy
from cloze.training.objective import Objective


class PretrainingObjective(Objective):
    """Masked words and next sentence.

    Args:
        unigram_nats: [V], the loss on each token of a model that knows token frequencies alone.
        next_sentence: whether the instances are pairs.
    """

    model: BertForPreTraining

    def __init__(
        self,
        model: BertForPreTraining,
        tokenizer: Tokenizer,
        *,
        held_out: Sequence[PretrainingBatch],
        unigram_nats: Tensor,
        next_sentence: bool,
        context: DistributedContext,
    ) -> None:
        super().__init__(model)
        self.loss_names = ("masked_lm_loss", "next_sentence_loss") if next_sentence else ("masked_lm_loss",)
        self.tokenizer = tokenizer
        self.held_out = held_out
        self.num_evaluation_batches = len(held_out)
        self.context = context
        self.device = context.device
        self.unigram_nats = unigram_nats.to(self.device)

    def forward(self, batch: PretrainingBatch) -> MetricSums:
        batch = to_device(batch, self.device)
        counts = (len(batch.masked_lm_ids), len(batch.next_sentence_labels))
        losses = zip(self.model.losses(batch), counts, strict=True)
        return dict(zip(self.loss_names, losses, strict=False))

    def evaluate(self) -> Iterator[MetricSums]:
        for on_host in self.context.share(self.held_out):
            if on_host is None:
                yield {}
                continue
            batch = to_device(on_host, self.device)
            logits: PreTrainingLogits = self.model(batch, batch.masked_lm_positions)
            unigram_nats = self.unigram_nats[batch.masked_lm_ids]
            metrics = {
                **_loss_and_accuracy("masked_lm", logits.masked_lm_logits, batch.masked_lm_ids),
                "masked_lm_unigram_loss": (unigram_nats.sum(), len(unigram_nats)),
            }
            if "next_sentence_loss" in self.loss_names:
                labels_B = batch.next_sentence_labels
                metrics |= _loss_and_accuracy("next_sentence", logits.next_sentence_logits, labels_B)
            yield metrics

    def shown_metrics(self, metrics: Mapping[str, float]) -> Mapping[str, float]:
        shown = {
            "mlm_loss": "masked_lm_loss",
            "mlm_accuracy": "masked_lm_accuracy",
            "nsp_loss": "next_sentence_loss",
            "nsp_accuracy": "next_sentence_accuracy",
        }
        return {short: metrics[name] for short, name in shown.items() if name in metrics}

    def save_model(self, directory: Path) -> None:
        model: BertForPreTraining = self.model
        has_pairs = "next_sentence_loss" in self.loss_names
        keeps_all = has_pairs or model.bert.trains_on_pairs  # some families have no next-sentence head
        save_model(directory, model if keeps_all else model.without_next_sentence(), self.tokenizer)


def _loss_and_accuracy(name: str, logits: Tensor, targets: Tensor) -> dict[str, tuple[Tensor, float]]:
    _, metrics = cross_entropy(logits.float(), targets)
    return {f"{name}_{key}": value for key, value in metrics.items()}
