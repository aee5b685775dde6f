"""Predict whether one sentence follows another, with the head of pre-training."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor, nn

from cloze.arguments import check_pairs
from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.inference.loading import Checkpoint, LoadedModel, check_length
from cloze.models.batch import to_device
from cloze.models.encoder import Encoder
from cloze.models.heads import BertForNextSentencePrediction
from cloze.results import Result
from cloze.tasks.batches import batch_by_length, inference_batch_tokens
from cloze.tokenization.unknown import count_unknown

IS_NEXT = 0


@dataclass(frozen=True, slots=True, repr=False)
class NextSentencePrediction(Result):
    """Whether sentence B follows sentence A."""

    is_next: bool
    probability: float
    """That it follows."""


@dataclass(frozen=True, repr=False)
class NextSentence(LoadedModel):
    """Predicts whether sentence B follows sentence A."""

    model: BertForNextSentencePrediction

    @classmethod
    def _find_head(cls, checkpoint: Checkpoint) -> Callable[[Encoder], nn.Module]:
        family = checkpoint.encoder_class.names.family
        if family != "Bert" and not checkpoint.has_weight("next_sentence.bias"):
            what = f"a model of the family {family}, which is not pre-trained on pairs of sentences"
            raise InputError(
                what, where=checkpoint.directory, remedy="Give a BERT with its next-sentence head"
            )
        return BertForNextSentencePrediction

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, sentence_a: str, sentence_b: str
    ) -> NextSentencePrediction: ...
    @overload
    def __call__(
        self, sentence_a: Sequence[str], sentence_b: Sequence[str]
    ) -> list[NextSentencePrediction]: ...
    @overload
    def __call__(self, sentence_a: Sequence[tuple[str, str]]) -> list[NextSentencePrediction]: ...
    def __call__(self, sentence_a: Any, sentence_b: Any = None) -> Any:
        """Return the prediction for a pair of sentences, or that for each in lists or tuples.

        >>> import cloze
        >>> follows = cloze.NextSentence.load("cloze-mini")
        >>> follows("He opened the letter.", "It was from his brother.").is_next
        True
        >>> len(follows([("He opened the letter.", "It was from his brother."), ("He ate.", "Snow fell.")]))
        2

        Args:
            sentence_a: one sentence, or any number; or tuples of two.
            sentence_b: the second sentence of each, if `sentence_a` are no tuples.

        Raises:
            InputError: a sentence is no str, or a pair has more tokens than the model takes.
        """
        pairs, is_one = check_pairs(sentence_a, sentence_b, ("sentence_a", "sentence_b"), required=True)
        predictions = [NextSentencePrediction(p > 0.5, p) for p in self.probabilities(pairs)]
        count_unknown(self.tokenizer, [" ".join(pair) for pair in pairs]).warn("pairs")
        return predictions[0] if is_one else predictions

    @torch.inference_mode()
    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability of each pair of texts, computed in batches of similar length."""
        encodings = [self.tokenizer.encode(*pair) for pair in pairs]
        limit = self.model.config.max_position_embeddings
        for encoding in encodings:
            check_length(encoding.input_ids, limit)
        device = next(self.model.parameters()).device
        probabilities = [0.0] * len(pairs)
        for indices in batch_by_length(list(map(len, encodings)), inference_batch_tokens(device)):
            batch = collate(
                [encodings[i].input_ids for i in indices], [encodings[i].token_type_ids for i in indices]
            )
            logits_B2: Tensor = self.model(to_device(batch, device))
            for index, probability in zip(
                indices, logits_B2.float().softmax(-1)[:, IS_NEXT].tolist(), strict=True
            ):
                probabilities[index] = probability
        return probabilities
