"""`cloze corpus audit`."""

from pathlib import Path

import pytest

from cloze.data.build.corpus import build_dataset
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.wordpiece import WordPieceTokenizer


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("audited")
    (directory / "vocabulary").mkdir()
    WordPieceTokenizer.from_tokens([*SPECIAL_TOKENS, *"abcdefgh", "##a", "##b"]).save(
        directory / "vocabulary"
    )
    documents = [[f"{x} {y} {x}{y} {z}" for y in "abcdef" for z in "ab"] for x in "abcdefgh"]
    (directory / "text.txt").write_text("\n\n".join("\n".join(lines) for lines in documents))
    build_dataset([directory / "text.txt"], directory / "vocabulary", directory / "data")
    return directory / "data"


def test_audit_gives_text_json_and_a_page(dataset, tmp_path, cloze):
    page = tmp_path / "page.html"
    command = f"corpus audit {dataset} --seq-lengths 16,32 --quiet"
    text = cloze(f"{command} -o {page}").out
    assert "16 tokens" in text
    assert "32 tokens" in text
    assert text.count("instance ") == 20
    assert page.read_text().startswith("<!DOCTYPE html>")
    table = cloze(f"{command} --json --whole-word --sample 5 --split validation").json
    assert table["split"] == "validation"
    assert [drawn["max_seq_length"] for drawn in table["drawn"]] == [16, 32]
    assert table["drawn"][0]["sampled"] <= 5
