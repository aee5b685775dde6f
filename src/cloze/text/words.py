"""Counting words, the raw material of a vocabulary, exactly as the tokenizer cuts them."""

from collections import Counter
from collections.abc import Iterable

from tokenizers import normalizers, pre_tokenizers

from cloze.text.characters import replace_lone_surrogates, split_at_spaces
from cloze.text.pieces import UNK

_CHARACTERS_HELD = 1 << 25  # of distinct chunks, before they are counted as words and forgotten


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

    def count_chunks(chunks: "Counter[str]") -> None:
        for chunk, count in chunks.items():
            normal = normalizer.normalize_str(replace_lone_surrogates(chunk))
            for word, _ in pre_tokenizer.pre_tokenize_str(normal):
                words[word if len(word) <= max_word_chars else UNK] += count

    chunks: Counter[str] = Counter()
    characters = 0
    for line in lines:
        chunks.update(split_at_spaces(line))
        characters += len(line)
        if characters > _CHARACTERS_HELD:
            characters = sum(map(len, chunks))
            if characters > _CHARACTERS_HELD // 2:
                count_chunks(chunks)
                chunks.clear()
                characters = 0
    count_chunks(chunks)
    return words
