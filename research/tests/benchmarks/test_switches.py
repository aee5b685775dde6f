"""Switches that time a GPU change no loss on a CPU."""

import pytest

from benchmarks.pretrain import Pretrain
from benchmarks.switches import measure


@pytest.mark.slow
def test_switches_leave_the_losses_of_three_steps_on_a_cpu():
    nano = Pretrain(model="tiny", batch=4, max_seq_length=16, dropout=0.0, vocab_size=300)
    rows = [measure(nano, 0.0, **switch) for switch in ({}, {"waits": True}, {"deterministic": False})]
    assert [row["steps"] for row in rows] == [1, 1, 1]
    assert len({row["last_loss"] for row in rows}) == 1
