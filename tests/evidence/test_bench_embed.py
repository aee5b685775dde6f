"""Vectors of texts beside sentence-transformers: both sides make the same, and what is taken is spread."""

import json
from pathlib import Path

import pytest

from cloze.cli import main
from cloze.errors import InputError
from cloze.evidence.bench.embed import EmbedBenchmark, bench_embed

LINES = [f"Text number {number}" + ", and more of it" * (number % 4) for number in range(24)]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    file = tmp_path / "texts.txt"
    file.write_text("\n\n".join(LINES))
    return file


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_both_sides_make_the_same_vectors(precision: str, minilm: Path, texts: Path) -> None:
    pytest.importorskip("sentence_transformers")
    benchmark = EmbedBenchmark(model=minilm, texts=texts, max_texts=8, precision=precision)
    found = bench_embed(benchmark, rounds=1, min_seconds=0.0)
    assert [timing.name for timing in found.timings] == ["cloze", "sentence-transformers"]
    (check,) = found.checks
    assert check.holds, check
    assert (found.amount, found.settings["texts"]) == (8, 8)
    assert "sentence-transformers" in found.environment["versions"]


def test_graphs_make_the_same_vectors(minilm: Path, texts: Path) -> None:
    pytest.importorskip("onnxruntime")
    benchmark = EmbedBenchmark(model=minilm, texts=texts, max_texts=8)
    found = bench_embed(benchmark, peers=["onnxruntime", "onnxruntime-int8"], rounds=1, min_seconds=0.0)
    exact, rounded = found.checks
    assert exact.holds
    assert exact.tolerance == 1e-5
    assert rounded.holds
    assert rounded.difference > 1e-4


def test_command(minilm: Path, texts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "embed", str(texts), "-m", str(minilm), "--rounds", "1", "--quiet"]
    assert main([*arguments, "--vs", "fairseq"]) == 2
    assert "--vs: no peer 'fairseq'" in capsys.readouterr().err
    pytest.importorskip("sentence_transformers")
    assert main([*arguments, "--texts", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["texts"] == 3


def test_no_texts(minilm: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(InputError, match=r"empty.txt: holds no text"):
        bench_embed(EmbedBenchmark(model=minilm, texts=tmp_path / "empty.txt"))
