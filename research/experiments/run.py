"""Run a study: pre-train its variants over the same seeds, fine-tune them for its tasks, and record the results.

Runs are made seed by seed, so that a stopped study compares the seeds it has; the same command continues.

    OUT/runs/VARIANT/seed-1/{run.toml, metrics.jsonl, checkpoints, tasks, …, outcome.json}
    OUT/record/{README.md, differences.svg (or quality.svg, sizes.svg), curves.svg, study.toml, results.json}
"""

import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import torch
from filelock import FileLock

from cloze import artifacts, file_io
from cloze import config as configuration
from cloze.api.settings import find_initial_checkpoint
from cloze.data.instances.pairs import PairsConfig
from cloze.errors import InputError, RunError
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import KIND, save_model
from cloze.models.config_file import load_config
from cloze.models.encoder import build_encoder, encoders, get_encoder_class
from cloze.models.heads import BertForPreTraining
from cloze.optional_dependencies import require
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained
from cloze.pretraining.run import pretrain
from cloze.progress import SILENT, Progress
from cloze.tokenization.loading import load_tokenizer
from cloze.training.interrupts import Interrupted
from cloze.training.metrics_log import read_metrics
from cloze.training.run import Launch
from cloze.training.run_directory import file_lock
from experiments.plan import NO_DATA, OUTCOME, PlannedRun, describe_plan, plan_study, runs_of_seeds
from experiments.plots import require_matplotlib
from experiments.record import write_study_record
from experiments.results import NEIGHBORS, RunResult, read_environment
from experiments.study import Study
from experiments.task_runs import read_scores

_MEASURED_INSTANCES = 2000  # at the end of a run; its curve may use fewer


def run_study(
    study: Study,
    data: Path | None,
    output: Path,
    *,
    tasks_data: Mapping[str, Path] = NO_DATA,
    seeds: Sequence[int] = (),
    progress: Progress = SILENT,
) -> Path:
    """Make the unfinished runs, write the record of all finished ones after each, and return its directory.

    Args:
        data: the data set of all runs; None if nothing is pre-trained.
        tasks_data: by name, the data of tasks; a task without data is left out.
        seeds: make only their runs, so that other commands can make others; empty means all.
    """
    require(["scipy"], extra="tasks", where="the interval of a difference")
    require_matplotlib()
    runs = plan_study(study, data, output, tasks_data)
    chosen = runs_of_seeds(study, runs, seeds)
    progress.note(describe_plan(chosen))
    record = output / "record"
    failed: dict[Path, str] = {}
    with _lock_seeds({run.seed for run in chosen}, output):
        for number, run in enumerate(chosen, 1):
            if run.origin is not None and any(source in failed for source in run.origin.sources):
                failed[run.directory] = run.name
                continue
            if run.origin is not None:  # its sources may just have been made
                run.origin.check(run.directory, run.origin.sources)
            for task in run.task_runs:
                if task.is_finished:  # a kill may have left some
                    task.remove_checkpoints()
            if run.is_finished:
                continue
            progress.note(f"run {number} of {len(chosen)}: {run.name}")
            try:
                _train_and_measure(run, progress)
            except RunError as error:
                progress.note(f"warning: {run.name} failed: {error}")
                failed[run.directory] = run.name
            else:
                _write_record(study, runs, record)
    if failed:
        what = f"{len(failed)} of {len(chosen)} runs failed: {'; '.join(failed.values())}"
        raise RunError(what, where=output, remedy="The same command tries them again")
    _write_record(study, runs, record)
    return record


@contextmanager
def _lock_seeds(seeds: Collection[int], output: Path) -> Iterator[None]:
    """Keep other commands from making runs of the same seeds."""
    output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as locks:
        for seed in seeds:
            what = f"another command makes the runs of seed {seed}"
            taken = InputError(what, where=output, remedy="Wait for it, or name other seeds with --seed")
            locks.enter_context(file_lock(output / f"seed-{seed}.lock", taken))
        yield


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
                    task.fine_tune(encoder, run.seed, progress)
    except Interrupted as interrupted:
        raise Interrupted(interrupted.what, remedy="The same command continues") from interrupted


