"""Reading vocabularies and learning them."""

import lzma
import os
import random
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from cloze.errors import InputError
from cloze.text.inspection import describe_text
from cloze.text.pieces import SPECIAL_PIECES
from cloze.text.tokenizer import Tokenizer
from cloze.text.vocabulary import learn_vocabulary, read_vocabulary, reserved_pieces
from cloze.text.words import count_words

# A text whose vocabulary can be followed by hand: stems, endings, punctuation.
COUNTS = {
    **{
        stem + ending: 20
        for stem in ("walk", "talk", "jump", "paint")
        for ending in ("", "ed", "ing", "s", "er")
    },
    **{"the": 500, ".": 300, ",": 200, "中": 50, "¿": 1, "x" * 60: 90},
}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "vocab.txt: the vocabulary is empty"),
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", r"vocab.txt: the vocabulary has no \[MASK\]"),
        (b"a\nb\na\n", "vocab.txt:3: 'a' stands in line 1 already"),
        (b"a\n\nb\n", "vocab.txt:2: empty line"),
        (b"a\n\xff\n", "vocab.txt:2: not UTF-8"),
    ],
)
def test_bad_vocabularies(tmp_path, content, message):
    file = tmp_path / "vocab.txt"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_vocabulary(file)
    with pytest.raises(InputError, match=message):
        Tokenizer.load(tmp_path)


def test_missing_vocabulary(tmp_path):
    with pytest.raises(InputError, match=r"none\.txt: cannot read the vocabulary: No such file"):
        read_vocabulary(tmp_path / "none.txt")


def test_lines_are_pieces_whatever_unicode_calls_a_line(tmp_path):
    pieces = [*SPECIAL_PIECES, "\u2028", "\x85", "a"]
    (tmp_path / "vocab.txt").write_bytes("\r\n".join(pieces).encode())
    assert read_vocabulary(tmp_path / "vocab.txt") == pieces


def test_reserved_pieces_stand_where_google_has_them(uncased_pieces):
    assert reserved_pieces(30_522) == uncased_pieces[:999]
    assert reserved_pieces(8_000) == uncased_pieces[:104]
    assert reserved_pieces(1_000) == list(SPECIAL_PIECES)


def test_learned_by_hand():
    letters = sorted(set("walk talk jump paint ed ing s er the") - {" "})
    alphabet = [*letters, *("##" + letter for letter in letters)]
    few = learn_vocabulary(COUNTS, size=5 + len(alphabet) + 11)
    assert few[:5] == list(SPECIAL_PIECES)
    assert few[5 : 5 + len(alphabet)] == alphabet
    # Stems occur 100 times, endings 80 times, whole words 20 times.
    assert few[5 + len(alphabet) :] == [
        "the", ".", ",", "jump", "paint", "talk", "walk", "##ed", "##er", "##ing", "中",
    ]  # fmt: skip
    assert {"jumping", "walker"} <= set(learn_vocabulary(COUNTS, size=5 + len(alphabet) + 22))


def test_the_longest_common_endings_come_first():
    counts = {a + b + ending: 5 for a in "ijkl" for b in "abcd" for ending in ("ation", "ement")}
    alphabet = 2 * len(set("ijklabcdationement"))
    assert learn_vocabulary(counts, size=5 + alphabet + 2)[-2:] == ["##ation", "##ement"]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    counts=st.dictionaries(st.text("abcdé中.", min_size=1, max_size=8), st.integers(1, 50), max_size=40),
    size=st.integers(5, 120),
    seed=st.integers(0, 9),
)
def test_exact_size_and_any_order(counts, size, seed):
    shuffled = list(counts.items())
    random.Random(seed).shuffle(shuffled)
    pieces = _learned_or_refused(counts, size)
    assert pieces == _learned_or_refused(dict(shuffled), size)
    assert isinstance(pieces, str) or len(pieces) == len(set(pieces)) == size


def _learned_or_refused(counts, size):
    try:
        return learn_vocabulary(counts, size=size)
    except InputError as error:
        return str(error)


