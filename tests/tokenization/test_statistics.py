"""Statistics of vocabularies and texts, small enough to be checked by hand."""

from collections import Counter

import pytest

from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.statistics import TokenizedWord, describe_text, describe_vocabulary, tokenize_words
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.tokenization.wordpiece_trainer import count_words

TOKENS = [*SPECIAL_TOKENS, "[unused0]", "the", "walk", "##ing", "##s", "s", "##a", ".", "中", "never"]
TOKENIZER = WordPieceTokenizer.from_tokens(TOKENS)


def test_describe_vocabulary():
    statistics = describe_vocabulary(TOKENIZER)
    assert (statistics.tokens, statistics.lowercase) == (len(TOKENS), True)
    kinds = (statistics.words, statistics.continuations, statistics.characters, statistics.reserved)
    assert kinds == (3, 1, 5, 6)
    assert statistics.longest[:3] == ("##ing", "never", "walk")


def test_describe_text():
    counts = count_words(["The walks. The walking sa, 中 " + "x" * 200, "the Zoë ..."])
    # the 3, walks, walking, sa, 中: 3 + 2 + 2 + 2 + 1 tokens; periods 4; "," zoe and the long word are unknown
    statistics = describe_text(TOKENIZER, counts)
    assert (statistics.words, statistics.tokens, statistics.distinct_words) == (14, 17, 9)
    assert statistics.tokens_per_word == pytest.approx(17 / 14)
    assert statistics.cut_words == pytest.approx(3 / 14)
    assert statistics.unknown_words == pytest.approx(3 / 14)
    assert statistics.continuations == pytest.approx(3 / 17)
    assert statistics.characters == pytest.approx(3 / 17)  # walk ##s, s ##a
    assert statistics.unused_tokens == pytest.approx(1 / 9)
    assert statistics.most_cut[-1] == TokenizedWord("walks", 1, ("walk", "##s"))
    assert {word.word for word in statistics.unknown} == {",", "zoe", "[UNK]"}


def test_statistics_of_words_equal_those_of_tokens(uncased_vocabulary):
    tokenizer = WordPieceTokenizer.from_tokens(uncased_vocabulary)
    lines = ["Unbelievably, the glyptodonts snorted 😀 in 1873.", "Ĳsselmeer — naïve CAFÉ 東京", "ΟΔΟΣ don't"]
    counts = count_words(lines)
    ids, _ = tokenizer.ids(lines)
    statistics = describe_text(tokenizer, counts)
    assert statistics.tokens == len(ids)
    assert statistics.unknown_words * statistics.words == pytest.approx(sum(ids == tokenizer.unk_id))
    continuing = sum(tokenizer.tokens[i].startswith("##") for i in ids)
    assert statistics.continuations * statistics.tokens == pytest.approx(continuing)
    cut = Counter(token for tokens in tokenize_words(tokenizer, list(counts.elements())) for token in tokens)
    assert cut == Counter(tokenizer.tokens[i] for i in ids)
