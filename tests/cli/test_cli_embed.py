"""`cloze embed` and `cloze neighbours`: what is written, in which order, and what is refused, in one line."""

import io
import json
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import torch
from safetensors.torch import load_file, save_file
from shop import Shop

from cloze.cli import main
from cloze.cli.vectors import parse_layers
from cloze.inference import embedding_files, neighbours
from cloze.inference.embed import Embedder, EmbeddingConfig

LINES = [f"It was night number {number}" + " and the rain fell" * (number % 5) for number in range(40)]
LINES[7] = ""
WIDTH = 16


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding_files, "_TEXTS_AT_ONCE", 6)
    monkeypatch.setattr(neighbours, "_ROWS_AT_ONCE", 7)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(LINES) + "\n")
    return file


def cloze(command: str, *paths: object) -> None:
    assert main([*shlex.split(command), *map(str, paths), "--quiet"]) == 0


def embedder(shop: Shop, **settings: object) -> Embedder:
    return Embedder.load(shop.run, EmbeddingConfig(**settings), device="cpu")


def test_words_of_parts_without_any_are_written_as_all_others(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text("\n" * 6 + "It was night.\n" + "\n" * 9)
    cloze(f"embed -m {shop.run} {tmp_path}/blank.txt -o {tmp_path}/words.parquet --tokens")
    assert pyarrow.parquet.read_table(tmp_path / "words.parquet")["word"].to_pylist() == [
        "It",
        "was",
        "night",
        ".",
    ]


def test_neighbours_read_a_table_and_count_where_the_vectors_did(
    shop: Shop, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{line}\n" for line in LINES if line)
    (tmp_path / "rows.tsv").write_text(f"body\n{rows}")
    (tmp_path / "counted.tsv").write_text("body\nrain rain\nthe rain fell\nnight\n")
    counted = f"--pooling idf_mean --idf-from {tmp_path}/counted.tsv --text-column body"
    cloze(f"embed -m {shop.run} {tmp_path}/rows.tsv -o {tmp_path}/out.npy {counted}")
    capsys.readouterr()
    cloze(
        f"neighbours 'the rain' -m {shop.run} --among {tmp_path}/out.npy --texts {tmp_path}/rows.tsv {counted} --json"
    )
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 10
    cosines = [each["cosine"] for each in found]
    assert cosines == sorted(cosines, reverse=True)
    assert all(each["text"] == [line for line in LINES if line][each["row"] - 1] for each in found)


def test_every_format_has_the_same_vectors_in_the_order_of_the_lines(
    shop: Shop, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = embedder(shop)(LINES)
    for ending in ("npy", "parquet", "jsonl"):
        cloze(f"embed --json -m {shop.run} {lines} -o {tmp_path}/out.{ending}")
        told = json.loads(capsys.readouterr().out)
        assert (told["texts"], told["vectors"], told["width"], told["empty"]) == (40, 40, WIDTH, 1)
        assert told["truncated"] > 0
    rows = np.load(tmp_path / "out.npy", mmap_mode="r")
    assert (rows.shape, rows.dtype) == ((40, WIDTH), np.float32)
    np.testing.assert_allclose(rows, expected, atol=1e-5)
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table["text"].to_pylist() == LINES
    np.testing.assert_array_equal(np.stack(table["vector"].to_numpy()), rows)
    objects = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [each["text"] for each in objects] == LINES
    np.testing.assert_array_equal(np.array([each["vector"] for each in objects], np.float32), rows)


def test_words_know_their_line_and_characters(shop: Shop, lines: Path, tmp_path: Path) -> None:
    cloze(f"embed -m {shop.run} {lines} -o {tmp_path}/out.parquet --tokens --layers 0,-1 --combine concat")
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert table.schema.names == ["line", "word", "start", "end", "vector"]
    found = table.to_pylist()
    assert {row["line"] for row in found} == {n for n, line in enumerate(LINES, 1) if line}
    assert all(LINES[row["line"] - 1][row["start"] : row["end"]] == row["word"] for row in found)
    own = embedder(shop, layers=(0, 1), combine="concat").words(LINES)
    expected = np.concatenate([each.vectors for each in own])
    np.testing.assert_allclose(np.stack(table["vector"].to_numpy()), expected, atol=1e-5)


def test_tables_stdin_and_flags(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cloze(f"embed -m {shop.run} {shop.table} -o {tmp_path}/out.npy --dtype float16 --normalize")
    rows = np.load(tmp_path / "out.npy")
    assert (rows.shape, rows.dtype) == ((40, WIDTH), np.float16)
    np.testing.assert_allclose(np.linalg.norm(rows.astype(np.float32), axis=1), 1, atol=2e-3)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"It was\nnight\n")))
    cloze(f"embed -m {shop.run} - -o {tmp_path}/out.npy --overwrite --layer -1 --pooling max")
    expected = embedder(shop, pooling="max")(["It was", "night"])
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5)
    capsys.readouterr()
    assert main(["embed", "-m", str(shop.run), str(shop.text), "-o", str(tmp_path / "more.npy")]) == 0
    assert "embedding" in capsys.readouterr().err


