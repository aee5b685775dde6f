"""Growth of cost at a nano size: points, tables and plots."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.growth import Growth, Point, describe_growth
from benchmarks.harness import Result
from benchmarks.machine import in_new_process, peak_bytes
from cloze.errors import InputError
from corpora import save_vocabulary


def _point(at: float, seconds: float, share: float) -> Point:
    return Point(at, f"{at:g}", 4096.0, (seconds,) * 3, 10**8, 1e9 * (1 + share), 2e8, share)


def _growth() -> Result:
    corpus = [Point(10.0, "10", 1e7, (2.0,), 5 * 10**8), Point(100.0, "100", 1e8, (21.0,), 6 * 10**8)]
    points = {"lengths": [_point(32, 1.0, 0.02), _point(512, 1.5, 0.25)], "corpus": corpus}
    return describe_growth({"model": "mini"}, points, {"threads": 1})


def test_tables_have_remarks_on_growth() -> None:
    text = _growth().text
    assert "a token takes 1.50 times as long at 512 as at 32" in text
    assert "2% of all at 32 and 25% at 512" in text
    assert "a byte takes 1.05 times as long at 100 as at 10" in text


def test_a_record_has_plots_of_time_and_memory_of_each_part(tmp_path: Path) -> None:
    _growth().write(tmp_path / "record")
    page = (tmp_path / "record" / "README.md").read_text()
    for name in ("lengths-seconds", "lengths-memory", "corpus-seconds", "corpus-memory"):
        picture = (tmp_path / "record" / f"{name}.svg").read_text()
        assert picture.startswith("<svg")
        assert "stroke: var(--accent, #" in picture  # works without a page that sets the variable
        assert not re.search(r"var\([^,)]*\)", picture)
        assert f"({name}.svg)" in page
    assert json.loads((tmp_path / "record" / "record.json").read_text())["parts"]["lengths"][0]["at"] == 32.0


def test_points_are_measured_and_kept(tmp_path: Path) -> None:
    benchmark = Growth(
        parts="lengths", lengths=(16, 24), step_tokens=96, model="tiny", rounds=1, output=tmp_path / "record"
    )
    first = benchmark.run().record["parts"]
    short, long = first["lengths"]
    assert 0 < short["amount"] <= 96
    assert 0 < short["attention_share"] < long["attention_share"] < 0.1
    assert short["peak_bytes"] > 4 * 4_000_000 * 2
    kept = {file.name for file in (tmp_path / "record.bench-parts").iterdir()}
    assert kept == {"settings.json", "lengths-16.json", "lengths-24.json"}
    assert benchmark.run().record["parts"] == first  # not measured again: seconds would differ
    with pytest.raises(InputError, match="with other settings"):
        replace(benchmark, rounds=2).run()


def test_a_corpus_is_built_of_an_amount_of_text(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n\n".join(["one two three. two one."] * 400))
    save_vocabulary(tmp_path / "vocab", ["one", "two", "three", "."])
    output = tmp_path / "record"
    (tmp_path / "record.parts").mkdir()  # of `cloze corpus -o record`
    command = ["growth", "--parts", "corpus", "--text", str(tmp_path / "text.txt"), "--rounds", "1"]
    more = ["--vocab", str(tmp_path / "vocab"), "--megabytes", "0.005", "-o", str(output), "--quiet"]
    assert main([*command, *more]) == 0
    (point,) = json.loads((output / "record.json").read_text())["parts"]["corpus"]
    assert 5000 <= point["amount"] < 5500
    assert {file.name for file in tmp_path.iterdir()} == {"text.txt", "vocab", "record", "record.parts"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parts": "heads"}, "unknown name 'heads'"),
        ({"parts": "corpus"}, "needs --text and --vocab"),
        ({"parts": "lengths", "rounds": 0}, "0 rounds"),
    ],
)
def test_parts_that_cannot_be_measured(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Growth(**settings).run()


def test_the_peak_of_a_process_is_its_own() -> None:
    parents = bytearray(1 << 30)
    parents[:: 1 << 12] = b"1" * (1 << 18)
    childs = in_new_process(peak_bytes)
    assert 1 << 26 < childs < len(parents) < peak_bytes()
