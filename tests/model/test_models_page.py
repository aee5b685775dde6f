"""docs/models.md: its commands run, on Google's small BERT and on a real encoder in the forms of the Hub."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cloze.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"


@pytest.fixture
def sources(shared, minilm, tmp_path, monkeypatch):
    """What the capital words of the page stand for."""
    golden, google = shared / "golden" / "google-nano", tmp_path / "GOOGLE"
    google.mkdir()
    for file in (golden / "bert_config.json", golden / "vocab.txt", *(golden / "step0").iterdir()):
        (google / file.name).write_bytes(file.read_bytes())
    old = tmp_path / "OLD"
    old.mkdir()
    for name in ("config.json", "vocab.txt"):
        (old / name).write_bytes((minilm / name).read_bytes())
    torch.save(load_file(minilm / "model.safetensors"), old / "pytorch_model.bin")
    (tmp_path / "lines.txt").write_text("a fine film\na bad book\nstocks fell\n")
    rows = [f"a {word} {thing}\t{word}" for word in ("good", "bad") for thing in ("film", "book", "day")]
    (tmp_path / "reviews.tsv").write_text("\n".join(["text\tlabel", *rows * 2]) + "\n")
    monkeypatch.chdir(tmp_path)
    return {"GOOGLE": google, "HUB": minilm, "SENTENCES": minilm, "OLD": old}


def test_commands(sources, capsys):
    commands = re.findall(r"^(cloze .*?)(?:  +#.*)?$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(commands) == 10
    for command in commands:
        words = [str(sources.get(word, word)) for word in shlex.split(command)]
        assert main([*words[1:], "--quiet"]) == 0, command
    assert "a fine film" in capsys.readouterr().out.splitlines()[-3]
