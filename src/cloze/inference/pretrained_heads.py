"""Answer with the heads of pre-training: fill in masked words, predict the next sentence, score sentences.

The score of a sentence is its pseudo-log-likelihood: each token is predicted from the others, in a copy of the
sentence in which it is masked, and the logarithms of the true tokens' probabilities are added. Scores rank sentences
of similar length, as of a minimal pair or the hypotheses of a speech recognizer; they are not the logarithm of a
probability of the sentence.

Shapes: P masked tokens or masked copies, V vocabulary, A tokens to choose from, K chosen ones, L tokens of a sentence.

Source:
    Salazar et al. 2020, "Masked language model scoring"; Kauf and Ivanova 2023, "A better way to do masked language
    model scoring".
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, Literal, overload

import numpy as np

from cloze.arguments import check_integer, check_one_or_many, check_pairs, iterate_texts
from cloze.data.batch import Indices, MaskedBatch, PackedBatch, collate
from cloze.errors import InputError
from cloze.inference.answerer import Answerer, check_length
from cloze.models.engine import Batches, FloatArray, HeadOutput, run_batches
from cloze.results import Result
from cloze.signatures import checks_arguments
from cloze.tasks.arrays import log_of_sum, softmax, split_rows
from cloze.tasks.features import half_overlapping, max_context_windows
from cloze.tokenization.tokenizer import Encoding
from cloze.tokenization.unknown import NONE_UNKNOWN, count_unknown

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
    """Return the ids and probabilities of the most probable tokens of each row of logits, [P, V], the best first."""
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
class MaskedLanguageModel(Answerer):
    """A model with the masked-word head of pre-training."""

    output: ClassVar[HeadOutput] = HeadOutput("BertForMaskedLM", "the masked-word head")

    def logits(self, sequences: Sequence[MaskedSequence]) -> Iterator[tuple[int, FloatArray]]:
        """Yield the index of each sequence, in order of length, and the logits of its masked tokens, [P, V]."""

        def pack(indices: Indices) -> MaskedBatch:
            batch = collate([sequences[i].ids for i in indices])
            starts = zip(batch.cu_seqlens.tolist(), indices, strict=False)
            places = [start + place for start, i in starts for place in sequences[i].positions]
            return MaskedBatch.extend(batch, masked_lm_positions=np.array(places, np.int64))

        lengths = [sequence.num_tokens for sequence in sequences]
        max_tokens = min(_MAX_TOKENS, self.engine.batch_tokens)
        for indices, _, outputs in run_batches(self.engine, Batches(lengths, pack, max_tokens)):
            logits = outputs["logits"][:, : self.tokenizer.vocab_size]
            yield from zip(
                indices, split_rows(logits, [len(sequences[i].positions) for i in indices]), strict=True
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
    @checks_arguments()
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
        input_ids = [self.tokenizer.encode(text).input_ids for text, _ in texts]
        masked = [
            self.mask(text, ids, long_texts=long_texts, where=place)
            for (text, place), ids in zip(texts, input_ids, strict=True)
        ]
        best = {
            index: top_candidates(logits_PV, self.tokenizer.text_of, top_k)
            for index, logits_PV in self.logits(list(chain.from_iterable(masked)))
        }
        indices = iter(range(len(best)))
        filled = [
            FilledText(text, [mask for _ in windows for mask in best[next(indices)]])
            for (text, _), windows in zip(texts, masked, strict=True)
        ]
        count_unknown(self.tokenizer, [text for text, _ in texts], input_ids).warn("texts", stacklevel=3)
        return filled

    def probabilities(self, text: str, *, long_texts: Literal["windows"] | None = None) -> FloatArray:
        """Return the probability of each token of the vocabulary at each [MASK], [masks, V]; raises as a call."""
        windows = self.mask(text, self.tokenizer.encode(text).input_ids, long_texts=long_texts)
        of_window = dict(self.logits(windows))
        logits_MV = np.concatenate([of_window[index] for index in range(len(windows))])
        return softmax(logits_MV).astype(np.float32)

    def mask(
        self,
        text: str,
        ids: Sequence[int],
        *,
        long_texts: Literal["windows"] | None = None,
        where: str = "text",
    ) -> list[MaskedSequence]:
        """Return the tokens of a text, or the windows of a long text that have the most context around each [MASK]."""
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


IS_NEXT = 0


@dataclass(frozen=True, slots=True, repr=False)
class NextSentencePrediction(Result):
    """Whether sentence B follows sentence A."""

    is_next: bool
    probability: float
    """That it follows."""


@dataclass(frozen=True, repr=False)
class NextSentence(Answerer):
    """Predicts whether sentence B follows sentence A."""

    output: ClassVar[HeadOutput] = HeadOutput("BertForNextSentencePrediction", "the next-sentence head")

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
    @checks_arguments()
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
        """
        pairs, is_one = check_pairs(sentence_a, sentence_b, ("sentence_a", "sentence_b"), required=True)
        encodings = self.encode(pairs)
        predictions = [NextSentencePrediction(p > 0.5, p) for p in self.probabilities(encodings)]
        input_ids = [encoding.input_ids for encoding in encodings]
        count_unknown(self.tokenizer, list(map(" ".join, pairs)), input_ids).warn("pairs")
        return predictions[0] if is_one else predictions

    def encode(self, pairs: Sequence[tuple[str, str]]) -> list[Encoding]:
        """Tokenize pairs of texts; refuse a pair that is too long."""
        encodings = [self.tokenizer.encode(*pair) for pair in pairs]
        for encoding in encodings:
            check_length(
                encoding.input_ids, self.max_positions, where="pair", remedy="Give shorter sentences"
            )
        return encodings

    def probabilities(self, encodings: Sequence[Encoding]) -> list[float]:
        """Return the probability of each pair that `encode` has tokenized, computed in batches of similar length."""

        def pack(indices: Indices) -> PackedBatch:
            chosen = [encodings[i] for i in indices]
            return collate([e.input_ids for e in chosen], [e.token_type_ids for e in chosen])

        probabilities = np.empty(len(encodings))
        for indices, _, outputs in run_batches(self.engine, Batches(list(map(len, encodings)), pack)):
            probabilities[indices] = softmax(outputs["logits"])[:, IS_NEXT]
        return probabilities.tolist()


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
        self, texts: str
    ) -> SentenceScore: ...
    @overload
    def __call__(self, texts: Sequence[str]) -> list[SentenceScore]: ...
    @checks_arguments()
    def __call__(self, texts: Any) -> Any:
        """Return the score of a sentence, or of each of a list."""
        checked, is_one = check_one_or_many(texts)
        scores = list(self.scores(checked))
        return scores[0] if is_one else scores

    def scores(
        self, texts: Iterable[str], *, where: Callable[[int], str] = "texts[{}]".format
    ) -> Iterator[SentenceScore]:
        """Yield the score of each sentence, in order, some at a time; that of an empty one is 0.

        A text with more tokens than the model takes raises an InputError, which names the place that `where` returns.
        """
        window: list[list[MaskedCopy]] = []
        num_tokens, unknown = 0, NONE_UNKNOWN
        for number, text in enumerate(iterate_texts(texts)):
            window.append(self.masked_copies(text, where=where(number)))
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

    def masked_copies(self, text: str, *, where: str) -> list[MaskedCopy]:
        """Return a copy for each token of a sentence, [CLS] and [SEP] apart; refuse a text that is too long.

        The later tokens of its word are masked, too (Kauf and Ivanova): predicted from them, the first token of a rare
        word would count as probable.
        """
        ids = self.tokenizer.encode(text).input_ids
        check_length(ids, self.max_positions, where=where, remedy="Give one sentence at a time")
        ids_L = np.asarray(ids, np.int64)
        word_L = np.cumsum(~self.tokenizer.is_continuation[ids_L])
        masked_LL = np.where(np.triu(word_L[:, None] == word_L), self.tokenizer.mask_id, ids_L)
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
