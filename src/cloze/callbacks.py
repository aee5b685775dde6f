"""Callbacks of training, which receive the metrics of a run as they are measured.

`metrics.jsonl` is written by one (`cloze.training.metrics_log`). Pass others to `cloze.pretrain` and `cloze.finetune`.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cloze import file_io
from cloze.config import flatten
from cloze.errors import ClozeError, InputError, RunError
from cloze.optional_dependencies import import_package, require
from cloze.progress import is_rank_zero


class Callback:
    """Receives what a run measures, on rank zero alone; each method does nothing unless a subclass defines it.

    An exception stops the run on all ranks; it can be resumed from its last checkpoint. `on_end` is called whenever
    `on_start` has returned.
    """

    def on_start(self, run: Path, settings: Mapping[str, Any], step: int) -> None:
        """Begin with the settings in `run.toml`, or continue after `step` optimizer steps when a run is resumed."""

    def on_step(self, step: int, values: Mapping[str, float]) -> None:
        """Receive means since the last call, every `log_every_steps` steps."""

    def on_evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Receive the metrics of an evaluation on held-out data."""

    def on_event(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        """Receive an event.

        "skipped" is a step with an infinite or NaN loss, "halved" is smaller micro-batches, and "changed" is another
        value of a setting in a resumed run.
        """

    def on_end(self, *, completed: bool) -> None:
        """Finish; `completed` is False after an error or an interrupt."""


class Callbacks(Callback):
    """Several callbacks, called one after the other."""

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        self._callbacks, self._started = tuple(callbacks), list[Callback]()

    def on_start(self, run: Path, settings: Mapping[str, Any], step: int) -> None:
        for callback in self._callbacks:
            callback.on_start(run, settings, step)
            self._started.append(callback)

    def on_step(self, step: int, values: Mapping[str, float]) -> None:
        for callback in self._callbacks:
            callback.on_step(step, values)

    def on_evaluation(self, step: int, values: Mapping[str, float]) -> None:
        for callback in self._callbacks:
            callback.on_evaluation(step, values)

    def on_event(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        for callback in self._callbacks:
            callback.on_event(step, kind, values)

    def on_end(self, *, completed: bool) -> None:
        errors = []
        for callback in self._started:
            try:
                callback.on_end(completed=completed)
            except BaseException as error:
                errors.append(error)
        if errors:
            raise errors[0]


@contextmanager
def _errors_of(service: str) -> Iterator[None]:
    try:
        yield
    except ClozeError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}".rstrip(".")
        raise RunError(what, where=service, remedy="`resume` continues the run") from error


class MetricsWriter(Callback):
    """Sends all numbers of a run to one place, under train/ and validation/; a subclass implements `write`."""

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write numbers by name, as in train/loss."""
        raise NotImplementedError

    def on_step(self, step: int, values: Mapping[str, float]) -> None:
        self._write_under("train", step, values)

    def on_evaluation(self, step: int, values: Mapping[str, float]) -> None:
        self._write_under("validation", step, values)

    def _write_under(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        numbers = {name: value for name, value in values.items() if isinstance(value, (int, float))}
        self.write(step, {f"{kind}/{name}": value for name, value in numbers.items()})


class TensorBoardWriter(MetricsWriter):
    """Writes the folder `tensorboard` of a run with tensorboardX; by default if it is installed."""

    # Not with its SummaryWriter: its thread ends where the clock is set back by weeks or a write fails, and a run then
    # waits for it without end.

    def on_start(self, run: Path, settings: Mapping[str, Any], step: int) -> None:
        require(["tensorboardX"], extra="tensorboard", where="TensorBoardWriter")
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import SessionLog

        self._folder = run / "tensorboard"
        with file_io.disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writer: Any = EventsWriter(str(self._folder / "events"))
        # events after `step` are not shown any more
        self._add_event(step + 1, session_log=SessionLog(status=SessionLog.START))

    def write(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        for name, value in values.items():
            self._add_event(step, summary=Summary(value=[Summary.Value(tag=name, simple_value=value)]))

    def on_end(self, *, completed: bool) -> None:
        self._writer.close()

    def _add_event(self, step: int, **content: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        with file_io.disk_errors(self._folder):
            self._writer.write_event(Event(wall_time=time.time(), step=step, **content))
            self._writer.flush()


class WandbWriter(MetricsWriter):
    """Logs a run to Weights & Biases; WANDB_MODE=offline writes it to the folder `wandb` of the run alone.

    A resumed run continues the same one of Weights & Biases.

    Args:
        project: name of the project.
        settings: other arguments of `wandb.init`.
    """

    def __init__(self, project: str = "cloze", **settings: Any) -> None:
        self._project, self._settings = project, settings

    @_errors_of("wandb")
    def on_start(self, run: Path, settings: Mapping[str, Any], step: int) -> None:
        require(["wandb"], extra="wandb", where="WandbWriter")
        import wandb

        identifier = _tracking_id(run, "wandb", lambda: uuid.uuid4().hex)
        arguments = {"name": run.name, "id": identifier, "dir": str(run), **self._settings}
        self._run: Any = wandb.init(project=self._project, config=dict(settings), resume="allow", **arguments)
        self._run.define_metric("*", step_metric="step")

    @_errors_of("wandb")
    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log({"step": step, **values})

    @_errors_of("wandb")
    def on_end(self, *, completed: bool) -> None:
        self._run.finish(exit_code=0 if completed else 1)


class MLflowWriter(MetricsWriter):
    """Logs a run to MLflow, at the tracking URI of MLflow's own settings unless one is given.

    A resumed run continues the same one of MLflow. Its telemetry is switched off before the import.

    Args:
        experiment: name of the experiment, which is created if it does not exist.
        tracking_uri: as in "http://127.0.0.1:5000" or "sqlite:///mlflow.db".
    """

    def __init__(self, experiment: str = "cloze", tracking_uri: str | None = None) -> None:
        self._experiment, self._tracking_uri = experiment, tracking_uri

    @_errors_of("mlflow")
    def on_start(self, run: Path, settings: Mapping[str, Any], step: int) -> None:
        require(["mlflow"], extra="mlflow", where="MLflowWriter")
        self._client: Any = import_package("mlflow").MlflowClient(tracking_uri=self._tracking_uri)
        self._id = _tracking_id(run, "mlflow", lambda: self._create(run, settings))
        self._client.update_run(self._id, status="RUNNING")

    @_errors_of("mlflow")
    def write(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self._client.log_batch(self._id, [Metric(name, value, now, step) for name, value in values.items()])

    @_errors_of("mlflow")
    def on_end(self, *, completed: bool) -> None:
        self._client.set_terminated(self._id, status="FINISHED" if completed else "FAILED")

    def _create(self, run: Path, settings: Mapping[str, Any]) -> str:
        from mlflow.entities import Param

        known = self._client.get_experiment_by_name(self._experiment)
        experiment_id = known.experiment_id if known else self._client.create_experiment(self._experiment)
        created: str = self._client.create_run(experiment_id, run_name=run.name).info.run_id
        params = [Param(name, str(value)) for name, value in flatten(settings)]
        self._client.log_batch(created, params=params)
        return created


def load_writers(services: Iterable[str], *, where: str = "services") -> tuple[Callback, ...]:
    """Return the writers of services by name, as in wandb, wandb:PROJECT, mlflow or mlflow:EXPERIMENT."""
    writers: dict[str, Callback] = {}
    for service in services:
        name, _, project = service.partition(":")
        if name not in _WRITERS:
            raise InputError(f"{name!r} is no service", where=where, remedy=f"Name {' or '.join(_WRITERS)}")
        if name in writers:
            raise InputError(f"{name} is named twice", where=where, remedy="Name it once")
        require([name], extra=name, where=where)
        writers[name] = _WRITERS[name](*([project] if project else []))
    if "wandb" in writers and is_rank_zero():
        try:
            import_package("wandb").login()  # asks for a key in a terminal
        except Exception as error:
            raise InputError(str(error).rstrip("."), where=where) from error
    return tuple(writers.values())


_WRITERS: Mapping[str, Callable[..., Callback]] = {"wandb": WandbWriter, "mlflow": MLflowWriter}


def _tracking_id(run: Path, service: str, create: Callable[[], str]) -> str:
    """Return the id that a service has for a run, which is kept in the run so that a resumed one has the same."""
    file = run / f"{service}.id"
    if not file.is_file():
        file_io.write_text(file, create())
    return file.read_text("utf-8")
