import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze.errors import InputError
from cloze.text.sentences import LANGUAGES, sentence_spans, split_sentences


def test_abbreviations_do_not_end_sentences():
    text = "Mr. Hyde came at 5 p.m. on Jan. 3. He left soon! Why?"
    assert split_sentences(text) == ["Mr. Hyde came at 5 p.m. on Jan. 3.", "He left soon!", "Why?"]


def test_the_language_matters():
    assert split_sentences("Das ist z.B. gut. Ja.", language="de") == ["Das ist z.B. gut.", "Ja."]
    assert split_sentences("我来了。你呢？", language="zh") == ["我来了。", "你呢？"]


def test_unknown_language_is_refused():
    with pytest.raises(InputError, match=r"'klingon'.*Choose one of am, ar"):
        split_sentences("Qapla'!", language="klingon")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_runs(language):
    assert split_sentences("One! Two!", language=language)


@given(
    text=st.text(max_size=80)
    | st.lists(st.sampled_from(["A. ", "b! ", "\n\n", " ", "中。", "\ud800"])).map("".join)
)
def test_spans_lie_in_order_and_leave_out_only_white_space(text):
    end = 0
    for start, next_end in sentence_spans(text):
        assert text[end:start].strip() == ""
        assert start < next_end <= len(text)
        end = next_end
    assert text[end:].strip() == ""


@given(text=st.text(max_size=80))
def test_spans_and_sentences_agree(text):
    assert [text[start:end] for start, end in sentence_spans(text)] == split_sentences(text)
