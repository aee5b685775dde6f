"""Figures of a server under load; failures are not figures."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.serve import Load, Memory, Second, Serve, ServerFigures
from cloze.errors import InputError, RunError

STEADY = Load(70, 70, 70, {200: 140}, 3, 9, None, (Second(68, 7.0), Second(72, 9.0)))
FIGURES = ServerFigures(
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


def test_growth_leaves_the_first_round_out():
    assert FIGURES.growth == pytest.approx(0.5)


def test_recovery_ends_when_a_second_is_as_good_as_the_worst_before():
    assert FIGURES.recovery_seconds == 4
    never = replace(FIGURES.recovery, by_second=FIGURES.recovery.by_second[:3])
    assert replace(FIGURES, recovery=never).recovery_seconds is None
    assert "again: not recovered" in replace(FIGURES, recovery=never).as_text()


def test_text_and_record():
    text = FIGURES.as_text()
    for part in (
        "100 requests per second",
        "p99 9.0 ms",
        "95% of the closed loop's rate",
        "p99 of 12.0 ms",
        "/health meanwhile: p50 2.0 ms, p99 31.0 ms",
        "again: recovered after 4 s",
        "+0.50 MiB per 10,000",
    ):
        assert part in text
    record = FIGURES.result().record
    assert record["mebibytes_per_10_000_requests"] == pytest.approx(0.5)
    assert record["recovery_seconds"] == 4


@pytest.mark.parametrize(
    "wrong",
    [
        replace(FIGURES, closed_loop_errors=1),
        replace(FIGURES, steady=replace(STEADY, statuses={200: 5, 500: 1})),
        replace(FIGURES, recovery=replace(STEADY, statuses={504: 1})),
        replace(FIGURES, health=replace(FIGURES.health, statuses={200: 5, 503: 1})),
    ],
)
def test_failures_are_refused(wrong):
    FIGURES.result().require_agreement()
    with pytest.raises(RunError):
        wrong.result().require_agreement()


@pytest.mark.parametrize("wrong", [{"rate": 0.0}, {"seconds": 0}, {"soak": 9}, {"tokens": 2}])
def test_wrong_flags_are_refused(wrong):
    with pytest.raises(InputError, match=f"--{next(iter(wrong))}"):
        Serve(model=Path("model"), **wrong)


@pytest.mark.exhaustive
def test_a_short_load(minilm):
    if shutil.which("wrk") is None or shutil.which("hey") is None:
        pytest.skip("needs wrk and hey")
    result = Serve(model=minilm, tokens=8, rate=8, seconds=2, soak=50).run()
    result.require_agreement()
    assert result.record["closed_loop_per_second"] > 0
    assert result.record["steady"]["asked_per_second"] == 8
    assert 0 < sum(second["answered"] for second in result.record["steady"]["by_second"]) <= 2 * 8 + 4
    assert len(result.record["recovery"]["by_second"]) == 2
    assert len(result.record["soak"]) == 10
