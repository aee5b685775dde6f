"""Count the words of a text for several tokenizers, while reading it once.

To learn a vocabulary, `cloze.data.build.vocabulary` counts in parts, so that a killed count resumes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cloze.data.build.accents import AccentCounts
from cloze.data.build.cleaning import CleaningCounts, clean_all, no_text_error
from cloze.data.build.input_shards import (
    InputShard,
    ReadingConfig,
    map_input_shards,
    plan_input_shards,
    read_documents,
)
from cloze.data.reading.documents import split_into_parts
from cloze.parallel_map import Workers
from cloze.progress import SILENT, Progress
from cloze.tokenization.word_counts import count_words
from cloze.tokenization.wordpiece import WordPieceTokenizer


def word_settings(tokenizer: WordPieceTokenizer) -> dict[str, Any]:
    """Return the arguments with which `count_words` splits text as a tokenizer does."""
    return {
        "lowercase": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "tokenize_chinese_chars": tokenizer.tokenize_chinese_chars,
        "max_word_chars": tokenizer.max_input_chars_per_word,
    }


def count_input_words(
    inputs: Sequence[str | Path],
    tokenizers: Sequence[WordPieceTokenizer],
    *,
    reading: ReadingConfig = ReadingConfig(),
    workers: Workers = 1,
    progress: Progress = SILENT,
) -> tuple[list["Counter[str]"], AccentCounts]:
    """Count the words of a text as each tokenizer splits it, and the letters that the first one strips of accents."""
    settings = list(map(word_settings, tokenizers))
    different = [entry for number, entry in enumerate(settings) if entry not in settings[:number]]
    totals: list[Counter[str]] = [Counter() for _ in different]
    strips_accents = bool(tokenizers) and tokenizers[0].lowercase and tokenizers[0].strip_accents is not False
    count = partial(_count_shard, settings=different, reading=reading, strips_accents=strips_accents)
    accents, cleaning = AccentCounts(), CleaningCounts()
    input_shards = plan_input_shards(inputs, reading)
    for (counts, changed, cleaned), _ in map_input_shards(
        count, input_shards, "counting words", workers=workers, progress=progress
    ):
        accents += changed
        cleaning += cleaned
        for total, counter in zip(totals, counts, strict=True):
            total.update(counter)
    if not any(totals):
        raise no_text_error(inputs, cleaning)
    return [totals[different.index(entry)] for entry in settings], accents


def _count_shard(
    input_shard: InputShard,
    *,
    settings: Sequence[Mapping[str, Any]],
    reading: ReadingConfig,
    strips_accents: bool,
) -> tuple[list["Counter[str]"], AccentCounts, CleaningCounts]:
    counts: list[Counter[str]] = [Counter() for _ in settings]
    cleaning = CleaningCounts()
    accents: list[AccentCounts] = []
    for documents in split_into_parts(read_documents(input_shard), reading.part_characters):
        cleaned, changes = clean_all(documents, reading.cleaning)
        cleaning += changes
        lines = [line for document in cleaned for line in document.lines]
        for number, (entry, counter) in enumerate(zip(settings, counts, strict=True)):
            if strips_accents and number == 0:
                entry = {**entry, "observe": lambda words: accents.append(AccentCounts.of_words(words))}
            counter.update(count_words(lines, **entry))
    return counts, sum(accents, AccentCounts()), cleaning
