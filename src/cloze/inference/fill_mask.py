"""Fill in masked words, with the head of pre-training."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import Tensor

from cloze.arguments import check_integer, check_texts
from cloze.choices import InferencePrecision
from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.inference.loading import Checkpoint, LoadedModel, load
from cloze.models.batch import to_device
from cloze.models.heads import BertForMaskedLM
from cloze.tasks.features import half_overlapping, max_context_windows
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.unknown import count_unknown


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token for a [MASK]."""

    token: str
    probability: float


@dataclass(frozen=True, slots=True, repr=False)
class FillMask(LoadedModel):
    """Predicts the token at every [MASK] of a text, independently of each other."""

    model: BertForMaskedLM
    tokenizer: Tokenizer
    directory: Path | None = None

    @classmethod
    def load(
        cls,
        directory: Path | str | Checkpoint,
        *,
        device: str = "auto",
        precision: InferencePrecision | None = None,
    ) -> "FillMask":
        """Load a pre-trained checkpoint, or the best one of a run.

        Raises:
            InputError: there is no such model, or its head predicts the next or previous token.
        """
        checkpoint = Checkpoint.open(directory, precision=precision)
        model, tokenizer = load(checkpoint, BertForMaskedLM, device=device)
        if model.config.attends_to != "all":
            what = f"attends to the {model.config.attends_to} only, and does not predict masked tokens"
            raise InputError(what, where=checkpoint.directory)
        return cls(model, tokenizer, checkpoint.directory)

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, text: str, *, top_k: int = 5, long_texts: Literal["windows"] | None = None
    ) -> list[list[Candidate]]: ...
    @overload
    def __call__(
        self, text: Sequence[str], *, top_k: int = 5, long_texts: Literal["windows"] | None = None
    ) -> list[list[list[Candidate]]]: ...
    def __call__(self, text: Any, *, top_k: int = 5, long_texts: Literal["windows"] | None = None) -> Any:
        """Return the `top_k` most probable tokens for each [MASK], in the order of the text; of a list, for each text.

        `long_texts="windows"` reads as much of a long text as fits around each [MASK].

        >>> import cloze
        >>> fill_mask = cloze.FillMask.load("cloze-mini")
        >>> [candidates] = fill_mask("She closed the [MASK] behind her.")
        >>> candidates[0].token
        'door'
        >>> len(fill_mask(["She closed the [MASK].", "[MASK] closed the [MASK]."], top_k=1)[1])
        2

        Raises:
            InputError: the text has no [MASK] or more tokens than the model takes, or `top_k` is less than 1.
        """
        texts = [text] if isinstance(text, str) else check_texts(text, "text")
        answers = [self.fill(item, top_k=top_k, long_texts=long_texts) for item in texts]
        count_unknown(self.tokenizer, texts).warn("texts")
        return answers[0] if isinstance(text, str) else answers

    def fill(
        self, text: str, *, top_k: int = 5, long_texts: Literal["windows"] | None = None
    ) -> list[list[Candidate]]:
        """Return the same for one text, without a warning of unknown words."""
        top_k = min(check_integer(top_k, "top_k"), self.tokenizer.vocab_size)
        top = self.probabilities(text, long_texts=long_texts).topk(top_k)
        return [
            [Candidate(self.tokenizer.text_of(i), p) for i, p in zip(ids, probabilities, strict=True)]
            for ids, probabilities in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]

    @torch.inference_mode()
    def probabilities(self, text: str, *, long_texts: Literal["windows"] | None = None) -> Tensor:
        """Return the probability of each token of the vocabulary at each [MASK] of a text.

        Shapes: [masks, vocabulary].

        Args:
            text: the text.
            long_texts: windows: of a text with more tokens than the model takes, read for each [MASK] as much as fits
                around it; None refuses such a text.

        Raises:
            InputError: the text has no [MASK], or more tokens than the model takes.
        """
        encoding = self.tokenizer.encode(text)
        positions = [i for i, token_id in enumerate(encoding.input_ids) if token_id == self.tokenizer.mask_id]
        if not positions:
            mask = self.tokenizer.special_token("mask")
            raise InputError(f"no {mask} in {text!r}", remedy=f"Write {mask} in place of a word")
        limit = self.model.config.max_position_embeddings
        if len(encoding) > limit and long_texts is None:
            what = f"{len(encoding):,} tokens, the model takes {limit}"
            remedy = "Give a shorter text, or set long_texts to windows (--long-texts windows)"
            raise InputError(what, where="text", remedy=remedy)
        ids = encoding.input_ids[1:-1]
        windows = half_overlapping(len(ids), limit - 2)
        best = max_context_windows(windows)
        sequences: list[list[int]] = []
        places: list[int] = []
        for number in dict.fromkeys(int(best[position - 1]) for position in positions):
            start = sum(map(len, sequences)) + 1 - windows[number].start
            places += [start + position - 1 for position in positions if best[position - 1] == number]
            sequences.append(self.tokenizer.join(ids[windows[number]])[0])
        batch = to_device(collate(sequences), next(self.model.parameters()).device)
        logits_PV: Tensor = self.model(batch, torch.tensor(places, device=batch.input_ids.device))
        return logits_PV[:, : self.tokenizer.vocab_size].float().softmax(-1)
