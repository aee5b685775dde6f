"""Tables of tagged words: a word a row, or a sentence a row, with comma, semicolon, pipe or tab."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from cloze.data.reading.json_rows import parse_list
from cloze.errors import DataWarning, InputError
from helpers import task_of

TAGGED = [["Ada/B-PER", "left/O", "Oslo/B-LOC"], ["Bo/B-PER", "ran/O"]]
Write = Callable[[str, Any], Path]


def read(path: Path, *, labeled: bool = True, **settings: Any) -> list[list[str]]:
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
def test_a_word_a_row(tmp_path: Path, kind: str, separator: str, end: str) -> None:
    path = tmp_path / ("a.tsv" if separator == "\t" else "a.csv")
    path.write_bytes(("\ufeff" + WORDS[kind].replace(",", separator).replace("\n", end)).encode())
    assert read(path) == TAGGED
    assert read(path, labeled=False) == [["Ada", "left", "Oslo"], ["Bo", "ran"]]


def test_words_may_be_separators_quotation_marks_or_placeholders(write: Write) -> None:
    path = write("a.csv", 'sentence_id,word,tag\n1,"""",O\n1,",",O\n1,null,B-X\n1,NA,O\n')
    assert read(path) == [['"/O', ",/O", "null/B-X", "NA/O"]]
    path = write("a.csv", "\ufeffsep=;\r\nSentence #;Word;Tag\r\n1;a,b;B-X\r\n;c;O\r\n")
    assert read(path) == [["a,b/B-X", "c/O"]]


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


@pytest.mark.parametrize("kind", SENTENCES)
def test_a_sentence_a_row(write: Write, kind: str) -> None:
    path = write("a.csv", SENTENCES[kind])
    assert read(path) == TAGGED
    assert read(path, labeled=False) == [["Ada", "left", "Oslo"], ["Bo", "ran"]]


def test_a_text_without_spans_has_none(write: Write) -> None:
    path = write("a.csv", 'text,label\n"Ada, too","[[0, 3, ""PER""]]"\n"Bo, too",[]\n')
    assert read(path) == [["Ada/B-PER", ",/O", "too/O"], ["Bo/O", ",/O", "too/O"]]


def test_texts_of_a_table_are_predicted(write: Write) -> None:
    for name, content in (("a.csv", 'id,text\n1,"Ada, too."\n'), ("a.tsv", "id\ttext\n1\tAda, too.\n")):
        assert read(write(name, content), labeled=False) == [["Ada", ",", "too", "."]]


WORD_ROWS = [
    {"Sentence #": "Sentence: 1", "Word": "Ada", "POS": "N", "Tag": "B-PER"},
    {"Sentence #": None, "Word": "left", "POS": "V", "Tag": "O"},
    {"Sentence #": None, "Word": "Oslo", "POS": "N", "Tag": "B-LOC"},
    {"Sentence #": "Sentence: 2", "Word": "Bo", "POS": "N", "Tag": "B-PER"},
    {"Sentence #": float("nan"), "Word": "ran", "POS": "V", "Tag": "O"},
]


def test_rows_of_words_in_json_and_parquet(write: Write, tmp_path: Path) -> None:
    path = write("a.jsonl", WORD_ROWS)
    assert read(path) == TAGGED
    rows = [
        row | {"Sentence #": number} for row, number in zip(WORD_ROWS, [1, None, None, 2, None], strict=True)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == TAGGED
    assert read(tmp_path / "a.parquet", labeled=False) == [["Ada", "left", "Oslo"], ["Bo", "ran"]]


@pytest.mark.parametrize("names", ["ner_tags_str", "ner_tag_names", "ner_tags_text", "NER_Tags_names"])
def test_names_of_tags_may_be_beside_their_numbers(write: Write, names: str) -> None:
    number = "NER_Tags" if names[0] == "N" else "ner_tags"
    row = {"tokens": ["Ada", "ran"], number: [1, 0], names: ["B-PER", "O"]}
    assert read(write("a.jsonl", [row])) == [["Ada/B-PER", "ran/O"]]
    other = {"tokens": ["Ada", "ran"], "pos_tags": [1, 0], names: ["B-PER", "O"]}
    with pytest.raises(InputError, match="Choose one of 'pos_tags', "):
        read(write("a.jsonl", [other]))


ONE_SENTENCE = "Ada B-PER\nran O\n. O\nBo B-PER\nran O\n. O\nHe O\nfell O\n. O\n"


@pytest.mark.parametrize("labeled", [True, False])
@pytest.mark.parametrize("name", ["a.conll", "a.txt", "a.csv"])
def test_missing_empty_lines_are_warned_of(write: Write, name: str, labeled: bool) -> None:
    content = "word,tag\n" + ONE_SENTENCE.replace(" ", ",") if name == "a.csv" else ONE_SENTENCE
    line = 2 if name == "a.csv" else 1
    with pytest.warns(
        DataWarning, match=rf"{name}:{line}: the only sentence has 9 words\. An empty line ends"
    ):
        assert len(read(write(name, content), labeled=labeled)) == 1
    separated = content.replace("Bo", "\nBo").replace("He", "\nHe")
    assert len(read(write(name, separated), labeled=labeled)) == 3


def test_a_sentence_of_hundreds_of_words_is_warned_of(write: Write) -> None:
    path = write("a.conll", "word O\n" * 501 + "\nAda B-PER\n")
    with pytest.warns(DataWarning, match=r"a\.conll:1: a sentence has 501 words"):
        assert len(read(path)) == 2


def test_a_line_of_names_is_no_sentence_to_predict(write: Write) -> None:
    with pytest.raises(
        InputError, match=r"a\.txt:1: the first line names the columns\. Leave it out: tail -n"
    ):
        read(write("a.txt", "token pos ner\nAda N B-PER\nran V O\n"), labeled=False)


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
def test_arrays_of_numpy_in_a_cell(cell: str, values: list[Any] | None) -> None:
    assert parse_list(cell) == values


NUMBERED = {
    "CoNLL-U Plus": "# global.columns = ID FORM UPOS NER\n1\tAda\tN\tB-PER\n2\tran\tV\tO\n",
    "GermEval": "#\thttp://a [2001]\n1\tAda\tB-PER\tO\n2\tran\tO\tO\n",
    "from 0": "0 Ada N B-PER\n1 ran V O\n\n0 Bo N B-PER\n1 fell V O\n",
}


@pytest.mark.parametrize("kind", NUMBERED)
def test_numbers_of_words_are_no_words(write: Write, kind: str) -> None:
    path = write("a.conll", NUMBERED[kind])
    with pytest.raises(InputError, match=r"the first column has the numbers .*`tagging\.word_column=1"):
        read(path)
    assert read(path, word_column=1)[0][0].startswith("Ada/")
    path = write("a.conll", "1 N B-X\n2 N O\n\nAda N B-PER\nran V O\n")  # words that are numbers
    assert read(path)[0] == ["1/B-X", "2/O"]


def test_an_older_doccano_calls_the_text_data(write: Write) -> None:
    path = write("a.jsonl", '{"id": 1, "data": "Ada ran", "label": [[0, 3, "PER"]]}\n')
    assert read(path) == [["Ada/B-PER", "ran/O"]]
