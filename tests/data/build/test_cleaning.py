"""Cleaning: what each step changes, what it leaves alone, and that all of it is counted."""

import json
import lzma
import unicodedata
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cloze
from cloze.data.build.cleaning import (
    STEPS,
    CleaningConfig,
    CleaningCounts,
    Example,
    StepCounts,
    clean,
    clean_all,
)
from cloze.data.reading.documents import Document

EVERYTHING = CleaningConfig()
UNTOUCHED = CleaningCounts()
FIVE_WORDS = "This is a good document."


def paragraphs(*lines: str) -> Document:
    return Document(lines, "text:7", "paragraphs")


def cleaned(*lines: str, **config: tuple[str, ...]) -> tuple[tuple[str, ...] | None, CleaningCounts]:
    document, counts = clean(paragraphs(*lines), CleaningConfig(**config))
    return (None if document is None else document.lines), counts


@pytest.mark.parametrize(
    "line",
    [
        "Ünïcödé, “quotes”, tabs\tand a no-break\xa0space: 北京 日本",
        "می\u200cخواهم",  # Persian: the joiner tells two words apart
        "क\u094d\u200dष 👩\u200d🚀 and ❤\ufe0f and 🏴\U000e0067\U000e0062\U000e007f",
        "an ideographic\u3000space, damaged \ufffd text",
    ],
)
def test_a_clean_document_stays_the_same_object(line):
    document = paragraphs(FIVE_WORDS, line)
    kept, counts = clean(document, EVERYTHING)
    assert kept is document
    assert counts == UNTOUCHED


@pytest.mark.parametrize(
    ("line", "expected", "step", "characters"),
    [
        ("It was a bright\ncold day,\nand", "It was a bright cold day, and", None, 0),
        ("Le cafe\u0301, \u212bngstro\u0308m", "Le café, Ångström", "unicode", 2),
        ("\u212bngstrom", "Ångstrom", "unicode", 1),
        ("bell\x07 and zero\0 and delete\x7f", "bell and zero and delete", "control", 3),
        ("mo\xadther \u200bof\u2060 pearl\ufeff", "mother of pearl", "control", 4),
        ("\u202aleft\u202c and \u200fright", "left and right", "control", 3),
        ("page\x0cpage\x0bline\u2028line\x85line\rline", "page page line line line line", "control", 5),
        ("two\x1c\x1dseparators", "two separators", "control", 1),
        ("\x0c\u2028 at the margins \x1f", "at the margins", "control", 2),
    ],
)
def test_characters_are_changed_and_counted(line, expected, step, characters):
    lines, counts = cleaned(FIVE_WORDS, line)
    assert lines == (FIVE_WORDS, expected)
    before = "".join(f"\\u{ord(c):04x}" if c not in expected and not " " <= c <= "~" else c for c in line)
    changes = StepCounts(1, characters, (Example("text:7", before, expected),))
    assert counts == (CleaningCounts(**{step: changes}) if step else UNTOUCHED)


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["Contents"], False),
        (["Page", "not", "found", "404"], False),
        (["***", "- - - - - - - - - -"], False),
        (["A title", "And three words"], True),
        (["点击这里。。。。。"], False),
        (["北京是首都"], True),
        (["これは本"], False),
        (["これは本だ"], True),
        (["ภาษาไทย"], True),
        (["Это ещё не документ"], False),
        (["Это уже документ, хотя и короткий"], True),
    ],
)
def test_documents_of_fewer_than_five_words_are_dropped(lines, kept):
    dropped = StepCounts(1, sum(map(len, lines)), (Example("text:7", " ".join(lines), ""),))
    expected = (tuple(lines), UNTOUCHED) if kept else (None, CleaningCounts(short_documents=dropped))
    assert cleaned(*lines) == expected
    sentences = Document(tuple(lines), "text:1", "sentences")
    assert clean(sentences, EVERYTHING) == (sentences, UNTOUCHED)


