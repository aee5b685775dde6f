"""Words of many texts: numbered, counted, and tokenized to the ids of the tokenizers library for every text."""

import json
import lzma
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.word_cache import WordCache, WordIndex
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.tokenization.wordpiece_trainer import count_words

# Characters that could interact across a split: control characters, odd spaces, combining marks, characters that
# decompose to punctuation, Chinese characters of every block, Hangul, special tokens.
TRAPS = [
    *" \t\n\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2003\u2028\u2029\u200b\u200d\u202f\u3000\ufeff\x00\xad\ufffd",
    *"\u0301\u0327\u0338\u0345\u05b0\u3099\ufe0f;\u037e\u226e\u2260\u1fef\u212b",
    *"Aa1İıſΣσςßﬃǅ$^_`-中㐀\u9fff豈𠀀𫠝𫢸가ᄀ각ゔ゛\U0001f600",
    *["[MASK]", "[SEP]", "[UNK]", "##a", "the", "The,", "un-aff", "x" * 101],
]
TEXTS = st.lists(st.lists(st.sampled_from(TRAPS) | st.text(max_size=3), max_size=12).map("".join), max_size=6)
SETTINGS = {
    "uncased": {"lowercase": True},
    "cased": {"lowercase": False},
    "accents kept": {"lowercase": True, "strip_accents": False},
    "accents stripped": {"lowercase": False, "strip_accents": True},
    "no Chinese": {"lowercase": True, "tokenize_chinese_chars": False},
}


@pytest.fixture(scope="module", params=SETTINGS)
def both(request, uncased_vocabulary, tmp_path_factory):
    """A tokenizer of cloze, its cache, and the library's from the same files, with special tokens as plain text."""
    ours = WordPieceTokenizer.from_tokens(uncased_vocabulary, **SETTINGS[request.param])
    directory = tmp_path_factory.mktemp("tokenizer")
    ours.save(directory)
    library = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    library.encode_special_tokens = True
    return ours, WordCache(ours.build_backend()), library


def _assert_same_ids(
    ours: Tokenizer, cache: WordCache, library: tokenizers.Tokenizer, texts: list[str]
) -> None:
    expected = library.encode_batch(texts, add_special_tokens=False)
    for tokens, lengths in (ours.ids(texts), cache.ids(texts)):  # a few words do without the cache
        assert lengths.tolist() == [len(encoding.ids) for encoding in expected]
        assert tokens.tolist() == [token for encoding in expected for token in encoding.ids]
        assert (tokens.dtype, lengths.dtype) == (np.uint32, np.int64)


@pytest.mark.protected
@settings(max_examples=50)
@given(texts=TEXTS)
def test_ids_equal_those_of_the_library(both, texts):
    _assert_same_ids(*both, texts)


@pytest.mark.protected
@pytest.mark.exhaustive
@settings(max_examples=1000)
@given(texts=TEXTS)
def test_ids_of_many_texts_equal_those_of_the_library(both, texts):
    _assert_same_ids(*both, texts)


@pytest.mark.parametrize(
    ("texts", "decoded", "lengths"),
    [
        ([], "", []),
        (["", " ", "\n"], "", [0, 0, 0]),
        (["the [MASK] [SEP]"], "the [ mask ] [ sep ]", [7]),  # special tokens are plain text
        (["th\ud83de", "\udc00"], "the", [1, 0]),  # lone surrogates are dropped
    ],
)
def test_blank_texts_special_tokens_and_lone_surrogates(uncased_vocabulary, texts, decoded, lengths):
    tokenizer = WordPieceTokenizer.from_tokens(uncased_vocabulary)
    for ids in (tokenizer.ids, WordCache(tokenizer.build_backend()).ids):
        tokens, found = ids(texts)
        assert tokenizer.decode(tokens) == decoded
        assert found.tolist() == lengths


@pytest.mark.parametrize("bound", ["max_words", "max_characters"])
def test_clearing_the_cache_changes_nothing(uncased_vocabulary, bound):
    texts = [f"{word} number {n}, indeed" for n, word in enumerate(uncased_vocabulary[2000:2400])]
    tokenizer = WordPieceTokenizer.from_tokens(uncased_vocabulary)
    expected, expected_lengths = tokenizer.ids(texts)
    small = WordCache(tokenizer.build_backend(), batch_characters=100, **{bound: 50})
    tokens, lengths = small.ids(texts)
    assert (tokens.tolist(), lengths.tolist()) == (expected.tolist(), expected_lengths.tolist())


def test_cache_of_texts_without_spaces_is_bounded(uncased_vocabulary):
    backend = WordPieceTokenizer.from_tokens(uncased_vocabulary).build_backend()
    cache = WordCache(backend, max_characters=10_000)
    for letter in "abcdefghij":
        cache.ids([letter * 4_000])
    assert cache.num_characters <= 12_000


VOCABULARIES = {"zhwiki_sample": "bert-base-chinese", "eltec_deu": "bert-base-multilingual-cased"}
TEXT_SETS = [*["enwiki2015", "novels100", "eltec_eng", "enwikinews", "simplewiki_sample"], *VOCABULARIES]


def _assert_equal_to_library(shared, name: str, *parts: list[str]) -> None:
    ours = load_tokenizer(shared / "data" / "vocab" / name)
    for texts in parts:
        _assert_same_ids(ours, WordCache(ours.build_backend()), ours.build_backend(), texts)


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.parametrize(
    "name", ["uncased", "cased", "chinese", "multilingual-cased", "multilingual-uncased"]
)
def test_strange_strings(shared, name):
    lines = (shared / "golden" / "tokenization.jsonl").read_text("utf-8").splitlines()
    texts = [row["text"] for row in map(json.loads, lines) if "text" in row]
    assert len(texts) > 1000
    _assert_equal_to_library(shared, f"bert-base-{name}", texts)


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.parametrize("name", TEXT_SETS)
def test_beginning_of_real_text(shared, name):
    file = min((shared / "data" / "pretrain" / name).glob("*.xz"))
    with lzma.open(file, "rt", encoding="utf-8") as stream:
        lines = stream.read(200_000).split("\n")
    _assert_equal_to_library(shared, VOCABULARIES.get(name, "bert-base-uncased"), lines)


@pytest.mark.protected
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TEXT_SETS)
def test_all_real_text(shared, name):
    for file in sorted((shared / "data" / "pretrain" / name).glob("*.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as stream:
            parts = iter(lambda lines=stream: lines.readlines(4_000_000), [])
            _assert_equal_to_library(shared, VOCABULARIES.get(name, "bert-base-uncased"), *parts)


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
def test_words_are_numbered_without_pandas():
    code = f"import sys; from {WordIndex.__module__} import WordIndex; "
    code += "WordIndex(split_chinese=True).number(['a b']); assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


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


def test_long_words_are_unknown_and_lone_surrogates_are_dropped():
    lines = ["x" * 101 + " y " + "z" * 101, "a\ud800b", "w" * 100]
    assert count_words(lines) == {"[UNK]": 2, "y": 1, "ab": 1, "w" * 100: 1}


def test_memory_bound_changes_nothing():
    lines = [f"line number {number} of many" for number in range(100)]
    assert count_words(lines, max_distinct=20, batch_characters=50) == count_words(lines)
