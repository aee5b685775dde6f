"""Text formats: detection by name and beginning, layout of running text, and new formats."""

import gzip
import math
import re
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from cloze.data.build.input_shards import (
    ReadingConfig,
    describe_input_formats,
    plan_input_shards,
    read_documents,
)
from cloze.data.reading.files import open_decompressed
from cloze.data.reading.formats import FORMATS, detect_format, format_names
from cloze.data.reading.text_layout import HEAD_BYTES, guess_text_layout, split_paragraphs, wrapped_width
from cloze.errors import InputError

PARAGRAPH = (
    "Mr. Sherlock Holmes, who was usually very late in the mornings, save upon those not infrequent occasions "
    "when he was up all night, was seated at the breakfast table. I stood upon the hearth-rug and picked up the "
    "stick which our visitor had left behind him the night before. It was a fine, thick piece of wood."
)
SENTENCES = PARAGRAPH.replace(". I", ".\nI", 2).split("\n")
LONG_LINE = " ".join([PARAGRAPH] * (400_000 // len(PARAGRAPH)))
SPEECH = '"Well, Watson, what do you make of it?"'
GERMAN = (
    "In den alten Zeiten, wo das Wünschen noch geholfen hat, lebte ein König, dessen Töchter waren alle schön; aber "
    "die jüngste war so schön, dass die Sonne selber, die doch so vieles gesehen hat, sich verwunderte, sooft sie "
    "ihr ins Gesicht schien. Nahe bei dem Schlosse des Königs lag ein großer dunkler Wald, und in dem Walde unter "
    "einer alten Linde war ein Brunnen."
)
CHINESE = "西元前二千年的時候，这里已经有人居住。后来，河流改道了！于是人们离开了这里。"


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        ("a.jsonl", b'{"text": 1}', "jsonl"),
        ("a.jsonl.xz", b"what is wrong is said by the reader", "jsonl"),
        ("a.ndjson", b"", "jsonl"),
        ("a", b'\xef\xbb\xbf{"text": "a"}\n', "jsonl"),
        ("a.txt", b' {\n "text": "a"}\n', "jsonl"),
        ("a.txt", b"{text} in braces", None),
        ("wiki_00", b'<doc id="12" url="" title="A">\nA\n', "wikiextractor"),
        ("wiki_00", b'{"id": "12", "text": "A"}\n', "jsonl"),
        ("a.txt", b"<document>", None),
        ("a", b"PAR1\x15\x04", "parquet"),
        ("a.parquet", b"", "parquet"),
        ("a", b"ARROW1\0\0\xff\xff\xff\xff", "arrow"),
        ("data-00000-of-00001.arrow", b"\xff\xff\xff\xff\xb0\0\0\0", "arrow"),
        ("a.txt", b"Some text.\n", None),
        ("a", b"", None),
        ("a", b"\0", None),
        ("a.tsv.txt", b"a\tb\n", None),
        ("a.tsv.zst", b"a\tb\n", "table"),
        ("A.CSV", b"a;b\n", "table"),
    ],
)
def test_formats_are_detected_by_name_and_beginning(name, head, expected):
    assert detect_format(name, head) == expected


