"""Fill in masked words, with the head of pre-training.

Shapes: P masked tokens of a batch, V vocabulary, A tokens to choose from, K chosen ones.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeVar, overload

import numpy as np

from cloze.arguments import check_integer, check_one_or_many, check_text
from cloze.data.batch import Indices, MaskedBatch, collate
from cloze.errors import InputError
from cloze.inference.loading import PretrainedModel, check_length
from cloze.inference.model_files import ModelFiles
from cloze.models.engine import Engine, FloatArray, run_by_length
from cloze.results import Result
from cloze.suggestions import suggests_keywords
from cloze.tasks.arrays import log_of_sum, softmax, split_rows
from cloze.tasks.features import half_overlapping, max_context_windows
from cloze.tokenization.unknown import count_unknown

ChosenT = TypeVar("ChosenT")

_MAX_TOKENS = 4096  # in one pass through the model, because of the scores of the vocabulary


@dataclass(frozen=True, slots=True, repr=False)
class Candidate(Result):
    """A token for a [MASK]."""

    token: str
    """The text of the token."""
    probability: float
    """Among all tokens of the vocabulary."""


@dataclass(frozen=True, slots=True, repr=False)
class FilledText(Result):
    """A text, and the candidates for each [MASK] in it."""

    text: str
    masks: list[list[Candidate]]


def top_tokens(
    logits: FloatArray, top_k: int, *, among: Sequence[int] | None = None
) -> list[list[tuple[int, float]]]:
    """Return the ids and the probabilities of the most probable tokens of each row, the best first.

    Args:
        logits: of masked tokens, [P, V].
        top_k: number of tokens, at most V.
        among: the ids of tokens to choose from; by default all.
    """
    log_sums_P1 = log_of_sum(logits)[:, None]
    ids = np.arange(logits.shape[1]) if among is None else np.unique(among)
    logits_PA = logits if among is None else logits[:, ids]
    top_k = min(top_k, len(ids))
    best_PK = np.argpartition(logits_PA, -top_k)[:, -top_k:]
    logits_PK = np.take_along_axis(logits_PA, best_PK, 1)
    probabilities_PK = np.exp(logits_PK - log_sums_P1)
    order_PK = np.lexsort((best_PK, -logits_PK))
    rows = (np.take_along_axis(values, order_PK, 1).tolist() for values in (ids[best_PK], probabilities_PK))
    return [list(zip(*row, strict=True)) for row in zip(*rows, strict=True)]


def top_candidates(logits: FloatArray, text_of: Callable[[int], str], top_k: int) -> list[list[Candidate]]:
    """Return the `top_k` most probable tokens of each row of logits, [P, V], the best first."""
    return [
        [Candidate(text_of(token_id), probability) for token_id, probability in row]
        for row in top_tokens(logits, top_k)
    ]


@dataclass(frozen=True, slots=True)
class MaskedSequence:
    """The token ids of a text, and the positions of the masked tokens to predict."""

    ids: Sequence[int]
    positions: Sequence[int]

    @property
    def num_tokens(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, repr=False)
class MaskedLanguageModel(PretrainedModel):
    """A model with the masked-word head of pre-training."""

    @classmethod
    def _load_engine(cls, files: ModelFiles, *, device: str) -> Engine:
        return files.masked_lm_engine(device=device)

    def logits(self, sequences: Sequence[MaskedSequence]) -> Iterator[tuple[int, FloatArray]]:
        """Yield the index of each sequence, in order of length, and the logits of its masked tokens, [P, V]."""

        def make_batch(indices: Indices) -> MaskedBatch:
            batch = collate([sequences[i].ids for i in indices])
            starts = zip(batch.cu_seqlens.tolist(), indices, strict=False)
            places = [start + place for start, i in starts for place in sequences[i].positions]
            return MaskedBatch.extend(batch, masked_lm_positions=np.array(places, np.int64))

        lengths = [sequence.num_tokens for sequence in sequences]
        max_tokens = min(_MAX_TOKENS, self.engine.batch_tokens)
        for indices, _, outputs in run_by_length(self.engine, lengths, make_batch, max_tokens=max_tokens):
            logits = outputs["logits"][:, : self.tokenizer.vocab_size]
            yield from zip(
                indices.tolist(),
                split_rows(logits, [len(sequences[i].positions) for i in indices]),
                strict=True,
            )


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
    @suggests_keywords()
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
        checked, is_one = check_one_or_many(texts)
        read = [(text, f"texts[{i}]" if len(checked) > 1 else "text") for i, text in enumerate(checked)]
        filled = self.fill_texts(read, top_k=top_k, long_texts=long_texts)
        return filled[0].masks if is_one else [answer.masks for answer in filled]

    def fill_texts(
        self, texts: Sequence[tuple[str, str]], *, top_k: int, long_texts: Literal["windows"] | None = None
    ) -> list[FilledText]:
        """Return texts with the candidates for each [MASK], given their places; warn of unknown words."""
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
        return self.choose(masked, lambda _, logits: top_candidates(logits, self.tokenizer.text_of, top_k))

    def choose(
        self,
        masked: Sequence[Sequence[MaskedSequence]],
        choose_tokens: Callable[[int, FloatArray], list[ChosenT]],
    ) -> list[list[ChosenT]]:
        """Return the tokens that a function chooses for each [MASK] of texts from `mask`, given as windows.

        The function takes the index of a text and the logits of its masked tokens, [P, V].
        """
        text_of_window = [text for text, windows in enumerate(masked) for _ in windows]
        sequences = list(chain.from_iterable(masked))
        chosen = {
            index: choose_tokens(text_of_window[index], logits_PV)
            for index, logits_PV in self.logits(sequences)
        }
        indices = iter(range(len(sequences)))
        return [[mask for _ in windows for mask in chosen[next(indices)]] for windows in masked]

    def probabilities(self, text: str, *, long_texts: Literal["windows"] | None = None) -> FloatArray:
        """Return the probability of each token of the vocabulary at each [MASK], [masks, V]; raises as a call."""
        windows = self.mask(check_text(text), long_texts=long_texts)
        of_window = dict(self.logits(windows))
        logits_MV = np.concatenate([of_window[index] for index in range(len(windows))])
        return softmax(logits_MV).astype(np.float32)

    def mask(
        self, text: str, *, long_texts: Literal["windows"] | None = None, where: str = "text"
    ) -> list[MaskedSequence]:
        """Encode a text, or the windows of a long text that have the most context around each [MASK]."""
        ids = self.tokenizer.encode(text).input_ids
        positions = [place for place, token_id in enumerate(ids) if token_id == self.tokenizer.mask_id]
        if not positions:
            mask = self.tokenizer.special_token("mask")
            place = None if where == "text" else where
            raise InputError(f"no {mask} in {text!r}", where=place, remedy=f"Write {mask} in place of a word")
        if long_texts is None:
            remedy = "Give a shorter text, or say `long_texts=windows`"
            check_length(ids, self.max_positions, where=where, remedy=remedy)
        windows = half_overlapping(len(ids) - 2, self.max_positions - 2)
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
