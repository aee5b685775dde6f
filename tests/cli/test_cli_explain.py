"""`cloze predict --explain` as typed: JSON lines with words, a page that needs no other, one line for what is wrong."""

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from shop import Shop

from cloze.cli import main


class Reader(HTMLParser):
    """Collects what a page shades, and every address in it."""

    def __init__(self) -> None:
        super().__init__()
        self.marked: list[str] = []
        self.addresses: list[str] = []
        self._is_mark = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_mark = tag == "mark"
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self._is_mark:
            self.marked.append(data)
        self._is_mark = False


def test_words_are_in_the_lines_and_on_a_page(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, page = tmp_path / "in.txt", tmp_path / "page.html"
    source.write_text("It was <b>dark</b>.\nThe hound!\n\n", encoding="utf-8")
    command = ["predict", "classification", "-m", str(shop.classifier), str(source), "--explain", "--quiet"]
    assert main([*command, "--page", str(page)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for row, text in zip(rows, source.read_text().splitlines(), strict=True):
        found = row["explanation"]
        assert found["explained"] == row["label"]
        assert found["baseline"] == "[MASK]"
        assert all(word["word"] == text[word["start"] : word["end"]] for word in found["words"])
        change = found["output"] - found["baseline_output"]
        total = sum(word["attribution"] for word in found["words"])
        assert total - found["convergence_gap"] == pytest.approx(change, abs=1e-5)
    assert [word["word"] for word in rows[1]["explanation"]["words"]] == ["The", "hound", "!"]
    reader = Reader()
    html = page.read_text("utf-8")
    reader.feed(html)
    assert [word for word in reader.marked if word in ("The", "hound", "dark", "b")] == [
        *["b", "dark", "b"],
        *["The", "hound"],
    ]
    assert reader.addresses == []
    assert "http" not in html
    assert "<b>" not in html
    assert main([*command, "--page", str(page)]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--page", "{tmp}/page.html"], "--page: a page shows explanations. Say --explain, too"),
        (["--explain", "-m", "{other}"], "--explain: several models answer as one. Give one --model"),
    ],
)
def test_what_cannot_be_explained_is_said_in_one_line(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], says: str
) -> None:
    checkpoint = next((shop.classifier / "checkpoints").iterdir())
    other = tmp_path / "other"
    other.mkdir()
    for file in checkpoint.iterdir():
        if file.is_file():
            (other / file.name).write_bytes(file.read_bytes())
    (other / "manifest.json").unlink()
    places = [flag.format(tmp=tmp_path, other=other) for flag in flags]
    command = ["predict", "classification", str(shop.table), "-m", str(shop.classifier), *places, "--quiet"]
    assert main(command) == 2
    printed = capsys.readouterr()
    assert printed.err == f"error: {says}.\n"
    assert printed.out == ""


def test_attention_is_written_as_a_page(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    command = ["attention", "-m", str(shop.classifier), "The hound!", "-o", str(page), "--quiet"]
    assert main([*command, "--pair", "It was dark.", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["layers"], found["heads"]) == (1, 2)
    assert page.read_text("utf-8").count("[SEP]") >= 2
    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err
    too_long = ["attention", "-m", str(shop.run), "dark " * 40, "-o", str(tmp_path / "other.html")]
    assert main([*too_long, "--quiet"]) == 2
    assert "tokens, the model takes 32. Give a shorter text" in capsys.readouterr().err
    assert not (tmp_path / "other.html").exists()
