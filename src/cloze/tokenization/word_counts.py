"""Count words for learning a vocabulary, split exactly as the tokenizer splits them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
from tokenizers import normalizers, pre_tokenizers

from cloze.tokenization.special_tokens import UNK
from cloze.tokenization.word_index import BATCH_CHARACTERS, WordIndex, batch_texts


def count_words(
    lines: Iterable[str],
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
    max_word_chars: int = 100,
    max_distinct: int = 1_000_000,
    batch_characters: int = BATCH_CHARACTERS,
    observe: Callable[[Iterable[tuple[str, int]]], object] = lambda words: None,
) -> "Counter[str]":
    """Normalize a text, split it into words and punctuation as the tokenizer does, and count them.

    The counts of parts of a text add up to those of the text; `Counter.update` merges them.

    >>> count_words(["Où est-il?", "où?"])
    Counter({'ou': 2, '?': 2, 'est': 1, '-': 1, 'il': 1})

    Args:
        lines: the text, in parts that end at white space.
        strip_accents: remove accents; None removes them if the text is lower-cased.
        tokenize_chinese_chars: make every Chinese character a word.
        max_word_chars: longer words, which the tokenizer maps to [UNK], are counted together as "[UNK]".
        max_distinct: distinct unnormalized words to hold in memory.
        observe: called with the distinct words before normalization, and their counts.
    """
    normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=tokenize_chinese_chars,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    counter: Counter[str] = Counter()
    batches = batch_texts(lines, batch_characters)
    for raw_words, counts in _count_raw_words(batches, max_distinct, split_chinese=tokenize_chinese_chars):
        counted = list(zip(raw_words, counts.tolist(), strict=True))
        observe(counted)
        for raw_word, count in counted:
            for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(raw_word)):
                counter[word if len(word) <= max_word_chars else UNK] += count
    return counter


def _count_raw_words(
    batches: Iterable[list[str]], max_distinct: int, *, split_chinese: bool
) -> Iterator[tuple[list[str], npt.NDArray[np.int64]]]:
    """Yield distinct unnormalized words and their counts, several times if there are many."""
    index = WordIndex(split_chinese=split_chinese)
    counts = np.zeros(0, np.int64)
    for batch in batches:
        numbers, _ = index.number(batch)
        batch_counts = np.bincount(numbers, minlength=len(index.words))
        batch_counts[: len(counts)] += counts
        counts = batch_counts
        if len(index.words) > max_distinct:
            yield index.words, counts
            index, counts = WordIndex(split_chinese=split_chinese), np.zeros(0, np.int64)
    yield index.words, counts
