"""How cost grows: points, tables and pictures, at a nano size. No test looks at a time."""

import json
import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from cloze.cli import main
from cloze.errors import InputError
from cloze.evidence.bench import growth
from cloze.evidence.bench.growth import Growth, GrowthBenchmark, Point, bench_growth
from cloze.evidence.bench.harness import peak_bytes, write_record
from cloze.text.pieces import SPECIAL_PIECES
from cloze.text.tokenizer import Tokenizer


def _point(at: float, seconds: float, share: float) -> Point:
    return Point(at, f"{at:g}", 4096.0, (seconds,) * 3, 10**8, 1e9 * (1 + share), 2e8, share)


def _growth() -> Growth:
    points = {
        "lengths": [_point(32, 1.0, 0.02), _point(512, 1.5, 0.25)],
        "corpus": [
            Point(10.0, "10", 1e7, (2.0,), 5 * 10**8),
            Point(100.0, "100", 1e8, (21.0,), 6 * 10**8),
        ],
    }
    return Growth({"model": "mini"}, points, {"threads": 1})


def test_tables_name_what_is_not_linear() -> None:
    text = _growth().as_text()
    assert "a token takes 1.50 times as long at 512 as at 32" in text
    assert "2% of all at 32 and 25% at 512" in text
    assert "a byte takes 1.05 times as long at 100 as at 10" in text


def test_a_record_has_a_picture_of_time_and_memory_of_each_part(tmp_path: Path) -> None:
    write_record(_growth(), tmp_path / "record", overwrite=False)
    page = (tmp_path / "record" / "README.md").read_text()
    for name in ("lengths-seconds", "lengths-memory", "corpus-seconds", "corpus-memory"):
        picture = (tmp_path / "record" / f"{name}.svg").read_text()
        assert picture.startswith("<svg")
        assert "stroke: var(--train, #" in picture  # there is no page that says what the name stands for
        assert not re.search(r"var\([^,)]*\)", picture)
        assert f"({name}.svg)" in page
    assert json.loads((tmp_path / "record" / "record.json").read_text())["parts"]["lengths"][0]["at"] == 32.0


def test_points_are_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "LENGTHS", (16, 24))
    monkeypatch.setattr(growth, "_STEP_TOKENS", 96)
    benchmark = GrowthBenchmark(parts=["lengths"], model="tiny")
    first = bench_growth(benchmark, rounds=1, kept=tmp_path)
    short, long = first.points["lengths"]
    assert 0 < short.amount <= 96
    assert 0 < short.attention_share < long.attention_share < 0.1
    assert short.peak_bytes > 4 * 4_000_000 * 2
    assert {file.name for file in tmp_path.iterdir()} == {
        "settings.json",
        "lengths-16.json",
        "lengths-24.json",
    }
    monkeypatch.setattr(growth, "_in_a_process", lambda measure: pytest.fail("measured again"))
    assert bench_growth(benchmark, rounds=1, kept=tmp_path).points == first.points
    with pytest.raises(InputError, match="with other settings"):
        bench_growth(benchmark, rounds=2, kept=tmp_path)


def test_a_corpus_is_built_of_as_much_text_as_is_said(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n\n".join(["one two three. two one."] * 400))
    (tmp_path / "vocab").mkdir()
    Tokenizer.from_pieces([*SPECIAL_PIECES, "one", "two", "three", "."]).save(tmp_path / "vocab")
    output = tmp_path / "record"
    (tmp_path / "record.parts").mkdir()  # of `cloze corpus -o record`
    command = ["bench", "growth", "--parts", "corpus", "--text", str(tmp_path / "text.txt"), "--rounds", "1"]
    more = ["--vocab", str(tmp_path / "vocab"), "--megabytes", "0.005", "-o", str(output), "--quiet"]
    assert main([*command, *more]) == 0
    (point,) = json.loads((output / "record.json").read_text())["parts"]["corpus"]
    assert 5000 <= point["amount"] < 5500
    assert {file.name for file in tmp_path.iterdir()} == {"text.txt", "vocab", "record", "record.parts"}


def test_parts_that_cannot_be_measured() -> None:
    with pytest.raises(InputError, match="no part 'heads'"):
        bench_growth(GrowthBenchmark(parts=["heads"]))
    with pytest.raises(InputError, match="needs text and --vocab"):
        bench_growth(GrowthBenchmark(parts=["corpus"]))
    with pytest.raises(InputError, match="0 times measure nothing"):
        bench_growth(GrowthBenchmark(parts=["lengths"]), rounds=0)


def test_the_peak_of_a_process_is_not_that_of_its_parent() -> None:
    parents = bytearray(1 << 30)
    parents[:: 1 << 12] = b"1" * (1 << 18)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        childs = pool.submit(peak_bytes).result()
    assert 1 << 26 < childs < len(parents) < peak_bytes()