def test_the_hash_seed_changes_nothing():
    program = (
        "from cloze.text.vocabulary import learn_vocabulary\n"
        "from cloze.text.words import count_words\n"
        "text = ['the cat sat on the mat, the rat sat on the cat'] * 3\n"
        "print(learn_vocabulary(count_words(text), size=30))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_every_word_can_be_cut(uncased_pieces):
    words = [piece for piece in uncased_pieces if piece.isalpha() and piece.isascii()][:3000]
    counts = Counter({word: 3000 - rank for rank, word in enumerate(words)})
    tokenizer = Tokenizer.from_pieces(learn_vocabulary(counts, size=1000))
    ids, _ = tokenizer.ids(words)
    assert tokenizer.unk_id not in ids


def test_the_message_says_what_is_possible():
    with pytest.raises(InputError, match=r"size: 1,000 pieces asked for, the text has (\d+)") as error:
        learn_vocabulary(COUNTS, size=1000)
    most = int(str(error.value).split("smaller one, ")[1].split(" ")[0])
    assert len(learn_vocabulary(COUNTS, size=most)) == most
    with pytest.raises(InputError, match=rf"size: {most + 1} pieces asked for, the text has {most} "):
        learn_vocabulary(COUNTS, size=most + 1)


@pytest.mark.parametrize("letters", [900, 3000])
def test_what_is_possible_takes_the_alphabet_of_a_smaller_size(letters):
    """As in Hangul: of many letters, a smaller vocabulary has fewer, and leaves the words with others out."""
    hangul = [chr(0xAC00 + number) for number in range(letters)]
    weights = [1 / rank for rank in range(1, letters + 1)]
    drawn = random.Random(0).choices(hangul, weights, k=120_000)
    counts = Counter(map("".join, zip(*[iter(drawn)] * 3, strict=True)))
    with pytest.raises(InputError, match="smaller one, ") as error:
        learn_vocabulary(counts, size=30_522)
    most = int(str(error.value).split("smaller one, ")[1].split(" ")[0])
    assert len(learn_vocabulary(counts, size=most)) == most


def test_where_a_smaller_alphabet_spells_no_word_no_size_is_named():
    counts = {chr(0xAC00 + number % 100) + chr(0xAD00 + number): 2 for number in range(1000)}
    with pytest.raises(InputError, match=r"occur 2 times or more\. Give more text\.$"):
        learn_vocabulary(counts, size=30_522)


def test_too_small_and_empty():
    with pytest.raises(InputError, match="size: 10 pieces cannot hold 5 reserved ones and an alphabet of"):
        learn_vocabulary(COUNTS, size=10)
    with pytest.raises(InputError, match="no words"):
        learn_vocabulary({}, size=100)


@pytest.mark.parametrize(
    ("name", "size"), [("novels100/novels100-000", 8_000), ("zhwiki_sample/zhwiki_sample-000", 9_000)]
)
def test_as_good_as_the_librarys_trainer(shared, name, size):
    """Pieces per word on held-out text: at most 1.01 times, and no more words unknown."""
    file = shared / "data" / "pretrain" / f"{name}.txt.xz"
    with lzma.open(file, "rt", encoding="utf-8") as stream:
        text = stream.read(2_500_000).split("\n")
    learned_from, held_out = text[: len(text) * 4 // 5], count_words(text[len(text) * 4 // 5 :])
    library = BertWordPieceTokenizer()
    library.train_from_iterator(
        learned_from, vocab_size=size, special_tokens=reserved_pieces(size), show_progress=False
    )
    ids = library.get_vocab()
    theirs, ours = (
        describe_text(Tokenizer.from_pieces(pieces), held_out)
        for pieces in (
            sorted(ids, key=ids.__getitem__),
            learn_vocabulary(count_words(learned_from), size=size),
        )
    )
    assert ours.pieces_per_word <= 1.01 * theirs.pieces_per_word
    assert ours.unknown_words <= theirs.unknown_words + 1e-3
