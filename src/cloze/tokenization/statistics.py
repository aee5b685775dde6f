"""Statistics of a vocabulary, and of a text that is tokenized with it: tokens per word, unknown words, unused tokens.

A word is a unit of BERT's pre-tokenizer: text between spaces, split at punctuation; each punctuation mark and each
Chinese character is a word, too. Two vocabularies that normalize text in the same way have the same words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cloze.tokenization.special_tokens import CONTINUATION, SPECIAL_TOKENS, UNK, UNUSED
from cloze.tokenization.tokenizer import Tokenizer

_NUM_EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class VocabularyStatistics:
    """The kinds of tokens in a vocabulary."""

    tokens: int
    lowercase: bool
    words: int
    """Tokens of several characters that start a word; most are whole words."""
    continuations: int
    """Tokens of several characters that continue a word (##)."""
    characters: int
    """Single characters, with or without ##."""
    reserved: int
    """Special tokens and [unused] placeholders."""
    longest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenizedWord:
    """A word, its number of occurrences, and its tokens."""

    word: str
    count: int
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """A text that is tokenized with a vocabulary. Shares are of all words, or of all tokens, of the text."""

    words: int
    distinct_words: int
    tokens: int
    tokens_per_word: float
    """The fertility; 1 if every word is one token."""
    cut_words: float
    """Share of words with several tokens."""
    unknown_words: float
    """Share of words that are [UNK]."""
    continuations: float
    """Share of tokens that continue a word."""
    characters: float
    """Share of tokens that are a single character of a longer word."""
    unused_tokens: float
    """Share of the vocabulary, without reserved tokens, that does not occur in the text."""
    most_cut: tuple[TokenizedWord, ...]
    """Words with the most extra tokens: occurrences times tokens above one."""
    unknown: tuple[TokenizedWord, ...]
    """The most frequent words that are [UNK]."""


def describe_vocabulary(tokenizer: Tokenizer) -> VocabularyStatistics:
    """Count the kinds of tokens."""
    kinds = {"words": 0, "continuations": 0, "characters": 0, "reserved": 0}
    for token in tokenizer.tokens:
        kinds[_kind(token)] += 1
    longest = sorted(
        (token for token in tokenizer.tokens if _kind(token) != "reserved"),
        key=lambda token: (-len(token), token),
    )
    return VocabularyStatistics(
        tokens=tokenizer.vocab_size,
        lowercase=tokenizer.lowercase,
        longest=tuple(longest[:_NUM_EXAMPLES]),
        **kinds,
    )


def tokenize_words(tokenizer: Tokenizer, words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the tokens of words from `count_words` with the settings of the tokenizer.

    "[UNK]" is a word that was too long.
    """
    ids, lengths = tokenizer.ids(words)
    tokens = (tokenizer.tokens[index] for index in ids)
    for word, length in zip(words, lengths, strict=True):
        word_tokens = tuple(next(tokens) for _ in range(length))
        yield (UNK,) if word == UNK else word_tokens


def describe_text(tokenizer: Tokenizer, word_counts: Mapping[str, int]) -> TextStatistics:
    """Return statistics of a text: at least one word, from `count_words` with the settings of the tokenizer."""
    by_frequency = sorted(word_counts, key=lambda word: (-word_counts[word], word))
    words = [
        TokenizedWord(word, word_counts[word], tokens)
        for word, tokens in zip(by_frequency, tokenize_words(tokenizer, by_frequency), strict=True)
    ]
    counts = np.array([word.count for word in words])
    lengths = np.array([len(word.tokens) for word in words])
    is_unknown = np.array([UNK in word.tokens for word in words])
    single_characters = np.array(
        [sum(_kind(token) == "characters" for token in word.tokens) for word in words]
    )
    num_words, num_tokens = int(counts.sum()), int(counts @ lengths)
    used = {token for word in words for token in word.tokens}
    usable = [token for token in tokenizer.tokens if _kind(token) != "reserved"]
    by_extra_tokens = np.argsort(-counts * (lengths - 1), kind="stable")[:_NUM_EXAMPLES]
    return TextStatistics(
        words=num_words,
        distinct_words=len(words),
        tokens=num_tokens,
        tokens_per_word=num_tokens / num_words,
        cut_words=float(counts[lengths > 1].sum() / num_words),
        unknown_words=float(counts[is_unknown].sum() / num_words),
        continuations=float(counts @ (lengths - 1) / num_tokens),
        characters=float((counts * single_characters)[lengths > 1].sum() / num_tokens),
        unused_tokens=sum(token not in used for token in usable) / max(1, len(usable)),
        most_cut=tuple(words[index] for index in by_extra_tokens if lengths[index] > 1),
        unknown=tuple(words[index] for index in np.flatnonzero(is_unknown)[:_NUM_EXAMPLES]),
    )


def _kind(token: str) -> str:
    if token in SPECIAL_TOKENS or UNUSED.fullmatch(token):
        return "reserved"
    if len(token.removeprefix(CONTINUATION)) == 1:
        return "characters"
    return "continuations" if token.startswith(CONTINUATION) and token != CONTINUATION else "words"
