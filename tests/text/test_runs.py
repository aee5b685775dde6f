import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloze.text.runs import RunIndex

TEXTS = st.lists(
    st.lists(
        st.sampled_from([*" \t\n!-中㐀\u9fff\u4dc0가あ", "\x7f", "é", "word", "x" * 40]) | st.text(max_size=3)
    ).map(lambda parts: "".join(parts).replace("\0", "")),
    min_size=1,
)


def _runs_of(index: RunIndex, texts: list[str]) -> list[list[str]]:
    numbers, ends = index.number(texts)
    return [[index.runs[n] for n in own] for own in np.split(numbers, ends[:-1])]


@settings(deadline=None, derandomize=True)
@given(texts=TEXTS, cut_chinese=st.booleans())
def test_runs_are_the_text_without_its_spaces(texts, cut_chinese):
    index = RunIndex(cut_chinese=cut_chinese)
    for text, runs in zip(texts, _runs_of(index, texts), strict=True):
        kept = text.translate(dict.fromkeys(map(ord, " \t\n\r")))
        assert "".join(runs) == "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in kept)
    assert len(set(index.runs)) == len(index.runs)


def test_marks_and_chinese_characters_are_runs_of_their_own():
    texts = ["It's 5-a-day\u3002", "中文 is中", ""]
    assert _runs_of(RunIndex(cut_chinese=True), texts) == [
        ["It", "'", "s", "5", "-", "a", "-", "day\u3002"],
        ["中", "文", "is", "中"],
        [],
    ]
    assert _runs_of(RunIndex(cut_chinese=False), texts)[1] == ["中文", "is中"]


@pytest.mark.parametrize("count", [10, 10_000])
def test_a_run_keeps_its_number(count):
    """Lengths on both sides of every key's, more runs than a table begins with."""
    texts = [f"{'y' * (number % 40)}{number}" for number in range(count)]
    index = RunIndex(cut_chinese=True)
    first, _ = index.number(texts)
    again, _ = index.number(texts[::-1])
    assert [index.runs[number] for number in first] == texts
    assert again.tolist() == first.tolist()[::-1]


def test_a_prefix_is_another_run():
    texts = ["a" * length for length in range(1, 70)]
    numbers, _ = RunIndex(cut_chinese=True).number(texts)
    assert len(set(numbers.tolist())) == len(texts)
