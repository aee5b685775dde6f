"""Memory that runs out in the middle of a step: the micro-batch is halved, the step stays what it was."""

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
from safetensors.torch import load_file

from cloze.errors import RunError
from cloze.locate import resolve_checkpoint
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.objective import PretrainingWork
from cloze.pretraining.run import pretrain, resume_pretraining
from cloze.training.distribution import DistributionConfig
from cloze.training.interrupts import Interrupted
from cloze.training.metrics_log import read_metrics
from ranks import Ranks

STEPS = 3
REFUSALS: tuple[Callable[[], Exception], ...] = (
    lambda: RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory"),
    lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
    lambda: MemoryError(),
)


@pytest.fixture
def quiet(nano: PretrainConfig) -> PretrainConfig:
    """Without dropout, whose numbers depend on how a step is cut."""
    model = replace(nano.model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return replace(nano, steps=STEPS, model=model, evaluation=replace(nano.evaluation, times=1))


@pytest.fixture
def refuse_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Have the n-th micro-batch, or every one of more sequences than `most`, find no memory after its forward pass."""
    loss = PretrainingWork.loss

    def install(*numbers: int, most: int = 1000, refusal: Callable[[], Exception] = REFUSALS[0]) -> list[int]:
        sizes: list[int] = []

        def refusing(self, model, batch, step):
            sizes.append(len(batch.next_sentence_labels))
            result = loss(self, model, batch, step)
            if len(sizes) in numbers or sizes[-1] > most:
                raise refusal()
            return result

        monkeypatch.setattr(PretrainingWork, "loss", refusing)
        return sizes

    return install


def _losses(run: Path) -> list[float]:
    return [row["loss"] for row in read_metrics(run) if row["kind"] == "train"]


def _halvings(run: Path) -> list[tuple[int, int]]:
    rows = [row for row in read_metrics(run) if row["kind"] == "halved"]
    return [(row["step"], row["micro_batch_tokens"]) for row in rows]


def test_wherever_memory_runs_out_the_steps_stay_what_they_were(
    quiet: PretrainConfig, refuse_at: Callable[..., list[int]], tmp_path: Path
) -> None:
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
        assert sum(row["kind"] == "skipped" for row in read_metrics(run)) == 0


def test_the_size_is_halved_until_it_fits_and_stays(
    quiet: PretrainConfig,
    refuse_at: Callable[..., list[int]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pretrain(quiet, tmp_path / "whole")
    sizes = refuse_at(most=2)
    pretrain(quiet, tmp_path / "run")
    halvings = _halvings(tmp_path / "run")
    assert [tokens for _, tokens in halvings] == [128, 64]
    assert {step for step, _ in halvings} == {1}
    assert sum(size > 2 for size in sizes) == 2
    assert _losses(tmp_path / "run") == pytest.approx(_losses(tmp_path / "whole"), abs=1e-5)


def test_a_resumed_run_keeps_to_the_halved_size(
    nano: PretrainConfig, refuse_at: Callable[..., list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(nano, steps=8)
    refuse_at(2)
    pretrain(config, tmp_path / "whole")
    sizes = refuse_at(2)
    loss = PretrainingWork.loss

    def stop_later(self, model, batch, step):
        if len(sizes) == 10:
            os.kill(os.getpid(), signal.SIGTERM)
        return loss(self, model, batch, step)

    monkeypatch.setattr(PretrainingWork, "loss", stop_later)
    with pytest.raises(Interrupted):
        pretrain(config, tmp_path / "cut")
    refuse_at()
    resume_pretraining(tmp_path / "cut")
    assert len(_halvings(tmp_path / "cut")) == 1
    whole, cut = (
        load_file(resolve_checkpoint(tmp_path / name) / "model.safetensors") for name in ("whole", "cut")
    )
    assert all(torch.equal(tensor, cut[name]) for name, tensor in whole.items())


def test_a_sequence_that_does_not_fit_ends_the_run(
    quiet: PretrainConfig, refuse_at: Callable[..., list[int]], tmp_path: Path
) -> None:
    refuse_at(most=0)
    with pytest.raises(RunError, match="out of memory at step 1 with one sequence at a time") as caught:
        pretrain(quiet, tmp_path / "run")
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)


def test_other_errors_are_not_taken_for_memory(
    quiet: PretrainConfig, refuse_at: Callable[..., list[int]], tmp_path: Path
) -> None:
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
    config: PretrainConfig,
    run: Path,
    refusing: int,
    refusals: list[tuple[int, Callable[..., None]]],
) -> None:
    """Pre-train; in each of the first steps one rank is refused memory once. Then every rank tells its weights."""
    rank = int(os.environ["RANK"])
    loss = PretrainingWork.loss
    left = refusals if rank == refusing else []
    refused: set[str] = set()
    models = set()

    def refusing_loss(self, model, batch, step):
        models.add(model)
        result = loss(self, model, batch, step)
        if left and step.name not in refused and batch is step.batches[left[0][0]]:
            refused.add(step.name)
            left.pop(0)[1](model, result[0])
        return result

    PretrainingWork.loss = refusing_loss
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


def test_ranks_take_a_step_again_together(wide: PretrainConfig, tmp_path: Path) -> None:
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


def test_ranks_give_up_together(quiet: PretrainConfig, tmp_path: Path) -> None:
    phases = (replace(quiet.phases[0], fraction=1.0),)
    config = replace(quiet, phases=phases, micro_batch_tokens=32)  # one sequence
    ranks = Ranks(2, _pretrain_refusing, config, tmp_path / "run", 1, [(FIRST, _in_forward)])
    assert ranks.join() == [1, 1]
    rank, error = ranks.errors.get()
    assert rank == 0
    assert "out of memory at step 1 with one sequence at a time" in error
    assert ranks.errors.empty(), "one rank says it"


def test_ranks_that_share_weights_out_cannot(quiet: PretrainConfig, tmp_path: Path) -> None:
    config = replace(quiet, distribution=DistributionConfig(sharded=True))
    ranks = Ranks(2, _pretrain_refusing, config, tmp_path / "run", 1, [(FIRST, _in_forward)])
    assert ranks.join() == [1, 1]
    errors = dict(ranks.errors.get() for _ in range(2))
    assert errors[1].startswith("rank 1: out of memory, and weights that are shared out")
    assert "run.toml" in errors[1]
    assert errors[0].startswith("rank 0: lost rank 1 of 0..1.")
