"""Pseudo-likelihood: how probable a sentence is to a masked language model.

Each token is predicted from all the others, in a copy of the sentence in which it is masked. The score is the sum of
the logarithms of the true tokens' probabilities. Scores rank sentences of similar length, such as the two of a minimal
pair or the hypotheses of a speech recognizer; they are not the logarithm of a probability of the sentence.

Shapes: L tokens of a sentence with [CLS] and [SEP], P masked copies, V vocabulary.

Source:
    Salazar et al. 2020, "Masked language model scoring"; Kauf and Ivanova 2023, "A better way to do masked language
    model scoring".
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Literal, TypeAlias, get_args, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cloze.arguments import iterate_texts
from cloze.choices import InferencePrecision
from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.inference.fill_mask import FillMask
from cloze.inference.loading import Checkpoint, LoadedModel
from cloze.models.batch import to_device
from cloze.models.heads import BertForMaskedLM
from cloze.tasks.batches import batch_by_length, inference_batch_tokens
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.unknown import NONE_UNKNOWN, count_unknown

WordMasking: TypeAlias = Literal["later", "none"]
"""Which other tokens of its word are masked with a token: "later" (Kauf and Ivanova) or "none" (Salazar et al.). With
none, the first token of a rare word is predicted from the later ones, and the word counts as probable."""

_MAX_TOKENS = 4096  # in one pass through the model, because of the scores of the vocabulary
_MAX_TOKENS_OF_WINDOW = 64 * _MAX_TOKENS  # copies in memory at once, sorted by length


@dataclass(frozen=True, slots=True)
class TokenScore:
    """A token and the logarithm of its probability, in nats."""

    token: str
    log_probability: float


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """The pseudo-log-likelihood of a sentence."""

    tokens: tuple[TokenScore, ...]
    """Without [CLS] and [SEP]."""

    @property
    def score(self) -> float:
        """The sum over the tokens, in nats."""
        return math.fsum(token.log_probability for token in self.tokens)


@dataclass(frozen=True, slots=True)
class MaskedCopy:
    """A sentence in which a token is masked, and perhaps others of its word."""

    ids: npt.NDArray[np.int64]
    """[L]."""
    position: int
    """Of the token that is predicted."""
    target: int
    """Its id."""

    @property
    def num_tokens(self) -> int:
        """Tokens of the sentence, L."""
        return len(self.ids)


@dataclass(frozen=True, slots=True, repr=False)
class SentenceScorer(LoadedModel):
    """Scores sentences by the head of pre-training."""

    model: BertForMaskedLM
    tokenizer: Tokenizer
    word_masking: WordMasking = "later"
    directory: Path | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.word_masking, str) or self.word_masking not in get_args(WordMasking):
            remedy = f"Choose from {', '.join(get_args(WordMasking))}"
            raise InputError(f"is {self.word_masking!r}", where="word_masking", remedy=remedy)

    @classmethod
    def load(
        cls,
        directory: Path | str | Checkpoint,
        *,
        word_masking: WordMasking = "later",
        device: str = "auto",
        precision: InferencePrecision | None = None,
    ) -> "SentenceScorer":
        """Load a pre-trained checkpoint, or that of a run.

        Raises:
            InputError: there is no such model, or its head predicts the next or previous token.
        """
        loaded = FillMask.load(directory, device=device, precision=precision)
        return cls(loaded.model, loaded.tokenizer, word_masking, loaded.directory)

    @overload
    def __call__(self, texts: str) -> SentenceScore: ...
    @overload
    def __call__(self, texts: list[str] | tuple[str, ...]) -> list[SentenceScore]: ...
    def __call__(self, texts: str | list[str] | tuple[str, ...]) -> SentenceScore | list[SentenceScore]:
        """Return the score of a sentence, or of each of a list.

        Raises:
            InputError: `texts` is no text or list of texts, or a text has more tokens than the model takes.
        """
        if isinstance(texts, str):
            return next(self.scores([texts]))
        return list(self.scores(texts))

    def scores(
        self, texts: Iterable[str], *, where: Callable[[int], str] = "texts[{}]".format
    ) -> Iterator[SentenceScore]:
        """Yield the score of each sentence, in order, some at a time; that of an empty one is 0.

        Args:
            texts: the sentences.
            where: returns the place of a text, given its number from 0, for errors.

        Raises:
            InputError: a text has more tokens than the model takes.
        """
        window: list[list[MaskedCopy]] = []
        num_tokens, unknown = 0, NONE_UNKNOWN
        for number, text in enumerate(iterate_texts(texts)):
            window.append(self.masked_copies(text, where=partial(where, number)))
            unknown += count_unknown(self.tokenizer, [text], [{copy.target for copy in window[-1]}])
            num_tokens += sum(copy.num_tokens for copy in window[-1])
            if num_tokens >= _MAX_TOKENS_OF_WINDOW:
                yield from self._score(window)
                window, num_tokens = [], 0
        unknown.warn("texts")
        yield from self._score(window)

    def _score(self, copies_of_text: Sequence[Sequence[MaskedCopy]]) -> Iterator[SentenceScore]:
        log_probabilities = iter(self.log_probabilities(list(chain.from_iterable(copies_of_text))))
        for copies in copies_of_text:
            yield self.join(copies, list(islice(log_probabilities, len(copies))))

    def masked_copies(self, text: str, *, where: Callable[[], str] = lambda: "text") -> list[MaskedCopy]:
        """Return a copy for each token of a sentence, [CLS] and [SEP] apart.

        Args:
            text: the sentence.
            where: returns its place, for the error.

        Raises:
            InputError: it has more tokens than the model takes.
        """
        encoding = self.tokenizer.encode(text)
        limit = self.model.config.max_position_embeddings
        if len(encoding) > limit:
            what = f"{len(encoding):,} tokens, the model takes {limit}"
            raise InputError(what, where=where(), remedy="Give one sentence at a time")
        ids_L = np.asarray(encoding.input_ids, np.int64)
        word_L = np.cumsum(~self.tokenizer.is_continuation[ids_L])
        is_masked_LL = np.eye(len(ids_L), dtype=np.bool_)
        if self.word_masking == "later":
            is_masked_LL = np.triu(word_L[:, None] == word_L)
        masked_LL = np.where(is_masked_LL, self.tokenizer.mask_id, ids_L)
        return [MaskedCopy(masked_LL[i], i, int(ids_L[i])) for i in range(1, len(ids_L) - 1)]

    @torch.inference_mode()
    def log_probabilities(self, copies: Sequence[MaskedCopy]) -> list[float]:
        """Return the logarithm of the probability of each copy's token, computed in batches of similar length."""
        log_probabilities = np.empty(len(copies))
        device = self.model.bert.embeddings.word_embeddings.weight.device
        max_tokens = min(_MAX_TOKENS, inference_batch_tokens(device))
        for indices in batch_by_length([copy.num_tokens for copy in copies], max_tokens):
            of_batch = [copies[i] for i in indices]
            batch = collate([copy.ids for copy in of_batch])
            masked_P = torch.from_numpy(batch.cu_seqlens[:-1] + [copy.position for copy in of_batch])
            target_P1 = torch.tensor([[copy.target] for copy in of_batch])
            logits_PV: Tensor = self.model(to_device(batch, device), masked_P.to(device))
            log_probabilities_PV = logits_PV[:, : self.tokenizer.vocab_size].float().log_softmax(-1)
            true_P = log_probabilities_PV.gather(1, target_P1.to(device)).squeeze(1)
            log_probabilities[indices] = true_P.cpu().numpy()
        return log_probabilities.tolist()

    def join(self, copies: Sequence[MaskedCopy], log_probabilities: Sequence[float]) -> SentenceScore:
        """Return the score of a sentence from those of its copies."""
        tokens = (self.tokenizer.tokens[copy.target] for copy in copies)
        return SentenceScore(tuple(map(TokenScore, tokens, log_probabilities)))