def _train(run: PlannedRun, progress: Progress) -> None:
    assert run.config is not None
    if (settings := run.directory / artifacts.RUN_CONFIG).exists():
        started = configuration.load(PretrainConfig, settings)
        moved = replace(started, data=run.config.data)  # where they are now
        launch = Launch(resume=True, progress=progress)
        pretrain(moved, run.directory, find_initial_checkpoint(moved), launch)
    else:
        shutil.rmtree(run.directory, ignore_errors=True)
        if run.encoder is not None:
            _write_initial_model(run.config, run.encoder)
        launch = Launch(progress=progress)
        pretrain(run.config, run.directory, find_initial_checkpoint(run.config), launch)
    with torch.device("meta"):  # shapes only
        encoder = build_encoder(load_config(resolve_checkpoint(run.directory)))
    outcome = {
        "parameters": sum(parameter.numel() for parameter in encoder.parameters()),
        **dict(measure_held_out(run.config, run.directory, progress)),
    }
    file_io.write_json(run.directory / OUTCOME, outcome)


def _write_initial_model(config: PretrainConfig, model_type: str) -> None:
    """Write a new encoder with the sizes of the settings, from which they start."""
    assert config.init is not None
    tokenizer = load_tokenizer(config.data)
    config_class = encoders()[model_type].config_class
    sizes = asdict(config.model.encoder(vocab_size=tokenizer.vocab_size))
    generator = torch.Generator().manual_seed(config.seed)
    encoder = build_encoder(config_class(**sizes), generator=generator)
    with artifacts.write_directory(Path(config.init), kind=KIND, overwrite=True) as directory:
        save_model(directory, BertForPreTraining(encoder, generator=generator), tokenizer)


def measure_held_out(
    config: PretrainConfig, directory: Path, progress: Progress
) -> Iterator[tuple[str, dict[str, float]]]:
    """Measure a run on the held-out text, read as pairs and as single segments.

    The curve of a run uses instances made with its own settings; these are made with the paper's. A causal encoder
    predicts neighbors, another question, which may be easier or harder. Next sentences are left out for an encoder
    that was not trained on them, and pairs for families that have no head for them.
    """
    kinds = {"pairs": True, "segments": False}
    if config.model.attends_to != "all":
        kinds = {NEIGHBORS: False}
    elif not get_encoder_class(config.model.encoder(vocab_size=1)).trains_on_pairs:
        kinds = {"segments": False}
    for name, next_sentence in kinds.items():
        settings = PretrainingEvaluationConfig(
            max_seq_length=config.phases[-1].max_seq_length,
            max_instances=_MEASURED_INSTANCES,
            pairs=PairsConfig(next_sentence=next_sentence),
        )
        result = evaluate_pretrained(
            resolve_checkpoint(directory), [config.data], settings, device=config.device, progress=progress
        )
        yield name, {**result.masked_lm, **(result.next_sentence if config.pairs.next_sentence else {})}


def _write_record(study: Study, runs: Sequence[PlannedRun], record: Path) -> None:
    with FileLock(record.with_suffix(".lock")):  # another command may make other seeds
        write_study_record(study, [read_result(run) for run in runs if run.is_finished], record)


def read_result(run: PlannedRun) -> RunResult:
    """Read the measurements of a finished run."""
    tasks = {
        last.name: read_scores([task for task in run.task_runs if task.name == last.name])
        for last in run.points[-1]
    }
    if run.config is None:
        environment = read_environment(run.points[-1][0].directory)
        return RunResult(run.variant, run.seed, tasks=tasks, environment=environment)
    rows = read_metrics(run.directory)
    validation = [row for row in rows if row["kind"] == "validation" and row["step"]]
    last_row = [row for row in rows if row["kind"] == "train"][-1]
    started = configuration.load(PretrainConfig, run.directory / artifacts.RUN_CONFIG)
    return RunResult(
        variant=run.variant,
        seed=run.seed,
        data_sha256=started.data_sha256,
        held_out_as=_describe_instances(run.config),
        max_seq_length=run.config.phases[-1].max_seq_length,
        seconds=tuple(row["seconds"] for row in validation),
        masked_lm_losses=tuple(row["masked_lm_loss"] for row in validation),
        steps=last_row["step"],
        tokens=last_row["tokens"],
        tasks=tasks,
        environment=read_environment(run.directory),
        **file_io.read_json(run.directory / OUTCOME),
    )


def _describe_instances(config: PretrainConfig) -> str:
    """Return the settings of the instances of a run's curve; equal settings give equal instances."""
    last, masking = config.phases[-1], replace(config.masking, initial_masked_lm_prob=None)
    settings = [asdict(config.pairs), asdict(masking), last.max_seq_length, last.max_predictions_per_seq]
    return json.dumps([*settings, config.evaluation.max_instances, config.model.attends_to])
