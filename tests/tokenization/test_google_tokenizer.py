"""GoogleTokenizer gives the tokens of Google's code."""

import json
import lzma
import re
import unicodedata
from pathlib import Path

import pytest

from cloze.tokenization.google_tokenizer import GoogleTokenizer, split_words
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.vocabulary import read_vocabulary
from cloze.tokenization.wordpiece import WordPieceTokenizer

# The golden files are of Unicode 14 (CPython 3.11). Later versions classify some characters differently.
LINES_OF_OTHER_UNICODE = 0 if unicodedata.unidata_version == "14.0.0" else 12


@pytest.mark.protected
def test_golden_uncased(uncased_vocabulary):
    tokenizer = GoogleTokenizer(uncased_vocabulary)
    golden = Path(__file__).parents[1] / "golden" / "tokenization" / "uncased.jsonl.xz"
    rows = [json.loads(line) for line in lzma.decompress(golden.read_bytes()).splitlines()]
    assert len(rows) == 1015
    different = [row["text"] for row in rows if tokenizer.tokenize(row["text"]) != row["pieces"]]
    assert len(different) <= LINES_OF_OTHER_UNICODE, different


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.parametrize("kind", ["uncased", "cased", "multilingual-cased", "chinese"])
def test_golden_published_vocabularies(shared, kind):
    name = f"bert-base-{kind}"
    directory = shared / "data" / "vocab" / name
    vocabulary = read_vocabulary(directory / "vocab.txt")
    tokenizer = GoogleTokenizer(vocabulary, lowercase=kind in ("uncased", "chinese"))
    with (shared / "golden" / "tokenization.jsonl").open(encoding="utf-8") as stream:
        next(stream)  # the settings
        rows = [json.loads(line) for line in stream]
    assert len(rows) == 1495
    different = [row["text"] for row in rows if tokenizer.tokenize(row["text"]) != row[name]]
    assert len(different) <= LINES_OF_OTHER_UNICODE, different
    if LINES_OF_OTHER_UNICODE:
        return  # the table of the reference is for Unicode 14
    page = Path(__file__).parents[2] / "docs" / "reference" / "tokenizer.md"
    [stated] = re.findall(rf"^\| {name} \| (\d+) \|", page.read_text("utf-8"), re.MULTILINE)
    ours = load_tokenizer(directory)
    ids, lengths = ours.ids([row["text"] for row in rows])
    tokens = iter(ours.tokens[number] for number in ids)
    found = [[next(tokens) for _ in range(length)] for length in lengths]
    assert sum(mine != row[name] for mine, row in zip(found, rows, strict=True)) == int(stated)


def test_ids_are_lines_of_the_vocabulary_and_long_words_unknown():
    assert GoogleTokenizer(("[PAD]", "[UNK]", "a", "##b")).ids("ab? AB") == [2, 3, 1, 2, 3]
    tokenizer = GoogleTokenizer(("[UNK]", "a", "##a"))
    assert len(tokenizer.tokenize("a" * 200)) == 200
    assert tokenizer.tokenize("a" * 201) == ["[UNK]"]


def test_cased_words_keep_case_and_accents_and_lose_control_and_format_characters():
    assert split_words("Où est-il $5?", lowercase=False) == ["Où", "est", "-", "il", "$", "5", "?"]
    assert split_words("a\u200bb\ue000c\x00d", lowercase=False) == ["ab\ue000cd"]


@pytest.mark.parametrize("settings", [{}, {"lowercase": False}, {"strip_accents": False}])
def test_settings_are_those_of_the_tokenizer(uncased_vocabulary, settings):
    tokenizer = WordPieceTokenizer.from_tokens([*uncased_vocabulary, "café", "Café"], **settings)
    for text in ("A café.", "Café!", "नहीं"):
        assert tokenizer.google_tokenizer.ids(text) == tokenizer.ids([text])[0].tolist()
