"""Read, check, learn and describe vocabularies."""

import lzma
import os
import random
import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from cloze.errors import InputError
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.statistics import TokenizedWord, describe_text, describe_vocabulary
from cloze.tokenization.vocabulary import learn_vocabulary, read_vocabulary, reserved_tokens
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.tokenization.wordpiece_trainer import count_words

STEMS, ENDINGS = ("walk", "talk", "jump", "paint"), ("", "ed", "ing", "s", "er")
COUNTS = {stem + ending: 20 for stem in STEMS for ending in ENDINGS}
COUNTS |= {"the": 500, ".": 300, ",": 200, "中": 50, "¿": 1, "x" * 60: 90}
"""Small enough to be checked by hand: stems, endings, punctuation."""


@pytest.mark.protected
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "vocab.txt: the vocabulary is empty"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", r"vocab.txt: the vocabulary has no \[MASK\]"),
        (b"a\nb\na\n", "vocab.txt:3: 'a' is in line 1 already"),
        (b"a\n\nb\n", "vocab.txt:2: empty line"),
        (b"a\n\xff\n", "vocab.txt:2: not UTF-8"),
    ],
)
def test_damaged_vocabularies_are_errors(tmp_path, content, message):
    file = tmp_path / "vocab.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_vocabulary(file)
    with pytest.raises(InputError, match=message):
        load_tokenizer(tmp_path)
    with pytest.raises(InputError, match=r"none\.txt: cannot read the vocabulary: No such file"):
        read_vocabulary(tmp_path / "none.txt")


def test_unicode_line_separators_are_tokens(tmp_path):
    tokens = [*SPECIAL_TOKENS, "\u2028", "\x85", "a"]
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(tokens).encode())
    assert read_vocabulary(tmp_path / "vocab.txt") == tokens


@pytest.mark.protected
def test_reserved_tokens_have_googles_ids(uncased_vocabulary):
    assert reserved_tokens(30_522) == uncased_vocabulary[:999]
    assert reserved_tokens(8_000) == uncased_vocabulary[:104]
    assert reserved_tokens(1_000) == list(SPECIAL_TOKENS)


def test_learned_tokens_of_a_small_text():
    letters = sorted(set("walk talk jump paint ed ing s er the") - {" "})
    alphabet = [*letters, *("##" + letter for letter in letters)]
    few = learn_vocabulary(COUNTS, size=5 + len(alphabet) + 11)
    assert few[:5] == list(SPECIAL_TOKENS)
    assert few[5 : 5 + len(alphabet)] == alphabet
    # Stems occur 100 times, endings 80 times, whole words 20 times.
    assert few[5 + len(alphabet) :] == [
        "the", ".", ",", "jump", "paint", "talk", "walk", "##ed", "##er", "##ing", "中",
    ]  # fmt: skip
    assert {"jumping", "walker"} <= set(learn_vocabulary(COUNTS, size=5 + len(alphabet) + 22))


def test_tokens_are_those_of_the_fourth_round():
    counts = {"a": 9, "ba": 9, "aaaa": 8}
    assert learn_vocabulary(counts, size=10)[-5:] == ["a", "b", "##a", "##b", "ba"]  # third and fifth: ##aa


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    counts=st.dictionaries(st.text("abcdé中.", min_size=1, max_size=8), st.integers(1, 50), max_size=40),
    size=st.integers(5, 120),
    seed=st.integers(0, 9),
)
def test_vocabulary_has_the_exact_size_and_ignores_order(counts, size, seed):
    shuffled = list(counts.items())
    random.Random(seed).shuffle(shuffled)
    tokens, again = (_learn_or_message(items, size) for items in (counts, dict(shuffled)))
    assert tokens == again
    assert isinstance(tokens, str) or len(tokens) == len(set(tokens)) == size


def _learn_or_message(counts, size):
    try:
        return learn_vocabulary(counts, size=size)
    except InputError as error:
        return str(error)


@pytest.mark.slow
def test_vocabulary_does_not_depend_on_the_hash_seed():
    program = "from cloze.tokenization.vocabulary import learn_vocabulary as learn\n"
    program += "from cloze.tokenization.wordpiece_trainer import count_words\n"
    program += "print(learn(count_words(['the cat sat on the mat, the rat sat on the cat'] * 3), size=30))"
    command, variables = [sys.executable, "-c", program], [os.environ | {"PYTHONHASHSEED": s} for s in "12"]
    one, other = (subprocess.check_output(command, env=environment) for environment in variables)
    assert one == other


def test_no_word_of_the_text_is_unknown(uncased_vocabulary):
    words = [token for token in uncased_vocabulary if token.isalpha() and token.isascii()][:3000]
    counts = Counter({word: 3000 - rank for rank, word in enumerate(words)})
    tokenizer = WordPieceTokenizer.from_tokens(learn_vocabulary(counts, size=1000))
    ids, _ = tokenizer.ids(words)
    assert tokenizer.unk_id not in ids


def _max_size_in(error) -> int:
    return int(re.search(r"Use (\d+) tokens or fewer,", str(error.value))[1])


def test_error_names_the_largest_possible_size():
    with pytest.raises(InputError, match="size: 1,000 tokens requested, ") as error:
        learn_vocabulary(COUNTS, size=1000)
    most = _max_size_in(error)
    assert len(learn_vocabulary(COUNTS, size=most)) == most
    with pytest.raises(InputError, match=f"size: {most + 1} tokens requested, {most} occur"):
        learn_vocabulary(COUNTS, size=most + 1)
    with pytest.raises(InputError, match="size: 10 is too small for 5 reserved tokens") as error:
        learn_vocabulary(COUNTS, size=10)
    least = int(re.search(r"Use at least (\d+)", str(error.value))[1])
    assert len(learn_vocabulary(COUNTS, size=least)) == least


@pytest.mark.parametrize(
    ("counts", "size", "message"),
    [
        # the smaller alphabet spells no word
        ({chr(0xAC00 + number % 100) + chr(0xAD00 + number): 2 for number in range(1000)}, 340, "no words"),
        ({}, 100, "no words"),
    ],
)
def test_texts_without_a_possible_size_are_refused(counts, size, message):
    with pytest.raises(InputError, match=message):
        learn_vocabulary(counts, size=size)


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.parametrize(
    ("name", "size"), [("novels100/novels100-000", 8_000), ("zhwiki_sample/zhwiki_sample-000", 9_000)]
)
def test_vocabulary_is_as_good_as_that_of_tokenizers(shared, name, size):
    """At most 1.01 times the tokens per word on held-out text, and as few unknown words."""
    file = shared / "data" / "pretrain" / f"{name}.txt.xz"
    with lzma.open(file, "rt", encoding="utf-8") as stream:
        text = stream.read(2_500_000).split("\n")
    learned_from, held_out = text[: len(text) * 4 // 5], count_words(text[len(text) * 4 // 5 :])
    library = BertWordPieceTokenizer()
    reserved = reserved_tokens(size)
    library.train_from_iterator(learned_from, vocab_size=size, special_tokens=reserved, show_progress=False)
    ids = library.get_vocab()
    theirs, ours = (
        describe_text(WordPieceTokenizer.from_tokens(tokens), held_out)
        for tokens in (
            sorted(ids, key=ids.__getitem__),
            learn_vocabulary(count_words(learned_from), size=size),
        )
    )
    assert ours.tokens_per_word <= 1.01 * theirs.tokens_per_word
    assert ours.unknown_words <= theirs.unknown_words + 1e-3


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
