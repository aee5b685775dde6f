"""Statistics of vocabularies and texts, small enough to be checked by hand."""

import pytest

from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.statistics import TokenizedWord, describe_text, describe_vocabulary
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
