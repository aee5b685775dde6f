"""Predict whether one sentence follows another, with the head of pre-training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from cloze.arguments import check_pairs
from cloze.data.batch import Indices, PackedBatch, collate
from cloze.inference.loading import PretrainedModel, check_length
from cloze.inference.model_files import ModelFiles
from cloze.models.engine import Engine, run_by_length
from cloze.results import Result
from cloze.suggestions import suggests_keywords
from cloze.tasks.arrays import softmax
from cloze.tokenization.unknown import count_unknown

IS_NEXT = 0


@dataclass(frozen=True, slots=True, repr=False)
class NextSentencePrediction(Result):
    """Whether sentence B follows sentence A."""

    is_next: bool
    probability: float
    """That it follows."""


@dataclass(frozen=True, repr=False)
class NextSentence(PretrainedModel):
    """Predicts whether sentence B follows sentence A."""

    @classmethod
    def _load_engine(cls, files: ModelFiles, *, device: str) -> Engine:
        return files.next_sentence_engine(device=device)

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
    @suggests_keywords()
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
            sentence_b: the second sentence of each, if `sentence_a` has no tuples.

        Raises:
            InputError: a sentence is not a str, or a pair has more tokens than the model takes.
        """
        pairs, is_one = check_pairs(sentence_a, sentence_b, ("sentence_a", "sentence_b"), required=True)
        predictions = [NextSentencePrediction(p > 0.5, p) for p in self.probabilities(pairs)]
        count_unknown(self.tokenizer, [" ".join(pair) for pair in pairs]).warn("pairs")
        return predictions[0] if is_one else predictions

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability of each pair of texts, computed in batches of similar length."""
        encodings = [self.tokenizer.encode(*pair) for pair in pairs]
        for encoding in encodings:
            check_length(
                encoding.input_ids, self.max_positions, where="pair", remedy="Give shorter sentences"
            )

        def make_batch(indices: Indices) -> PackedBatch:
            chosen = [encodings[i] for i in indices]
            return collate([e.input_ids for e in chosen], [e.token_type_ids for e in chosen])

        probabilities = np.empty(len(pairs))
        for indices, _, outputs in run_by_length(self.engine, list(map(len, encodings)), make_batch):
            probabilities[indices] = softmax(outputs["logits"])[:, IS_NEXT]
        return probabilities.tolist()
