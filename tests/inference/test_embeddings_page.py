"""docs/embeddings.md: its commands and its examples run."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from cloze.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "embeddings.md"


@pytest.fixture
def banks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (text,) = re.findall(r"```text\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "banks.txt").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands(banks: Path, minilm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(r"^(cloze .*?)(?:  +#.*)?$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(commands) > 5
    for command in commands:
        arguments = shlex.split(command.replace("MODEL", str(minilm)))
        assert main([*arguments[1:], "--quiet"]) == 0, command
    lines = capsys.readouterr().out.splitlines()
    assert "river" in lines[-5]
    assert "queen" in lines[-3]


def test_examples(banks: Path, minilm: Path) -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, globs={"MODEL": minilm})
    assert result.attempted > 5
    assert result.failed == 0