@pytest.mark.parametrize("kind", ["sentences", "paragraphs"])
def test_lines_that_become_empty_are_dropped(kind):
    document, counts = clean(Document(("\u200b", FIVE_WORDS, "\x07"), "text:1", kind), EVERYTHING)
    assert document == Document((FIVE_WORDS,), "text:1", kind)
    assert counts.control.characters == 2
    nothing, counts = clean(Document(("\u200b",), "text:1", kind), EVERYTHING)
    assert nothing is None
    assert counts.control.documents == 1


@pytest.mark.parametrize(
    ("step", "line"), [("unicode", "e\u0301 2 3 4 5"), ("control", "1 2 3 4 5\x07"), ("short_documents", "1")]
)
def test_a_step_can_be_skipped(step, line):
    assert cleaned(line, without=(step,)) == ((line,), UNTOUCHED)
    assert getattr(cleaned(line)[1], step).documents == 1


def test_counts_add_up_keep_the_first_examples_and_survive_json():
    documents = [paragraphs(f"{number} 2 3 4 5\x07") for number in range(5)] + [paragraphs("x")]
    kept, counts = clean_all(documents, EVERYTHING)
    assert len(kept) == 5
    assert counts.control.documents == counts.control.characters == 5
    assert [example.after for example in counts.control.examples] == [f"{n} 2 3 4 5" for n in range(3)]
    halves = [clean_all(half, EVERYTHING)[1] for half in (documents[:2], documents[2:])]
    assert halves[0] + halves[1] == counts + UNTOUCHED == counts
    assert CleaningCounts.from_dict(json.loads(json.dumps(asdict(counts)))) == counts
    assert counts.describe() == [
        "control: 5 documents with control characters or invisible marks, now deleted (5 characters)",
        "short_documents: 1 documents of fewer than 5 words, dropped (1 characters)",
    ]
    assert UNTOUCHED.describe() == []


def test_an_example_is_an_excerpt():
    long = "word " * 1000 + "bell\x07 " + "word " * 1000
    example = cleaned(long)[1].control.examples[0]
    assert "word bell\\u0007 word" in example.before
    assert "word bell word" in example.after
    assert len(example.before) == len(example.after) + 5 == 65


@given(st.text(), st.sets(st.sampled_from(STEPS)))
@pytest.mark.slow
def test_cleaning_is_idempotent(text, without):
    config = CleaningConfig(without=tuple(without))
    lines = tuple(line.strip() for line in text.split("\n") if line.strip())
    once, _ = clean(paragraphs(*lines, FIVE_WORDS), config)
    assert once is not None
    assert clean(once, config) == (once, UNTOUCHED)
    assert all(line == line.strip() and line for line in once.lines)
    if "unicode" not in without:
        assert all(unicodedata.is_normalized("NFC", line) for line in once.lines)


SEPARATORS = "\n\r\v\f\x1c\x1d\x1e\x1f\x85\u2028\u2029"
MARKS = "\x07\x7f\xad\u200b\u200f\u202a\u2060\ufeff\ufff9"
ACCENTS = "e\u0301\u0308 \u212b"


@given(st.text(st.characters(exclude_characters=SEPARATORS) | st.sampled_from(MARKS + ACCENTS)))
def test_cleaning_does_not_change_uncased_tokens(uncased_tokenizer, text):
    line = text.strip()
    rest, _ = cleaned(FIVE_WORDS, line) if line else ((FIVE_WORDS,), None)
    before = uncased_tokenizer.ids([FIVE_WORDS + " " + line])[0]
    assert np.array_equal(before, uncased_tokenizer.ids([" ".join(rest)])[0])


@pytest.fixture(scope="session")
def uncased_tokenizer(uncased_vocabulary: list[str]) -> cloze.Tokenizer:
    return cloze.WordPieceTokenizer.from_tokens(uncased_vocabulary)


@pytest.mark.parametrize("name", ["sample_text.txt", "novel.txt.xz"])
def test_text_in_googles_format_is_not_changed(golden_instances, name):
    content = (golden_instances / name).read_bytes()
    text = (lzma.decompress(content) if name.endswith(".xz") else content).decode("utf-8-sig")
    for block in text.split("\n\n"):
        document = Document(tuple(filter(None, map(str.strip, block.split("\n")))), name, "sentences")
        assert not document.lines or clean(document, EVERYTHING) == (document, UNTOUCHED)
