"""The training loop on a small regression: saving, resuming, stopping, surviving NaN."""

import json
import math
import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cloze import artifacts
from cloze.errors import InputError, RunError
from cloze.locate import resolve_checkpoint
from cloze.progress import SILENT, Progress
from cloze.training.budget import Budget, Clock, Steps, parse_duration
from cloze.training.checkpoints import (
    CheckpointConfig,
    Position,
    TrainingState,
    newest_checkpoint,
    read_state,
)
from cloze.training.distribution import World
from cloze.training.interrupts import Interrupted
from cloze.training.loop import EvaluationConfig, Trainer
from cloze.training.measures import Measures
from cloze.training.metrics_log import read_metrics
from cloze.training.optimizer import OptimizerConfig
from cloze.training.work import StepData

MICRO_BATCHES = 3


class Line(nn.Module):
    """y = w x, with dropout so that the random numbers matter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.linear = nn.Linear(7, 1)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.dropout(x))


class LineWork:
    """Batches that are a pure function of the position; `at_batch` lets a test interfere."""

    losses = ("square",)

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.at_batch = lambda index: None
        self.poison: set[int] = set()

    def step_data(self, progress: float, position: Position, micro_batch_tokens: int) -> StepData[int]:
        batches = [position.index * MICRO_BATCHES + i for i in range(MICRO_BATCHES)]
        return StepData(batches, 10, Position(0, 0, position.index + 1), f"batch {position.index}")

    def loss(self, model: nn.Module, batch: int, step: StepData[int]) -> tuple[Tensor, Measures]:
        self.at_batch(batch)
        self.seen.append(batch)
        square = self._square(model, batch)
        if batch in self.poison:
            square = square * math.nan
        return square / MICRO_BATCHES, {"square": (square.detach(), 1)}

    def evaluate(self, model: nn.Module) -> Iterator[Measures]:
        for batch in (1000, 1001):
            yield {"square": (self._square(model, batch), 1)}

    def merit(self, measured: Mapping[str, float]) -> tuple[float, ...]:
        return (-measured["loss"],)

    def _square(self, model: nn.Module, batch: int) -> Tensor:
        generator = torch.Generator().manual_seed(batch)
        x = torch.randn(11, 7, generator=generator)
        return ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()


def _trainer(
    run: Path, work: LineWork, *, resume: bool = False, budget: Budget | None = None, **checkpoints: int
):
    model = Line()
    checkpoint = newest_checkpoint(run, SILENT) if resume else None
    state = TrainingState()
    if checkpoint is not None:
        model.load_state_dict(load_file(checkpoint / "model.safetensors"))
        state = read_state(checkpoint)

    def write_model(directory: Path, model: nn.Module, state: TrainingState) -> None:
        save_file(model.state_dict(), directory / "model.safetensors")

    trainer = Trainer(
        model=model,
        work=work,
        budget=budget or Steps(30),
        run=run,
        write_model=write_model,
        optimizer_config=OptimizerConfig(learning_rate=0.02, warmup_fraction=0.1),
        checkpoint_config=CheckpointConfig(**checkpoints),
        evaluation_config=EvaluationConfig(times=3, log_every_steps=1),
        seed=1,
        compute_dtype=torch.float32,
        micro_batch_tokens=1,
        progress=SILENT,
        world=World(torch.device("cpu")),
        state=state,
    )
    return trainer, checkpoint


def _train(run: Path, work: LineWork | None = None, **settings) -> dict[str, Tensor]:
    trainer, checkpoint = _trainer(run, work or LineWork(), **settings)
    trainer.train(resume_from=checkpoint)
    return load_file(resolve_checkpoint(run) / "model.safetensors")


def _rows(run: Path, kind: str) -> list[tuple[int, float]]:
    return [(row["step"], row["loss"]) for row in read_metrics(run) if row["kind"] == kind]


def _kept(run: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*"))


def _best_step(run: Path) -> int:
    return min(_rows(run, "validation"), key=lambda row: row[1])[0]


def test_a_run_learns_evaluates_and_keeps_its_newest_and_best(tmp_path: Path) -> None:
    _train(tmp_path)
    evaluated = _rows(tmp_path, "validation")
    assert [step for step, _ in evaluated] == [10, 20, 30]
    assert evaluated[-1][1] < _rows(tmp_path, "train")[0][1] / 2
    assert _kept(tmp_path) == sorted({20, 30, _best_step(tmp_path)})
    assert (tmp_path / "latest").read_text() == "checkpoints/step-00000030\n"
    assert (tmp_path / "best").read_text() == f"checkpoints/step-{_best_step(tmp_path):08}\n"
    artifacts.verify(resolve_checkpoint(tmp_path), kind="checkpoint")


def test_every_nth_checkpoint_is_kept(tmp_path: Path) -> None:
    _train(tmp_path, every_steps=2, keep_newest=1, keep_every_steps=8)
    assert _kept(tmp_path) == sorted({8, 16, 24, 30, _best_step(tmp_path)})


class _PulledPlug(BaseException):
    pass


@pytest.mark.parametrize("stops", [(13,), (40, 61), (50, 51, 52)])
def test_a_run_cut_anywhere_ends_in_the_same_bits(tmp_path: Path, stops: tuple[int, ...]) -> None:
    """Cut in the middle of an accumulation, several times, also before the next save."""
    expected = _train(tmp_path / "whole", every_steps=3)
    for number, stop in enumerate(stops):
        work = LineWork()

        def pull(batch: int, stop: int = stop) -> None:
            if batch == stop:
                raise _PulledPlug

        work.at_batch = pull
        with pytest.raises(_PulledPlug):
            _train(tmp_path / "cut", work, every_steps=3, resume=number > 0)
    resumed = _train(tmp_path / "cut", every_steps=3, resume=True)
    for name, tensor in expected.items():
        assert torch.equal(tensor, resumed[name])
    for kind in ("train", "validation"):
        assert _rows(tmp_path / "whole", kind) == _rows(tmp_path / "cut", kind)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_the_last_whole_step_and_leaves(tmp_path: Path, number: signal.Signals) -> None:
    expected = _train(tmp_path / "whole")
    work = LineWork()
    work.at_batch = lambda batch: os.kill(os.getpid(), number) if batch == 16 else None
    with pytest.raises(Interrupted, match=f"stopped by {number.name} after step 5. .*--resume") as caught:
        _train(tmp_path / "cut", work)
    assert caught.value.exit_code == 130
    assert work.seen[-1] == 16
    assert read_state(resolve_checkpoint(tmp_path / "cut")).step == 5
    resumed = _train(tmp_path / "cut", resume=True)
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in expected.items())


@pytest.mark.parametrize("evaluation", [1, 2, 3])
def test_a_run_stopped_within_an_evaluation_makes_it_when_it_goes_on(tmp_path: Path, evaluation: int) -> None:
    _train(tmp_path / "whole")
    work = LineWork()
    evaluate = work.evaluate

    def stop_at_evaluation(model: nn.Module) -> Iterator[Measures]:
        if len(_rows(tmp_path / "cut", "validation")) == evaluation - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        yield from evaluate(model)

    work.evaluate = stop_at_evaluation  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match=f"after step {10 * evaluation}"):
        _train(tmp_path / "cut", work)
    _train(tmp_path / "cut", resume=True)
    assert _rows(tmp_path / "whole", "validation") == _rows(tmp_path / "cut", "validation")
    for pointer in ("latest", "best"):
        assert (tmp_path / "cut" / pointer).read_text() == (tmp_path / "whole" / pointer).read_text()
    best = read_state(resolve_checkpoint(tmp_path / "cut", "best"))
    assert best.best_step == best.step


def test_a_run_killed_before_it_named_its_newest_checkpoint_names_it_when_it_goes_on(tmp_path: Path) -> None:
    _train(tmp_path)
    (tmp_path / "latest").write_text("checkpoints/step-00000020\n")
    _train(tmp_path, resume=True)
    assert (tmp_path / "latest").read_text() == "checkpoints/step-00000030\n"


def test_what_is_random_in_a_step_depends_on_the_seed(tmp_path: Path) -> None:
    losses = []
    for seed in (1, 2):
        trainer, _ = _trainer(tmp_path / str(seed), LineWork())
        trainer.seed = seed
        trainer.train()
        losses.append(_rows(tmp_path / str(seed), "train")[0])  # weights and data are those of any seed
    assert losses[0] != losses[1]


def test_a_finished_run_that_is_resumed_says_what_it_measured(tmp_path: Path) -> None:
    trainer, _ = _trainer(tmp_path, LineWork())
    measured = trainer.train()
    again, checkpoint = _trainer(tmp_path, LineWork(), resume=True)
    assert again.train(resume_from=checkpoint) == measured
    assert len(_rows(tmp_path, "validation")) == 3


@pytest.mark.parametrize(("left", "setting", "expected"), [(None, 8, 8), (4, 8, 4), (4, 2, 2)])
def test_the_smaller_micro_batch_is_taken_of_what_memory_left_and_what_the_settings_say(
    tmp_path: Path, left: int | None, setting: int, expected: int
) -> None:
    work = LineWork()
    asked: set[int] = set()
    step_data = work.step_data

    def note(progress: float, position: Position, micro_batch_tokens: int) -> StepData[int]:
        asked.add(micro_batch_tokens)
        return step_data(progress, position, micro_batch_tokens)

    work.step_data = note  # type: ignore[method-assign]
    trainer, _ = _trainer(tmp_path, work)
    trainer.micro_batch_tokens = setting
    trainer.state = TrainingState(micro_batch_tokens=left)
    trainer.train()
    assert asked == {expected}


def test_a_nan_step_is_skipped_named_and_leaves_the_weights(tmp_path: Path) -> None:
    work = LineWork()
    work.poison = {16}
    weights = _train(tmp_path, work)
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())
    skipped = [row for row in read_metrics(tmp_path) if row["kind"] == "skipped"]
    assert [row["step"] for row in skipped] == [6]
    assert "loss nan" in skipped[0]["reason"]
    assert "batch 5" in skipped[0]["reason"]


def test_nan_without_end_stops_the_run_with_the_weights_kept(tmp_path: Path) -> None:
    work = LineWork()
    work.poison = set(range(36, 1000))
    with pytest.raises(RunError, match=r"loss nan.*batch 14.*3 times in a row"):
        _train(tmp_path, work)
    weights = load_file(resolve_checkpoint(tmp_path) / "model.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def test_nothing_is_saved_while_steps_are_skipped(tmp_path: Path) -> None:
    """Weights that are spoilt must not push out the last good ones."""
    work = LineWork()
    work.poison = set(range(3 * 19, 1000))
    with pytest.raises(RunError, match="3 times in a row"):
        _train(tmp_path, work, every_steps=1)
    assert _kept(tmp_path)[-2:] == [18, 19]
    assert [step for step, _ in _rows(tmp_path, "validation")] == [10]


def test_a_stop_while_steps_are_skipped_saves_nothing_and_they_are_counted_again(tmp_path: Path) -> None:
    work = LineWork()
    work.poison = set(range(3 * 19, 1000))
    work.at_batch = lambda batch: os.kill(os.getpid(), signal.SIGTERM) if batch == 3 * 21 else None
    with pytest.raises(Interrupted):
        _train(tmp_path, work, every_steps=1)
    assert _kept(tmp_path)[-1] == 19
    work.at_batch = lambda batch: None
    with pytest.raises(RunError, match=r"batch 21.*3 times in a row"):
        _train(tmp_path, work, resume=True, every_steps=1)
    assert _kept(tmp_path)[-1] == 19


def test_a_run_whose_last_step_is_skipped_still_has_its_end(tmp_path: Path) -> None:
    work = LineWork()
    work.poison = {3 * 29}
    _train(tmp_path, work)
    assert _kept(tmp_path)[-1] == 30
    assert [step for step, _ in _rows(tmp_path, "validation")] == [10, 20, 30]


def test_a_damaged_newest_checkpoint_is_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = _train(tmp_path / "whole", every_steps=4)
    work = LineWork()
    work.poison = set(range(60, 1000))
    with pytest.raises(RunError):
        _train(tmp_path / "cut", work, every_steps=4)
    newest = resolve_checkpoint(tmp_path / "cut") / "model.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(bytes(content))
    again, checkpoint = _trainer(tmp_path / "cut", LineWork(), every_steps=4, keep_newest=1, resume=True)
    again.train(resume_from=checkpoint)
    assert _kept(tmp_path / "cut")[-1] == 30
    resumed = load_file(resolve_checkpoint(tmp_path / "cut") / "model.safetensors")
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in expected.items())


def test_a_damaged_newest_checkpoint_does_not_outlive_what_is_saved_next(tmp_path: Path) -> None:
    _train(tmp_path, budget=Steps(30), every_steps=4)
    later = tmp_path / "checkpoints" / "step-00000099"
    later.mkdir()
    _train(tmp_path, budget=Steps(40), resume=True, keep_newest=1)
    assert not later.exists()
    assert (tmp_path / "checkpoints" / "damaged-step-00000099").is_dir()
    assert resolve_checkpoint(tmp_path).name == "step-00000040"


def test_a_best_checkpoint_that_made_room_for_a_damaged_one_is_forgotten(tmp_path: Path) -> None:
    work = LineWork()
    work.poison = set(range(3 * 22, 1000))
    with pytest.raises(RunError):
        _train(tmp_path, work, every_steps=5)
    assert (_kept(tmp_path), _best_step(tmp_path)) == ([15, 20], 20)
    (tmp_path / "checkpoints/step-00000020/training/state.json").unlink()
    work.poison = set(range(3 * 17, 1000))
    with pytest.raises(RunError):
        _train(tmp_path, work, resume=True, every_steps=5)
    assert resolve_checkpoint(tmp_path, "best").name == "step-00000015"
    _train(tmp_path, LineWork(), resume=True)
    assert resolve_checkpoint(tmp_path, "best").name in ("step-00000020", "step-00000030")


def test_a_run_whose_checkpoints_are_all_damaged_does_not_begin_again_by_itself(tmp_path: Path) -> None:
    _train(tmp_path)
    for checkpoint in (tmp_path / "checkpoints").iterdir():
        (checkpoint / "model.safetensors").write_bytes(b"")
    kept = _kept(tmp_path)
    with pytest.raises(
        InputError,
        match=r"step-00000030/model\.safetensors: 0 bytes.*no other checkpoint is whole. --overwrite begins anew",
    ):
        newest_checkpoint(tmp_path, SILENT)
    assert _kept(tmp_path) == kept


def test_a_checkpoint_of_another_format_is_not_passed_over(tmp_path: Path) -> None:
    _train(tmp_path)
    manifest = resolve_checkpoint(tmp_path) / artifacts.MANIFEST
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format_version": 2}))
    with pytest.raises(InputError, match="format version 2, this cloze reads 1"):
        newest_checkpoint(tmp_path, SILENT)


def test_a_run_without_checkpoints_begins_again(tmp_path: Path) -> None:
    (tmp_path / "checkpoints/step-of-mine").mkdir(parents=True)
    assert newest_checkpoint(tmp_path, SILENT) is None


def test_every_evaluation_is_made(tmp_path: Path) -> None:
    trainer, _ = _trainer(tmp_path, LineWork(), budget=Steps(100))
    trainer.evaluation_config = EvaluationConfig(times=100, log_every_steps=10)
    trainer.train()
    assert len(_rows(tmp_path, "validation")) == 100


def test_a_clock_budget_ends_in_time_with_the_rate_at_zero(tmp_path: Path) -> None:
    work = LineWork()
    _train(tmp_path, work, budget=Clock(0.7))
    rows = [row for row in read_metrics(tmp_path) if row["kind"] == "train"]
    assert rows[-1]["seconds"] == pytest.approx(0.7, abs=0.3)
    assert rows[-1]["learning_rate"] < 0.01
    assert len(_rows(tmp_path, "validation")) == 3


@pytest.mark.parametrize(("budget", "warned"), [(Clock(1.5), True), (Steps(6), False)])
def test_evaluations_that_take_much_of_a_run_on_the_clock_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: Budget, warned: bool
) -> None:
    class SlowlyMeasured(LineWork):
        def evaluate(self, model: nn.Module) -> Iterator[Measures]:
            time.sleep(0.25)
            yield from super().evaluate(model)

    trainer, _ = _trainer(tmp_path, SlowlyMeasured(), budget=budget)
    trainer.progress = Progress()
    trainer.train()
    assert capsys.readouterr().err.count("warning: 3 evaluations like this one take") == warned


def test_a_clock_budget_goes_on_with_the_time_that_was_spent(tmp_path: Path) -> None:
    work = LineWork()
    begun: list[float] = []  # the run's clock starts a little before its first batch

    def stop_soon(batch: int) -> None:
        begun.append(time.monotonic())
        if begun[-1] > begun[0] + 0.3:
            os.kill(os.getpid(), signal.SIGTERM)
            work.at_batch = lambda index: None

    work.at_batch = stop_soon
    with pytest.raises(Interrupted):
        _train(tmp_path, work, budget=Clock(3.0))
    stopped = read_state(resolve_checkpoint(tmp_path))
    assert 0.3 < stopped.elapsed_seconds < 3.0
    started = time.monotonic()
    _train(tmp_path, budget=Clock(3.0), resume=True)
    spent = read_state(resolve_checkpoint(tmp_path)).elapsed_seconds
    assert 3.0 <= spent <= stopped.elapsed_seconds + time.monotonic() - started
    later = [row for row in read_metrics(tmp_path) if row["kind"] == "train" and row["step"] > stopped.step]
    assert later[0]["seconds"] >= stopped.elapsed_seconds
    assert [row["seconds"] for row in read_metrics(tmp_path) if row["kind"] == "validation"][-1] >= 2.9


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("1d2h", 93600)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "30x", "-5m", "0m", "30m later"])
def test_other_durations_are_errors(text: str) -> None:
    with pytest.raises(Exception, match="as a time"):
        parse_duration(text)


def test_what_is_no_number_is_never_the_best(tmp_path: Path) -> None:
    class Broken(LineWork):
        def merit(self, measured: Mapping[str, float]) -> tuple[float, ...]:
            first = not (tmp_path / "best").exists()
            return (math.nan,) if first else super().merit(measured)

    _train(tmp_path, Broken())
    assert read_state(resolve_checkpoint(tmp_path)).best_step in (20, 30)


def test_checkpoints_that_are_kept_are_made_when_due(tmp_path: Path) -> None:
    _train(tmp_path, keep_every_steps=7, keep_newest=1)
    assert {7, 14, 21, 28} <= {*_kept(tmp_path)}


def test_a_signal_while_the_last_step_is_saved_stops_what_comes_next(tmp_path: Path) -> None:
    trainer, _ = _trainer(tmp_path, LineWork())
    write = trainer.write_model

    def stopped(directory: Path, model: nn.Module, state: TrainingState) -> None:
        write(directory, model, state)
        if state.step == 30:
            os.kill(os.getpid(), signal.SIGTERM)

    trainer.write_model = stopped
    with pytest.raises(Interrupted, match="stopped by SIGTERM after step 30"):
        trainer.train(resume_from=None)
    assert _kept(tmp_path)[-1] == 30
