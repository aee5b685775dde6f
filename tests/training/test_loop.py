"""The training loop on a small regression: saving, resuming, stopping, surviving NaN."""

import errno
import json
import math
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from cloze import artifacts, file_io
from cloze.data.batch import DataPosition
from cloze.errors import InputError, RunError
from cloze.file_names import MANIFEST
from cloze.model_paths import resolve_checkpoint
from cloze.progress import SILENT, Bar, Progress
from cloze.training.checkpoints import (
    STATE_FILE,
    CheckpointConfig,
    TrainingState,
    newest_checkpoint,
    read_state,
)
from cloze.training.config import EvaluationConfig, RunSettings
from cloze.training.distributed import DistributedContext
from cloze.training.interrupts import Interrupted, catch_signals
from cloze.training.metric_sums import MeasuredStep, MetricSums, means_of_steps
from cloze.training.objective import Objective, StepData
from cloze.training.optimizer import Budget, OptimizerConfig, parse_duration
from cloze.training.run import Launch, TrainingRun
from cloze.training.run_directory import run_lock
from helpers import flip_bit
from runs import CARD, CPU, assert_same_weights, losses, rows, weights

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


class LineObjective(Objective):
    """A batch is the number of a random regression problem; `at_batch` lets a test interfere."""

    loss_names = ("square",)

    def __init__(self, poison: Collection[int] = ()) -> None:
        super().__init__(Line())
        self.seen: list[int] = []
        self.at_batch = lambda index: None
        self.poison = poison

    def forward(self, batch: int) -> MetricSums:
        self.at_batch(batch)
        self.seen.append(batch)
        square = self.square(batch)
        return {"square": (square * math.nan if batch in self.poison else square, 1)}

    def square(self, batch: int) -> Tensor:
        generator = torch.Generator().manual_seed(batch)
        x = torch.randn(11, 7, generator=generator)
        return ((self.model(x) - x.sum(1, keepdim=True)) ** 2).mean()

    def evaluate(self) -> Iterator[MetricSums]:
        for batch in (1000, 1001):
            yield {"square": (self.square(batch), 1)}

    def save_model(self, directory: Path) -> None:
        save_file(self.model.state_dict(), directory / "model.safetensors")


class NumberedBatches:
    """Steps of three numbered batches each."""

    def step_data(self, progress: float, position: DataPosition, micro_batch_tokens: int) -> StepData[int]:
        batches = [position.index * MICRO_BATCHES + i for i in range(MICRO_BATCHES)]
        next_position = DataPosition(0, 0, position.index + 1)
        return StepData(batches, 10, {"square": MICRO_BATCHES}, next_position, f"batch {position.index}")


STEPS = 12
CONFIG = RunSettings(
    seed=1,
    micro_batch_tokens=1,
    optimizer=OptimizerConfig(learning_rate=0.04, warmup_fraction=0.1),
    precision="float32",
)
EVALUATION = EvaluationConfig(times=3, log_every_steps=1)


def _run(
    run: Path,
    objective: LineObjective,
    *,
    resume: bool = False,
    overwrite: bool = False,
    budget: Budget | None = None,
    config: RunSettings = CONFIG,
    evaluation: EvaluationConfig = EVALUATION,
    progress: Progress = SILENT,
    batches: Callable[[], NumberedBatches] = NumberedBatches,
    **checkpoints: int,
) -> dict[str, float]:
    """Start or resume a run, and return its last evaluation."""
    training = TrainingRun(
        path=run,
        settings="",
        config=replace(config, checkpoints=CheckpointConfig(**checkpoints)),
        evaluation=evaluation,
        budget=budget or Budget(STEPS),
        card=CARD,
        context=CPU,
        launch=Launch(resume=resume, overwrite=overwrite, progress=progress),
    )

    def load(checkpoint: Path | None) -> LineObjective:
        if checkpoint is not None:
            objective.model.load_state_dict(load_file(checkpoint / "model.safetensors"))
        return objective

    return training.train(load, batches)


