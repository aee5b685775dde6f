"""Add words to a vocabulary: given ones, or the most frequent words that it splits.

Existing IDs do not change, so a model of the old vocabulary needs only new embeddings for the added words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cloze.arguments import check_texts
from cloze.data.build.input_shards import ReadingConfig, plan_input_shards, read_documents
from cloze.data.build.vocabulary import word_settings
from cloze.errors import InputError
from cloze.results import Result
from cloze.tokenization.special_tokens import UNK
from cloze.tokenization.statistics import describe_text, tokenize_words
from cloze.tokenization.vocabulary import MAX_WORD_CHARS, add_tokens
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.tokenization.wordpiece_trainer import MIN_COUNT, count_words


@dataclass(frozen=True, slots=True)
class AddedWord:
    """A word that became a token."""

    word: str
    id: int
    count: int | None
    """Occurrences in the text, if one was given."""
    before: tuple[str, ...]
    """The tokens that it was split into."""


@dataclass(frozen=True, slots=True, repr=False)
class Extension(Result):
    """The result of adding words to a vocabulary."""

    tokens_before: int
    tokens: int
    added: tuple[AddedWord, ...]
    known: tuple[str, ...]
    """Given words that were tokens already."""
    tokens_per_word_before: float | None
    """Of the text, if one was given."""
    tokens_per_word: float | None

    @property
    def appended(self) -> int:
        """Number of words for which no [unused] token was left."""
        return self.tokens - self.tokens_before

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return asdict(self)


def add_words(
    tokenizer: WordPieceTokenizer, words: Sequence[str], counts: Mapping[str, int]
) -> tuple[WordPieceTokenizer, Extension]:
    """Return a tokenizer with more words, and what changed; `counts` are of the words of a text."""
    old_tokens = set(tokenizer.tokens)
    new = [word for word in words if word not in old_tokens]
    if not new:
        raise InputError("all of the words are tokens already", where="words")
    keep = [token.content for token in tokenizer.added_tokens]
    extended = replace(tokenizer, tokens=tuple(add_tokens(tokenizer.tokens, new, keep=keep)))
    ids = {token: index for index, token in enumerate(extended.tokens)}
    return extended, Extension(
        tokens_before=tokenizer.vocab_size,
        tokens=extended.vocab_size,
        added=tuple(
            AddedWord(word, ids[word], counts.get(word, 0) if counts else None, before)
            for word, before in zip(new, tokenize_words(tokenizer, new), strict=True)
        ),
        known=tuple(word for word in words if word in old_tokens),
        tokens_per_word_before=describe_text(tokenizer, counts).tokens_per_word if counts else None,
        tokens_per_word=describe_text(extended, counts).tokens_per_word if counts else None,
    )


def read_words(words: Path | Sequence[str], tokenizer: WordPieceTokenizer) -> list[str]:
    """Normalize words, or a file of one per line, as the tokenizer does."""
    settings = word_settings(tokenizer)
    read: dict[str, None] = {}
    if isinstance(words, Path):
        shards = plan_input_shards([words], ReadingConfig(text_format="lines"))
        documents = (document for shard in shards for document in read_documents(shard))
        lines = ((document.lines[0], document.where) for document in documents)
    else:
        lines = ((word, f"words[{number}]") for number, word in enumerate(check_texts(words, "words")))
    for text, where in lines:
        counts = count_words([text], **settings)
        word = next(iter(counts), "")
        if counts.total() != 1 or len(word) > MAX_WORD_CHARS or word == UNK:
            what = f"{text!r:.60} is not one word of at most {MAX_WORD_CHARS} characters"
            remedy = "Give one word per line; the tokenizer always splits at spaces and punctuation"
            raise InputError(what, where=where, remedy=remedy)
        read[word] = None
    if not read:
        raise InputError("no word in it", where=words if isinstance(words, Path) else "words")
    return list(read)


def most_frequent_words(counts: Mapping[str, int], tokenizer: WordPieceTokenizer, number: int) -> list[str]:
    """Return the most frequent words that are not tokens."""
    if number < 1:
        raise InputError(f"{number} is less than 1", where="number")
    if not counts:
        raise InputError("needs a text", where="number", remedy="Name files, folders or globs")
    tokens = set(tokenizer.tokens)
    usable = [w for w, n in counts.items() if n >= MIN_COUNT and w not in tokens and len(w) <= MAX_WORD_CHARS]
    if len(usable) < number:
        what = f"the text has {len(usable):,} words that are not tokens and occur {MIN_COUNT} times or more"
        fewer = f"Ask for {len(usable)} or fewer, or give" if usable else "Give"
        raise InputError(what, where="number", remedy=f"{fewer} more text")
    return sorted(usable, key=lambda word: (-counts[word], word))[:number]
