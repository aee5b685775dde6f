"""Predict whether one sentence follows another, with the head of pre-training."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cloze.arguments import check_text
from cloze.errors import InputError
from cloze.inference.loading import Checkpoint, LoadedModel, encode_untruncated, load
from cloze.models.heads import BertForNextSentencePrediction
from cloze.tokenization.tokenizer import Tokenizer

IS_NEXT = 0


@dataclass(frozen=True, slots=True, repr=False)
class NextSentence(LoadedModel):
    """Predicts whether sentence B follows sentence A."""

    model: BertForNextSentencePrediction
    tokenizer: Tokenizer
    directory: Path | None = None

    @classmethod
    def load(cls, directory: Path | str | Checkpoint, *, device: str = "auto") -> "NextSentence":
        """Load a pre-trained checkpoint, or the best one of a run.

        Raises:
            InputError: there is no such model, or it was not pre-trained on pairs of sentences.
        """
        checkpoint = Checkpoint.open(directory)
        family = checkpoint.encoder_class.names.family
        if family != "Bert" and not checkpoint.has_weight("next_sentence.bias"):
            what = f"a model of the family {family}, which is not pre-trained on pairs of sentences"
            raise InputError(
                what, where=checkpoint.directory, remedy="Give a BERT with its next-sentence head"
            )
        return cls(*load(checkpoint, BertForNextSentencePrediction, device=device), checkpoint.directory)

    @torch.inference_mode()
    def __call__(self, sentence_a: str, sentence_b: str) -> float:
        """Return the probability that `sentence_b` follows `sentence_a`.

        Raises:
            InputError: a sentence is no str, or the pair has more tokens than the model takes.
        """
        pair = check_text(sentence_a, "sentence_a"), check_text(sentence_b, "sentence_b")
        _, batch = encode_untruncated(self.model, self.tokenizer, *pair)
        logits_B2: Tensor = self.model(batch)
        return float(logits_B2.float().softmax(-1)[0, IS_NEXT])
