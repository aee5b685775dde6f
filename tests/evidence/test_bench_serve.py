"""The load that the server is measured with: what is found is told, and what went wrong is not told as a figure."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cloze.errors import RunError
from cloze.evidence.bench.serve import Load, Memory, ServeBenchmark, ServeFinding, bench_serve

STEADY = Load(70, 70, {200: 700}, 3, 9, None)
FINDING = ServeFinding(
    settings={"model": "tiny"},
    environment={},
    closed_loop_per_second=100,
    closed_loop_errors=0,
    steady=STEADY,
    overload=Load(300, 95, {200: 950, 429: 2050}, 300, 900, 12),
    soak=tuple(Memory(10_000 * i, 500 + 0.5 * i + (20 if i == 0 else 0), 3, 11) for i in range(5)),
)


def test_growth_is_that_after_the_first_round() -> None:
    assert FINDING.growth == pytest.approx(0.5)


def test_the_table_says_what_was_found() -> None:
    text = FINDING.as_text()
    for part in (
        "100 requests a second",
        "p99 9.0 ms",
        "95% of the rate",
        "p99 12.0 ms",
        "+0.50 MiB for 10,000",
    ):
        assert part in text
    assert FINDING.as_dict()["mebibytes_per_10_000_requests"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(FINDING, closed_loop_errors=1),
        replace(FINDING, steady=replace(STEADY, statuses={200: 5, 500: 1})),
    ],
)
def test_failures_are_no_figures(wrong: ServeFinding) -> None:
    FINDING.require_agreement()
    with pytest.raises(RunError):
        wrong.require_agreement()


@pytest.mark.long
def test_a_short_load(minilm: Path) -> None:
    if shutil.which("wrk") is None or shutil.which("hey") is None:
        pytest.skip("needs wrk and hey")
    found = bench_serve(ServeBenchmark(model=minilm, tokens=8, seconds=1, soak=50))
    found.require_agreement()
    assert found.closed_loop_per_second > 0
    assert len(found.soak) == 10
