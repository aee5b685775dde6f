"""Memory that runs out within a step: the micro-batch is halved, the step stays the same."""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from cloze.errors import RunError
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.data import PretrainingBatches
from cloze.pretraining.objective import PretrainingObjective
from cloze.pretraining.run import pretrain, resume_pretraining
from cloze.training.distributed import DistributionConfig
from cloze.training.interrupts import Interrupted
from ranks import Ranks
from runs import assert_same_weights, losses, rows

STEPS = 3
REFUSALS: tuple[Callable[[], Exception], ...] = (
    lambda: RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory"),
    lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    lambda: MemoryError(),
)


@pytest.fixture
def quiet(quiet: PretrainConfig) -> PretrainConfig:
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
    for point in range(20):
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


def test_sequence_that_does_not_fit_ends_the_run(quiet, refuse_at, tmp_path):
    refuse_at(most=0)
    with pytest.raises(RunError, match="out of memory at step 1 with one sequence at a time") as caught:
        pretrain(quiet, tmp_path / "run")
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)


def test_other_errors_are_not_taken_for_memory(quiet, refuse_at, tmp_path):
    refuse_at(1, refusal=lambda: RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        pretrain(quiet, tmp_path / "run")


# Several ranks: one of them finds no memory, all take the step again.

FIRST, LAST = 0, -1
"""Micro-batches of a step: gradients are sent with the last."""


def _refuse() -> None:
    raise REFUSALS[0]()


def _in_forward(model, loss) -> None:
    _refuse()


def _as_backward_begins(model, loss) -> None:
    loss.register_hook(lambda gradient: _refuse())


def _with_gradients_half_sent(model, loss) -> None:
    def refuse(gradient) -> None:
        hook.remove()
        _refuse()

    hook = model.bert.embeddings.position_embeddings.weight.register_hook(refuse)


def _pretrain_refusing(
    config: PretrainConfig, run: Path, refusing: int, refusals: list[tuple[int, Callable[..., None]]]
) -> None:
    """Pre-train; in each of the first steps one rank is refused memory once. Then every rank tells its weights."""
    rank = int(os.environ["RANK"])
    forward, step_data = PretrainingObjective.forward, PretrainingBatches.step_data
    left = refusals if rank == refusing else []
    refused: set[str] = set()
    models = set()
    steps = []

    def recording_step_data(self, *arguments):
        steps.append(step_data(self, *arguments))
        return steps[-1]

    def refusing_forward(self, batch):
        models.add(self.model)
        sums, step = forward(self, batch), steps[-1]
        if left and step.name not in refused and batch is step.batches[left[0][0]]:
            refused.add(step.name)
            left.pop(0)[1](self.model, sums["masked_lm_loss"][0])
        return sums

    PretrainingBatches.step_data, PretrainingObjective.forward = recording_step_data, refusing_forward
    pretrain(config, run)
    (model,) = models
    digest = sha256(b"".join(weight.numpy().tobytes() for weight in model.state_dict().values()))
    (run / f"weights-of-rank-{rank}").write_text(digest.hexdigest())


@pytest.fixture
def wide(quiet: PretrainConfig) -> PretrainConfig:
    """Gradients of more than one bucket, and a step that can be halved four times."""
    model = replace(quiet.model, hidden_size=96, intermediate_size=384, num_hidden_layers=3)
    phases = (replace(quiet.phases[0], fraction=1.0, batch_size=24),)
    return replace(quiet, model=model, phases=phases, steps=5, micro_batch_tokens=512)


@pytest.mark.slow
def test_ranks_repeat_a_failed_step_together(wide, tmp_path):
    """Wherever one breaks off: all end with the same bits, those of a run that broke off elsewhere."""
    refusals = [
        (LAST, _in_forward),
        (LAST, _with_gradients_half_sent),
        (FIRST, _with_gradients_half_sent),
        (LAST, _as_backward_begins),
    ]
    runs = [tmp_path / "second-rank", tmp_path / "first-rank"]
    assert Ranks(2, _pretrain_refusing, wide, runs[0], 1, refusals).join() == [0, 0]
    assert Ranks(2, _pretrain_refusing, wide, runs[1], 0, [(FIRST, _in_forward)] * 4).join() == [0, 0]
    weights = {file.read_text() for run in runs for file in run.glob("weights-of-rank-*")}
    assert len(weights) == 1
    pretrain(wide, tmp_path / "alone")
    for run in runs:
        halvings = _halvings(run)
        assert [step for step, _ in halvings] == [1, 2, 3, 4]
        assert all(after < before for (_, before), (_, after) in pairwise(halvings))
        assert _losses(run) == pytest.approx(_losses(tmp_path / "alone"), abs=1e-5)


@pytest.mark.slow
def test_ranks_give_up_together(quiet, tmp_path):
    phases = (replace(quiet.phases[0], fraction=1.0),)
    config = replace(quiet, phases=phases, micro_batch_tokens=32)  # one sequence
    ranks = Ranks(2, _pretrain_refusing, config, tmp_path / "run", 1, [(FIRST, _in_forward)])
    assert ranks.join() == [1, 1]
    rank, error = ranks.errors.get()
    assert rank == 0
    assert "out of memory at step 1 with one sequence at a time" in error
    assert ranks.errors.empty(), "one rank says it"


@pytest.mark.slow
def test_sharded_ranks_end_with_a_message(quiet, tmp_path):
    config = replace(quiet, distribution=DistributionConfig(sharded=True))
    ranks = Ranks(2, _pretrain_refusing, config, tmp_path / "run", 1, [(FIRST, _in_forward)])
    assert ranks.join() == [1, 1]
    errors = dict(ranks.errors.get() for _ in range(2))
    assert errors[1].startswith("rank 1: out of memory, and sharded weights cannot be gathered")
    assert "--resume --set micro_batch_tokens=N" in errors[1]
    assert errors[0].startswith("rank 0: lost rank 1 of 0..1.")
