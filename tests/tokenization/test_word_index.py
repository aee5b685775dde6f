import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloze.tokenization.word_cache import WordIndex

TEXTS = st.lists(
    st.lists(
        st.sampled_from([*" \t\n!-中㐀\u9fff\u4dc0가あ", "\x7f", "é", "word", "x" * 40]) | st.text(max_size=3)
    ).map(lambda parts: "".join(parts).replace("\0", "")),
    min_size=1,
)


def _words_of(index: WordIndex, texts: list[str]) -> list[list[str]]:
    numbers, ends = index.number(texts)
    return [[index.words[n] for n in part] for part in np.split(numbers, ends[:-1])]


@settings(deadline=None, derandomize=True)
@given(texts=TEXTS, split_chinese=st.booleans())
def test_words_are_the_text_without_spaces(texts, split_chinese):
    index = WordIndex(split_chinese=split_chinese)
    for text, words in zip(texts, _words_of(index, texts), strict=True):
        kept = text.translate(dict.fromkeys(map(ord, " \t\n\r")))
        assert "".join(words) == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in kept)
    assert len(set(index.words)) == len(index.words)


def test_punctuation_and_chinese_characters_are_words():
    texts = ["It's 5-a-day\u3002", "中文 is中", ""]
    assert _words_of(WordIndex(split_chinese=True), texts) == [
        ["It", "'", "s", "5", "-", "a", "-", "day\u3002"],
        ["中", "文", "is", "中"],
        [],
    ]
    assert _words_of(WordIndex(split_chinese=False), texts)[1] == ["中文", "is中"]


@pytest.mark.parametrize("count", [10, 10_000])
def test_number_of_a_word_is_stable(count):
    texts = [f"{'y' * (number % 40)}{number}" for number in range(count)]
    texts += ["a" * length for length in range(1, 70)]  # prefixes of each other
    index = WordIndex(split_chinese=True)
    first, _ = index.number(texts)
    again, _ = index.number(texts[::-1])
    assert [index.words[number] for number in first] == texts
    assert again.tolist() == first.tolist()[::-1]


@pytest.mark.slow
def test_words_are_numbered_without_pandas() -> None:
    code = f"import sys; from {WordIndex.__module__} import WordIndex; "
    code += "WordIndex(split_chinese=True).number(['a b']); assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
