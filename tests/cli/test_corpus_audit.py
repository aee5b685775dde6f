"""`cloze corpus audit`."""

import json

import pytest

from cloze.cli import main
from cloze.corpus.build import build_dataset
from cloze.text.pieces import SPECIAL_PIECES
from cloze.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    directory = tmp_path_factory.mktemp("audited")
    (directory / "vocabulary").mkdir()
    Tokenizer.from_pieces([*SPECIAL_PIECES, *"abcdefgh", "##a", "##b"]).save(directory / "vocabulary")
    documents = [[f"{x} {y} {x}{y} {z}" for y in "abcdef" for z in "ab"] for x in "abcdefgh"]
    (directory / "text.txt").write_text("\n\n".join("\n".join(lines) for lines in documents))
    build_dataset([directory / "text.txt"], directory / "vocabulary", directory / "data")
    return directory / "data"


def test_text_json_and_page(dataset, tmp_path, capsys):
    page = tmp_path / "page.html"
    arguments = ["corpus", "audit", str(dataset), "--seq-length", "16", "32", "--quiet"]
    assert main([*arguments, "-o", str(page)]) == 0
    text = capsys.readouterr().out
    assert "of 16 tokens" in text
    assert "of 32 tokens" in text
    assert text.count("instance ") == 20
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert main([*arguments, "--json", "--whole-word", "--sample", "5", "--split", "validation"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["split"] == "validation"
    assert [drawn["max_seq_length"] for drawn in table["drawn"]] == [16, 32]
    assert table["drawn"][0]["sampled"] <= 5


def test_what_is_wrong_is_told_before_anything_is_read(dataset, tmp_path, capsys):
    page = tmp_path / "page.html"
    page.write_text("mine")
    for arguments, message in (
        ([str(dataset), "-o", str(page)], "exists already"),
        ([str(dataset), "--seq-length", "4"], "--seq-length: sequences of 4 tokens"),
        ([str(dataset), "--sample", "0"], "--sample"),
        ([str(tmp_path)], "error: "),
    ):
        assert main(["corpus", "audit", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert page.read_text() == "mine"
