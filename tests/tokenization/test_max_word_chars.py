"""The limit of a word's characters, which scripts without spaces reach: set, saved, read, and that of `tokenizers`."""

import json
from pathlib import Path

import pytest
import tokenizers

from cloze.cli import main
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer
from tiny_models import SPECIAL

PHRASE = "ประเทศไทยมีประชากรมากกว่าหกสิบล้านคน"
THAI = PHRASE * 5


@pytest.mark.protected
@pytest.mark.parametrize(("limit", "is_unknown"), [(100, True), (len(THAI) - 1, True), (1000, False)])
def test_limit_of_a_new_vocabulary(tmp_path: Path, limit: int, is_unknown: bool) -> None:
    assert len(THAI) > 150
    (tmp_path / "text.txt").write_text(f"{PHRASE}\n" * 20, "utf-8")
    command = ["vocab", str(tmp_path / "text.txt"), "-o", str(tmp_path / "vocab"), "--size", "52"]
    assert main([*command, "--cased", "--max-word-chars", str(limit), "--workers", "1", "--quiet"]) == 0
    tokenizer = load_tokenizer(tmp_path / "vocab")
    assert tokenizer.max_input_chars_per_word == limit
    tokens = tokenizer.encode(THAI).tokens
    assert (tokens == ["[CLS]", "[UNK]", "[SEP]"]) == is_unknown
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "vocab/tokenizer.json"))
    assert library.encode(THAI).tokens == tokens
    assert tokenizer.ids([THAI])[0].tolist() == tokenizer.encode(THAI).input_ids[1:-1]
    config = json.loads((tmp_path / "vocab/tokenizer_config.json").read_text())
    assert config.get("max_input_chars_per_word", 100) == limit


def test_limit_beside_a_vocabulary_alone(tmp_path: Path) -> None:
    WordPieceTokenizer.from_tokens([*SPECIAL, "a", "##a"], max_input_chars_per_word=7).save(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode("a" * 7).tokens[1:-1] == ["a", *["##a"] * 6]
    assert tokenizer.encode("a" * 8).tokens[1:-1] == ["[UNK]"]


@pytest.mark.parametrize("limit", ["0", "1000001"])
def test_limits_out_of_range_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], limit: str
) -> None:
    (tmp_path / "text.txt").write_text("a b c\n")
    command = ["vocab", str(tmp_path / "text.txt"), "-o", str(tmp_path / "vocab"), "--max-word-chars", limit]
    assert main(command) == 2
    assert "--max-word-chars: " in capsys.readouterr().err
