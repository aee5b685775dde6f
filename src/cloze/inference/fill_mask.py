"""Fill in masked words, with the head of pre-training.

Shapes: P masked tokens of a batch, V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Literal, overload

import numpy as np
import torch
from torch import Tensor

from cloze.arguments import check_integer, check_text, iterate_texts
from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.inference.loading import Checkpoint, LoadedModel, check_length
from cloze.models.batch import to_device
from cloze.models.encoder import Encoder
from cloze.models.heads import BertForMaskedLM
from cloze.results import Result
from cloze.tasks.batches import Indices, batch_by_length, inference_batch_tokens
from cloze.tasks.features import half_overlapping, max_context_windows
from cloze.tokenization.unknown import count_unknown

_MAX_TOKENS = 4096  # in one pass through the model, because of the scores of the vocabulary


@dataclass(frozen=True, slots=True, repr=False)
class Candidate(Result):
    """A token for a [MASK]."""

    token: str
    probability: float


@dataclass(frozen=True, slots=True, repr=False)
class FilledText(Result):
    """A text, and the candidates for each [MASK] in it."""

    text: str
    masks: list[list[Candidate]]


@dataclass(frozen=True, slots=True)
class MaskedSequence:
    """The token ids of a text, and the places of the masked tokens to predict."""

    ids: Sequence[int]
    positions: Sequence[int]

    @property
    def num_tokens(self) -> int:
        """Tokens of the sequence."""
        return len(self.ids)


@dataclass(frozen=True, repr=False)
class MaskedLanguageModel(LoadedModel):
    """A model with the masked-word head of pre-training."""

    model: BertForMaskedLM

    @classmethod
    def _find_head(cls, checkpoint: Checkpoint) -> Callable[[Encoder], BertForMaskedLM]:
        def head(encoder: Encoder) -> BertForMaskedLM:
            if (attends_to := encoder.config.attends_to) != "all":
                what = f"attends to the {attends_to} only, and does not predict masked tokens"
                raise InputError(what, where=checkpoint.directory)
            return BertForMaskedLM(encoder)

        return head

    @torch.inference_mode()
    def logits(self, sequences: Sequence[MaskedSequence]) -> Iterator[tuple[Indices, Tensor]]:
        """Yield batches of sequences of similar lengths: their numbers, and the logits of the masked tokens, [P, V]."""
        device = self.encoder.embeddings.word_embeddings.weight.device
        max_tokens = min(_MAX_TOKENS, inference_batch_tokens(device))
        for indices in batch_by_length([sequence.num_tokens for sequence in sequences], max_tokens):
            batch = collate([sequences[i].ids for i in indices])
            starts = batch.cu_seqlens.tolist()
            places = [
                start + p for start, i in zip(starts, indices, strict=False) for p in sequences[i].positions
            ]
            logits_PV: Tensor = self.model(to_device(batch, device), torch.tensor(places, device=device))
            yield indices, logits_PV[:, : self.tokenizer.vocab_size].float()


@dataclass(frozen=True, repr=False)
class FillMask(MaskedLanguageModel):
    """Predicts the token at every [MASK] of a text, independently of each other."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, texts: str, *, top_k: int = 5, long_texts: Literal["windows"] | None = None
    ) -> list[list[Candidate]]: ...
    @overload
    def __call__(
        self, texts: Sequence[str], *, top_k: int = 5, long_texts: Literal["windows"] | None = None
    ) -> list[list[list[Candidate]]]: ...
    def __call__(self, texts: Any, *, top_k: int = 5, long_texts: Literal["windows"] | None = None) -> Any:
        """Return the `top_k` most probable tokens for each [MASK], in the order of the text; of a list, for each text.

        >>> import cloze
        >>> fill_mask = cloze.FillMask.load("cloze-mini")
        >>> [candidates] = fill_mask("She closed the [MASK] behind her.")
        >>> candidates[0].token
        'door'
        >>> len(fill_mask(["She closed the [MASK].", "[MASK] closed the [MASK]."], top_k=1)[1])
        2

        Args:
            texts: one text, or any number.
            top_k: number of tokens for each [MASK].
            long_texts: windows: read as much of a text with more tokens than the model takes as fits around each
                [MASK]; None refuses such a text.

        Raises:
            InputError: a text has no [MASK] or more tokens than the model takes, or `top_k` is less than 1.
        """
        is_one = isinstance(texts, str)
        read = [(texts, "text")]
        if not is_one:
            read = [(text, f"texts[{number}]") for number, text in enumerate(iterate_texts(texts))]
        filled = self.fill_texts(read, top_k=top_k, long_texts=long_texts)
        return filled[0].masks if is_one else [answer.masks for answer in filled]

    def fill_texts(
        self, texts: Sequence[tuple[str, str]], *, top_k: int, long_texts: Literal["windows"] | None = None
    ) -> list[FilledText]:
        """Return texts with the candidates for each [MASK], given their places; warn of unknown words.

        Args, raises: as for a call.
        """
        top_k = check_integer(top_k, "top_k")
        masked = [self.mask(text, long_texts=long_texts, where=place) for text, place in texts]
        filled = [
            FilledText(text, masks)
            for (text, _), masks in zip(texts, self.fill(masked, top_k=top_k), strict=True)
        ]
        count_unknown(self.tokenizer, [text for text, _ in texts]).warn("texts", stacklevel=3)
        return filled

    def fill(
        self, masked: Sequence[Sequence[MaskedSequence]], *, top_k: int = 5
    ) -> list[list[list[Candidate]]]:
        """Return the candidates of texts that `mask` has encoded."""
        sequences = list(chain.from_iterable(masked))
        candidates: dict[int, list[list[Candidate]]] = {}
        for indices, logits_PV in self.logits(sequences):
            top = logits_PV.softmax(-1).topk(min(top_k, self.tokenizer.vocab_size))
            rows = (
                [Candidate(self.tokenizer.text_of(i), p) for i, p in zip(ids, probabilities, strict=True)]
                for ids, probabilities in zip(top.indices.tolist(), top.values.tolist(), strict=True)
            )
            for index in indices.tolist():
                candidates[index] = list(islice(rows, len(sequences[index].positions)))
        numbers = iter(range(len(sequences)))
        return [[mask for _ in windows for mask in candidates[next(numbers)]] for windows in masked]

    def probabilities(self, text: str, *, long_texts: Literal["windows"] | None = None) -> Tensor:
        """Return the probability of each token of the vocabulary at each [MASK] of a text.

        Shapes: [masks, V].

        Args, raises: as for a call.
        """
        windows = self.mask(check_text(text), long_texts=long_texts)
        of_window: dict[int, Tensor] = {}
        for indices, logits_PV in self.logits(windows):
            groups = torch.split(logits_PV.softmax(-1), [len(windows[i].positions) for i in indices])
            of_window.update(zip(indices.tolist(), groups, strict=True))
        return torch.cat([of_window[number] for number in range(len(windows))])

    def mask(
        self, text: str, *, long_texts: Literal["windows"] | None = None, where: str = "text"
    ) -> list[MaskedSequence]:
        """Encode a text, or the windows of a long text that have the most context around each [MASK].

        Raises:
            InputError: as for a call; the error names the place `where`.
        """
        ids = self.tokenizer.encode(text).input_ids
        positions = [place for place, token_id in enumerate(ids) if token_id == self.tokenizer.mask_id]
        if not positions:
            mask = self.tokenizer.special_token("mask")
            place = None if where == "text" else where
            raise InputError(f"no {mask} in {text!r}", where=place, remedy=f"Write {mask} in place of a word")
        if long_texts is None:
            remedy = "Give a shorter text, or set long_texts to windows (--long-texts windows)"
            check_length(ids, self.model.config.max_position_embeddings, where=where, remedy=remedy)
        windows = half_overlapping(len(ids) - 2, self.model.config.max_position_embeddings - 2)
        best = max_context_windows(windows)
        window_of_mask = np.array([best[place - 1] for place in positions])
        return [
            MaskedSequence(
                self.tokenizer.join(ids[1:-1][windows[number]])[0],
                [
                    p - windows[number].start
                    for p, w in zip(positions, window_of_mask, strict=True)
                    if w == number
                ],
            )
            for number in dict.fromkeys(window_of_mask.tolist())
        ]
