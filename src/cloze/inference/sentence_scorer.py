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
from typing import Any, Literal, TypeAlias, get_args, overload

import numpy as np

from cloze.arguments import check_choice, check_one_or_many, iterate_texts
from cloze.inference.fill_mask import MaskedLanguageModel, MaskedSequence
from cloze.inference.loading import check_length
from cloze.results import Result
from cloze.suggestions import suggests_keywords
from cloze.tasks.arrays import log_of_sum
from cloze.tokenization.unknown import NONE_UNKNOWN, count_unknown

WordMasking: TypeAlias = Literal["later", "none"]
"""Which other tokens of its word are masked with a token: "later" (Kauf and Ivanova) or "none" (Salazar et al.). With
none, the first token of a rare word is predicted from the later ones, and the word counts as probable."""

_MAX_TOKENS_OF_WINDOW = 1 << 18  # copies in memory at once, sorted by length


@dataclass(frozen=True, slots=True, repr=False)
class TokenScore(Result):
    """A token and the logarithm of its probability, in nats."""

    token: str
    """The text of the token."""
    log_probability: float
    """In nats."""


@dataclass(frozen=True, slots=True, repr=False)
class SentenceScore(Result):
    """The pseudo-log-likelihood of a sentence."""

    score: float
    """The sum over the tokens, in nats."""
    tokens: tuple[TokenScore, ...]
    """Without [CLS] and [SEP]."""


@dataclass(frozen=True, slots=True)
class MaskedCopy(MaskedSequence):
    """A sentence in which a token is masked, and perhaps others of its word."""

    target: int
    """The id of the token that is predicted."""


@dataclass(frozen=True, repr=False)
class SentenceScorer(MaskedLanguageModel):
    """Scores sentences by the head of pre-training."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is also a sequence
        self, texts: str, *, word_masking: WordMasking = "later"
    ) -> SentenceScore: ...
    @overload
    def __call__(
        self, texts: Sequence[str], *, word_masking: WordMasking = "later"
    ) -> list[SentenceScore]: ...
    @suggests_keywords()
    def __call__(self, texts: Any, *, word_masking: WordMasking = "later") -> Any:
        """Return the score of a sentence, or of each of a list.

        Args:
            texts: one sentence, or any number.
            word_masking: which other tokens of its word are masked with a token.

        Raises:
            InputError: `texts` is no text or list of texts, or a text has more tokens than the model takes.
        """
        checked, is_one = check_one_or_many(texts)
        scores = list(self.scores(checked, word_masking=word_masking))
        return scores[0] if is_one else scores

    def scores(
        self,
        texts: Iterable[str],
        *,
        word_masking: WordMasking = "later",
        where: Callable[[int], str] = "texts[{}]".format,
    ) -> Iterator[SentenceScore]:
        """Yield the score of each sentence, in order, some at a time; that of an empty one is 0.

        A text with more tokens than the model takes raises an InputError, which names the place that `where` returns.
        """
        check_choice(word_masking, get_args(WordMasking), "word_masking")
        window: list[list[MaskedCopy]] = []
        num_tokens, unknown = 0, NONE_UNKNOWN
        for number, text in enumerate(iterate_texts(texts)):
            window.append(self.masked_copies(text, word_masking, where=partial(where, number)))
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

    def masked_copies(
        self, text: str, word_masking: WordMasking = "later", *, where: Callable[[], str] = lambda: "text"
    ) -> list[MaskedCopy]:
        """Return a copy for each token of a sentence, [CLS] and [SEP] apart; refuse a text that is too long."""
        ids = self.tokenizer.encode(text).input_ids
        if len(ids) > self.max_positions:
            check_length(ids, self.max_positions, where=where(), remedy="Give one sentence at a time")
        ids_L = np.asarray(ids, np.int64)
        word_L = np.cumsum(~self.tokenizer.is_continuation[ids_L])
        is_masked_LL = np.eye(len(ids_L), dtype=np.bool_)
        if word_masking == "later":
            is_masked_LL = np.triu(word_L[:, None] == word_L)
        masked_LL = np.where(is_masked_LL, self.tokenizer.mask_id, ids_L)
        return [MaskedCopy(masked_LL[i], (i,), ids[i]) for i in range(1, len(ids) - 1)]

    def log_probabilities(self, copies: Sequence[MaskedCopy]) -> list[float]:
        """Return the logarithm of the probability of each copy's token, computed in batches of similar length."""
        log_probabilities = np.empty(len(copies))
        for index, (logits_V,) in self.logits(copies):
            log_probabilities[index] = logits_V[copies[index].target] - log_of_sum(logits_V)
        return log_probabilities.tolist()

    def join(self, copies: Sequence[MaskedCopy], log_probabilities: Sequence[float]) -> SentenceScore:
        """Return the score of a sentence from those of its copies."""
        tokens = (self.tokenizer.tokens[copy.target] for copy in copies)
        return SentenceScore(math.fsum(log_probabilities), tuple(map(TokenScore, tokens, log_probabilities)))
