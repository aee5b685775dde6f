"""What a vocabulary does to text, on counts that can be followed by hand."""

from collections import Counter

import pytest

from cloze.text.inspection import CutWord, cut_words, describe_text, describe_vocabulary
from cloze.text.pieces import SPECIAL_PIECES
from cloze.text.tokenizer import Tokenizer
from cloze.text.words import count_words

PIECES = [*SPECIAL_PIECES, "[unused0]", "the", "walk", "##ing", "##s", "s", "##a", ".", "中", "never"]
TOKENIZER = Tokenizer.from_pieces(PIECES)


def test_a_vocabulary_in_figures():
    facts = describe_vocabulary(TOKENIZER)
    assert (facts.pieces, facts.lowercase) == (len(PIECES), True)
    assert (facts.words, facts.continuations, facts.characters, facts.reserved) == (3, 1, 5, 6)
    assert facts.longest[:3] == ("##ing", "never", "walk")


def test_a_text_in_figures():
    counts = count_words(["The walks. The walking sa, 中 " + "x" * 200, "the Zoë ..."])
    # the 3, walks, walking, sa, 中: 3 + 2 + 2 + 2 + 1 pieces; full stops 4; "," zoe and the long word are unknown
    facts = describe_text(TOKENIZER, counts)
    assert (facts.words, facts.pieces, facts.distinct_words) == (14, 17, 9)
    assert facts.pieces_per_word == pytest.approx(17 / 14)
    assert facts.cut_words == pytest.approx(3 / 14)
    assert facts.unknown_words == pytest.approx(3 / 14)
    assert facts.continuations == pytest.approx(3 / 17)
    assert facts.characters == pytest.approx(3 / 17)  # walk ##s, s ##a
    assert facts.unused_pieces == pytest.approx(1 / 9)
    assert facts.most_cut[-1] == CutWord("walks", 1, ("walk", "##s"))
    assert {word.word for word in facts.unknown} == {",", "zoe", "[UNK]"}


def test_figures_are_those_of_the_pieces_themselves(uncased_pieces):
    tokenizer = Tokenizer.from_pieces(uncased_pieces)
    lines = [
        "Unbelievably, the glyptodonts snorted 😀 in 1873.",
        "Ĳsselmeer — naïve CAFÉ 東京タワー",
        "ΟΔΟΣ don't",
    ]
    counts = count_words(lines)
    ids, _ = tokenizer.ids(lines)
    facts = describe_text(tokenizer, counts)
    assert facts.pieces == len(ids)
    assert facts.unknown_words * facts.words == pytest.approx(sum(ids == tokenizer.unk_id))
    continuing = sum(tokenizer.pieces[i].startswith("##") for i in ids)
    assert facts.continuations * facts.pieces == pytest.approx(continuing)
    cut = Counter(piece for pieces in cut_words(tokenizer, list(counts.elements())) for piece in pieces)
    assert cut == Counter(tokenizer.pieces[i] for i in ids)
