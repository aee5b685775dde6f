"""Tokens that were added to a vocabulary: matched as in transformers, whatever their flags."""

import json

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

import cloze
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer_files import AddedToken
from tiny_models import SPECIAL

TOKENS = [
    *(*SPECIAL, "covid", "##19", "co", "##v", "pc", "##r"),
    *("-", "a", "##a", "new", "york", "e", "##1", "s", "##s"),
]
WORDS = ["covid19", "Covid19", "pcr-test", "New York", "É", "a", "[E1]", "zz"]
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
TEXTS = st.lists(
    st.sampled_from([*WORDS, *map(str.upper, WORDS), *" \n-.s", "  ", "é", "covid", "[MASK]", "new york"]),
    max_size=9,
).map("".join)
ENTRIES = st.lists(
    st.tuples(st.sampled_from(WORDS), st.sets(st.sampled_from(FLAGS))),
    max_size=4,
    unique_by=lambda entry: entry[0],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("added")


def add(directory, entries, *, lowercase=True):
    """Write a tokenizer, add tokens with transformers, save it, and return it."""
    cloze.WordPieceTokenizer.from_tokens(TOKENS, lowercase=lowercase).save(directory)
    theirs = AutoTokenizer.from_pretrained(directory)
    for word, flags in entries:
        theirs.add_tokens(tokenizers.AddedToken(word, **{flag: flag in flags for flag in FLAGS}))
    theirs.save_pretrained(directory)
    return theirs


@pytest.mark.slow
@pytest.mark.protected
@given(entries=ENTRIES, text=TEXTS, lowercase=st.booleans())
def test_added_tokens_are_matched_as_in_transformers(folder, entries, text, lowercase):
    theirs = add(folder, entries, lowercase=lowercase)
    ours = load_tokenizer(folder)
    expected = theirs(text, return_offsets_mapping=True)
    encoding = ours.encode(text)
    assert encoding.input_ids == expected["input_ids"]
    assert encoding.offsets == expected["offset_mapping"]
    special = [token.content for token in ours.added_tokens if token.special and not token.normalized]
    if not any(token in text for token in (*SPECIAL, *special)) and len(special) == len(ours.added_tokens):
        assert ours.ids([text])[0].tolist() == encoding.input_ids[1:-1]
    ours.save(folder)
    assert load_tokenizer(folder) == ours
    assert AutoTokenizer.from_pretrained(folder)(text)["input_ids"] == encoding.input_ids


def write_words_beside_vocabulary(directory, file):
    """Write a tokenizer without `tokenizer.json`, with two added words in another file."""
    words = {"[CLS]": TOKENS.index("[CLS]"), "covid19": len(TOKENS), "pcr-test": len(TOKENS) + 1}
    cloze.WordPieceTokenizer.from_tokens(TOKENS).save(directory)
    (directory / "tokenizer.json").unlink()
    decoder = {str(number): {"content": word, "special": word == "[CLS]"} for word, number in words.items()}
    table = words if file == "added_tokens.json" else {"added_tokens_decoder": decoder, "do_lower_case": True}
    (directory / file).write_text(json.dumps(table))


@pytest.mark.protected
@pytest.mark.parametrize("file", ["added_tokens.json", "tokenizer_config.json"])
def test_words_beside_vocab_txt_are_those_of_transformers(tmp_path, file):
    write_words_beside_vocabulary(tmp_path, file)
    ours = load_tokenizer(tmp_path)
    assert ours.vocab_size == len(TOKENS) + 2
    text = "a Covid19s PCR-test [CLS]"
    tokens = ["a", "covid19", "s", "pcr-test", "[CLS]"]
    assert ours.encode(text).tokens == ["[CLS]", *tokens, "[SEP]"]
    ours.save(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).tokenize(text) == tokens


def test_words_are_matched_in_a_corpus_and_special_tokens_are_not(tmp_path):
    add(tmp_path, [("zz", {"special"}), ("pcr-test", {"normalized"}), ("[E1]", {"special"})])
    ours = load_tokenizer(tmp_path)
    assert [token.content for token in ours.added_tokens] == ["zz", "pcr-test", "[E1]"]
    ids, lengths = ours.ids(["a PCR-test", "zz [MASK]", "", "a\ud800a"])
    assert lengths.tolist() == [2, 4, 0, 2]
    assert [ours.tokens[number] for number in ids] == ["a", "pcr-test", *["[UNK]"] * 4, "a", "##a"]
    assert ids.dtype == np.uint32


def test_added_token_keeps_its_id_where_words_follow_it():
    tokens = (*TOKENS[:5], "zz", *TOKENS[5:])
    added = AddedToken("zz", special=False, in_wordpiece=False)
    tokenizer = cloze.WordPieceTokenizer(tokens, added_tokens=(added,))
    assert tokenizer.encode("azza").input_ids[1:-1] == [tokens.index(token) for token in ("a", "zz", "a")]


@pytest.mark.parametrize("file", ["tokenizer.json", "added_tokens.json", "tokenizer_config.json"])
def test_question_answering_names_words_that_it_does_not_match(tmp_path, file):
    if file == "tokenizer.json":
        add(tmp_path, [("pcr-test", set())])
    else:
        write_words_beside_vocabulary(tmp_path, file)
    with pytest.raises(cloze.InputError, match=r"adds the words .*pcr-test.* Write all tokens to vocab.txt"):
        _ = load_tokenizer(tmp_path).google_tokenizer
    tokens = load_tokenizer(tmp_path).tokens  # the remedy
    (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
    for name in ("tokenizer.json", "added_tokens.json"):
        (tmp_path / name).unlink(missing_ok=True)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config.pop("added_tokens_decoder", None)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert load_tokenizer(tmp_path).google_tokenizer.ids("a")
    assert load_tokenizer(tmp_path).tokens == tokens
