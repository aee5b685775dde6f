"""An audit for a person: safe, whole, the same each time, on a page and as text."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from cloze.corpus.audit import Audit
from cloze.corpus.audit_instances import Drawn, Measure, Shown, Token
from cloze.corpus.audit_text import Copies, Counts, Distribution
from cloze.errors import InputError
from cloze.evidence.audit import audit_as_text, write_audit_page

VOID = {"meta", "br"}
EVIL = "<script>alert(1)</script>"
LENGTHS = Distribution(
    12.5, {"least": 1, "5%": 2, "25%": 3, "median": 5, "75%": 9, "95%": 40, "most": 50}, (1, 2, 3), (5, 0, 7)
)
MEASURES = (
    Measure("places filled", 0.9, "share"),
    Measure("predictions a sequence", 18.5, "pieces", 18.5),
    Measure("random Bs from the document of A", 0.25, "share", 0.0),
)
AUDIT = Audit(
    dataset="some/wiki",
    split="train",
    counts=Counts(12, 345, 6789, 7000, 7000 / 6789, 0.00025, 30522, 2000),
    sentence_pieces=LENGTHS,
    document_sentences=LENGTHS,
    document_pieces=LENGTHS,
    largest_share=0.75,
    copies=(
        Copies("sentences", 345, 3, 0.01, ((EVIL, 3), ("see also", 2))),
        Copies("documents", 12, 0, 0.0, ()),
    ),
    held_out_seen=0.125,
    drawn=(Drawn(128, 20, 1000, 500, 2, LENGTHS, MEASURES), Drawn(512, 77, 300, 300, 2, LENGTHS, MEASURES)),
    frequent_pieces=((EVIL, 900), ("##s", 80)),
    counts_at_ranks=((1, 900), (2, 80)),
    shown=(
        Shown(
            0,
            "NotNext",
            (3, 1234),
            (
                (Token("the", None), Token("[MASK]", "play"), Token("##ing", None), Token(EVIL, "##s")),
                (Token("a", None), Token("cat", "cat"), Token("##ty", "dog")),
            ),
        ),
    ),
    cleaning={
        "builds": [
            {
                "documents": 12,
                "cleaning": {
                    "unicode": {"documents": 0, "characters": 0, "examples": []},
                    "short_documents": {
                        "documents": 3,
                        "characters": 4567,
                        "examples": [{"where": "a.txt:1", "before": EVIL, "after": ""}],
                    },
                },
                "duplicate_documents": {"dropped": 2, "kept": 0, "pieces": 99, "examples": []},
            }
        ]
    },
)


class Parser(HTMLParser):
    """Collects what a browser would see, and complains where tags do not match."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.labels, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.labels += [value for name, value in attrs if name == "aria-labelledby"]
        urls = [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        assert all(url.startswith("#") for url in urls), "the file needs no other"

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def read(tmp_path):
    def write_and_read(audit):
        write_audit_page(audit, tmp_path / "page.html", overwrite=True)
        page = (tmp_path / "page.html").read_text("utf-8")
        parser = Parser()
        parser.feed(page)
        assert parser.open == []
        assert len(parser.ids) == len(set(parser.ids)), "ids of two pictures clash"
        assert set(parser.labels) <= set(parser.ids)
        return page, " ".join(" ".join(parser.text).split())

    return write_and_read


def test_page(read):
    page, text = read(AUDIT)
    assert page.count("<svg") == 6  # lengths of sentences and documents, two of sequences, counts by rank
    assert "#0a0b" not in page, "colours are the page's"
    for expected in (
        "wiki",
        "7,000",
        "1.0311",
        "12.50% of the held-out",
        "75.00% of the pieces, warning",
        "places filled 90.00%",
        "differs",
    ):
        assert expected in text
    assert "4 of 4" not in text
    assert "2 of 4 measures" in text
    assert "instance 0, NotNext, from documents 3 and 1,234" in text
    assert "<mark>[MASK]<i>play</i></mark>ing" in page
    assert (
        "short documents 3 documents, 4,567 characters duplicate documents 2 dropped, 0 kept, 99 pieces"
        in text
    )
    assert "unicode" not in text, "it did nothing"


def test_a_name_that_is_not_utf_8_can_be_written(read):
    examples = [{"where": "caf\udce9.txt:1", "before": "a", "after": ""}]
    cleaning = {"unicode": {"documents": 1, "characters": 1, "examples": examples}}
    _, text = read(replace(AUDIT, cleaning={"builds": [{"documents": 12, "cleaning": cleaning}]}))
    assert "caf\ufffd.txt:1" in text


def test_everything_is_escaped(read):
    page, text = read(replace(AUDIT, dataset="a <b> & co"))
    assert "<script" not in page
    assert "<b> &" not in page
    assert text.count(EVIL) == 4  # a sentence, a piece, a token, an example
    assert "a <b> & co" in text


def test_the_same_audit_gives_the_same_bytes(read):
    assert read(AUDIT)[0] == read(AUDIT)[0]


def test_a_page_that_is_there_stays(tmp_path):
    write_audit_page(AUDIT, tmp_path / "page.html")
    with pytest.raises(InputError, match="exists already"):
        write_audit_page(AUDIT, tmp_path / "page.html")


def test_audits_with_less_in_them(read):
    less = replace(
        AUDIT,
        held_out_seen=None,
        shown=(),
        cleaning=None,
        copies=(replace(AUDIT.copies[0], most_repeated=()), AUDIT.copies[1]),
    )
    _, text = read(less)
    assert "Instances" not in text
    assert "What cleaning did" not in text
    assert "What is repeated" not in text
    assert "cleaning" not in audit_as_text(less)


def test_text():
    lines = audit_as_text(AUDIT).split("\n")
    assert lines[0] == "some/wiki, documents to train on"
    found = {" ".join(line.split()) for line in lines}
    for expected in (
        "words 6,789 pieces without ##: punctuation and [UNK] too",
        "fertility 1.0311 pieces a word",
        "[UNK] 0.0250% of the pieces",
        "pieces a sentence 12.5 1 2 3 5 9 40 50",
        "sentences 345 3 0.87% 1.00%",
        "places filled 90.00%",
        "predictions a sequence 18.5000 18.5000",
        "random Bs from the document of A 25.00% 0.00% differs",
        "instance 0, NotNext, from documents 3 and 1,234",
        f"A the [MASK]‹play›ing{EVIL}‹##s›",
        "B a cat‹cat› ##ty‹dog›",
        "short documents: 3 documents, 4,567 characters",
        f"a.txt:1 · before: {EVIL} · after:",
        "duplicate documents: 2 dropped, 0 kept, 99 pieces",
    ):
        assert expected in found
    assert max(map(len, lines)) <= 200


def test_cleaning_that_did_nothing(read):
    nothing = {"builds": [{"documents": 12, "cleaning": {"unicode": {"documents": 0, "examples": []}}}]}
    _, text = read(replace(AUDIT, cleaning=nothing))
    assert "What cleaning did Nothing." in text
    assert audit_as_text(replace(AUDIT, cleaning=nothing)).endswith("what cleaning did: nothing")


def test_one_segment_from_one_document():
    shown = Shown(4, None, (7,), ((Token("a", None),),))
    text = audit_as_text(replace(AUDIT, shown=(shown,)))
    assert "instance 4, one segment, from document 7\n  A  a" in text
