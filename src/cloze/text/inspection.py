"""What a vocabulary does to text: how many pieces a word takes, what it does not know, what it never uses.

A word here is what BERT's pre-tokenizer gives: what stands between spaces, cut at punctuation, each mark a word; a
Chinese character is a word, too. So the words of two vocabularies that clean text alike are the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cloze.text.pieces import CONTINUATION, SPECIAL_PIECES, UNK, UNUSED
from cloze.text.tokenizer import Tokenizer

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class VocabularyFacts:
    """What is in a vocabulary."""

    pieces: int
    lowercase: bool
    words: int
    """Pieces of several characters that begin a word, whole words most of them."""
    continuations: int
    """Pieces of several characters that go on with a word (##)."""
    characters: int
    """Single characters, alone or with ##."""
    reserved: int
    """[PAD] and its like, and the [unused] places."""
    longest: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CutWord:
    """A word, how often it occurs, and its pieces."""

    word: str
    count: int
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextFacts:
    """What a vocabulary does to a text. Shares are of all words, or of all pieces, of the text."""

    words: int
    distinct_words: int
    pieces: int
    pieces_per_word: float
    """The fertility: 1 where every word is a piece."""
    cut_words: float
    """Share of words that take several pieces."""
    unknown_words: float
    """Share of words that are [UNK]."""
    continuations: float
    """Share of pieces that go on with a word."""
    characters: float
    """Share of pieces that are a part of a word of only one character."""
    unused_pieces: float
    """Share of the vocabulary, without what is reserved, that the text never uses."""
    most_cut: tuple[CutWord, ...]
    """Those that cost most: by occurrences times pieces above one."""
    unknown: tuple[CutWord, ...]
    """The most frequent words that are [UNK]."""


def describe_vocabulary(tokenizer: Tokenizer) -> VocabularyFacts:
    """Count the kinds of pieces."""
    kinds = {"words": 0, "continuations": 0, "characters": 0, "reserved": 0}
    for piece in tokenizer.pieces:
        kinds[_kind(piece)] += 1
    longest = sorted(
        (piece for piece in tokenizer.pieces if _kind(piece) != "reserved"),
        key=lambda piece: (-len(piece), piece),
    )
    return VocabularyFacts(
        pieces=tokenizer.vocab_size, lowercase=tokenizer.lowercase, longest=tuple(longest[:_SHOWN]), **kinds
    )


def cut_words(tokenizer: Tokenizer, words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the pieces of each word.

    Args:
        tokenizer: whose vocabulary cuts them.
        words: as `count_words` gives them with the tokenizer's settings; "[UNK]" is one that was too long.
    """
    ids, lengths = tokenizer.ids(words)
    pieces = (tokenizer.pieces[index] for index in ids)
    for word, length in zip(words, lengths, strict=True):
        found = tuple(next(pieces) for _ in range(length))
        yield (UNK,) if word == UNK else found


def describe_text(tokenizer: Tokenizer, word_counts: Mapping[str, int]) -> TextFacts:
    """Measure what the vocabulary does to a text.

    Args:
        tokenizer: whose vocabulary cuts it.
        word_counts: of at least one word, from `count_words` with the tokenizer's settings.
    """
    words = sorted(word_counts, key=lambda word: (-word_counts[word], word))
    cut = [
        CutWord(word, word_counts[word], pieces)
        for word, pieces in zip(words, cut_words(tokenizer, words), strict=True)
    ]
    counts = np.array([word.count for word in cut])
    lengths = np.array([len(word.pieces) for word in cut])
    is_unknown = np.array([UNK in word.pieces for word in cut])
    total, pieces = int(counts.sum()), int(counts @ lengths)
    used = {piece for word in cut for piece in word.pieces}
    usable = [piece for piece in tokenizer.pieces if _kind(piece) != "reserved"]
    lone = np.array([sum(_kind(piece) == "characters" for piece in word.pieces) for word in cut])
    by_cost = np.argsort(-counts * (lengths - 1), kind="stable")
    return TextFacts(
        words=total,
        distinct_words=len(cut),
        pieces=pieces,
        pieces_per_word=pieces / total,
        cut_words=float(counts[lengths > 1].sum() / total),
        unknown_words=float(counts[is_unknown].sum() / total),
        continuations=float(counts @ (lengths - 1) / pieces),
        characters=float((counts * lone)[lengths > 1].sum() / pieces),
        unused_pieces=sum(piece not in used for piece in usable) / max(1, len(usable)),
        most_cut=tuple(cut[index] for index in by_cost[:_SHOWN] if lengths[index] > 1),
        unknown=tuple(cut[index] for index in np.flatnonzero(is_unknown)[:_SHOWN]),
    )


def _kind(piece: str) -> str:
    if piece in SPECIAL_PIECES or UNUSED.fullmatch(piece):
        return "reserved"
    if len(piece.removeprefix(CONTINUATION)) == 1:
        return "characters"
    return "continuations" if piece.startswith(CONTINUATION) and piece != CONTINUATION else "words"