def _train(run: Path, objective: LineObjective | None = None, **settings) -> dict[str, Tensor]:
    _run(run, objective or LineObjective(), **settings)
    return weights(run)


def _kept(run: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*"))


def _best_step(run: Path) -> int:
    return min(losses(run, "validation"), key=lambda row: row[1])[0]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupts."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    _train(run)
    return run


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy", symlinks=True))


def _assert_same(one: Path, other: Path) -> None:
    """Compare weights to the bit, and the logged losses."""
    assert_same_weights(one, other)
    for kind in ("train", "validation"):
        assert losses(one, kind) == losses(other, kind)


def test_run_learns_evaluates_and_keeps_newest_and_best_checkpoints(whole):
    evaluated = losses(whole, "validation")
    assert [step for step, _ in evaluated] == [4, 8, 12]
    assert evaluated[-1][1] < losses(whole, "train")[0][1] / 2
    assert _kept(whole) == sorted({8, 12, _best_step(whole)})
    assert os.readlink(whole / "latest") == "checkpoints/step-00000012"
    assert os.readlink(whole / "best") == f"checkpoints/step-{_best_step(whole):08}"
    artifacts.verify(resolve_checkpoint(whole, "latest"), kind="checkpoint")


def test_a_run_is_replaced_with_overwrite_alone(tmp_path):
    _train(tmp_path, budget=Budget(2))
    with pytest.raises(InputError, match="already exists"):
        _train(tmp_path, budget=Budget(1))
    _train(tmp_path, budget=Budget(1), overwrite=True)
    assert _kept(tmp_path) == [1]


class TickingClock:
    """A clock that advances by the same time with each reading."""

    def __init__(self, tick: float = 0.001) -> None:
        self.seconds, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.seconds += self.tick
        return self.seconds


def test_a_checkpoint_is_saved_every_ten_minutes(tmp_path):
    objective, clock, once = LineObjective(), TickingClock(), EvaluationConfig(times=1)
    objective.at_batch = lambda batch: setattr(clock, "seconds", clock.seconds + 600 / 4 / MICRO_BATCHES)
    _train(tmp_path, objective, evaluation=once, progress=Progress(quiet=True, clock=clock), keep_newest=9)
    assert _kept(tmp_path) == [4, 8, 12]


def test_permanent_checkpoints_are_saved_when_due_and_kept(tmp_path):
    _train(tmp_path, every_steps=2, keep_newest=1, keep_every_steps=5)
    assert _kept(tmp_path) == sorted({5, 10, 12, _best_step(tmp_path)})


def test_the_best_checkpoint_is_kept_however_old(tmp_path):
    class Worsening(LineObjective):
        def selection_score(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
            return (-len(losses(tmp_path, "validation")),)

    _train(tmp_path, Worsening(), keep_newest=1)
    assert _kept(tmp_path) == [4, 12]
    assert os.readlink(tmp_path / "best") == "checkpoints/step-00000004"


class _PulledPlug(BaseException):
    pass


@pytest.mark.parametrize("stops", [(7,), (16, 25), (20, 21, 22)])
@pytest.mark.protected
def test_resume_is_bit_identical_after_interruptions(whole, tmp_path, stops):
    """Cut in the middle of an accumulation, several times, also before the next save."""
    for number, stop in enumerate(stops):
        objective = LineObjective()

        def pull(batch: int, stop: int = stop) -> None:
            if batch == stop:
                raise _PulledPlug

        objective.at_batch = pull
        with pytest.raises(_PulledPlug):
            _train(tmp_path, objective, every_steps=3, resume=number > 0)
    _train(tmp_path, every_steps=3, resume=True)
    _assert_same(whole, tmp_path)


class NotedBatches(NumberedBatches):
    """Notes which steps were drawn; the data of one may be wrong."""

    def __init__(self, wrong: int | None = None) -> None:
        self.drawn: list[int] = []
        self.wrong = wrong

    def step_data(self, progress: float, position: DataPosition, micro_batch_tokens: int) -> StepData[int]:
        self.drawn.append(position.index)
        if position.index == self.wrong:
            raise InputError("damaged", where="data")
        return super().step_data(progress, position, micro_batch_tokens)


def _threads_of_data() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("step-data")]


def test_data_are_drawn_one_step_ahead_and_not_beyond_the_end(tmp_path):
    objective, batches = LineObjective(), NotedBatches()
    while_training: list[bool] = []

    def wait_for_next(batch: int) -> None:
        end = time.monotonic() + 10
        while len(batches.drawn) < min(batch // MICRO_BATCHES + 2, STEPS) and time.monotonic() < end:
            time.sleep(0.001)
        while_training.append(max(batches.drawn) == min(batch // MICRO_BATCHES + 1, STEPS - 1))

    objective.at_batch = wait_for_next
    _train(tmp_path, objective, batches=lambda: batches)
    assert all(while_training)
    assert batches.drawn == list(range(STEPS))
    assert not _threads_of_data()


def test_wrong_data_end_the_run_when_their_step_begins(tmp_path):
    objective = LineObjective()
    with pytest.raises(InputError, match="damaged"):
        _train(tmp_path, objective, batches=lambda: NotedBatches(wrong=5), every_steps=1)
    assert objective.seen == list(range(5 * MICRO_BATCHES))
    assert read_state(resolve_checkpoint(tmp_path, "latest")).step == 5
    assert not _threads_of_data()


def test_a_state_of_another_version_is_refused(tmp_path):
    state = {field.name: 0 for field in fields(TrainingState)}
    for values in ({**state, "log_window": {}}, {"step": 1}):
        (tmp_path / STATE_FILE).parent.mkdir(exist_ok=True)
        (tmp_path / STATE_FILE).write_text(json.dumps(values))
        with pytest.raises(InputError, match="the state of another version of cloze"):
            read_state(tmp_path)


def test_a_stop_waits_until_no_data_are_drawn(tmp_path):
    class Slow(NotedBatches):
        num_made = 0

        def step_data(self, *place: Any) -> StepData[int]:
            data = super().step_data(*place)
            time.sleep(0.5 * (self.drawn[-1] == 6))
            self.num_made += 1
            return data

    objective, batches = LineObjective(), Slow()
    objective.at_batch = lambda batch: os.kill(os.getpid(), signal.SIGTERM) if batch == 16 else None
    with pytest.raises(Interrupted):
        _train(tmp_path, objective, batches=lambda: batches)
    assert len(batches.drawn) == batches.num_made == 7
    assert not _threads_of_data()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.protected
def test_signal_saves_the_last_whole_step_and_stops(whole, tmp_path, number):
    objective = LineObjective()
    objective.at_batch = lambda batch: os.kill(os.getpid(), number) if batch == 16 else None
    with pytest.raises(Interrupted, match=f"stopped by {number.name} after step 5. .*`resume`") as caught:
        _train(tmp_path, objective)
    assert caught.value.exit_code == 130
    assert objective.seen[-1] == 16
    assert read_state(resolve_checkpoint(tmp_path, "latest")).step == 5
    _train(tmp_path, resume=True)
    _assert_same(whole, tmp_path)


@pytest.mark.parametrize("evaluation", [1, 2, 3])
@pytest.mark.protected
def test_interrupted_evaluation_is_repeated_on_resume(whole, tmp_path, evaluation):
    objective = LineObjective()
    evaluate = objective.evaluate

    def stop_at_evaluation() -> Iterator[MetricSums]:
        if len(losses(tmp_path, "validation")) == evaluation - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        yield from evaluate()

    objective.evaluate = stop_at_evaluation
    with pytest.raises(Interrupted, match=f"after step {4 * evaluation}"):
        _train(tmp_path, objective)
    _train(tmp_path, resume=True)
    assert losses(whole, "validation") == losses(tmp_path, "validation")
    for link in ("latest", "best"):
        assert os.readlink(tmp_path / link) == os.readlink(whole / link)
    best = read_state(resolve_checkpoint(tmp_path, "best"))
    assert best.best_step == best.step


@pytest.mark.protected
def test_resume_repairs_a_stale_latest_link(copy):
    file_io.write_link(copy / "latest", "checkpoints/step-00000008")
    _train(copy, resume=True)
    assert os.readlink(copy / "latest") == "checkpoints/step-00000012"


def _links(run: Path) -> dict[str, str]:
    return {path.name: os.readlink(path) for path in run.iterdir() if path.is_symlink()}


@pytest.mark.parametrize("links_written", range(1, 7))
def test_a_run_that_dies_between_two_links_is_read_and_resumes(whole, tmp_path, monkeypatch, links_written):
    write, written = file_io.write_link, []

    def die(path: Path, target: str) -> None:
        if len(written) == links_written:
            raise KeyboardInterrupt
        written.append(path.name)
        write(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(file_io, "write_link", die)
        with pytest.raises(KeyboardInterrupt):
            _train(tmp_path)
    artifacts.verify(resolve_checkpoint(tmp_path, "latest"), kind="checkpoint")
    assert all(path.exists() for path in tmp_path.iterdir())
    _train(tmp_path, resume=True)
    assert _links(tmp_path) == _links(whole)
    assert {"latest", "best", "model.safetensors"} <= _links(tmp_path).keys()


def test_a_disk_without_links_has_files_with_the_paths(tmp_path, monkeypatch):
    def refuse(self: Path, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")  # as exFAT does

    with monkeypatch.context() as patched:
        patched.setattr(Path, "symlink_to", refuse)
        _train(tmp_path)
        assert not _links(tmp_path)
        assert not (tmp_path / "model.safetensors").exists()
        assert (tmp_path / "latest").read_text() == "checkpoints/step-00000012\n"
        assert resolve_checkpoint(tmp_path, "latest") == tmp_path / "checkpoints/step-00000012"
        best = resolve_checkpoint(tmp_path)
        assert best == tmp_path / f"checkpoints/step-{_best_step(tmp_path):08}"
    _train(tmp_path, resume=True)
    assert (tmp_path / "best").resolve() == best
    assert _links(tmp_path)["model.safetensors"] == "best/model.safetensors"


def test_a_checkpoint_that_was_being_replaced_at_a_kill_is_the_newest_on_resume(copy):
    newest = copy / "checkpoints/step-00000012"
    written = (newest / "model.safetensors").stat().st_ino
    # where directories are not exchanged
    replaced = copy / "checkpoints/.writing-replaced-0123456789abcdef"
    replaced.mkdir()
    newest.rename(replaced / newest.name)
    _train(copy, resume=True)
    assert (newest / "model.safetensors").stat().st_ino == written
    assert not [*copy.glob("checkpoints/damaged-*")]


@pytest.mark.parametrize("follow", [False, True])
def test_a_copy_of_a_run_with_or_without_its_links_is_read_and_resumed(whole, tmp_path, follow):
    copy = Path(shutil.copytree(whole, tmp_path / "copy", symlinks=not follow))
    for link in ("latest", "best"):
        expected = read_state(resolve_checkpoint(whole, link)).step
        assert read_state(resolve_checkpoint(copy, link)).step == expected
    measured = _run(copy, LineObjective(), resume=True)
    assert measured == read_state(resolve_checkpoint(whole, "latest")).metrics
    assert losses(copy, "validation") == losses(whole, "validation")
    assert _links(copy) == _links(whole)


def test_randomness_of_a_step_depends_on_the_seed(whole, tmp_path):
    """Weights and data are those of any seed."""
    _train(tmp_path, config=replace(CONFIG, seed=2), budget=Budget(1))
    assert losses(whole)[0] != losses(tmp_path)[0]


def test_nan_steps_are_skipped_and_recorded(tmp_path):
    objective = LineObjective(poison={4, 10, 19, 31})  # more than may follow each other
    trained = _train(tmp_path, objective)
    assert all(torch.isfinite(tensor).all() for tensor in trained.values())
    skipped = rows(tmp_path, "skipped")
    assert [row["step"] for row in skipped] == [2, 4, 7, 11]
    assert "loss nan" in skipped[0]["reason"]
    assert "batch 1" in skipped[0]["reason"]


def test_repeated_nan_ends_the_run_and_nothing_is_saved_meanwhile(tmp_path):
    """Weights that are spoilt must not push out the last good ones."""
    objective = LineObjective(poison=range(3 * 7, 1000))
    with pytest.raises(RunError, match=r"loss nan.*batch 9.*3 times in a row"):
        _train(tmp_path, objective, every_steps=1)
    assert _kept(tmp_path)[-2:] == [6, 7]
    assert [step for step, _ in losses(tmp_path, "validation")] == [4]
    assert all(torch.isfinite(tensor).all() for tensor in weights(tmp_path).values())


def test_stop_while_steps_are_skipped_saves_nothing_and_recounts_them(tmp_path):
    objective = LineObjective(poison=range(3 * 7, 1000))
    objective.at_batch = lambda batch: os.kill(os.getpid(), signal.SIGTERM) if batch == 3 * 9 else None
    with pytest.raises(Interrupted):
        _train(tmp_path, objective, every_steps=1)
    assert _kept(tmp_path)[-1] == 7
    objective.at_batch = lambda batch: None
    with pytest.raises(RunError, match=r"batch 9.*3 times in a row"):
        _train(tmp_path, objective, resume=True, every_steps=1)
    assert _kept(tmp_path)[-1] == 7


def test_run_whose_last_step_is_skipped_is_evaluated_and_saved(tmp_path):
    objective = LineObjective(poison={3 * 11})
    _train(tmp_path, objective)
    assert _kept(tmp_path)[-1] == 12
    assert [step for step, _ in losses(tmp_path, "validation")] == [4, 8, 12]


@pytest.mark.protected
def test_damaged_newest_checkpoint_is_skipped(whole, tmp_path):
    objective = LineObjective(poison=range(24, 1000))
    with pytest.raises(RunError):
        _train(tmp_path, objective, every_steps=2)
    newest = resolve_checkpoint(tmp_path, "latest") / "model.safetensors"
    assert newest.parent.name == "step-00000008"
    flip_bit(newest)
    _train(tmp_path, every_steps=2, keep_newest=1, resume=True)
    assert _kept(tmp_path)[-1] == 12
    assert_same_weights(whole, tmp_path)


@pytest.mark.protected
def test_damaged_later_checkpoint_is_moved_aside(copy):
    later = copy / "checkpoints" / "step-00000099"
    later.mkdir()
    _train(copy, budget=Budget(16), resume=True, keep_newest=1)
    assert not later.exists()
    assert (copy / "checkpoints" / "damaged-step-00000099").is_dir()
    assert resolve_checkpoint(copy, "latest").name == "step-00000016"


@pytest.mark.protected
def test_missing_best_checkpoint_is_ignored(tmp_path):
    objective = LineObjective(poison=range(3 * 9, 1000))
    with pytest.raises(RunError):
        _train(tmp_path, objective, every_steps=2)
    assert (_kept(tmp_path), _best_step(tmp_path)) == ([6, 8], 8)
    (tmp_path / "checkpoints/step-00000008/training/state.json").unlink()
    objective.poison = range(3 * 7, 1000)
    with pytest.raises(RunError):
        _train(tmp_path, objective, resume=True, every_steps=2)
    assert resolve_checkpoint(tmp_path, "best").name == "step-00000006"
    _train(tmp_path, LineObjective(), resume=True)
    assert resolve_checkpoint(tmp_path, "best").name in ("step-00000008", "step-00000012")


@pytest.mark.protected
def test_run_with_only_damaged_checkpoints_is_not_restarted(copy):
    kept = _kept(copy)
    for checkpoint in (copy / "checkpoints").iterdir():
        (checkpoint / "model.safetensors").write_bytes(b"")
    with pytest.raises(
        InputError,
        match=r"safetensors: damaged: 0 bytes.*no other checkpoint is intact. `overwrite` starts from",
    ):
        newest_checkpoint(copy, SILENT)
    assert _kept(copy) == kept


@pytest.mark.protected
def test_checkpoint_of_another_format_is_refused(copy):
    manifest = resolve_checkpoint(copy, "latest") / MANIFEST
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format_version": 2}))
    with pytest.raises(InputError, match="format version 2, this cloze reads 1"):
        newest_checkpoint(copy, SILENT)
    shutil.rmtree(copy / "checkpoints")
    (copy / "checkpoints/step-of-mine").mkdir(parents=True)
    assert newest_checkpoint(copy, SILENT) is None


def test_a_run_in_use_is_neither_resumed_nor_replaced(copy):
    with run_lock(copy, CPU):
        for resume in (True, False):
            with pytest.raises(InputError, match=r"copy: another process is using this run\. Wait for it"):
                _train(copy, resume=resume)


def test_every_evaluation_is_made(tmp_path):
    _train(tmp_path, budget=Budget(10), evaluation=EvaluationConfig(times=10, log_every_steps=10))
    assert len(losses(tmp_path, "validation")) == 10


@pytest.mark.slow
def test_time_budget_ends_in_time_with_learning_rate_near_zero(tmp_path):
    _train(tmp_path, budget=Budget(seconds=0.2), progress=Progress(quiet=True, clock=TickingClock()))
    train = rows(tmp_path)
    assert train[-1]["seconds"] == pytest.approx(0.2, abs=0.02)
    assert train[-1]["learning_rate"] < 0.01
    assert len(losses(tmp_path, "validation")) == 3


@pytest.mark.slow
def test_evaluations_take_no_time_from_a_budget(tmp_path):
    class Slow(LineObjective):
        def evaluate(self) -> Iterator[MetricSums]:
            clock.seconds += 1.0
            yield from super().evaluate()

    steps = []
    for objective in (LineObjective(), Slow()):
        run, clock = tmp_path / f"{len(steps)}", TickingClock()
        _train(run, objective, budget=Budget(seconds=0.05), progress=Progress(quiet=True, clock=clock))
        assert len(rows(run, "validation")) == 3
        steps.append(rows(run)[-1]["step"])
    assert clock.seconds > 3
    assert steps[0] == steps[1]


def test_the_bar_of_a_budget_that_ended_counts_the_steps_that_ran(tmp_path, capsys):
    _train(tmp_path, budget=Budget(5000, seconds=0.05), progress=Progress(clock=TickingClock()))
    ran = rows(tmp_path)[-1]["step"]
    assert 0 < ran < 5000
    assert f"training: {ran}/5,000 steps" in capsys.readouterr().err
    _train(tmp_path / "timed", budget=Budget(seconds=9), progress=Progress(clock=TickingClock(0.02)))
    assert "training: 9/9 seconds" in capsys.readouterr().err


def test_the_bar_says_when_the_model_is_evaluated(tmp_path):
    shown = []

    class Recorded(Progress):
        @contextmanager
        def bar(self, label: str, **_: object) -> Iterator[Bar]:
            bar = Bar()
            bar.show = lambda **values: shown.append(values)
            yield bar

    class Noted(LineObjective):
        def evaluate(self) -> Iterator[MetricSums]:
            shown.append("evaluate")
            yield from super().evaluate()

    _train(tmp_path, Noted(), budget=Budget(6), progress=Recorded(quiet=True))
    places = [number for number, values in enumerate(shown) if values == "evaluate"]
    assert len(places) == 3
    for place in places:
        assert shown[place - 1] == {"evaluating": "…", **shown[place + 1]}


@pytest.mark.slow
def test_time_budget_includes_time_before_resume(tmp_path):
    objective, clock = LineObjective(), TickingClock()
    objective.at_batch = lambda batch: os.kill(os.getpid(), signal.SIGTERM) if clock.seconds > 0.1 else None
    with pytest.raises(Interrupted):
        _train(tmp_path, objective, budget=Budget(seconds=0.25), progress=Progress(quiet=True, clock=clock))
    stopped = read_state(resolve_checkpoint(tmp_path, "latest"))
    assert stopped.elapsed_seconds == pytest.approx(0.1, abs=0.02)
    clock = TickingClock()
    _train(tmp_path, budget=Budget(seconds=0.25), resume=True, progress=Progress(quiet=True, clock=clock))
    spent = read_state(resolve_checkpoint(tmp_path, "latest")).elapsed_seconds
    assert 0.25 <= spent <= stopped.elapsed_seconds + clock.seconds
    later = [row for row in rows(tmp_path) if row["step"] > stopped.step]
    assert later[0]["seconds"] >= stopped.elapsed_seconds
    assert rows(tmp_path, "validation")[-1]["seconds"] >= 0.22


def test_durations_are_parsed():
    for text, seconds in {"90s": 90, "30m": 1800, "1.5h": 5400, "1d2h": 93600}.items():
        assert parse_duration(text) == seconds
    for text in ("", "30", "m", "30x", "-5m", "0m", "30m later"):
        with pytest.raises(InputError, match="as a time"):
            parse_duration(text)


def test_ranks_share_items_in_rounds():
    items = list(range(7))
    for size, rest in ((1, []), (2, [None]), (3, [None, None])):
        shares = [DistributedContext(torch.device("cpu"), rank, size).share(items) for rank in range(size)]
        assert [item for of_round in zip(*shares, strict=True) for item in of_round] == items + rest


def test_nan_score_is_never_the_best(tmp_path):
    class Broken(LineObjective):
        def selection_score(self, measured: Mapping[str, float]) -> tuple[float, ...]:
            first = not (tmp_path / "best").exists()
            return (math.nan,) if first else super().selection_score(measured)

    _train(tmp_path, Broken())
    assert read_state(resolve_checkpoint(tmp_path, "latest")).best_step in (8, 12)


def test_signal_while_the_last_step_is_saved_stops_the_caller(tmp_path):
    class Stopped(LineObjective):
        def save_model(self, directory: Path) -> None:
            super().save_model(directory)
            if len(losses(tmp_path, "validation")) == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="stopped by SIGTERM after step 12"):
        _train(tmp_path, Stopped())
    assert _kept(tmp_path)[-1] == 12


def test_a_row_of_the_log_has_the_means_of_its_steps():
    steps = [
        MeasuredStep({"square": (4.0, 2)}, 0.1, 1.0, 10, 2.0),
        MeasuredStep({"square": (8.0, 2)}, 0.5, 5.0, 50, 4.0),
    ]
    means = {"loss": 3.0, "square": 3.0, "gradient_norm": 3.0}
    last = {"learning_rate": 0.5, "tokens_per_second": 10.0}
    assert means_of_steps(steps, ("square",), CPU) == means | last


@pytest.fixture
def usual_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_second_signal_has_its_usual_effect(usual_handler):
    with catch_signals() as request:
        signal.raise_signal(signal.SIGINT)
        assert request.signal_name == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_signal_that_comes_while_a_line_is_printed_is_answered(usual_handler, capfd, monkeypatch):
    def fail(text):
        raise RuntimeError("reentrant call")

    monkeypatch.setattr(type(SILENT), "note", lambda self, text: fail(text))
    with catch_signals() as request:
        signal.raise_signal(signal.SIGINT)
    assert request
    assert capfd.readouterr().err == "stopping after this step, with a checkpoint; again to stop now\n"
