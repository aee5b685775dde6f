"""Filling in masked words: what the encoder was pre-trained to do."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cloze.errors import InputError
from cloze.inference.loading import encode_whole, load
from cloze.model.bert import Packed
from cloze.model.heads import BertForMaskedLM
from cloze.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word piece for a masked place."""

    token: str
    probability: float


@dataclass(frozen=True, slots=True)
class FillMask:
    """Predicts the pieces behind every [MASK] of a text, each for itself."""

    model: BertForMaskedLM
    tokenizer: Tokenizer

    @classmethod
    def load(cls, directory: Path | str, *, device: str = "auto") -> "FillMask":
        """Read a pre-trained checkpoint, or the newest one of a run."""
        model, tokenizer = load(directory, BertForMaskedLM, device=device)
        if model.config.attends_to != "all":
            what = f"sees the {model.config.attends_to} alone: it was trained to name neighbours, not hidden pieces"
            raise InputError(what, where=directory)
        return cls(model, tokenizer)

    def __call__(self, text: str, *, top_k: int = 5) -> list[list[Candidate]]:
        """Return, for each [MASK] in the order of the text, the `top_k` likeliest pieces.

        Raises:
            InputError: no [MASK], more tokens than the model takes, or no piece is asked for.
        """
        if top_k < 1:
            raise InputError(f"{top_k} is less than 1", where="top_k")
        top = self.probabilities(text).topk(min(top_k, self.tokenizer.vocab_size))
        return [
            [Candidate(self.tokenizer.pieces[i], p) for i, p in zip(ids, probabilities, strict=True)]
            for ids, probabilities in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]

    @torch.inference_mode()
    def probabilities(self, text: str) -> Tensor:
        """Return how likely each piece of the vocabulary is behind each [MASK] of a text.

        Shapes: [masks, vocabulary].

        Raises:
            InputError: no [MASK], or more tokens than the model takes.
        """
        if not isinstance(text, str):
            raise InputError(
                f"{type(text).__name__} is no text", where="text", remedy="Give one text at a time"
            )
        encoding = encode_whole(self.model.config, self.tokenizer, text)
        positions = [i for i, token_id in enumerate(encoding.input_ids) if token_id == self.tokenizer.mask_id]
        if not positions:
            raise InputError(f"no [MASK] in {text!r}", remedy="Write [MASK] where a word shall be filled in")
        device = next(self.model.parameters()).device
        packed = Packed.from_sequences([encoding.input_ids], [encoding.token_type_ids]).to(device)
        logits_PV: Tensor = self.model(packed, torch.tensor(positions, device=device))
        return logits_PV[:, : self.tokenizer.vocab_size].float().softmax(-1)
