"""A study: runs of pre-training that differ in what is asked about, over the same seeds, and the record of them.

Each run is pre-trained, measured, and fine-tuned for the tasks of the study. Runs are made seed by seed, so that a
study that was stopped compares what it has. Whatever stops it, the same command goes on.

    OUT/runs/VARIANT/seed-1/{run.toml, metrics.jsonl, checkpoints, tasks, …, outcome.json}
    OUT/record/{README.md, differences.svg (or quality.svg, sizes.svg), curves.svg, study.toml, results.json}
"""

import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from cloze import artifacts
from cloze import config as configuration
from cloze.corpus.pairs import PairsConfig
from cloze.errors import InputError, RunError
from cloze.evidence.study_file import Study
from cloze.evidence.study_plan import NO_DATA, OUTCOME, PlannedRun, describe_plan, plan_study, runs_of_seeds
from cloze.evidence.study_record import write_study_record
from cloze.evidence.study_results import Compared, TaskScores
from cloze.evidence.study_tasks import measure_task
from cloze.extras import require
from cloze.locate import resolve_checkpoint
from cloze.model.checkpoint import load_config, new_encoder
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.evaluate import PretrainingEvaluationConfig, evaluate_pretrained
from cloze.pretraining.run import pretrain, resume_pretraining
from cloze.progress import SILENT, Progress
from cloze.training.environment import ENVIRONMENT
from cloze.training.interrupts import Interrupted
from cloze.training.metrics_log import read_metrics
from cloze.training.run_lock import held

_MEASURED_INSTANCES = 2000  # at the end of a run; its curve may be of fewer


def run_study(
    study: Study,
    data: Path | None,
    output: Path,
    *,
    tasks_data: Mapping[str, Path] = NO_DATA,
    seeds: Sequence[int] = (),
    progress: Progress = SILENT,
) -> Path:
    """Make the runs that are not finished, and write the record of all that are anew after each.

    Args:
        study: what is compared.
        data: the data set of all runs; None where nothing is pre-trained.
        output: directory of the runs and the record.
        tasks_data: by name, where the data of tasks are; a task without data is left out.
        seeds: make the runs of these alone, so that others can be made beside them; empty are all.
        progress: where to tell how far it is.

    Returns:
        The record.

    Raises:
        InputError: a setting or the data set is wrong, a run is there that was made with other settings, or another
            command makes runs of these seeds.
        Interrupted: SIGINT or SIGTERM came; the same call goes on.
        RunError: runs failed, by an infinite loss or a full disk; the others were made.
    """
    require(["scipy"], extra="tasks", where="the interval of a difference")
    runs = plan_study(study, data, output, tasks_data)
    own = runs_of_seeds(study, runs, seeds)
    progress.note(describe_plan(own))
    record = output / "record"
    failed: dict[Path, str] = {}
    with _alone_with({run.seed for run in own}, output):
        for number, run in enumerate(own, 1):
            if run.origin is not None and any(source in failed for source in run.origin.sources):
                failed[run.directory] = run.name
                continue
            _settle(run)
            if run.is_finished:
                continue
            progress.note(f"run {number} of {len(own)}: {run.name}")
            try:
                _train_and_measure(run, progress)
            except RunError as error:
                progress.note(f"warning: {run.name} failed: {error}")
                failed[run.directory] = run.name
            else:
                _write_record(study, runs, record)
    if failed:
        what = f"{len(failed)} of {len(own)} runs failed: {'; '.join(failed.values())}"
        raise RunError(what, where=output, remedy="The same command tries them again")
    _write_record(study, runs, record)
    return record


@contextmanager
def _alone_with(seeds: Collection[int], output: Path) -> Iterator[None]:
    """Keep other commands from making runs of the same seeds.

    Raises:
        InputError: one makes them already.
    """
    output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as locks:
        for seed in seeds:
            what = f"another command makes the runs of seed {seed}"
            taken = InputError(what, where=output, remedy="Wait for it, or name other seeds with --seed")
            locks.enter_context(held(output / f"seed-{seed}.lock", taken))
        yield


def _settle(run: PlannedRun) -> None:
    """Look at what a run is made of, which may have been made anew just now, and clear what a kill left of it."""
    if run.origin is not None:
        run.origin.check(run.directory, run.origin.sources)
    for tasks in run.points:
        for task in tasks:
            if task.is_finished:
                task.clear()


def _write_record(study: Study, runs: Sequence[PlannedRun], record: Path) -> None:
    tasks = study.read_tasks()
    with FileLock(record.with_suffix(".lock")):  # another command may make other seeds
        write_study_record(
            study.title,
            study.base,
            configuration.to_toml(study),
            [_compared(run) for run in runs if run.is_finished],
            record,
            metrics={name: f"{task.task}, {task.metric}" for name, task in tasks.items()},
            built_on={
                name: origin[1][0]
                for name in study.variants
                if (origin := study.origin(name)) is not None and origin[0] == "bilstm_on"
            },
            published=study.published,
        )


