"""How long a study will take, by a few steps of each kind of run that are thrown away.

Features of a frozen encoder are computed once, which takes most of the time: that is done, timed and thrown away.
"""

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cloze import artifacts
from cloze.corpus.masking import MaskingConfig
from cloze.corpus.store import Dataset
from cloze.evidence.study_origins import combine
from cloze.evidence.study_plan import PlannedRun
from cloze.evidence.study_tasks import PlannedTask
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import KIND, load_model, write_model_files
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.plan import plan_pretraining
from cloze.progress import SILENT, Progress, clock
from cloze.tasks.config import FinetuneConfig
from cloze.tasks.data import with_files
from cloze.tasks.finetune import plan_finetuning
from cloze.tasks.run import precompute, prepare
from cloze.tasks.task import AnyTask
from cloze.tasks.work import FinetuningWork
from cloze.text.tokenizer import Tokenizer
from cloze.training.checkpoints import Position
from cloze.training.distribution import World
from cloze.training.plan import Rehearsal
from cloze.training.precision import resolve_device, resolve_dtype


@dataclass(frozen=True, slots=True)
class VariantPlan:
    """What those runs of a variant will take that are not finished."""

    variant: str
    pretraining_seconds: float
    """Of all its seeds."""
    finetuning_seconds: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.pretraining_seconds + self.finetuning_seconds


def plan_seconds(runs: Sequence[PlannedRun], data: Path | None, progress: Progress) -> list[VariantPlan]:
    """Time steps of what is not finished; runs of equal cost are timed once, and nothing is written.

    A budget of time is taken at its word. Evaluations are counted, saving is not.

    Args:
        runs: as `plan_study` returns them.
        data: the data set; None where nothing is pre-trained.
        progress: where to tell how far it is.

    Raises:
        InputError: the data set, data of a task or a setting is wrong.
    """
    timer = _Timer(runs, data, progress)
    plans = []
    for variant in dict.fromkeys(run.variant for run in runs):
        own = [run for run in runs if run.variant == variant]
        tasks = [(run, task) for run in own for point in run.points for task in point if not task.is_finished]
        plans.append(
            VariantPlan(
                variant,
                sum(run.seconds_left or timer.pretraining(run) for run in own),
                sum(timer.finetuning(run, task) for run, task in tasks),
            )
        )
    return plans


def describe_seconds(plans: Sequence[VariantPlan]) -> str:
    """Say how long a study takes, by variant."""
    rows = [
        f"  {plan.variant:<24} {clock(plan.pretraining_seconds):>10} {clock(plan.finetuning_seconds):>10}"
        for plan in plans
    ]
    total = clock(sum(plan.seconds for plan in plans))
    return "\n".join([f"  {'':<24} {'training':>10} {'tasks':>10}", *rows, f"about {total} in all"])


class _Timer:
    """Times each kind of run once."""

    def __init__(self, runs: Sequence[PlannedRun], data: Path | None, progress: Progress) -> None:
        self._runs = {run.directory: run for run in runs}
        self._data = data
        self._progress = progress
        self._pretraining: dict[PretrainConfig, float] = {}
        self._finetuning: dict[tuple[BertConfig, str], float] = {}

    def pretraining(self, run: PlannedRun) -> float:
        """Return how long the steps of a run will take that are left; 0 where it is trained, or made of others."""
        if run.config is None or run.config.steps is None or run.is_trained:
            return 0.0
        alike = replace(run.config, seed=0, masking=MaskingConfig())
        if alike not in self._pretraining:
            self._progress.note(f"timing {run.variant}")
            self._pretraining[alike] = plan_pretraining(run.config).seconds
        return run.share_left * self._pretraining[alike]

    def finetuning(self, run: PlannedRun, planned: PlannedTask) -> float:
        """Return how long a fine-tuning takes."""
        encoder = self._encoder(run)
        key = (encoder.config, planned.name)
        if key not in self._finetuning:
            self._progress.note(f"timing {planned.name} of {run.variant}")
            with tempfile.TemporaryDirectory(prefix="cloze-") as directory:
                model = Path(directory) / KIND
                with artifacts.write_directory(model, kind=KIND) as temporary:
                    write_model_files(temporary, encoder, self._tokenizer(run))
                task, config = planned.config(model, run.seed)
                if task.encoder_learns:
                    self._finetuning[key] = plan_finetuning(task, config).seconds
                else:
                    self._finetuning[key] = _feature_seconds(task, config, model)
        return self._finetuning[key]

    def _tokenizer(self, run: PlannedRun) -> Tokenizer:
        if run.origin is not None and run.origin.kind == "checkpoint":
            return Tokenizer.load(resolve_checkpoint(run.origin.sources[0]))
        assert self._data is not None
        return Tokenizer.load(Dataset.open(self._data, verify=False).path)

    def _encoder(self, run: PlannedRun) -> BertModel:
        """Return an encoder of a run's architecture, whatever its weights."""
        if run.config is not None and run.config.init is not None:
            return load_model(resolve_checkpoint(Path(run.config.init)))
        if run.config is not None:
            return BertModel(run.config.model.encoder(vocab_size=self._tokenizer(run).vocab_size))
        assert run.origin is not None
        kind, sources = run.origin.kind, run.origin.sources
        if kind == "checkpoint":
            return load_model(resolve_checkpoint(sources[0]))
        return combine(kind, [self._encoder(self._runs[source]) for source in sources], run.seed)


def _feature_seconds(task: AnyTask, config: FinetuneConfig, model: Path) -> float:
    """Return how long it takes to learn from features: these are computed once, so that is done and timed."""
    started = time.perf_counter()
    world = World(resolve_device(config.device))
    config = with_files(task, config)
    prepared = precompute(prepare(task, config, model, world, SILENT), config, SILENT)
    work = FinetuningWork(task=prepared.task, data=prepared.data, config=config, world=world)
    head = prepared.task.head(load_model(model)).to(world.device)
    if task.is_solved:
        prepared.task.solve(head, [feature for own in prepared.data.train_features for feature in own])
        return time.perf_counter() - started
    seconds = time.perf_counter() - started
    rehearsal = Rehearsal(head, work, config.optimizer, resolve_dtype(config.precision, world.device))
    step = work.step_data(0.0, Position(), config.micro_batch_tokens)
    return seconds + config.seeds * config.epochs * work.steps_per_epoch * rehearsal.step_seconds(step)