def test_pieces_are_counted_in_the_input_or_in_another_text(shop: Shop, lines: Path, tmp_path: Path) -> None:
    for flags, counted in (("", LINES), (f"--idf-from {shop.text}", shop.text.read_text().split("\n")[:-1])):
        cloze(f"embed -m {shop.run} {lines} -o {tmp_path}/out.npy --pooling idf_mean --overwrite {flags}")
        expected = embedder(shop, pooling="idf_mean").with_idf(counted)(LINES)
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5)


def test_several_processes_write_the_same(shop: Shop, lines: Path, tmp_path: Path) -> None:
    for workers in (1, 2):
        cloze(
            f"embed -m {shop.run} {lines} -o {tmp_path}/{workers}.npy --pooling idf_mean --device cpu "
            f"--workers {workers}"
        )
    one, two = (np.load(tmp_path / f"{workers}.npy") for workers in (1, 2))
    np.testing.assert_allclose(one, two, atol=1e-5)


def test_neighbours_of_texts_words_and_pieces(
    shop: Shop, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cloze(f"embed -m {shop.run} {lines} -o {tmp_path}/out.npy --dtype float16")
    cloze(f"embed -m {shop.run} {lines} -o {tmp_path}/out.parquet")
    cloze(f"embed -m {shop.run} {lines} -o {tmp_path}/words.parquet --tokens")
    capsys.readouterr()
    vectors = embedder(shop)(LINES)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    target = unit[3] + unit[9] - unit[12]
    cosines = unit @ (target / np.linalg.norm(target))
    order = [row for row in np.argsort(-cosines) if row not in (3, 9, 12)][:5]
    query = ["neighbours", LINES[3], "--plus", LINES[9], "--minus", LINES[12], "-k", "5", "-m", str(shop.run)]
    for flags in (["out.npy", "--texts", str(lines)], ["out.parquet"]):
        cloze("", *query, "--json", "--among", tmp_path / flags[0], *flags[1:])
        found = json.loads(capsys.readouterr().out)
        assert [each["text"] for each in found] == [LINES[each["row"] - 1] for each in found]
        np.testing.assert_allclose([each["cosine"] for each in found], cosines[order], atol=2e-3)
    cloze("neighbours rain -k 3", "-m", shop.run, "--among", tmp_path / "words.parquet")
    assert len(capsys.readouterr().out.splitlines()) == 3
    of_words = ["neighbours", "rain", "-m", str(shop.run), "--among", str(tmp_path / "words.parquet")]
    assert main([*of_words, "--pooling", "max"]) == 2
    assert "--pooling: the file holds vectors of words" in capsys.readouterr().err
    cloze("neighbours night -k 500 --json", "-m", shop.run)
    found = json.loads(capsys.readouterr().out)
    tokenizer = embedder(shop).tokenizer
    left_out = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *tokenizer.encode("night").tokens}
    assert {each["text"] for each in found} == set(tokenizer.pieces) - left_out
    assert all(tokenizer.pieces[each["row"] - 1] == each["text"] for each in found)


