"""Counting the words of a text as one vocabulary or several would cut them, with the text read once.

For learning a vocabulary see `cloze.corpus.vocabulary`, which can be cut off and goes on.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cloze.corpus.cleaning import clean_all
from cloze.corpus.documents import in_parts
from cloze.corpus.readers import read_documents
from cloze.corpus.sources import ReadingConfig, Stretch, plan_stretches, total_bytes
from cloze.errors import InputError
from cloze.executor import Workers, map_unordered
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer
from cloze.text.words import count_words


@dataclass(frozen=True, slots=True)
class Normalization:
    """How a tokenizer changes text before it cuts it into words."""

    lowercase: bool
    strip_accents: bool | None
    tokenize_chinese_chars: bool
    max_word_chars: int
    """Longer words are [UNK] to it."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "Normalization":
        """Return that of a tokenizer."""
        return cls(
            tokenizer.lowercase,
            tokenizer.strip_accents,
            tokenizer.tokenize_chinese_chars,
            tokenizer.max_input_chars_per_word,
        )

    def count(self, lines: Sequence[str]) -> "Counter[str]":
        """Count the words of lines."""
        return count_words(
            lines,
            lowercase=self.lowercase,
            strip_accents=self.strip_accents,
            tokenize_chinese_chars=self.tokenize_chinese_chars,
            max_word_chars=self.max_word_chars,
        )


def count_text(
    inputs: Sequence[str | Path],
    tokenizers: Sequence[Tokenizer],
    *,
    reading: ReadingConfig = ReadingConfig(),
    workers: Workers = 1,
    progress: Progress = SILENT,
) -> dict[Normalization, "Counter[str]"]:
    """Count the words of a text, once for each way in which the tokenizers change it.

    Args:
        inputs: files, folders, globs, or - for stdin.
        tokenizers: whose words are counted.
        reading: what the inputs hold and how it is cleaned.
        workers: processes, or a cluster.
        progress: where to tell how far it is.

    Raises:
        InputError: the text cannot be read, or there is none.
    """
    ways = tuple(dict.fromkeys(map(Normalization.of, tokenizers)))
    stretches = plan_stretches(inputs, reading)
    size = total_bytes(stretches)
    counts: dict[Normalization, Counter[str]] = {way: Counter() for way in ways}
    work = partial(_count_stretch, ways=ways, reading=reading)
    with progress.bar("counting words", total=size, unit="bytes") as bar:
        for stretch, found in map_unordered(work, stretches, workers=1 if size is None else workers):
            for way, some in zip(ways, found, strict=True):
                counts[way].update(some)
            bar.advance(stretch.size_bytes)
    if not any(counts.values()):
        raise InputError("no text in it", where=", ".join(map(str, inputs)))
    return counts


def _count_stretch(
    stretch: Stretch, *, ways: Sequence[Normalization], reading: ReadingConfig
) -> tuple[Stretch, list["Counter[str]"]]:
    counts: list[Counter[str]] = [Counter() for _ in ways]
    with SILENT.bar("counting words", total=None) as bar:
        for documents in in_parts(read_documents(stretch, bar)):
            cleaned, _ = clean_all(documents, reading.cleaning)
            lines = [line for document in cleaned for line in document.lines]
            for way, some in zip(ways, counts, strict=True):
                some.update(way.count(lines))
    return stretch, counts
