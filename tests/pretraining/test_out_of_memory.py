"""Memory that runs out in the middle of a step: the micro-batch is halved, the step stays what it was."""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from cloze.errors import RunError
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.objective import PretrainingWork
from cloze.pretraining.run import pretrain, resume_pretraining
from cloze.training.checkpoints import resolve_checkpoint
from cloze.training.interrupts import Interrupted
from cloze.training.metrics_log import read_metrics

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
