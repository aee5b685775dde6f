"""Tables of tagged words: a word a row, or a sentence a row, with comma, semicolon, pipe or tab."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloze.data.reading.json_rows import parse_list
from cloze.errors import DataWarning
from helpers import task_of

TAGGED = [["Ada/B-PER", "left/O", "Oslo/B-LOC"], ["Bo/B-PER", "ran/O"]]
Write = Callable[[str, Any], Path]


def read(path, *, labeled=True, **settings):
    """Return word/tag, or the words, of each sentence."""
    texts = task_of("tagging", **settings).examples(path, labeled=labeled)
    return [
        [f"{word}/{tag}" for word, tag in zip(s.words, s.tags, strict=True)] if s.tags else list(s.words)
        for text in texts
        for s in text.sentences
    ]


WORDS = {
    "Kaggle": "Sentence #,Word,POS,Tag\nSentence: 1,Ada,NNP,B-PER\n,left,VBD,O\n,Oslo,NNP,B-LOC\n"
    "Sentence: 2,Bo,NNP,B-PER\n,ran,VBD,O\n",
    "a number in each row": "sentence_idx,word,tag\n0,Ada,B-PER\n0,left,O\n0,Oslo,B-LOC\n1,Bo,B-PER\n1,ran,O\n",
    "pandas with its index": ",sent_id,token,ner\n0,1,Ada,B-PER\n1,1,left,O\n2,1,Oslo,B-LOC\n3,2,Bo,B-PER\n4,2,ran,O\n",
    "empty lines": "word,label\nAda,B-PER\nleft,O\nOslo,B-LOC\n\nBo,B-PER\nran,O\n",
    "empty rows of a spreadsheet": "Word,Tag\nAda,B-PER\nleft,O\nOslo,B-LOC\n,\nBo,B-PER\nran,O\n",
}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("kind", WORDS)
def test_a_word_a_row(tmp_path, kind, separator, end):
    path = tmp_path / ("a.tsv" if separator == "\t" else "a.csv")
    path.write_bytes(("\ufeff" + WORDS[kind].replace(",", separator).replace("\n", end)).encode())
    assert read(path) == TAGGED
    assert read(path, labeled=False) == [["Ada", "left", "Oslo"], ["Bo", "ran"]]


SENTENCES = {
    "a data set of the hub": "id,tokens,ner_tags\n1,\"['Ada', 'left', 'Oslo']\",\"['B-PER', 'O', 'B-LOC']\"\n"
    "2,\"['Bo', 'ran']\",\"['B-PER', 'O']\"\n",
    "arrays of NumPy": "tokens,ner_tags\n\"['Ada' 'left' 'Oslo']\",\"['B-PER' 'O' 'B-LOC']\"\n"
    "\"['Bo'\n 'ran']\",\"['B-PER' 'O']\"\n",
    "tags with spaces": "text,labels\nAda left Oslo,B-PER O B-LOC\nBo ran,B-PER O\n",
    "Kaggle": "Sentence #,Sentence,POS,Tag\nSentence: 1,Ada left Oslo,\"['N', 'V', 'N']\",\"['B-PER', 'O', 'B-LOC']\"\n"
    "Sentence: 2,Bo ran,\"['N', 'V']\",\"['B-PER', 'O']\"\n",
    "spans of doccano": 'text,label\nAda left Oslo,"[[0, 3, ""PER""], [9, 13, ""LOC""]]"\nBo ran,"[[0, 2, ""PER""]]"\n',
    "spans of Label Studio": "text,id,label\n"
    'Ada left Oslo,1,"[{""start"":0,""end"":3,""text"":""Ada"",""labels"":[""PER""]},'
    '{""start"":9,""end"":13,""text"":""Oslo"",""labels"":[""LOC""]}]"\n'
    'Bo ran,2,"[{""start"":0,""end"":2,""text"":""Bo"",""labels"":[""PER""]}]"\n',
}


def test_a_sentence_of_hundreds_of_words_is_warned_of(write):
    path = write("a.conll", "word O\n" * 501 + "\nAda B-PER\n")
    with pytest.warns(DataWarning, match=r"a\.conll:1: a sentence has 501 words"):
        assert len(read(path)) == 2


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        ("['a' 'b']", ["a", "b"]),
        ("['a'\n 'b c']", ["a", "b c"]),
        ("[\"it's\" 'b']", ["it's", "b"]),
        ("[1 0]", [1, 0]),
        ("['a', 'b' 'c']", None),
        ("[1 0 ... 0]", None),
        ("['a' ... 'b']", None),
    ],
)
def test_arrays_of_numpy_in_a_cell(cell, values):
    assert parse_list(cell) == values
