"""Memory that runs out within a step: the micro-batch is halved, the step stays the same."""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import cloze
from cloze.pretraining.objective import PretrainingObjective
from cloze.training.interrupts import Interrupted
from ranks import Ranks
from runs import assert_same_weights, losses, pretrain, resume_pretraining, rows

STEPS = 3
REFUSALS: tuple[Callable[[], Exception], ...] = (
    lambda: RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory"),
    lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    lambda: MemoryError(),
)


@pytest.fixture
def quiet(quiet: cloze.PretrainConfig) -> cloze.PretrainConfig:
    return replace(quiet, steps=STEPS, evaluation=replace(quiet.evaluation, times=1))


@pytest.fixture
def refuse_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Have the n-th micro-batch, or every one of more sequences than `most`, find no memory after its forward pass."""
    forward = PretrainingObjective.forward

    def install(*numbers: int, most: int = 1000, refusal: Callable[[], Exception] = REFUSALS[0]) -> list[int]:
        sizes: list[int] = []

        def refusing(self, batch):
            sizes.append(len(batch.next_sentence_labels))
            result = forward(self, batch)
            if len(sizes) in numbers or sizes[-1] > most:
                raise refusal()
            return result

        monkeypatch.setattr(PretrainingObjective, "forward", refusing)
        return sizes

    return install


def _losses(run: Path) -> list[float]:
    return [loss for _, loss in losses(run)]


def _halvings(run: Path) -> list[tuple[int, int]]:
    return [(row["step"], row["micro_batch_tokens"]) for row in rows(run, "halved")]


@pytest.mark.slow
def test_steps_are_unchanged_wherever_memory_runs_out(quiet, refuse_at, tmp_path):
    sizes = refuse_at()
    pretrain(quiet, tmp_path / "whole")
    num_micro_batches = len(sizes)
    expected = _losses(tmp_path / "whole")
    assert len(expected) == STEPS
    assert num_micro_batches > STEPS
    draw = random.Random(8)
    for point in range(6):
        run = tmp_path / f"point-{point}"
        refuse_at(draw.randint(1, num_micro_batches), refusal=REFUSALS[point % len(REFUSALS)])
        pretrain(quiet, run)
        ((step, tokens),) = _halvings(run)
        assert 1 <= step <= STEPS
        assert tokens == quiet.micro_batch_tokens // 2
        assert _losses(run) == pytest.approx(expected, abs=1e-5)
        assert not rows(run, "skipped")


def test_micro_batch_is_halved_until_it_fits(quiet, refuse_at, tmp_path, capsys):
    pretrain(quiet, tmp_path / "whole")
    sizes = refuse_at(most=2)
    pretrain(quiet, tmp_path / "run")
    halvings = _halvings(tmp_path / "run")
    assert [tokens for _, tokens in halvings] == [128, 64]
    assert {step for step, _ in halvings} == {1}
    assert sum(size > 2 for size in sizes) == 2
    assert _losses(tmp_path / "run") == pytest.approx(_losses(tmp_path / "whole"), abs=1e-5)


@pytest.mark.slow
def test_resumed_run_keeps_the_halved_micro_batch(nano, refuse_at, tmp_path, monkeypatch):
    config = replace(nano, steps=8)
    refuse_at(2)
    pretrain(config, tmp_path / "whole")
    sizes = refuse_at(2)
    forward = PretrainingObjective.forward

    def stop_later(self, batch):
        if len(sizes) == 10:
            os.kill(os.getpid(), signal.SIGTERM)
        return forward(self, batch)

    monkeypatch.setattr(PretrainingObjective, "forward", stop_later)
    with pytest.raises(Interrupted):
        pretrain(config, tmp_path / "cut")
    refuse_at()
    resume_pretraining(tmp_path / "cut")
    assert len(_halvings(tmp_path / "cut")) == 1
    assert_same_weights(tmp_path / "whole", tmp_path / "cut")


def test_other_errors_and_sequences_that_do_not_fit_end_the_run(quiet, refuse_at, tmp_path):
    refuse_at(1, refusal=lambda: RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        pretrain(quiet, tmp_path / "other")
    refuse_at(most=0)
    with pytest.raises(cloze.RunError, match="out of memory at step 1 with one sequence at a time") as caught:
        pretrain(quiet, tmp_path / "run")
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)


def _pretrain_without_memory_on_the_second_rank(config: cloze.PretrainConfig, run: Path) -> None:
    forward = PretrainingObjective.forward

    def refusing_forward(self, batch):
        sums = forward(self, batch)
        if os.environ["RANK"] == "1":
            raise REFUSALS[0]()
        return sums

    PretrainingObjective.forward = refusing_forward
    pretrain(config, run)


@pytest.mark.slow
def test_several_ranks_end_with_a_message(quiet, tmp_path):
    ranks = Ranks(2, _pretrain_without_memory_on_the_second_rank, quiet, tmp_path / "run")
    assert ranks.join() == [1, 1]
    errors = dict(ranks.errors.get() for _ in range(2))
    assert errors[1].startswith("out of memory. Say `micro_batch_tokens=N` with a smaller N")
    assert errors[0].startswith("rank 0: lost rank 1 of 0..1.")
