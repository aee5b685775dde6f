"""Files of tagged words, their schemes, and errors that name the line."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloze.data.reading.conll import ConllColumns, read_documents, read_sentences
from cloze.data.reading.files import read_lines
from cloze.data.reading.tag_schemes import Scheme, SchemeDetector, convert_tags
from cloze.errors import InputError
from cloze.metrics.conll import entities
from helpers import task_of

SCHEMES: tuple[Scheme, ...] = ("IOB1", "IOB2", "IOBES")


def read(tmp_path, text, columns=None):
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


def detect_scheme(tags):
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


def gold_tags(scheme):
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


@pytest.mark.protected
def test_words_without_an_empty_line_are_limited(tmp_path):
    with pytest.raises(InputError, match=r"words\.conll:100001: over 100,000 words without an empty line"):
        read(tmp_path, "a O\n" * 100_001)


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
def test_sentences_are_held_out_by_document_or_one_by_one_if_there_is_one_mark(tmp_path, marks):
    path = tmp_path / "a.conll"
    document = "-DOCSTART- -X- O O\n\n" + "Paris -X- _ B-LOC\n\nrains -X- _ O\n\n"
    path.write_text(document * marks)
    task = task_of("tagging")
    groups = [task.reader.group(example) for example in task.examples(path)]
    assert groups == ([None, None] if marks == 1 else [f"{path}:{line}" for line in (3, 3, 9, 9)])
