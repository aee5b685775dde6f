"""Counting words, the raw material of a vocabulary, exactly as the tokenizer cuts them."""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from tokenizers import normalizers, pre_tokenizers

from cloze.text.pieces import UNK
from cloze.text.runs import RunIndex, slices

_MAX_RUNS = 1_000_000  # before they are counted as words and forgotten


def count_words(
    lines: Iterable[str],
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    max_word_chars: int = 100,
) -> "Counter[str]":
    """Normalise a text, cut it into words and punctuation as the tokenizer does, and count them.

    Counts of parts of a text add up to those of the whole: `Counter.update` merges them.

    >>> count_words(["Où est-il?", "où?"])
    Counter({'ou': 2, '?': 2, 'est': 1, '-': 1, 'il': 1})

    Args:
        lines: the text in any pieces that end at white space.
        lowercase: lower-case it.
        strip_accents: remove accents; None does so where the text is lower-cased.
        tokenize_chinese_chars: make every Chinese character a word.
        max_word_chars: longer words, which are [UNK] to the tokenizer, are counted together as "[UNK]".
    """
    normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=tokenize_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for runs, counts in _count_runs(lines, cut_chinese=tokenize_chinese_chars):
        for run, count in zip(runs, counts.tolist(), strict=True):
            for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(run)):
                words[word if len(word) <= max_word_chars else UNK] += count
    return words


def _count_runs(
    lines: Iterable[str], *, cut_chinese: bool
) -> Iterator[tuple[list[str], npt.NDArray[np.int64]]]:
    """Yield distinct runs and how often each occurs; of a long text several times, to hold not too many at once."""
    index = RunIndex(cut_chinese=cut_chinese)
    counts = np.zeros(0, np.int64)
    for some in slices(lines):
        numbers, _ = index.number(some)
        more = np.bincount(numbers, minlength=len(index.runs))
        more[: len(counts)] += counts
        counts = more
        if len(index.runs) > _MAX_RUNS:
            yield index.runs, counts
            index, counts = RunIndex(cut_chinese=cut_chinese), np.zeros(0, np.int64)
    yield index.runs, counts
