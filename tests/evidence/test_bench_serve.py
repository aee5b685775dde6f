"""The load that the server is measured with: what is found is told, and what went wrong is not told as a figure."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cloze.errors import InputError, RunError
from cloze.evidence.bench.http_load import Load, Second
from cloze.evidence.bench.serve import Memory, ServeBenchmark, ServeFinding, bench_serve

STEADY = Load(70, 70, 70, {200: 140}, 3, 9, None, (Second(68, 7.0), Second(72, 9.0)))
FINDING = ServeFinding(
    settings={"model": "tiny"},
    environment={},
    closed_loop_per_second=100,
    closed_loop_errors=0,
    steady=STEADY,
    overload=Load(300, 300, 95, {200: 190, 429: 410}, 300, 900, 12, (Second(95, 900.0),) * 2),
    health=Load(20, 20, 20, {200: 40}, 2, 31, None, (Second(20, 31.0),) * 2),
    recovery=replace(STEADY, by_second=(Second(40, 3.0), Second(70, 50.0), Second(0, None), Second(68, 9.0))),
    soak=tuple(Memory(10_000 * i, 500 + 0.5 * i + (20 if i == 0 else 0), 3, 11) for i in range(5)),
)


def test_growth_is_that_after_the_first_round() -> None:
    assert FINDING.growth == pytest.approx(0.5)


def test_it_has_recovered_when_a_second_is_as_good_as_the_worst_before() -> None:
    assert FINDING.recovery_seconds == 4
    never = replace(FINDING.recovery, by_second=FINDING.recovery.by_second[:3])
    assert replace(FINDING, recovery=never).recovery_seconds is None
    assert "again: not as before" in replace(FINDING, recovery=never).as_text()


def test_the_table_says_what_was_found() -> None:
    text = FINDING.as_text()
    for part in (
        "100 requests a second",
        "p99 9.0 ms",
        "95% of the closed loop's rate",
        "p99 of 12.0 ms",
        "/health meanwhile: p50 2.0 ms, p99 31.0 ms",
        "again: as before after 4 s",
        "+0.50 MiB for 10,000",
    ):
        assert part in text
    assert FINDING.as_dict()["mebibytes_per_10_000_requests"] == pytest.approx(0.5)
    assert FINDING.as_dict()["recovery_seconds"] == 4


@pytest.mark.parametrize(
    "wrong",
    [
        replace(FINDING, closed_loop_errors=1),
        replace(FINDING, steady=replace(STEADY, statuses={200: 5, 500: 1})),
        replace(FINDING, recovery=replace(STEADY, statuses={504: 1})),
        replace(FINDING, health=replace(FINDING.health, statuses={200: 5, 503: 1})),
    ],
)
def test_failures_are_no_figures(wrong: ServeFinding) -> None:
    FINDING.require_agreement()
    with pytest.raises(RunError):
        wrong.require_agreement()


@pytest.mark.parametrize("wrong", [{"rate": 0.0}, {"seconds": 0}, {"soak": 9}, {"tokens": 2}])
def test_what_cannot_be_measured_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match=f"--{next(iter(wrong))}"):
        ServeBenchmark(model=Path("model"), **wrong)  # type: ignore[arg-type]


@pytest.mark.long
def test_a_short_load(minilm: Path) -> None:
    if shutil.which("wrk") is None or shutil.which("hey") is None:
        pytest.skip("needs wrk and hey")
    found = bench_serve(ServeBenchmark(model=minilm, tokens=8, rate=8, seconds=2, soak=50))
    found.require_agreement()
    assert found.closed_loop_per_second > 0
    assert found.steady.asked_per_second == 8
    assert 0 < sum(second.answered for second in found.steady.by_second) <= 2 * 8 + 4
    assert len(found.recovery.by_second) == 2
    assert found.as_text()
    assert len(found.soak) == 10
