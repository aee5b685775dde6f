"""Predict whether one sentence follows another, with the head of pre-training."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from cloze.arguments import check_text, check_texts, describe, iterate
from cloze.choices import InferencePrecision
from cloze.errors import InputError
from cloze.inference.loading import Checkpoint, LoadedModel, encode_untruncated, load
from cloze.models.heads import BertForNextSentencePrediction
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.unknown import count_unknown

IS_NEXT = 0


@dataclass(frozen=True, slots=True, repr=False)
class NextSentence(LoadedModel):
    """Predicts whether sentence B follows sentence A."""

    model: BertForNextSentencePrediction
    tokenizer: Tokenizer
    directory: Path | None = None

    @classmethod
    def load(
        cls,
        directory: Path | str | Checkpoint,
        *,
        device: str = "auto",
        precision: InferencePrecision | None = None,
    ) -> "NextSentence":
        """Load a pre-trained checkpoint, or the best one of a run.

        Raises:
            InputError: there is no such model, or it was not pre-trained on pairs of sentences.
        """
        checkpoint = Checkpoint.open(directory, precision=precision)
        family = checkpoint.encoder_class.names.family
        if family != "Bert" and not checkpoint.has_weight("next_sentence.bias"):
            what = f"a model of the family {family}, which is not pre-trained on pairs of sentences"
            raise InputError(
                what, where=checkpoint.directory, remedy="Give a BERT with its next-sentence head"
            )
        return cls(*load(checkpoint, BertForNextSentencePrediction, device=device), checkpoint.directory)

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, sentence_a: str, sentence_b: str
    ) -> float: ...
    @overload
    def __call__(self, sentence_a: Sequence[str], sentence_b: Sequence[str]) -> list[float]: ...
    @overload
    def __call__(self, sentence_a: Sequence[tuple[str, str]]) -> list[float]: ...
    def __call__(self, sentence_a: Any, sentence_b: Any = None) -> float | list[float]:
        """Return the probability that `sentence_b` follows `sentence_a`, or that of each pair in lists or tuples.

        >>> import cloze
        >>> follows = cloze.NextSentence.load("cloze-mini")
        >>> follows("He opened the letter.", "It was from his brother.") > 0.5
        True
        >>> len(follows([("He opened the letter.", "It was from his brother."), ("He ate.", "Snow fell.")]))
        2

        Raises:
            InputError: a sentence is no str, or a pair has more tokens than the model takes.
        """
        if sentence_b is None and not isinstance(sentence_a, str):
            pairs = list(iterate(sentence_a, "sentence_a", "pair"))
            for number, item in enumerate(pairs):
                if not (isinstance(item, tuple) and len(item) == 2):
                    remedy = "Give tuples of two sentences, or also sentence_b"
                    raise InputError(f"sentence_a[{number}] is {describe(item)}", remedy=remedy)
            return self._probabilities(pairs)
        if not isinstance(sentence_a, str) and not isinstance(sentence_b, str):
            firsts = check_texts(sentence_a, "sentence_a")
            seconds = check_texts(sentence_b, "sentence_b", paired_with=firsts)
            return self._probabilities(list(zip(firsts, seconds, strict=True)))
        return self._probabilities([(sentence_a, sentence_b)])[0]

    def _probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        probabilities = [self.probability(*pair) for pair in pairs]
        count_unknown(self.tokenizer, [" ".join(pair) for pair in pairs]).warn("pairs", stacklevel=3)
        return probabilities

    @torch.inference_mode()
    def probability(self, sentence_a: str, sentence_b: str) -> float:
        """Return that of one pair, without a warning of unknown words."""
        pair = check_text(sentence_a, "sentence_a"), check_text(sentence_b, "sentence_b")
        _, batch = encode_untruncated(self.model, self.tokenizer, *pair)
        logits_B2: Tensor = self.model(batch)
        return float(logits_B2.float().softmax(-1)[0, IS_NEXT])
