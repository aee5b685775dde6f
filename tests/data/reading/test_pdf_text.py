"""Text of PDFs: words divided at line ends, ligatures and soft hyphens, in documents and in tables."""

import csv
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cloze
from cloze.data.build.cleaning import CleaningConfig, clean_all
from cloze.data.build.input_shards import ReadingConfig, plan_input_shards, read_documents
from cloze.data.reading.columns import Column
from cloze.data.reading.formats import open_source
from cloze.data.reading.source import ReadOptions
from cloze.data.reading.tables import parse_rows
from cloze.data.reading.text_layout import clean_pdf_text
from cloze.errors import DataWarning, InputError
from helpers import task_of


def cleaned_documents(path: Path, text_format: str = "auto") -> tuple[list[tuple[str, ...]], int]:
    """Return the lines of the cleaned documents of a file, and the number of changes."""
    shards = plan_input_shards([path], ReadingConfig(text_format=text_format))
    documents = [document for shard in shards for document in read_documents(shard)]
    kept, counts = clean_all(documents, CleaningConfig(clean="pdf"))
    return [document.lines for document in kept], counts.pdf.characters


@pytest.mark.parametrize(
    ("text", "expected", "changes"),
    [
        ("an exam-\nple", "an example", 1),
        ("an exam\u2010 \n\n\x0c  ple", "an example", 1),  # a page ends between the halves
        ("INFOR-\nMATION", "INFORMATION", 1),
        ("in-\nter-\nnational", "international", 2),
        ("Verände-\nrung", "Veränderung", 1),
        ("so\xadft, and ex\xad\nample", "soft, and example", 2),
        ("The \ufb01rst o\ufb03ce, the \ufb05andard", "The first office, the standard", 3),
        ("a well-\nknown, well-known word", "a well-\nknown, well-known word", 0),
        ("Well-known, and well-\nknown", "Well-known, and well-\nknown", 0),
        ("Anglo-\nSaxon, 1990-\n1995, x -\ny", "Anglo-\nSaxon, 1990-\n1995, x -\ny", 0),
        ("- one\n- two\nmid-air", "- one\n- two\nmid-air", 0),
        ("北京-\n大学 Ω ½", "北京-\n大学 Ω ½", 0),
        ("", "", 0),
    ],
)  # fmt: skip
def test_words_become_whole_and_other_characters_stay(text, expected, changes):
    assert clean_pdf_text(text) == (expected, changes)


@given(st.text(st.sampled_from("abA-\u2010\xad\n \ufb01\ufb06é.1")))
def test_cleaning_changes_marks_alone_and_is_counted(text):
    cleaned, changes = clean_pdf_text(text)
    assert bool(changes) == (cleaned != text)
    assert not re.search("[\xad\ufb00-\ufb06]", cleaned)
    letters = text.replace("\ufb01", "fi").replace("\ufb06", "st")
    assert re.sub(r"[-\s\xad\u2010]", "", letters) == re.sub(r"[-\s\u2010]", "", cleaned)


@pytest.mark.parametrize("unit", ["a", "a-\n", "a" * 50 + "-", "a-\n ", "\xad \n", "-\n\n", "北", "ab-\ncd "])
def test_long_texts_are_cleaned_in_linear_time(unit):
    """Quadratic time would exceed the time limit of tests."""
    text = unit * (400_000 // len(unit))
    assert len(clean_pdf_text(text)[0]) <= len(text)


@pytest.mark.parametrize("text_format", ["sentences", "paragraphs", "files", "jsonl"])
def test_words_are_joined_across_the_lines_of_narrow_columns(tmp_path, text_format):
    narrow = "the\nclassifi-\ncation of the\nvessel\nneeds\ndimen-\nsions"
    row = json.dumps({"text": narrow})
    (tmp_path / "page").write_text(row if text_format == "jsonl" else narrow)
    [lines], changes = cleaned_documents(tmp_path / "page", text_format)
    assert lines == ("the", "classification of the", "vessel", "needs", "dimensions")
    assert changes == 2


def test_cells_of_texts_are_cleaned_and_others_are_not(tmp_path):
    with (tmp_path / "a.csv").open("w", newline="") as stream:
        rows = [["text", "id"], ["an exam-\nple of\xad it", "a-\nb"], ["\ufb01ne", "\ufb01"]]
        csv.writer(stream).writerows(rows)
    config = ReadOptions(columns=(Column("text"), Column("id", "other")), clean="pdf")
    with pytest.warns(DataWarning, match="a.csv: `clean=pdf` made 3 changes: hyphens at line ends"):
        rows = list(parse_rows(open_source(tmp_path / "a.csv", config), lambda row: dict(row.cells)))
    assert rows == [{"text": "an example of it", "id": "a-\nb"}, {"text": "fine", "id": "\ufb01"}]


@pytest.mark.filterwarnings("ignore::cloze.errors.DataWarning")
def test_texts_are_learned_from_and_embedded_clean_where_it_is_asked_for(tmp_path):
    texts = ["The \ufb01rst exam-\nple", "no\xadne"], ["The first example", "none"]
    for name, written in zip("ab", texts, strict=True):
        rows = [{"text": text, "label": str(number)} for number, text in enumerate(written)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file, out = tmp_path / "a.jsonl", tmp_path / "a.out.jsonl"
    assert [example.text for example in task_of("classification", clean="pdf").examples(file)] == texts[1]
    assert [example.text for example in task_of("classification").examples(file)] == texts[0]
    cloze.embed_file(file, model="cloze-mini", output=out, clean="pdf")
    cloze.embed_file(tmp_path / "b.jsonl", model="cloze-mini", output=tmp_path / "b.out.jsonl")
    assert out.read_bytes() == (tmp_path / "b.out.jsonl").read_bytes()
    with pytest.raises(InputError, match="changes the characters"):
        cloze.embed_file(file, model="cloze-mini", output=tmp_path / "c.jsonl", tokens=True, clean="pdf")
    with pytest.raises(InputError, match="the task tagging has no such setting"):
        cloze.finetune("tagging", model="cloze-mini", train=file, output=tmp_path / "b", clean="pdf")