def test_numbers_of_layers() -> None:
    assert parse_layers("-2") == (-2,)
    assert parse_layers("0,-4:-1,7") == (0, -4, -3, -2, -1, 7)


@dataclass(frozen=True)
class Case:
    command: str
    says: str
    spoil: Callable[[Path, Shop], object] = lambda tmp, shop: None


def write(name: str, content: bytes) -> Callable[[Path, Shop], object]:
    return lambda tmp, shop: (tmp / name).write_bytes(content)


def save(name: str, rows: np.ndarray) -> Callable[[Path, Shop], object]:
    return lambda tmp, shop: np.save(tmp / name, rows)


def spoiled_rows(tmp: Path, shop: Shop) -> None:
    rows = embedder(shop)(LINES)
    rows[20, 3] = np.nan
    np.save(tmp / "x.npy", rows)


def of_other_texts(tmp: Path, shop: Shop) -> None:
    np.save(tmp / "x.npy", embedder(shop)(LINES + LINES))


def more_pieces_than_rows(tmp: Path, shop: Shop) -> None:
    copy = Path(shutil.copytree(shop.checkpoint, tmp / "copy"))
    for name in ("manifest.json", "vocab.txt"):
        (copy / name).unlink()
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"vocab_size": 400}))
    weights = load_file(copy / "model.safetensors")
    cut = {name: w[:400].clone() if len(w) == 500 else w for name, w in weights.items()}
    save_file(cut, copy / "model.safetensors", metadata={"format": "pt"})


def large_numbers(tmp: Path, shop: Shop) -> None:
    copy = Path(shutil.copytree(shop.checkpoint, tmp / "copy"))
    (copy / "manifest.json").unlink()
    weights = load_file(copy / "model.safetensors")
    name = "bert.embeddings.word_embeddings.weight"
    save_file(weights | {name: torch.full_like(weights[name], 1e6)}, copy / "model.safetensors")


