"""Does one sentence follow another: the second thing that the encoder was pre-trained to say."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cloze.inference.loading import encode_whole, load
from cloze.model.bert import Packed
from cloze.model.heads import BertForNextSentencePrediction
from cloze.text.tokenizer import Tokenizer

IS_NEXT = 0


@dataclass(frozen=True, slots=True)
class NextSentence:
    """Tells how likely sentence B is to follow sentence A."""

    model: BertForNextSentencePrediction
    tokenizer: Tokenizer

    @classmethod
    def load(cls, directory: Path | str, *, device: str = "auto") -> "NextSentence":
        """Read a pre-trained checkpoint, or the newest one of a run."""
        return cls(*load(directory, BertForNextSentencePrediction, device=device))

    @torch.inference_mode()
    def __call__(self, sentence_a: str, sentence_b: str) -> float:
        """Return the probability that `sentence_b` follows `sentence_a`.

        Raises:
            InputError: the pair has more tokens than the model takes.
        """
        encoding = encode_whole(self.model.config, self.tokenizer, sentence_a, sentence_b)
        device = next(self.model.parameters()).device
        packed = Packed.from_sequences([encoding.input_ids], [encoding.token_type_ids]).to(device)
        logits_B2: Tensor = self.model(packed)
        return float(logits_B2.float().softmax(-1)[0, IS_NEXT])
