"""How long a study will take, by a few steps of each kind of run that are thrown away."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cloze import artifacts
from cloze.corpus.masking import MaskingConfig
from cloze.corpus.store import Dataset
from cloze.evidence.study import PlannedRun
from cloze.evidence.study_tasks import PlannedTask, combine
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import KIND, load_model, write_model_files
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.run import plan_pretraining
from cloze.progress import Progress, clock
from cloze.tasks.feature_tagging import FeatureTagging
from cloze.tasks.finetune import plan_finetuning
from cloze.text.tokenizer import Tokenizer
from cloze.training.checkpoints import resolve_checkpoint


@dataclass(frozen=True, slots=True)
class VariantPlan:
    """What the runs of a variant will take that are not finished."""

    variant: str
    pretraining_seconds: float
    """Of all its seeds."""
    finetuning_seconds: float
    not_timed: tuple[str, ...]
    """Tasks of features, whose encoder does not learn: what they take is not in these seconds."""


def plan_seconds(runs: Sequence[PlannedRun], data: Path | None, progress: Progress) -> list[VariantPlan]:
    """Time steps of what is not finished; runs of equal cost are timed once, and nothing is written.

    A budget of time is taken at its word. Evaluations are in it, saving is not.

    Args:
        runs: as `plan_study` returns them.
        data: the data set; None where nothing is pre-trained.
        progress: where to tell how far it is.

    Raises:
        InputError: the data set, data of a task or a setting is wrong.
    """
    timer = _Timer(data, progress)
    plans = []
    for variant in dict.fromkeys(run.variant for run in runs):
        own = [run for run in runs if run.variant == variant]
        tasks = [(run, task) for run in own for point in run.points for task in point if not task.is_finished]
        seconds = [timer.finetuning(run, task, runs) for run, task in tasks]
        not_timed = [task.name for (_, task), found in zip(tasks, seconds, strict=True) if found is None]
        plans.append(
            VariantPlan(
                variant,
                sum(run.seconds_left or timer.pretraining(run) for run in own),
                sum(found for found in seconds if found is not None),
                tuple(dict.fromkeys(not_timed)),
            )
        )
    return plans


def describe_seconds(plans: Sequence[VariantPlan]) -> str:
    """Say how long a study takes, by variant."""
    rows = [
        f"  {plan.variant:<24} {clock(plan.pretraining_seconds):>9} {clock(plan.finetuning_seconds):>9}"
        for plan in plans
    ]
    total = sum(plan.pretraining_seconds + plan.finetuning_seconds for plan in plans)
    lines = [f"  {'':<24} {'training':>9} {'tasks':>9}", *rows, f"about {clock(total)} in all"]
    if not_timed := dict.fromkeys(name for plan in plans for name in plan.not_timed):
        lines.append(f"not in it, since its encoder does not learn: {', '.join(not_timed)}")
    return "\n".join(lines)


class _Timer:
    """Times each kind of run once."""

    def __init__(self, data: Path | None, progress: Progress) -> None:
        self._vocabulary = None if data is None else Tokenizer.load(Dataset.open(data, verify=False).path)
        self._progress = progress
        self._pretraining: dict[PretrainConfig, float] = {}
        self._finetuning: dict[tuple[BertConfig, str], float | None] = {}

    def pretraining(self, run: PlannedRun) -> float:
        """Return how long a run will be pre-trained; 0 where it is, or has been to other variants."""
        if run.config is None or run.is_trained:
            return 0.0
        alike = replace(run.config, seed=0, masking=MaskingConfig())
        if alike not in self._pretraining:
            self._progress.note(f"timing {run.variant}")
            self._pretraining[alike] = plan_pretraining(run.config).seconds
        return self._pretraining[alike]

    def finetuning(self, run: PlannedRun, planned: PlannedTask, runs: Sequence[PlannedRun]) -> float | None:
        """Return how long a fine-tuning takes; None of one whose encoder does not learn."""
        encoder = self._encoder(run, runs)
        key = (encoder.config, planned.name)
        if key not in self._finetuning:
            self._progress.note(f"timing {planned.name} of {run.variant}")
            self._finetuning[key] = self._time(encoder, run, planned)
        return self._finetuning[key]

    def _time(self, encoder: BertModel, run: PlannedRun, planned: PlannedTask) -> float | None:
        with tempfile.TemporaryDirectory(prefix="cloze-") as directory:
            model = Path(directory) / KIND
            with artifacts.write_directory(model, kind=KIND) as temporary:
                write_model_files(temporary, encoder, self._tokenizer(run))
            task, config = planned.config(model, run.seed)
            return None if isinstance(task, FeatureTagging) else plan_finetuning(task, config).seconds

    def _tokenizer(self, run: PlannedRun) -> Tokenizer:
        if run.origin == "checkpoint":
            return Tokenizer.load(resolve_checkpoint(run.sources[0]))
        assert self._vocabulary is not None
        return self._vocabulary

    def _encoder(self, run: PlannedRun, runs: Sequence[PlannedRun]) -> BertModel:
        """Return an encoder of a run's architecture, whatever its weights."""
        if run.config is not None:
            return BertModel(run.config.model.encoder(vocab_size=self._tokenizer(run).vocab_size))
        if run.origin == "checkpoint":
            return load_model(resolve_checkpoint(run.sources[0]))
        assert run.origin is not None
        by_directory = {each.directory: each for each in runs}
        return combine(
            run.origin, [self._encoder(by_directory[source], runs) for source in run.sources], run.seed
        )
