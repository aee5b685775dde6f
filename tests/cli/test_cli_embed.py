"""`cloze embed` and `cloze neighbors`: output in every format, flags, and errors."""

import io
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from samples import Samples, fill_in

from cloze.inference.embedder import Embedder
from helpers import read_rows

LINES = [f"It was night number {number}" + " and the rain fell" * (number % 5) for number in range(40)]
WIDTH = 16


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES) + "\n")
    return file


def embedder(samples: Samples, **settings: object) -> Embedder:
    return Embedder.load(samples.run, device="cpu", **settings)


def test_every_format_has_the_same_vectors_in_the_order_of_the_lines(samples, lines, tmp_path, cloze):
    expected = embedder(samples)(LINES)
    for suffix in ("npy", "parquet", "jsonl"):
        summary = cloze(f"embed --json -m {samples.run} {lines} -o {tmp_path}/out.{suffix} --quiet").json
        counts = {"texts": 40, "vectors": 40, "width": WIDTH, "empty": 0}
        assert {name: summary[name] for name in counts} == counts
        assert summary["truncated"] > 0
    rows = np.load(tmp_path / "out.npy", mmap_mode="r")
    assert (rows.shape, rows.dtype) == ((40, WIDTH), np.float32)
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert (table["line"].to_pylist(), table["text"].to_pylist()) == ([*range(1, 41)], LINES)
    np.testing.assert_array_equal(np.stack(table["vector"].to_numpy()), rows)
    objects = read_rows(tmp_path / "out.jsonl")
    assert [(row["line"], row["text"]) for row in objects] == [*enumerate(LINES, 1)]
    np.testing.assert_array_equal(np.array([row["vector"] for row in objects], np.float32), rows)


def test_vectors_of_words_have_lines_and_characters(samples, lines, tmp_path, cloze):
    flags = "--tokens --layers 0,-1 --combine concat --quiet"
    cloze(f"embed -m {samples.run} {lines} -o {tmp_path}/out.parquet {flags}")
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table.schema.names == ["line", "word", "start", "end", "vector"]
    rows = table.to_pylist()
    assert {row["line"] for row in rows} == {*range(1, 41)}
    assert all(LINES[row["line"] - 1][row["start"] : row["end"]] == row["word"] for row in rows)
    words = embedder(samples, layers=(0, 1), combine="concat").words(LINES)
    expected = np.concatenate([text.vectors for text in words])
    np.testing.assert_allclose(np.stack(table["vector"].to_numpy()), expected, atol=1e-5)


def test_tables_stdin_and_flags(samples, tmp_path, monkeypatch, cloze):
    output = tmp_path / "out.npy"
    cloze(f"embed -m {samples.run} {samples.table} -o {output} --normalize --quiet")
    rows = np.load(output)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), np.ones(40), atol=1e-5)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"It was\nnight\n")))
    cloze(f"embed -m {samples.run} - -o {output} --overwrite --layers=-1 --pooling max --quiet")
    expected = embedder(samples, pooling="max")(["It was", "night"])
    np.testing.assert_allclose(np.load(output), expected, atol=1e-5)
    printed = cloze(f"embed -m {samples.run} {samples.text} -o {tmp_path}/more.parquet")
    assert "embedding" in printed.err


def test_neighbors_of_texts_and_tokens(samples, lines, tmp_path, cloze, error_line):
    model = f"-m {samples.run} --quiet"
    cloze(f"embed {model} {lines} -o {tmp_path}/out.parquet")
    cloze(f"embed {model} {lines} -o {tmp_path}/words.parquet --tokens")
    vectors = embedder(samples)(LINES)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit[3]
    order = [row for row in np.argsort(-cosines) if row != 3][:5]
    query = (LINES[3], "-k", "5")
    neighbors = cloze(f"neighbors {model} --json --among {tmp_path}/out.parquet", *query).json
    assert [neighbor["text"] for neighbor in neighbors] == [LINES[n["row"] - 1] for n in neighbors]
    np.testing.assert_allclose([n["cosine"] for n in neighbors], cosines[order], atol=1e-5)
    words = f"neighbors rain {model} --among {tmp_path}/words.parquet"
    assert "words.parquet: has the columns line, word, start, end, vector, not text" in error_line(words)
    neighbors = cloze(f"neighbors night -k 500 --json {model}").json
    tokenizer = embedder(samples).tokenizer
    left_out = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *tokenizer.encode("night").tokens}
    assert {neighbor["text"] for neighbor in neighbors} == set(tokenizer.tokens) - left_out
    assert all(tokenizer.tokens[n["row"] - 1] == n["text"] for n in neighbors)


EMBED = "embed -m {run} {lines} -o {out}"
NEAR = "neighbors night -m {run} --among"
WRONG = {
    f"{EMBED}.npy --layers 0,1:-1": "--layers: '0,1:-1' names no layers",
    f"{EMBED}.npy --tokens": "vectors of words. Its name must end in .parquet, .jsonl",
    f"{EMBED}.parquet --tokens --pooling cls": "--pooling: pools a text into one vector",
    f"{NEAR} {{tmp}}": "is a directory. Name a file",
    f"{NEAR} {{tmp}}/x.parquet": "x.parquet: no such file",
    f"{NEAR} {{lines}}": "lines.txt: no Parquet file",
    "neighbors night -m {run} --pooling cls": "--pooling: does not apply to word embeddings",
    "neighbors 'rain \u732b' -m {run}": "a word of 'rain \u732b' is not in the vocabulary",
    "neighbors '' -m {run}": "no word in ''",
}


@pytest.mark.protected
@pytest.mark.parametrize("command", WRONG)
def test_wrong_input_gives_one_line(command, lines, tmp_path, error_line):
    before = sorted(tmp_path.rglob("*"))
    assert WRONG[command] in error_line(fill_in(command, {"lines": lines}))
    assert sorted(tmp_path.rglob("*")) == before, "an incomplete file is left"


@pytest.mark.protected
def test_vectors_that_are_not_those_of_the_model_are_refused(samples, tmp_path, error_line):
    damaged = embedder(samples)(LINES)
    damaged[20, 3] = np.nan
    for rows, message in (
        (np.ones((0, WIDTH)), "contains no vectors"),
        (np.ones((40, 15)), "vectors of 15 numbers, the model makes 16"),
        (np.ones((40, WIDTH)), "row 1 is not the model's vector of its text"),
        (damaged, "row 21 holds NaN or infinite values"),
    ):
        table = pyarrow.table({"text": LINES[: len(rows)], "vector": list(rows)})
        pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
        assert f"x.parquet: {message}" in error_line(f"{NEAR} {{tmp}}/x.parquet")
