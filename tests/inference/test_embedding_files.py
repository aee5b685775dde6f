"""Files of vectors: parts, workers and chunks do not change their content."""

from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch

import cloze
from cloze.inference.embedder import Embedder
from cloze.inference.embedding_files import EmbeddingFileSummary, write_vectors
from cloze.inference.neighbors import neighbors_in_file
from cloze.inference.predictor import read_ahead
from tiny_models import tiny_config, write_checkpoint

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdef")
LINES = [" ".join("abcdef"[i % 6] for i in range(number, number + 1 + number % 5)) for number in range(40)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tiny_config(TOKENS)
    encoder = cloze.BertModel(config, generator=torch.Generator().manual_seed(2))
    return write_checkpoint(tmp_path_factory.mktemp("models") / "model", encoder, TOKENS)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES) + "\n")
    return file


def embed(
    model: Path, source: Path, output: Path, vectors: dict[str, object] | None = None, **file: object
) -> EmbeddingFileSummary:
    load = partial(Embedder.load, model, **(vectors or {}))
    return write_vectors(load, source, output, device="cpu", **file)


def read(path: Path) -> tuple[list[str], np.ndarray]:
    table = pyarrow.parquet.read_table(path)
    (column,) = {"text", "word"} & set(table.schema.names)
    return table[column].to_pylist(), np.stack(table["vector"].to_numpy())


@pytest.mark.parametrize("of", ["texts", "words"])
def test_parts_do_not_change_a_file(model, lines, tmp_path, of):
    whole = embed(model, lines, tmp_path / "whole.parquet", of=of)
    assert embed(model, lines, tmp_path / "parts.parquet", of=of, texts_per_part=6) == whole
    (texts, vectors), (expected_texts, expected) = (
        read(tmp_path / f"{name}.parquet") for name in ("parts", "whole")
    )
    assert texts == expected_texts
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_empty_lines_have_no_vector(model, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("a\n \n" + "\n" * 12 + "b c\n \t\nd\n")
    summary = embed(model, text, tmp_path / "out.parquet", texts_per_part=3)
    assert (summary.texts, summary.vectors, summary.empty) == (17, 3, 14)
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table["line"].to_pylist() == [1, 15, 17]
    embedder = Embedder.load(model, device="cpu")
    np.testing.assert_allclose(read(tmp_path / "out.parquet")[1], embedder(["a", "b c", "d"]), atol=1e-5)
    found = neighbors_in_file(embedder, tmp_path / "out.parquet", "a", chunk_size=1)
    assert {(neighbor.row, neighbor.text) for neighbor in found} == {(15, "b c"), (17, "d")}
    with pytest.raises(cloze.InputError, match=r"text\.txt:2: an empty text has no vector"):
        embed(model, text, tmp_path / "out.npy")
    text.write_text("\n \n")
    with pytest.raises(cloze.InputError, match="contains no text"):
        embed(model, text, tmp_path / "none.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "text.txt"]


def test_parts_without_words_are_written_as_all_others(model, tmp_path):
    (tmp_path / "blank.txt").write_text("\n" * 6 + "a b c.\n" + "\n" * 9)
    embed(model, tmp_path / "blank.txt", tmp_path / "words.parquet", of="words", texts_per_part=6)
    assert read(tmp_path / "words.parquet")[0] == ["a", "b", "c", "."]


@pytest.mark.slow
def test_several_processes_write_the_same(model, lines, tmp_path):
    for workers in (1, 2):
        embed(model, lines, tmp_path / f"{workers}.npy", workers=workers, texts_per_part=6)
    one, two = (np.load(tmp_path / f"{workers}.npy") for workers in (1, 2))
    np.testing.assert_allclose(one, two, atol=1e-5)


@pytest.mark.protected
def test_a_damaged_parquet_file_is_named(model, lines, tmp_path):
    path = tmp_path / "out.parquet"
    embed(model, lines, path)
    whole, embedder = path.read_bytes(), Embedder.load(model, device="cpu")
    for share in (0.2, 0.4, 0.6):
        for bit in (0, 5):
            place = int(share * len(whole))
            content = bytearray(whole)
            content[place] ^= 1 << bit
            path.write_bytes(content)
            with pytest.raises(cloze.InputError, match=r"out\.parquet: .*"):
                neighbors_in_file(embedder, path, LINES[3])


def test_neighbors_are_the_same_in_any_chunks(model, lines, tmp_path):
    path = tmp_path / "out.parquet"
    embed(model, lines, path)
    embedder = Embedder.load(model, device="cpu")
    expected = neighbors_in_file(embedder, path, LINES[3], top_k=5)
    assert [LINES[neighbor.row - 1] for neighbor in expected] == [neighbor.text for neighbor in expected]
    assert neighbors_in_file(embedder, path, LINES[3], top_k=5, chunk_size=7) == expected


def test_progress_counts_texts(model, tmp_path, capsys):
    (tmp_path / "a.csv").write_text('text,n\n"a\nb",1\nc,2\n')
    embed(model, tmp_path / "a.csv", tmp_path / "out.npy", progress=cloze.Progress())
    assert "embedding: 2 texts [" in capsys.readouterr().err


def test_rows_are_counted_if_they_are_read_ahead(tmp_path):
    (tmp_path / "a.csv").write_text("text\n" + "a\n" * 30_000)
    for name, rows, counted in (("a.csv", 3, 3), ("a.csv", 30_000, None)):
        examples, total = read_ahead(range(rows), tmp_path / name)
        assert (len([*examples]), total) == (rows, counted)