def _train_and_measure(run: PlannedRun, progress: Progress) -> None:
    try:
        if not run.is_trained:
            _train(run, progress)
        for point, tasks in enumerate(run.points, 1):
            encoder = run.encoder_at(point) if tasks else None
            for task in tasks:
                if not task.is_finished:
                    assert encoder is not None
                    where = f", at {point} of {len(run.points)}" if len(run.points) > 1 else ""
                    progress.note(f"{run.name}: {task.name}{where}")
                    measure_task(task, encoder, run.seed, progress)
    except Interrupted as interrupted:
        raise Interrupted(interrupted.what, remedy="The same command goes on") from interrupted


def _train(run: PlannedRun, progress: Progress) -> None:
    assert run.config is not None
    if (settings := run.directory / artifacts.RUN_CONFIG).exists():
        begun = configuration.load(PretrainConfig, settings)
        moved = replace(begun, data=run.config.data)  # the same, where they lie now
        artifacts.write_text(settings, configuration.to_toml(moved))
        resume_pretraining(run.directory, progress=progress)
    else:
        shutil.rmtree(run.directory, ignore_errors=True)
        pretrain(run.config, run.directory, progress=progress)
    with torch.device("meta"):  # shapes only
        encoder = new_encoder(load_config(resolve_checkpoint(run.directory)))
    outcome = {
        "parameters": sum(parameter.numel() for parameter in encoder.parameters()),
        **dict(_measure(run.config, run.directory, progress)),
    }
    artifacts.write_text(run.directory / OUTCOME, json.dumps(outcome, indent=1) + "\n")


def _measure(
    config: PretrainConfig, directory: Path, progress: Progress
) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure what a run ended with on the held-out text, read as pairs and as one segment a sequence.

    The curve of a run was measured on instances made as its own settings say; these are made as the paper's do. An
    encoder that looks one way names neighbours, which is another question, and easier or harder. What never learned
    next sentences is not asked.
    """
    both = {"pairs": True, "segments": False}
    for name, next_sentence in both.items() if config.model.attends_to == "all" else [("neighbours", False)]:
        settings = PretrainingEvaluationConfig(
            max_seq_length=config.phases[-1].max_seq_length,
            max_instances=_MEASURED_INSTANCES,
            pairs=PairsConfig(next_sentence=next_sentence),
        )
        found = evaluate_pretrained(
            directory, [config.data], settings, device=config.device, progress=progress
        )
        yield name, {**found.masked_lm, **(found.next_sentence if config.pairs.next_sentence else {})}


def _compared(run: PlannedRun) -> Compared:
    last_tasks = run.points[-1]
    tasks = {
        last.name: TaskScores(
            tuple(task.score() for own in run.points for task in own if task.name == last.name),
            tuple(task.collapse() for own in run.points for task in own if task.name == last.name),
            last.majority(),
            last.data_used(),
        )
        for last in last_tasks
    }
    if run.config is None:
        return Compared(
            run.variant, run.seed, tasks=tasks, environment=_environment_in(last_tasks[0].directory)
        )
    rows = read_metrics(run.directory)
    validation = [row for row in rows if row["kind"] == "validation"]
    last = [row for row in rows if row["kind"] == "train"][-1]
    return Compared(
        variant=run.variant,
        seed=run.seed,
        data_sha256=configuration.load(PretrainConfig, run.directory / artifacts.RUN_CONFIG).data_sha256,
        held_out_as=_held_out_as(run.config),
        max_seq_length=run.config.phases[-1].max_seq_length,
        seconds=tuple(row["seconds"] for row in validation),
        masked_lm_losses=tuple(row["masked_lm_loss"] for row in validation),
        steps=last["step"],
        tokens=last["tokens"],
        tasks=tasks,
        environment=_environment_in(run.directory),
        **json.loads((run.directory / OUTCOME).read_text("utf-8")),
    )


def _environment_in(directory: Path) -> dict[str, Any] | None:
    """Return where a run, or the first of several, was made; None where that was not kept."""
    file = min(directory.rglob(ENVIRONMENT), key=lambda file: (len(file.parts), file), default=None)
    return None if file is None else dict(json.loads(file.read_text("utf-8")))


def _held_out_as(config: PretrainConfig) -> str:
    """Say how the instances of a run's curve were made: where two runs say the same, the instances are."""
    last, masking = config.phases[-1], replace(config.masking, initial_masked_lm_prob=None)
    made = [asdict(config.pairs), asdict(masking), last.max_seq_length, last.max_predictions_per_seq]
    return json.dumps([*made, config.evaluation.max_instances, config.model.attends_to])
