"""Documents, and how they are gathered into parts."""

from cloze.corpus import documents as module
from cloze.corpus.documents import Document, in_parts

SENTENCES = ["He came.", "He saw Mr. Holmes.", "He left, didn't he?"]


def test_parts_are_whole_documents_wherever_they_end(monkeypatch):
    monkeypatch.setattr(module, "_PART_CHARACTERS", 10)
    texts = [("four", "four"), ("four",), ("a line of many characters",), ("x",), ("y",)]
    documents = [Document(lines, "file:1", "sentences") for lines in texts]
    parts = list(in_parts(iter(documents)))
    assert parts == [documents[:2], documents[2:3], documents[3:]]


def test_a_document_gives_its_sentences():
    line = " ".join(SENTENCES)
    assert Document((line,), "file:1", "sentences").sentences_of_lines(str.split) == [[line]]
    paragraphs = Document((line, "One."), "file:1", "paragraphs")
    assert paragraphs.sentences_of_lines(str.split) == [line.split(), ["One."]]
