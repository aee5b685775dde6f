"""Add words to a vocabulary: given ones, or the most frequent words that it splits.

Existing IDs do not change, so a model of the old vocabulary needs only new embeddings for the added words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cloze import artifacts
from cloze.data.build.accents import AccentCounts
from cloze.data.build.input_shards import ReadingConfig, local_paths, plan_input_shards, read_documents
from cloze.data.build.vocabulary import KIND
from cloze.data.build.word_counts import count_input_words, word_settings
from cloze.errors import InputError
from cloze.parallel_map import Workers
from cloze.progress import SILENT, Progress
from cloze.results import Result
from cloze.tokenization.loading import load_wordpiece
from cloze.tokenization.special_tokens import UNK
from cloze.tokenization.statistics import describe_text, tokenize_words
from cloze.tokenization.vocabulary import MAX_WORD_CHARS, add_tokens
from cloze.tokenization.word_counts import count_words
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.tokenization.wordpiece_trainer import MIN_COUNT


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


def extend_vocabulary(
    vocabulary: Path | str,
    output: Path,
    *,
    words: Path | None = None,
    inputs: Sequence[str | Path] = (),
    number: int | None = None,
    reading: ReadingConfig = ReadingConfig(),
    workers: Workers = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Extension:
    """Add words to a vocabulary and write the extended tokenizer, as `cloze.extend_vocabulary` does."""
    artifacts.check_output_path(output, overwrite=overwrite, inputs=[vocabulary, words, *local_paths(inputs)])
    if (words is None) == (number is None):
        raise InputError("one of `words` and `number` is needed", remedy="Give words, or how many to add")
    tokenizer = load_wordpiece(vocabulary)
    counts: Mapping[str, int] = {}
    if inputs:
        (counts,), accents = count_input_words(
            inputs, [tokenizer], reading=reading, workers=workers, progress=progress
        )
    if words is not None:
        wanted, accents = _read_words(words, tokenizer)
    elif number is not None:
        wanted = _most_frequent(counts, tokenizer, number)
    remedy = "The model reads its text so; cloze vocab --keep-accents or --cased learns a vocabulary that keeps them"
    for line in accents.describe(remedy):
        progress.note(line)
    old_tokens = set(tokenizer.tokens)
    new = [word for word in wanted if word not in old_tokens]
    if not new:
        raise InputError("all of its words are tokens already", where=words)
    keep = [token.content for token in tokenizer.added_tokens]
    extended = replace(tokenizer, tokens=tuple(add_tokens(tokenizer.tokens, new, keep=keep)))
    with artifacts.write_directory(output, kind=KIND, overwrite=overwrite) as directory:
        extended.save(directory)
    ids = {token: index for index, token in enumerate(extended.tokens)}
    return Extension(
        tokens_before=tokenizer.vocab_size,
        tokens=extended.vocab_size,
        added=tuple(
            AddedWord(word, ids[word], counts.get(word, 0) if counts else None, before)
            for word, before in zip(new, tokenize_words(tokenizer, new), strict=True)
        ),
        known=tuple(word for word in wanted if word in old_tokens),
        tokens_per_word_before=describe_text(tokenizer, counts).tokens_per_word if counts else None,
        tokens_per_word=describe_text(extended, counts).tokens_per_word if counts else None,
    )


def _read_words(file: Path, tokenizer: WordPieceTokenizer) -> tuple[list[str], AccentCounts]:
    """Read one word per line, normalized as by the tokenizer, and count the letters that this changes."""
    is_stripped = tokenizer.lowercase and tokenizer.strip_accents is not False
    accents = AccentCounts()
    settings = word_settings(tokenizer)
    words: dict[str, None] = {}
    for input_shard in plan_input_shards([file], ReadingConfig(text_format="lines")):
        for document in read_documents(input_shard):
            counts = count_words(document.lines, **settings)
            word = next(iter(counts), "")
            if counts.total() != 1 or len(word) > MAX_WORD_CHARS or word == UNK:
                what = f"{document.lines[0]!r:.60} is not one word of at most {MAX_WORD_CHARS} characters"
                remedy = "Give one word per line; the tokenizer always splits at spaces and punctuation"
                raise InputError(what, where=document.where, remedy=remedy)
            words[word] = None
            if is_stripped:
                accents += AccentCounts.of_words([(document.lines[0].strip(), 1)])
    if not words:
        raise InputError("no word in it", where=file)
    return list(words), accents


def _most_frequent(counts: Mapping[str, int], tokenizer: WordPieceTokenizer, number: int) -> list[str]:
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
