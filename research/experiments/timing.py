"""Estimate the time of a study from a few steps of each kind of run, which are thrown away."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from cloze import artifacts
from cloze.api.settings import find_initial_checkpoint
from cloze.cli.parameters import CommonOptions
from cloze.data.dataset import Dataset
from cloze.data.instances.masking import MaskingConfig
from cloze.finetuning.finetune import plan_finetuning
from cloze.model_paths import resolve_checkpoint
from cloze.models.bert import BertModel
from cloze.models.checkpoint import KIND, load_model, save_model
from cloze.models.encoder import Encoder
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.run import plan_pretraining
from cloze.progress import Progress, format_duration
from cloze.tables import text_table
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.tokenizer import Tokenizer
from experiments.origins import combine
from experiments.plan import PlannedRun, describe_plan
from experiments.task_runs import TaskRun


def estimate_times(
    runs: Sequence[PlannedRun], data: Path | None, progress: Progress
) -> dict[str, tuple[float, float]]:
    """Time steps of unfinished runs; runs of equal cost are timed once, and nothing is written.

    A budget of time is taken as it is. Evaluations are included, saving is not.

    Returns:
        By variant, the seconds of pre-training and of fine-tuning that are left, over all seeds.
    """
    timer = _Timer(runs, data, progress)
    times = dict.fromkeys((run.variant for run in runs), (0.0, 0.0))
    for run in runs:
        pretraining, finetuning = times[run.variant]
        tasks = [task for task in run.task_runs if not task.is_finished]
        finetuning += sum(timer.finetuning(run, task) for task in tasks)
        times[run.variant] = pretraining + timer.pretraining(run), finetuning
    return times


def describe_times(times: Mapping[str, tuple[float, float]]) -> str:
    """Return a table of times by variant, and their sum."""
    rows = [[variant, *map(format_duration, seconds)] for variant, seconds in times.items()]
    total = sum(map(sum, times.values()))
    return f"{text_table(['', 'training', 'tasks'], rows)}\nabout {format_duration(total)} in all"


def print_plan(
    runs: Sequence[PlannedRun], times: Mapping[str, tuple[float, float]], flags: CommonOptions
) -> None:
    """Print the runs and their duration, for `--dry-run`."""
    plan = {"runs": [str(run.directory) for run in runs], "seconds": sum(map(sum, times.values()))}
    flags.print(plan, f"{describe_plan(runs)}\n{describe_times(times)}")


class _Timer:
    """Time each kind of run once."""

    def __init__(self, runs: Sequence[PlannedRun], data: Path | None, progress: Progress) -> None:
        self._runs = {run.directory: run for run in runs}
        self._data = data
        self._progress = progress
        self._pretraining: dict[PretrainConfig, float] = {}
        self._finetuning: dict[tuple[object, str], float] = {}

    def pretraining(self, run: PlannedRun) -> float:
        if run.config is None or run.config.steps is None or run.is_trained:
            return run.seconds_left
        key = replace(run.config, seed=0, masking=MaskingConfig())
        if key not in self._pretraining:
            self._progress.note(f"timing {run.variant}")
            self._pretraining[key] = plan_pretraining(run.config, find_initial_checkpoint(run.config)).seconds
        return run.pretraining_left / run.config.steps * self._pretraining[key]

    def finetuning(self, run: PlannedRun, task_run: TaskRun) -> float:
        encoder = self._encoder(run)
        key = (encoder.config, task_run.name)
        if key not in self._finetuning:
            self._progress.note(f"timing {task_run.name} of {run.variant}")
            with tempfile.TemporaryDirectory(prefix="cloze-") as directory:
                model = Path(directory) / KIND
                with artifacts.write_directory(model, kind=KIND) as temporary:
                    save_model(temporary, encoder, self._tokenizer(run))
                task, config = task_run.config(model, run.seed)
                self._finetuning[key] = plan_finetuning(task, config).seconds
        return self._finetuning[key]

    def _tokenizer(self, run: PlannedRun) -> Tokenizer:
        if run.origin is not None and run.origin.kind == "checkpoint":
            return load_tokenizer(resolve_checkpoint(run.origin.sources[0]))
        assert self._data is not None
        return load_tokenizer(Dataset.open(self._data, verify=False).path)

    def _encoder(self, run: PlannedRun) -> Encoder:
        """Return an encoder with the architecture of a run and any weights."""
        if run.config is not None and run.config.init is not None:
            return load_model(resolve_checkpoint(Path(run.config.init)))
        if run.config is not None:
            return BertModel(run.config.model.encoder(vocab_size=self._tokenizer(run).vocab_size))
        assert run.origin is not None
        kind, sources = run.origin.kind, run.origin.sources
        if kind == "checkpoint":
            return load_model(resolve_checkpoint(sources[0]))
        return combine(kind, [self._encoder(self._runs[source]) for source in sources], run.seed)
