"""Files of tagged words, their schemes, and errors that name the line."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze.data.reading.conll import ConllColumns, read_documents, read_sentences
from cloze.data.reading.files import read_lines
from cloze.data.reading.tag_schemes import Scheme, SchemeDetector, convert_tags
from cloze.data.reading.tagged_text import Sentence
from cloze.errors import InputError
from cloze.metrics.conll import entities
from helpers import task_of

SCHEMES: tuple[Scheme, ...] = ("IOB1", "IOB2", "IOBES")


def read(tmp_path: Path, text: str, columns: ConllColumns | None = None) -> list[Sentence]:
    path = tmp_path / "words.conll"
    path.write_text(text, encoding="utf-8")
    sentences, schemes = (
        list(read_sentences(path, columns or ConllColumns(), read_lines(path))),
        SchemeDetector(),
    )
    for sentence in sentences:
        schemes.add(sentence.tags or (), sentence.where)
    schemes.scheme()
    return sentences


@pytest.mark.parametrize(
    "text",
    [
        "Ann NNP B-PER\nsings VBZ O\n\nBob NNP B-PER\n",
        "Ann\tNNP\tB-PER\nsings\tVBZ\tO\n\t\nBob\tNNP\tB-PER",
        "\n\nAnn  x   B-PER \r\nsings x O\r\n\r\n \r\n\nBob x B-PER\r\n\r\n\r\n",
    ],
)
def test_columns_are_separated_by_tabs_or_spaces(tmp_path, text):
    sentences = read(tmp_path, text)
    assert [(s.words, s.tags) for s in sentences] == [
        (("Ann", "sings"), ("B-PER", "O")),
        (("Bob",), ("B-PER",)),
    ]


def test_columns_are_selected(tmp_path):
    (sentence,) = read(tmp_path, "1 B-A Ann B-B\n2 I-A Lee I-B\n", ConllColumns(word=2, tag=1))
    assert (sentence.words, sentence.tags) == (("Ann", "Lee"), ("B-A", "I-A"))
    (sentence,) = read(tmp_path, "Ann\nLee\n", ConllColumns(tag=None))
    assert (sentence.words, sentence.tags) == (("Ann", "Lee"), None)


def test_docstart_may_have_other_columns(tmp_path):
    sentences = read(tmp_path, "-DOCSTART- O\na b\tx\tO\n-DOCSTART-\nc\tx\tO\n")
    assert [sentence.words for sentence in sentences] == [(), ("a b",), (), ("c",)]


def test_cell_between_tabs_may_contain_spaces(tmp_path):
    (sentence,) = read(tmp_path, "New York\tB-LOC\n")
    assert sentence.words == ("New York",)


def test_sentences_know_their_lines(tmp_path):
    sentences = read(tmp_path, "\na O\nb O\n\n\nc O\nd O\n")
    assert [sentence.where(1).rpartition(":")[2] for sentence in sentences] == ["3", "7"]
    (sentence,) = read(tmp_path, "1\ta\tO\n2-3\tbc\t_\n2\tb\tO\n", ConllColumns(word=1, is_conllu=True))
    assert sentence.where(1).rpartition(":")[2] == "3"


def test_documents_start_at_docstart(tmp_path):
    path = tmp_path / "words.gz"
    text = "lone O\n\nwolf O\n-DOCSTART- -X- O O\n\na O\n\nb O\n\n-DOCSTART-\n-DOCSTART-\n\nc O\n\nd O\n"
    path.write_bytes(gzip.compress(text.encode()))
    documents = list(read_documents(path, ConllColumns(), read_lines(path)))
    assert [[s.words[0] for s in document] for document in documents] == [
        ["lone"],
        ["wolf"],
        ["a", "b"],
        ["c", "d"],
    ]


def detect_scheme(tags: str) -> Scheme:
    detector = SchemeDetector()
    for sentence in tags.split("|"):
        detector.add(sentence.split(), lambda word: f"file:{word + 1}")
    return detector.scheme()


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        ("O I-A I-A B-A|I-B O", "IOB1"),
        ("O B-A I-A B-A|B-B O", "IOB2"),
        ("O B-A E-A S-A|S-B O", "IOBES"),
        ("B-A B-A", "IOB2"),
        ("B-A I-B", "error"),
        ("O O", "IOB2"),
        ("B I O B", "IOB2"),
        ("I-A B-A O " * 150 + "B-A", "IOB1"),  # as in CoNLL-2003
        ("I-A O " * 98 + "B-A", "error"),
    ],
)
def test_scheme_is_detected(tags, scheme):
    if scheme == "error":
        with pytest.raises(InputError, match="entities begin with"):
            detect_scheme(tags)
    else:
        assert detect_scheme(tags) == scheme


def gold_tags(scheme: Scheme) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"]), max_size=12).map(
        lambda tags: convert_tags(tags, scheme)
    )


@given(data=st.data(), scheme=st.sampled_from(SCHEMES), other=st.sampled_from(SCHEMES))
def test_converted_tags_mark_the_same_entities(data, scheme, other):
    tags = data.draw(gold_tags(scheme))
    converted = convert_tags(tags, other)
    assert entities(converted) == entities(tags)
    assert convert_tags(converted, scheme) == tags
    if entities(tags):
        detector = SchemeDetector()
        detector.add(tags, str)
        detector.scheme()


def invalid_files() -> Iterator[tuple[str, ConllColumns, str]]:
    default = ConllColumns()
    yield "", default, "words.conll: holds no words"
    yield "\n\n-DOCSTART- O\n\n", default, "words.conll: holds no words"
    yield "a\n", default, ":1: 1 column: words and tags cannot share one. Give a word and its tag a line"
    yield "a O\nb\n", default, ":2: 1 column, the first line has 2. Columns are a tab apart throughout"
    yield "a O\n\nb x O\n", default, ":3: 3 columns, the first line has 2"
    yield "a\tO\nb O\n", default, ":2: 1 column, the first line has 2"
    yield "a\tO\n\tO\n", default, ":2: the word is empty. An empty line ends a sentence"
    yield "a x O\n", ConllColumns(tag=3), ":1: 3 columns, tag_column is 3. Columns are counted from 0"
    yield "a x O\n", ConllColumns(word=-4), ":1: 3 columns, word_column is -4"
    yield "a O\nb PER\n", default, ":2: 'PER' is not a tag. Tags are O, or B, I, E or S with a type"
    yield "a O\nb X-PER\n", default, ":2: 'X-PER' is not a tag"
    yield "a O\nb B-\n", default, ":2: 'B-' is not a tag"
    yield "a 0\n", default, ":1: '0' is not a tag"
    yield "a B-A\nb I-A\n\nc O\nd I-A\n", default, ":5: I-A after O: 1 entities begin with I, 1 with B. Give"
    yield "a B-A\nb I-B\n\nc B-A\n", default, ":2: I-B after B-A: 1 entities begin with I, 2 with B"
    yield "a I-A\n\nb I-A\n\nc B-A\n", default, ":5: B-A after O: 1 entities begin with B, 2 with I"
    yield "a S-A\nb B-A\nc O\n", default, ":3: O after B-A: invalid in IOBES, which tags with E and S are in"
    yield "a S-A\n\nb B-A\n", default, ":3: O after B-A: invalid in IOBES"
    yield "a B-A\nb E-B\n", default, ":2: E-B after B-A: invalid in IOBES"
    yield "a O\nb\0 O\n", default, ":2: a NUL byte"
    yield "a O\n" * 100_001, default, ":100001: over 100,000 words without an empty line"


@pytest.mark.protected
@pytest.mark.parametrize(
    ("text", "columns", "message"), list(invalid_files()), ids=lambda value: str(value)[:20]
)
def test_invalid_line_is_named(tmp_path, text, columns, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text, columns)
    assert message in str(caught.value)


@pytest.mark.protected
def test_invalid_encoding_and_missing_file_are_named(tmp_path):
    path = tmp_path / "words.conll"
    path.write_bytes(b"a O\nb\xff O\n")
    with pytest.raises(InputError, match=r"words.conll:2: not UTF-8 at byte 2"):
        list(task_of("tagging").examples(path))
    with pytest.raises(InputError, match="no such file"):
        list(task_of("tagging").examples(tmp_path / "none"))


@pytest.mark.parametrize(
    ("name", "documents", "sentences", "words", "scheme"),
    [
        ("conll2003/eng.train", 946, 14041, 203621, "IOB1"),
        ("conll2003/eng.testb", 231, 3453, 46435, "IOB1"),
        ("gum/CONLL-format/data/test/gum-test.conll", 1000, 1000, 18236, "IOB2"),
        ("wnut17/wnut17train.conll", 3394, 3394, 62730, "IOB2"),
    ],
)
@pytest.mark.slow
def test_real_files_are_read_completely(shared, name, documents, sentences, words, scheme):
    path = shared / "data" / "ner" / name
    read = list(read_documents(path, ConllColumns(), read_lines(path)))
    detector = SchemeDetector()
    for sentence in (s for document in read for s in document):
        detector.add(sentence.tags or (), sentence.where)
    assert len(read) == documents
    assert sum(map(len, read)) == sentences
    assert sum(len(s.words) for document in read for s in document) == words
    assert detector.scheme() == scheme


@pytest.mark.parametrize("marks", [1, 2])
def test_sentences_of_a_file_with_one_document_mark_are_held_out_one_by_one(
    tmp_path: Path, marks: int
) -> None:
    path = tmp_path / "a.conll"
    document = "-DOCSTART- -X- O O\n\n" + "Paris -X- _ B-LOC\n\nrains -X- _ O\n\n"
    path.write_text(document * marks)
    task = task_of("tagging")
    groups = {task.reader.group(example) for example in task.examples(path)}
    assert (groups == {None}) is (marks == 1)
    assert len(groups) == marks
