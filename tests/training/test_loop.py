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
from cloze.training.interrupts import Interrupted
from cloze.training.metric_sums import LogWindow, MetricAccumulator, MetricSums
from cloze.training.objective import Objective, StepData
from cloze.training.optimizer import Budget, OptimizerConfig, parse_duration
from cloze.training.run import TrainingRun
from runs import CARD, losses, rows, weights

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

    def selection_score(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        return (-metrics["loss"],)

    def save_model(self, directory: Path) -> None:
        save_file(self.model.state_dict(), directory / "model.safetensors")


class NumberedBatches:
    """Steps of three numbered batches each."""

    def step_data(self, progress: float, position: DataPosition, micro_batch_tokens: int) -> StepData[int]:
        batches = [position.index * MICRO_BATCHES + i for i in range(MICRO_BATCHES)]
        next_position = DataPosition(0, 0, position.index + 1)
        return StepData(batches, 10, {"square": MICRO_BATCHES}, next_position, f"batch {position.index}")


CONFIG = RunSettings(
    seed=1,
    micro_batch_tokens=1,
    optimizer=OptimizerConfig(learning_rate=0.02, warmup_fraction=0.1),
    precision="float32",
)
EVALUATION = EvaluationConfig(times=3, log_every_steps=1)


def _run(
    run: Path,
    objective: LineObjective,
    *,
    resume: bool = False,
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
        budget=budget or Budget(30),
        card=CARD,
        context=DistributedContext(torch.device("cpu")),
        progress=progress,
    )

    def load(checkpoint: Path | None) -> LineObjective:
        if checkpoint is not None:
            objective.model.load_state_dict(load_file(checkpoint / "model.safetensors"))
        return objective

    return training.train(load, batches, resume=resume)


def _train(run: Path, objective: LineObjective | None = None, **settings) -> dict[str, Tensor]:
    _run(run, objective or LineObjective(), **settings)
    return weights(run)


def _kept(run: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*"))


def _best_step(run: Path) -> int:
    return min(losses(run, "validation"), key=lambda row: row[1])[0]


def test_run_learns_evaluates_and_keeps_newest_and_best_checkpoints(tmp_path):
    _train(tmp_path)
    evaluated = losses(tmp_path, "validation")
    assert [step for step, _ in evaluated] == [10, 20, 30]
    assert evaluated[-1][1] < losses(tmp_path, "train")[0][1] / 2
    assert _kept(tmp_path) == sorted({20, 30, _best_step(tmp_path)})
    assert os.readlink(tmp_path / "latest") == "checkpoints/step-00000030"
    assert os.readlink(tmp_path / "best") == f"checkpoints/step-{_best_step(tmp_path):08}"
    artifacts.verify(resolve_checkpoint(tmp_path, "latest"), kind="checkpoint")


def test_every_nth_checkpoint_is_kept(tmp_path):
    _train(tmp_path, every_steps=2, keep_newest=1, keep_every_steps=8)
    assert _kept(tmp_path) == sorted({8, 16, 24, 30, _best_step(tmp_path)})


class _PulledPlug(BaseException):
    pass


@pytest.mark.parametrize("stops", [(13,), (40, 61), (50, 51, 52)])
@pytest.mark.protected
def test_resume_is_bit_identical_after_interruptions(tmp_path, stops):
    """Cut in the middle of an accumulation, several times, also before the next save."""
    expected = _train(tmp_path / "whole", every_steps=3)
    for number, stop in enumerate(stops):
        objective = LineObjective()

        def pull(batch: int, stop: int = stop) -> None:
            if batch == stop:
                raise _PulledPlug

        objective.at_batch = pull
        with pytest.raises(_PulledPlug):
            _train(tmp_path / "cut", objective, every_steps=3, resume=number > 0)
    resumed = _train(tmp_path / "cut", every_steps=3, resume=True)
    for name, tensor in expected.items():
        assert torch.equal(tensor, resumed[name])
    for kind in ("train", "validation"):
        assert losses(tmp_path / "whole", kind) == losses(tmp_path / "cut", kind)


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
        while len(batches.drawn) < min(batch // MICRO_BATCHES + 2, 30) and time.monotonic() < end:
            time.sleep(0.001)
        while_training.append(max(batches.drawn) == min(batch // MICRO_BATCHES + 1, 29))

    objective.at_batch = wait_for_next
    _train(tmp_path, objective, batches=lambda: batches)
    assert all(while_training)
    assert batches.drawn == list(range(30))
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
def test_signal_saves_the_last_whole_step_and_stops(tmp_path, number):
    expected = _train(tmp_path / "whole")
    objective = LineObjective()
    objective.at_batch = lambda batch: os.kill(os.getpid(), number) if batch == 16 else None
    with pytest.raises(Interrupted, match=f"stopped by {number.name} after step 5. .*`resume`") as caught:
        _train(tmp_path / "cut", objective)
    assert caught.value.exit_code == 130
    assert objective.seen[-1] == 16
    assert read_state(resolve_checkpoint(tmp_path / "cut", "latest")).step == 5
    resumed = _train(tmp_path / "cut", resume=True)
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in expected.items())


@pytest.mark.parametrize("evaluation", [1, 2, 3])
@pytest.mark.protected
def test_interrupted_evaluation_is_repeated_on_resume(tmp_path, evaluation):
    _train(tmp_path / "whole")
    objective = LineObjective()
    evaluate = objective.evaluate

    def stop_at_evaluation() -> Iterator[MetricSums]:
        if len(losses(tmp_path / "cut", "validation")) == evaluation - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        yield from evaluate()

    objective.evaluate = stop_at_evaluation  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match=f"after step {10 * evaluation}"):
        _train(tmp_path / "cut", objective)
    _train(tmp_path / "cut", resume=True)
    assert losses(tmp_path / "whole", "validation") == losses(tmp_path / "cut", "validation")
    for link in ("latest", "best"):
        assert os.readlink(tmp_path / "cut" / link) == os.readlink(tmp_path / "whole" / link)
    best = read_state(resolve_checkpoint(tmp_path / "cut", "best"))
    assert best.best_step == best.step


@pytest.mark.protected
def test_resume_repairs_a_stale_latest_link(tmp_path):
    _train(tmp_path)
    file_io.write_link(tmp_path / "latest", "checkpoints/step-00000020")
    _train(tmp_path, resume=True)
    assert os.readlink(tmp_path / "latest") == "checkpoints/step-00000030"


def _links(run: Path) -> dict[str, str]:
    return {path.name: os.readlink(path) for path in run.iterdir() if path.is_symlink()}


@pytest.mark.parametrize("links_written", range(1, 7))
def test_a_run_that_dies_between_two_links_names_a_checkpoint_and_resumes(
    tmp_path, monkeypatch, links_written
):
    _train(tmp_path / "whole")
    write, written = file_io.write_link, []

    def die(path: Path, target: str) -> None:
        if len(written) == links_written:
            raise KeyboardInterrupt
        written.append(path.name)
        write(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(file_io, "write_link", die)
        with pytest.raises(KeyboardInterrupt):
            _train(tmp_path / "cut")
    artifacts.verify(resolve_checkpoint(tmp_path / "cut", "latest"), kind="checkpoint")
    assert all(path.exists() for path in (tmp_path / "cut").iterdir())
    _train(tmp_path / "cut", resume=True)
    assert _links(tmp_path / "cut") == _links(tmp_path / "whole")
    assert {"latest", "best", "model.safetensors"} <= _links(tmp_path / "cut").keys()


def test_a_disk_without_links_has_files_with_the_paths(tmp_path, monkeypatch):
    def refuse(self: Path, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")  # as exFAT does

    with monkeypatch.context() as patched:
        patched.setattr(Path, "symlink_to", refuse)
        _train(tmp_path)
        assert not _links(tmp_path)
        assert not (tmp_path / "model.safetensors").exists()
        assert (tmp_path / "latest").read_text() == "checkpoints/step-00000030\n"
        assert resolve_checkpoint(tmp_path, "latest") == tmp_path / "checkpoints/step-00000030"
        best = resolve_checkpoint(tmp_path)
        assert best == tmp_path / f"checkpoints/step-{_best_step(tmp_path):08}"
    _train(tmp_path, resume=True)
    assert (tmp_path / "best").resolve() == best
    assert _links(tmp_path)["model.safetensors"] == "best/model.safetensors"


def test_a_checkpoint_that_was_being_replaced_at_a_kill_is_the_newest_on_resume(tmp_path):
    _train(tmp_path)
    newest = tmp_path / "checkpoints/step-00000030"
    written = (newest / "model.safetensors").stat().st_ino
    replaced = (
        tmp_path / "checkpoints/.writing-replaced-0123456789abcdef"
    )  # where directories are not exchanged
    replaced.mkdir()
    newest.rename(replaced / newest.name)
    _train(tmp_path, resume=True)
    assert (newest / "model.safetensors").stat().st_ino == written
    assert not [*tmp_path.glob("checkpoints/damaged-*")]


@pytest.mark.parametrize("follow", [False, True])
def test_a_copy_of_a_run_with_or_without_its_links_is_read_and_resumed(tmp_path, follow):
    _train(tmp_path / "run")
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "run", copy, symlinks=not follow)
    for link in ("latest", "best"):
        expected = read_state(resolve_checkpoint(tmp_path / "run", link)).step
        assert read_state(resolve_checkpoint(copy, link)).step == expected
    _train(copy, resume=True)
    assert _links(copy) == _links(tmp_path / "run")


def test_randomness_of_a_step_depends_on_the_seed(tmp_path):
    """Weights and data are those of any seed."""
    for seed in (1, 2):
        _train(tmp_path / str(seed), config=replace(CONFIG, seed=seed))
    assert losses(tmp_path / "1")[0] != losses(tmp_path / "2")[0]


def test_resuming_a_finished_run_returns_its_metrics(tmp_path):
    measured = _run(tmp_path, LineObjective())
    assert _run(tmp_path, LineObjective(), resume=True) == measured
    assert len(losses(tmp_path, "validation")) == 3


def test_nan_steps_are_skipped_and_recorded(tmp_path):
    objective = LineObjective(poison={16, 30, 45, 60})  # more than may follow each other
    trained = _train(tmp_path, objective)
    assert all(torch.isfinite(tensor).all() for tensor in trained.values())
    skipped = rows(tmp_path, "skipped")
    assert [row["step"] for row in skipped] == [6, 11, 16, 21]
    assert "loss nan" in skipped[0]["reason"]
    assert "batch 5" in skipped[0]["reason"]


def test_repeated_nan_ends_the_run_with_finite_weights(tmp_path):
    objective = LineObjective(poison=range(36, 1000))
    with pytest.raises(RunError, match=r"loss nan.*batch 14.*3 times in a row"):
        _train(tmp_path, objective)
    assert all(torch.isfinite(tensor).all() for tensor in weights(tmp_path).values())


def test_nothing_is_saved_while_steps_are_skipped(tmp_path):
    """Weights that are spoilt must not push out the last good ones."""
    objective = LineObjective(poison=range(3 * 19, 1000))
    with pytest.raises(RunError, match="3 times in a row"):
        _train(tmp_path, objective, every_steps=1)
    assert _kept(tmp_path)[-2:] == [18, 19]
    assert [step for step, _ in losses(tmp_path, "validation")] == [10]


def test_stop_while_steps_are_skipped_saves_nothing_and_recounts_them(tmp_path):
    objective = LineObjective(poison=range(3 * 19, 1000))
    objective.at_batch = lambda batch: os.kill(os.getpid(), signal.SIGTERM) if batch == 3 * 21 else None
    with pytest.raises(Interrupted):
        _train(tmp_path, objective, every_steps=1)
    assert _kept(tmp_path)[-1] == 19
    objective.at_batch = lambda batch: None
    with pytest.raises(RunError, match=r"batch 21.*3 times in a row"):
        _train(tmp_path, objective, resume=True, every_steps=1)
    assert _kept(tmp_path)[-1] == 19


def test_run_whose_last_step_is_skipped_is_evaluated_and_saved(tmp_path):
    objective = LineObjective(poison={3 * 29})
    _train(tmp_path, objective)
    assert _kept(tmp_path)[-1] == 30
    assert [step for step, _ in losses(tmp_path, "validation")] == [10, 20, 30]


@pytest.mark.protected
def test_damaged_newest_checkpoint_is_skipped(tmp_path, capsys):
    expected = _train(tmp_path / "whole", every_steps=4)
    objective = LineObjective(poison=range(60, 1000))
    with pytest.raises(RunError):
        _train(tmp_path / "cut", objective, every_steps=4)
    newest = resolve_checkpoint(tmp_path / "cut", "latest") / "model.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(bytes(content))
    _train(tmp_path / "cut", every_steps=4, keep_newest=1, resume=True)
    assert _kept(tmp_path / "cut")[-1] == 30
    resumed = weights(tmp_path / "cut")
    assert all(torch.equal(tensor, resumed[name]) for name, tensor in expected.items())


@pytest.mark.protected
def test_damaged_later_checkpoint_is_moved_aside(tmp_path):
    _train(tmp_path, budget=Budget(30), every_steps=4)
    later = tmp_path / "checkpoints" / "step-00000099"
    later.mkdir()
    _train(tmp_path, budget=Budget(40), resume=True, keep_newest=1)
    assert not later.exists()
    assert (tmp_path / "checkpoints" / "damaged-step-00000099").is_dir()
    assert resolve_checkpoint(tmp_path, "latest").name == "step-00000040"


@pytest.mark.protected
def test_missing_best_checkpoint_is_ignored(tmp_path):
    objective = LineObjective(poison=range(3 * 22, 1000))
    with pytest.raises(RunError):
        _train(tmp_path, objective, every_steps=5)
    assert (_kept(tmp_path), _best_step(tmp_path)) == ([15, 20], 20)
    (tmp_path / "checkpoints/step-00000020/training/state.json").unlink()
    objective.poison = range(3 * 17, 1000)
    with pytest.raises(RunError):
        _train(tmp_path, objective, resume=True, every_steps=5)
    assert resolve_checkpoint(tmp_path, "best").name == "step-00000015"
    _train(tmp_path, LineObjective(), resume=True)
    assert resolve_checkpoint(tmp_path, "best").name in ("step-00000020", "step-00000030")


@pytest.mark.protected
def test_run_with_only_damaged_checkpoints_is_not_restarted(tmp_path):
    _train(tmp_path)
    for checkpoint in (tmp_path / "checkpoints").iterdir():
        (checkpoint / "model.safetensors").write_bytes(b"")
    kept = _kept(tmp_path)
    with pytest.raises(
        InputError,
        match=r"safetensors: damaged: 0 bytes.*no other checkpoint is intact. `overwrite` starts from",
    ):
        newest_checkpoint(tmp_path, SILENT)
    assert _kept(tmp_path) == kept


@pytest.mark.protected
def test_checkpoint_of_another_format_is_refused(tmp_path):
    _train(tmp_path)
    manifest = resolve_checkpoint(tmp_path, "latest") / artifacts.MANIFEST
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"format_version": 2}))
    with pytest.raises(InputError, match="format version 2, this cloze reads 1"):
        newest_checkpoint(tmp_path, SILENT)


def test_run_without_checkpoints_has_no_newest(tmp_path):
    (tmp_path / "checkpoints/step-of-mine").mkdir(parents=True)
    assert newest_checkpoint(tmp_path, SILENT) is None


@pytest.mark.slow
def test_every_evaluation_is_made(tmp_path):
    evaluation = EvaluationConfig(times=100, log_every_steps=10)
    _train(tmp_path, budget=Budget(100), evaluation=evaluation)
    assert len(losses(tmp_path, "validation")) == 100


class TickingClock:
    """A clock that advances by a millisecond with each reading."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 0.001
        return self.seconds


@pytest.mark.slow
def test_time_budget_ends_in_time_with_learning_rate_near_zero(tmp_path):
    _train(tmp_path, budget=Budget(seconds=0.7), progress=Progress(quiet=True, clock=TickingClock()))
    train = rows(tmp_path)
    assert train[-1]["seconds"] == pytest.approx(0.7, abs=0.02)
    assert train[-1]["learning_rate"] < 0.001
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
        _train(run, objective, budget=Budget(seconds=0.1), progress=Progress(quiet=True, clock=clock))
        assert len(rows(run, "validation")) == 3
        steps.append(rows(run)[-1]["step"])
    assert clock.seconds > 3
    assert steps[0] == steps[1]


def test_the_bar_of_a_budget_that_ended_counts_the_steps_that_ran(tmp_path, capsys):
    _train(tmp_path, budget=Budget(5000, seconds=0.2), progress=Progress(clock=TickingClock()))
    ran = rows(tmp_path)[-1]["step"]
    assert 0 < ran < 5000
    assert f"training: {ran}/5,000 steps" in capsys.readouterr().err


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
    objective.at_batch = lambda batch: os.kill(os.getpid(), signal.SIGTERM) if clock.seconds > 0.3 else None
    with pytest.raises(Interrupted):
        _train(tmp_path, objective, budget=Budget(seconds=1.0), progress=Progress(quiet=True, clock=clock))
    stopped = read_state(resolve_checkpoint(tmp_path, "latest"))
    assert stopped.elapsed_seconds == pytest.approx(0.3, abs=0.02)
    clock = TickingClock()
    _train(tmp_path, budget=Budget(seconds=1.0), resume=True, progress=Progress(quiet=True, clock=clock))
    spent = read_state(resolve_checkpoint(tmp_path, "latest")).elapsed_seconds
    assert 1.0 <= spent <= stopped.elapsed_seconds + clock.seconds
    later = [row for row in rows(tmp_path) if row["step"] > stopped.step]
    assert later[0]["seconds"] >= stopped.elapsed_seconds
    assert rows(tmp_path, "validation")[-1]["seconds"] >= 0.9


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1.5h", 5400), ("1d2h", 93600)])
def test_durations_are_parsed(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "30x", "-5m", "0m", "30m later"])
def test_other_durations_are_refused(text):
    with pytest.raises(Exception, match="as a time"):
        parse_duration(text)


@pytest.mark.parametrize(("size", "rest"), [(1, []), (2, [None]), (3, [None, None])])
def test_ranks_share_items_in_rounds(size, rest):
    items = list(range(7))
    shares = [DistributedContext(torch.device("cpu"), rank, size).share(items) for rank in range(size)]
    assert [item for of_round in zip(*shares, strict=True) for item in of_round] == items + rest


def test_nan_score_is_never_the_best(tmp_path):
    class Broken(LineObjective):
        def selection_score(self, measured: Mapping[str, float]) -> tuple[float, ...]:
            first = not (tmp_path / "best").exists()
            return (math.nan,) if first else super().selection_score(measured)

    _train(tmp_path, Broken())
    assert read_state(resolve_checkpoint(tmp_path, "latest")).best_step in (20, 30)


def test_permanent_checkpoints_are_saved_when_due(tmp_path):
    _train(tmp_path, keep_every_steps=7, keep_newest=1)
    assert {7, 14, 21, 28} <= {*_kept(tmp_path)}


def test_signal_while_the_last_step_is_saved_stops_the_caller(tmp_path):
    class Stopped(LineObjective):
        def save_model(self, directory: Path) -> None:
            super().save_model(directory)
            if len(losses(tmp_path, "validation")) == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match="stopped by SIGTERM after step 30"):
        _train(tmp_path, Stopped())
    assert _kept(tmp_path)[-1] == 30


def test_a_row_of_the_log_has_the_means_of_its_steps():
    window, context = LogWindow(), DistributedContext(torch.device("cpu"))
    for loss, norm, tokens, seconds in ((4.0, 1.0, 10, 2.0), (8.0, 5.0, 50, 4.0)):
        metrics = MetricAccumulator()
        metrics.add({"square": (loss, 2)})
        window.add(metrics, 0.1 * norm, norm, tokens, seconds)
    assert window.means(("square",), context) == {
        "loss": 3.0,
        "square": 3.0,
        "learning_rate": 0.5,
        "gradient_norm": 3.0,
        "tokens_per_second": 10.0,
    }