@pytest.mark.parametrize(
    ("lines", "size_bytes", "expected"),
    [
        (SENTENCES * 30, None, "sentences"),
        (["The cat sat", "A mat", ""] * 40, None, "sentences"),
        (["Es geschah am 3. Oktober. ", "Dr. Watson und J. Smith kamen.", ""] * 20, None, "sentences"),
        ([PARAGRAPH, SPEECH, ""] * 30, None, "paragraphs"),
        ([CHINESE, CHINESE, ""] * 30, None, "paragraphs"),
        (CHINESE.replace("。", "。\n").replace("！", "！\n").splitlines() * 30, None, "sentences"),
        ([PARAGRAPH] * 30, None, "paragraphs"),  # one document: no blank line
        ([PARAGRAPH, "", PARAGRAPH, "", SPEECH, ""] * 60, None, "files"),  # paragraphs of a book
        ([PARAGRAPH, ""] * 10, None, "files"),  # of an article
        ([PARAGRAPH * 3, ""] * 100, None, "paragraphs"),  # documents of one paragraph each
        ([*textwrap.wrap(PARAGRAPH, 72), ""] * 40, None, "files"),
        ([*textwrap.wrap(PARAGRAPH, 60), SPEECH] * 40, None, "files"),  # wrapped, without a blank line
        ([], None, "sentences"),
        ([PARAGRAPH] * 1000, HEAD_BYTES, "paragraphs"),
        ([PARAGRAPH] * 1000, 50_000_000, "lines"),
        ([PARAGRAPH] * 1000, math.inf, "lines"),
        ([*[PARAGRAPH] * 800, "", *[PARAGRAPH] * 200], math.inf, "paragraphs"),
        # a line that is longer than the head counts
        ([LONG_LINE], 400_000, "paragraphs"),
        (["The Hound of the Baskervilles", LONG_LINE], 400_000, "paragraphs"),
        (["The Hound of the Baskervilles", "", LONG_LINE], 400_000, "files"),
        ([LONG_LINE] * 20, 8_000_000, "lines"),
    ],
)
def test_layout_is_guessed_from_lines(lines, size_bytes, expected):
    head = "".join(f"{line}\n" for line in lines).encode()[:HEAD_BYTES]
    assert guess_text_layout(head, size_bytes or len(head)) == expected


@pytest.mark.parametrize("width", [40, 60, 72, 100])
@pytest.mark.parametrize("text", [PARAGRAPH, GERMAN])
def test_wrapped_lines_become_paragraphs(width, text):
    paragraphs = [textwrap.fill(paragraph, width) for paragraph in (text, SPEECH, text)] * 3
    lines = [line for paragraph in paragraphs for line in (*paragraph.split("\n"), "")]
    assert wrapped_width(lines) in range(width - 9, width + 1)
    assert split_paragraphs(lines) == tuple(paragraphs)


def test_paragraphs_without_blank_lines_end_before_the_margin():
    paragraphs = [textwrap.fill(paragraph, 72) for paragraph in (PARAGRAPH, SPEECH, PARAGRAPH)]
    assert split_paragraphs("\n".join(paragraphs).split("\n")) == tuple(paragraphs)


def test_unwrapped_lines_are_kept():
    assert split_paragraphs([*SENTENCES, "", SPEECH]) == (*SENTENCES, SPEECH)
    assert split_paragraphs(["", ""]) == ()
    assert wrapped_width(SENTENCES * 20) is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("pretrain/*/*-000.txt.xz", {"paragraphs": 7}),
        (
            "novelists/*.xz",
            {"files": 11, "paragraphs": 1},
        ),  # the one has no blank line: a document a file, too
        ("google_bert/sample_text.txt", {"sentences": 1}),
    ],
)
def test_layout_of_real_text(shared, names, expected):
    found: Counter[str] = Counter()
    for file in (shared / "data").glob(names):
        with open_decompressed(str(file)) as (stream, _):
            found[guess_text_layout(stream.read(HEAD_BYTES), 3 * file.stat().st_size)] += 1
    assert found == expected


def test_the_format_that_contributing_adds_is_detected_and_read(tmp_path, monkeypatch):
    section = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text().split("## Adding a text format")[1]
    monkeypatch.setitem(FORMATS, "gutenberg", None)  # to be removed after the test
    exec(re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0], {})
    book = "The Project Gutenberg eBook of Emma\n\n*** START OF THIS\nEmma was rich.\n*** END OF THIS\nLicense.\n"
    (tmp_path / "emma.txt").write_text(book)
    (tmp_path / "emma.gz").write_bytes(gzip.compress(book.encode()))
    assert "gutenberg" in format_names()
    input_shards = plan_input_shards([tmp_path], ReadingConfig())
    described = f"{tmp_path}/emma.gz and 1 more: a book of Project Gutenberg per file"
    assert describe_input_formats(input_shards) == [described]
    documents = [document for shard in input_shards for document in read_documents(shard)]
    assert [document.lines for document in documents] == [("Emma was rich.",)] * 2
    named = plan_input_shards([tmp_path / "emma.txt"], ReadingConfig(text_format="gutenberg"))
    assert named[0].ranges[0].text_format == "gutenberg"


def test_an_unknown_format_is_refused():
    with pytest.raises(InputError, match=r"^format: no format 'hub'\. Choose from auto, sentences"):
        ReadingConfig(text_format="hub")
