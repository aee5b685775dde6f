from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from cloze.tokenization.wordpiece_trainer import count_words

LINES = st.lists(
    st.lists(st.sampled_from(["The", " ", "caf\u0301e", ",", "\x00", "中", "İ"]) | st.text(max_size=2)).map(
        "".join
    )
)


@settings(deadline=None, derandomize=True)
@given(lines=LINES, lowercase=st.booleans())
def test_words_equal_those_of_the_tokenizer(lines, lowercase):
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    expected = Counter(
        word for line in lines for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(line))
    )
    assert count_words(lines, lowercase=lowercase) == expected


def test_counts_of_parts_add_up():
    lines = ["one two", "two, three", "Three!"]
    assert count_words(lines[:1]) + count_words(lines[1:]) == count_words(lines)


def test_long_words_are_unknown_and_lone_surrogates_are_dropped():
    assert count_words(["x" * 101 + " y " + "z" * 101, "a\ud800b"]) == {"[UNK]": 2, "y": 1, "ab": 1}


def test_memory_bound_changes_nothing():
    lines = [f"line number {number} of many" for number in range(100)]
    assert count_words(lines, max_distinct=20, batch_characters=50) == count_words(lines)
