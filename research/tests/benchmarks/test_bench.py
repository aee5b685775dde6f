"""The harness of all benchmarks and the command that runs them."""

import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.commands import BENCHMARKS
from benchmarks.harness import (
    Check,
    Contestant,
    Limit,
    Result,
    TimedBenchmark,
    Timing,
    describe_busy,
    in_new_process,
    peak_bytes,
)
from cloze.errors import InputError, RunError
from helpers import assert_help_is_complete

TIMINGS = (Timing("cloze", "does it", (1.0, 2.0, 4.0)), Timing("peer", "does it too", (8.0, 6.0, 5.0)))


class Example(TimedBenchmark):
    name = "example"


def compare(**changes) -> Result:
    arguments = {
        "settings": {"size": 3},
        "amount": 100.0,
        "unit": "tokens",
        "checks": (Check("loss", 0.001, 0.01),),
        "environment": {"threads": 2},
        "limit": Limit("products", 200.0),
    }
    return Example().describe(TIMINGS, **arguments | changes)


def test_contestants_take_turns_and_the_warm_up_does_not_count():
    turns, prepared = [], []
    contestants = [
        Contestant(name, "", lambda name=name: prepared.append(name) or (lambda: turns.append(name)))
        for name in "ab"
    ]
    timings = TimedBenchmark(rounds=3, min_seconds=0.0).measure(contestants)
    assert "".join(turns) == "ab" * 4
    assert turns == prepared
    assert [len(timing.seconds) for timing in timings] == [3, 3]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_idle_turns_and_turns_beside_busy_processes_alternate():
    def count_children() -> int:
        return sum(len(file.read_text().split()) for file in Path("/proc/self/task").glob("*/children"))

    before, turns = count_children(), []
    contestants = [
        Contestant(name, "", lambda name=name: lambda: turns.append((name, count_children() - before)))
        for name in "ab"
    ]
    timings = TimedBenchmark(rounds=2, min_seconds=0.0).measure(contestants, busy=2)
    assert turns == [("a", 0), ("b", 0), ("a", 2), ("b", 2)] * 3
    assert [timing.name for timing in timings] == ["a", "b", "a", "b"]
    assert count_children() == before


def test_no_rounds():
    with pytest.raises(InputError, match="--rounds: 0 rounds"):
        TimedBenchmark(rounds=0).measure([])
    with pytest.raises(InputError, match="--busy: -1 processes"):
        TimedBenchmark(rounds=1).measure([], busy=-1)


def test_figures():
    ours, theirs = compare().record["sides"]
    assert (ours["median"], ours["min"], ours["max"]) == (50.0, 25.0, 100.0)
    assert ours["cloze_is_times_as_fast"] == 1.0
    assert theirs["cloze_is_times_as_fast"] == 3.0
    assert ours["share_of_limit"] == 0.25
    text = compare().text
    assert "3.00x" in text
    assert "loss: agree" in text


def test_a_ratio_has_the_interval_of_its_geometric_mean():
    ours, theirs = compare().record["sides"]
    assert "interval" not in ours
    low, high = theirs["interval"]
    assert low * high == pytest.approx((8 / 1 * 6 / 2 * 5 / 4) ** (2 / 3))
    assert f"{low:.2f} to {high:.2f}" in compare().text
    single = Example().describe(
        [Timing("cloze", "", (1.0,)), Timing("peer", "", (2.0,))], settings={}, unit="x"
    )
    assert "interval" not in single.record["sides"][1]


def test_a_contestant_beside_busy_processes_is_compared_with_itself_and_with_others():
    busy = [Timing("cloze", "", (2.0, 2.0, 8.0)), Timing("peer", "", (80.0, 60.0, 50.0))]
    record, text = describe_busy(TIMINGS, busy, 2, "sentences")
    ours, theirs = record["sides"]
    assert record["processes"] == 2
    assert (ours["times_as_long_as_idle"], theirs["times_as_long_as_idle"]) == (1.0, 10.0)
    assert theirs["cloze_is_times_as_fast"] == 30.0
    low, high = ours["interval_of_idle"]
    assert low * high == pytest.approx((2 * 1 * 2) ** (2 / 3))
    assert "peer: 60000.00 ms, 10.00 times as long as without them" in text


def test_contestants_that_disagree_cannot_be_compared():
    compare().require_agreement()
    apart = compare(checks=(Check("loss", 0.5, 0.01),))
    assert "DISAGREE" in apart.text
    with pytest.raises(RunError, match=r"benchmarks example: loss: 0\.5 apart"):
        apart.require_agreement()
    assert not Check("loss", float("nan"), 1.0).holds


@pytest.mark.parametrize("name", ["pretrain", "tokenize TEXT", "corpus TEXT", "embed TEXT -m MODEL"])
def test_every_benchmark_checks_its_peers(name, capsys):
    assert main([*name.split(), "--vs", "fairseq"]) == 2
    assert "--vs: unknown name 'fairseq'" in capsys.readouterr().err


@pytest.mark.parametrize("name", BENCHMARKS)
def test_help_describes_every_flag(name, capsys):
    assert_help_is_complete(main, [name], f"python -m benchmarks {name}", capsys)


def test_help_lists_the_benchmarks(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in BENCHMARKS)


@pytest.mark.slow
def test_the_peak_of_a_process_is_its_own():
    parents = bytearray(1 << 30)
    parents[:: 1 << 12] = b"1" * (1 << 18)
    childs = in_new_process(peak_bytes)
    assert 1 << 26 < childs < len(parents) < peak_bytes()
