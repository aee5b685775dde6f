"""The audit as text and as a page: complete, escaped, reproducible."""

from dataclasses import replace

import pytest

from cloze.data.audit import Audit, Distribution, InstanceExample, InstanceStats, Measure, SplitCounts, Token
from cloze.reports.audit_page import format_audit, write_audit_page
from pages import page_data, read_page

EVIL = "<script>alert(1)</script>"
LENGTHS = Distribution(
    12.5, {"least": 1, "5%": 2, "25%": 3, "median": 5, "75%": 9, "95%": 40, "most": 50}, (1, 2, 3), (5, 0, 7)
)
MEASURES = (
    Measure("places filled", 0.9, "share"),
    Measure("predictions a sequence", 18.5, "tokens", 18.5),
    Measure("random Bs from the document of A", 0.25, "share", 0.0),
)
AUDIT = Audit(
    dataset="some/wiki",
    split="train",
    counts=SplitCounts(12, 345, 6789, 7000, 7000 / 6789, 0.00025, 30522, 2000),
    sentence_tokens=LENGTHS,
    document_sentences=LENGTHS,
    document_tokens=LENGTHS,
    drawn=(
        InstanceStats(128, 20, 1000, 500, 2, LENGTHS, MEASURES),
        InstanceStats(512, 77, 300, 300, 2, LENGTHS, MEASURES),
    ),
    frequent_tokens=((EVIL, 900), ("##s", 80)),
    counts_at_ranks=((1, 900), (2, 80)),
    shown=(
        InstanceExample(
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
                "duplicate_documents": {"dropped": 2, "kept": 0, "tokens": 99},
            }
        ]
    },
)


@pytest.fixture
def read(tmp_path):
    def write_and_read(audit):
        write_audit_page(audit, tmp_path / "page.html")
        return read_page(tmp_path / "page.html")

    return write_and_read


FIGURES = (
    "7,000",
    "1.0311 tokens per word",
    "[UNK] 0.0250% of the tokens",
    "tokens per sentence 12.5 1 2 3 5 9 40 50",
    "places filled 90.00%",
    "predictions a sequence 18.5000 18.5000",
    "random Bs from the document of A 25.00% 0.00% differs",
    "instance 0, NotNext, from documents 3 and 1,234",
    "3 documents, 4,567 characters",
    "2 dropped, 0 kept, 99 tokens",
)
"""What both the page and the text say."""


def test_page_and_text_have_all_figures(read):
    page, text = read(AUDIT)
    lines = format_audit(AUDIT).split("\n")
    normalized = " ".join(" ".join(lines).split())
    assert [figure for figure in FIGURES if figure not in text] == []
    assert [figure for figure in FIGURES if figure not in normalized] == []
    assert "2 of 4 measures" in text
    assert "<mark>[MASK]<i>play</i></mark>ing" in page
    assert "unicode" not in text, "it changed nothing"
    assert lines[0] == "some/wiki, training documents"
    assert f"A the [MASK]‹play›ing{EVIL}‹##s›" in normalized
    assert "B a cat‹cat› ##ty‹dog›" in normalized
    assert f"a.txt:1 · {EVIL} →" in normalized
    assert max(map(len, lines)) <= 200
    assert read(AUDIT)[0] == page


def test_the_page_has_the_data_of_all_plots(read):
    data = page_data(read(AUDIT)[0])
    assert data["lengths"][1] == {
        "title": "Sentences per document",
        "unit": "sentences",
        "counted": "documents",
        "starts": [1, 2, 3],
        "counts": [5, 0, 7],
        "largest": 50,
    }
    titles = [lengths["title"] for lengths in data["lengths"]]
    assert titles[2:] == [
        *("Tokens per document", "Tokens per sequence, at most 128", "Tokens per sequence, at most 512")
    ]
    assert data["ranks"] == [[1, 900], [2, 80]]


@pytest.mark.slow
def test_the_page_draws_its_plots_in_a_browser(browser_page, tmp_path):
    page = browser_page
    one = Distribution(3.0, dict.fromkeys(LENGTHS.quantiles, 3), (3,), (0,))
    audit = replace(AUDIT, document_tokens=one)
    write_audit_page(audit, tmp_path / "page.html")
    write_audit_page(replace(audit, counts_at_ranks=((1, 7),)), tmp_path / "one-token.html")
    page.goto((tmp_path / "page.html").as_uri())
    name = "Sentences per document: from 1 to 50; most documents, 7, have 3 to 50 sentences"
    histogram = page.get_by_role("img", name=name)
    assert histogram.locator("rect title").all_text_contents() == [
        "1 sentences: 5 documents",
        "2 sentences: 0 documents",
        "3 to 50 sentences: 7 documents",
    ]
    heights = [float(bar.get_attribute("height")) for bar in histogram.locator("rect").all()]
    assert heights[1] == 0
    assert heights[0] / heights[2] == pytest.approx(5 / 7)
    labels = histogram.locator("text").all_text_contents()
    assert labels == [*"01234567", *"123", "sentences", "documents"]
    ranks = page.get_by_role("img", name="Count of a token by its rank: 900 at rank 1, 80 at rank 2")
    assert ranks.locator("circle").count() == 2
    assert ranks.locator("text").all_text_contents() == ["10", "100", "1,000", "1", "10", "rank", "count"]
    assert page.locator("#app svg").count() == 6
    page.goto((tmp_path / "one-token.html").as_uri())
    assert page.locator("#app circle").count() == 1
    drawn = page.locator("#app svg").evaluate_all("pictures => pictures.map(svg => svg.outerHTML)")
    assert "NaN" not in "".join(drawn)


def test_everything_is_escaped(read):
    page, text = read(replace(AUDIT, dataset="a <b> & co"))
    assert page.count("<script") == 2
    assert "<b> &" not in page
    assert text.count(EVIL) == 3  # a piece, a token, an example
    assert "a <b> & co" in text


def test_one_segment_and_cleaning_without_changes(read):
    example = InstanceExample(4, None, (7,), ((Token("a", None),),))
    nothing = {"builds": [{"documents": 12, "cleaning": {"unicode": {"documents": 0, "examples": []}}}]}
    audit = replace(AUDIT, shown=(example,), cleaning=nothing)
    assert "Cleaning Nothing was changed." in read(audit)[1]
    text = format_audit(audit)
    assert text.endswith("cleaning: nothing was changed")
    assert "instance 4, one segment, from document 7\n  A  a" in text
    less = replace(AUDIT, shown=(), cleaning=None)  # sections without content are left out
    _, text = read(less)
    assert "Instances" not in text
    assert "Cleaning" not in text
    assert "cleaning" not in format_audit(less)
