"""Communication of ranks at a tiny size: shares, records and checks."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.futures import Future

from benchmarks.__main__ import main
from benchmarks.distribution import (
    AFTERWARDS,
    COMPUTING,
    OVERLAPPED,
    SENDING,
    SHARDED,
    Distribution,
    SizeResult,
    describe_distribution,
    sum_afterwards,
)
from benchmarks.harness import Check, Result, Timing
from cloze.errors import InputError, RunError
from cloze.reports.describe import describe

SIDES = [COMPUTING, OVERLAPPED, AFTERWARDS, SHARDED, SENDING]


def _result(*checks: Check) -> Result:
    seconds = {
        COMPUTING: (8.0, 8.0, 9.0),
        OVERLAPPED: (10.0, 9.0, 11.0),
        AFTERWARDS: (12.0, 12.0, 12.0),
        SHARDED: (16.0, 16.0, 18.0),
        SENDING: (2.0, 1.0, 4.0),
    }
    timings = {name: Timing(name, f"does {name}", rounds) for name, rounds in seconds.items()}
    size = SizeResult("tiny", 1000, 400_000_000, timings, checks)
    return describe_distribution({"ranks": 2}, (size,), {"threads": 1})


def test_shares_are_of_the_same_round() -> None:
    (size,) = _result().record["sizes"]
    by_name = {side["name"]: side for side in size["sides"]}
    assert by_name[SHARDED]["communication_share"] == {"median": 0.5, "min": 0.5, "max": 0.5}
    share = by_name[OVERLAPPED]["communication_share"]
    assert (share["min"], share["max"]) == pytest.approx((1 / 9, 1 / 5))
    assert size["hidden_share"] == pytest.approx((12 - 10) / (12 - 8))
    assert size["sent_bytes_per_second"] == {"median": 2e8, "min": 1e8, "max": 4e8}
    assert by_name[SENDING]["communication_share"] is None


def test_a_table_shows_them() -> None:
    text = _result(Check("loss", 0.5, 1.0)).text
    assert "tiny: 1,000 tokens per step, 400.0 MB of gradients" in text
    assert re.search(r"FSDP2 +16 +16 +18 +50\.0% \(50\.0%, 50\.0%\)", text)
    assert "200 MB/s (100, 400)" in text
    assert "overlap hides 50% of the time that sending afterwards adds" in text
    assert "loss: agree, 0.5 apart (at most 1)" in text


def test_ranks_that_disagree_are_no_result() -> None:
    _result(Check("loss", 0.5, 1.0)).require_agreement()
    with pytest.raises(RunError, match="The figures cannot be compared"):
        _result(Check("loss", 0.5, 1.0), Check("norm", 2.0, 1.0)).require_agreement()


def test_ranks_compute_the_same_as_one(tmp_path: Path) -> None:
    output = tmp_path / "record"
    command = ["distribution", "--sizes", "tiny", "--batch", "4", "--max-seq-length", "16"]
    assert main([*command, "--rounds", "2", "-o", str(output), "--quiet"]) == 0
    record = json.loads((output / "record.json").read_text())
    assert record["settings"]["ranks"] == 2
    (size,) = record["sizes"]
    assert [side["name"] for side in size["sides"]] == SIDES
    assert all(len(side["seconds"]) == 2 for side in size["sides"])
    assert 4 * 8 <= size["tokens_per_step"] <= 4 * 16
    assert size["gradient_bytes_per_step"] > 4 * 30_522 * 128
    assert len(size["checks"]) == 4 + 3  # losses of all that compute, gradients of those that sum them
    assert all(check["holds"] for check in size["checks"])
    assert "DDP, afterwards" in (output / "README.md").read_text()
    assert describe(output).kind == "record"


@pytest.mark.parametrize(("ranks", "batch_size"), [(1, 8), (3, 8)])
def test_ranks_that_cannot_share_a_batch(ranks: int, batch_size: int) -> None:
    with pytest.raises(InputError, match=rf"--ranks: {ranks} ranks for a batch of 8"):
        Distribution(sizes=("tiny",), ranks=ranks, batch=batch_size).run()


@dataclass
class Bucket:
    """As DDP hands it to a hook."""

    values: Tensor
    last: bool

    def buffer(self) -> Tensor:
        return self.values

    def is_last(self) -> bool:
        return self.last


@dataclass
class Sent:
    """A sum over two ranks whose gradients are the same; it has come."""

    values: Tensor

    def get_future(self) -> "Future[list[Tensor]]":
        future: Future[list[Tensor]] = Future()
        future.set_result([2 * self.values])
        return future


def test_sending_afterwards_waits_for_the_last_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[float] = []

    def all_reduce(values: Tensor, *, async_op: bool) -> Sent:
        sent.append(values.item())
        return Sent(values)

    hook: Callable[..., Future[Tensor]] = sum_afterwards
    monkeypatch.setattr("torch.distributed.all_reduce", all_reduce)
    waiting: list[object] = []
    first = hook(waiting, Bucket(torch.tensor(1.0), last=False))
    assert not sent
    assert not first.done()
    second = hook(waiting, Bucket(torch.tensor(5.0), last=True))
    assert sent == [1.0, 5.0]
    assert (first.wait(), second.wait()) == (2.0, 10.0)
    assert not waiting