EMBED = "embed -m {run} {lines} -o {out}.npy "
NEAR = "neighbours night -m {run} --among {tmp}/x.npy --texts {lines}"
CASES = {
    "an empty file": Case(
        "embed -m {run} {tmp}/none.txt -o {out}.npy", "none.txt: holds no text", write("none.txt", b"")
    ),
    "no such file": Case("embed -m {run} {tmp}/none.txt -o {out}.npy", "none.txt: no such file"),
    "no such model": Case("embed -m {tmp}/none {lines} -o {out}.npy", "{tmp}/none"),
    "no such layer": Case(
        EMBED + "--layer 2", "layers: no layer 2: there are 1 to 1, and -1 to -1 from the last"
    ),
    "no number of a layer": Case(EMBED + "--layers last", "--layers: 'last' names no layers"),
    "a range without its end": Case(EMBED + "--layers 1:", "--layers: '1:' names no layers"),
    "a range from both sides": Case(EMBED + "--layers 0,1:-1", "--layers: '0,1:-1' names no layers"),
    "JSON that is no table": Case(
        "embed -m {run} {tmp}/a.json -o {out}.npy",
        "a.json: not a text. A table's name ends in",
        write("a.json", b'[{"text": "a"}]\n'),
    ),
    "a range that runs backwards": Case(EMBED + "--layers=-1:-4", "--layers: '-1:-4' names no layers"),
    "an output that is there": Case("embed -m {run} {lines} -o {lines}", "lines.txt: exists already"),
    "an unknown suffix": Case(
        "embed -m {run} {lines} -o {out}.csv",
        "out.csv: not a format for vectors. Its name must end in .npy, .parquet, .jsonl",
    ),
    "words without their text": Case(EMBED + "--tokens", "out.npy: has no room for words"),
    "words that are pooled": Case(
        "embed -m {run} {lines} -o {out}.parquet --tokens --pooling cls",
        "--pooling: makes one vector of a text",
    ),
    "a text to count in that is not read": Case(
        EMBED + "--idf-from {text}", "--idf-from: is read for --pooling idf_mean alone"
    ),
    "stdin twice": Case(
        "embed -m {run} - -o {out}.npy --pooling idf_mean", "pooling: stdin can be read only once"
    ),
    "both lengths": Case(EMBED + "--normalize --no-normalize", "--no-normalize: says the opposite"),
    "no such column": Case("embed -m {run} {table} -o {out}.npy --text-column body", "no column 'body'"),
    "no such prompt": Case(EMBED + "--prompt query", "no prompt 'query'. The directory has none"),
    "too many tokens": Case(EMBED + "--max-seq-length 33", "max_seq_length: 33 is not in 3..32"),
    "no workers": Case(EMBED + "--workers 0", "workers: 0 is less than 1"),
    "text that is not UTF-8": Case(
        "embed -m {run} {tmp}/a.txt -o {out}.parquet", "a.txt:2: not UTF-8", write("a.txt", b"a\ncaf\xe9\n")
    ),
    "more pieces than embeddings": Case(
        "embed -m {tmp}/copy {lines} -o {out}.npy",
        "copy: 500 pieces, the model has 400 embeddings",
        more_pieces_than_rows,
    ),
    "numbers too large": Case(
        "embed -m {tmp}/copy {lines} -o {out}.npy --layer 0 --dtype float16",
        "dtype: 1e+06 is too large for float16",
        large_numbers,
    ),
    "not a file of vectors": Case(
        "neighbours night -m {run} --among {lines}", "lines.txt: not a file of vectors"
    ),
    "vectors that are not there": Case(NEAR, "x.npy: no such file"),
    "vectors without texts": Case(
        "neighbours night -m {run} --among {tmp}/x.npy",
        "x.npy: says nothing of its texts",
        save("x.npy", np.ones((2, WIDTH))),
    ),
    "no .npy": Case(NEAR, "x.npy: not an .npy file", write("x.npy", b"\x93NUMPY")),
    "a list of objects": Case(NEAR, "x.npy: not an .npy file", save("x.npy", np.array([{}]))),
    "one vector": Case(NEAR, "x.npy: float64 of shape [16], not vectors", save("x.npy", np.ones(16))),
    "no vectors": Case(NEAR, "x.npy: holds no vectors", save("x.npy", np.ones((0, WIDTH)))),
    "another width": Case(
        NEAR, "x.npy: vectors of 15 numbers, the model makes 16", save("x.npy", np.ones((40, 15)))
    ),
    "vectors of another model": Case(
        NEAR, "x.npy: row 1 is not what the model makes of its text", save("x.npy", np.ones((40, WIDTH)))
    ),
    "NaN": Case(NEAR, "x.npy: row 21 holds NaN or infinite values", spoiled_rows),
    "vectors of more texts": Case(NEAR, "x.npy: 80 vectors, and 40 texts in", of_other_texts),
    "no Parquet": Case(
        "neighbours night -m {run} --among {tmp}/x.parquet",
        "x.parquet: not a Parquet file",
        write("x.parquet", b"PAR1"),
    ),
    "no neighbours": Case("neighbours night -m {run} -k 0", "--top-k: 0 is less than 1"),
    "texts beside a table": Case("neighbours night -m {run} --texts {lines}", "--texts: goes with --among"),
    "vectors of a table": Case(
        "neighbours night -m {run} --pooling cls", "flags of vectors: pieces of the vocab"
    ),
    "a word that is unknown": Case(
        "neighbours night --plus 'rain \u732b' -m {run}", "a word of 'rain \u732b' is not in the vocabulary"
    ),
    "no word": Case("neighbours '' -m {run}", "no word in ''"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_line_says_what_is_wrong(
    name: str, shop: Shop, lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    case.spoil(tmp_path, shop)
    before = sorted(tmp_path.rglob("*"))
    names = {"run": shop.run, "text": shop.text, "table": shop.table, "lines": lines}
    names |= {"tmp": tmp_path, "out": tmp_path / "out"}
    command = case.command.format(**names)
    assert main([*shlex.split(command), "--quiet"]) == 2
    printed = capsys.readouterr()
    (line,) = printed.err.splitlines()
    assert line.startswith("error: ")
    assert case.says.format(**names) in line
    assert printed.out == ""
    assert sorted(tmp_path.rglob("*")) == before, "something half-written is left"
