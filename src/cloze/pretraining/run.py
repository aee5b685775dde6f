"""A pre-training run from its settings to its last checkpoint."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from cloze import config as configuration
from cloze.artifacts import LEARNED_FROM
from cloze.data.instances.masking import describe_whole_words
from cloze.markdown import code_span
from cloze.models.heads import BertForPreTraining
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.data import (
    TARGETS_BY_ATTENTION,
    PretrainingData,
    build_batches,
    steps_per_phase,
    verify_data,
)
from cloze.pretraining.initial_weights import initial_model, load_for_pretraining, with_initial_architecture
from cloze.pretraining.objective import PretrainingObjective
from cloze.progress import SILENT, Progress
from cloze.training.distributed import DistributedContext, init_distributed
from cloze.training.metrics_log import VALIDATION, read_metrics
from cloze.training.model_card import BaseModel, CardInfo, DatasetReference
from cloze.training.optimizer import Budget
from cloze.training.plan import RunPlan, plan_run
from cloze.training.precision import resolve_device
from cloze.training.run import Launch, TrainingRun
from cloze.training.run_directory import check_output

MIN_HELD_OUT_INSTANCES = 200
"""Warn if evaluations have fewer instances."""


def pretrain(
    config: PretrainConfig,
    run: Path,
    start: Path | None = None,
    launch: Launch = Launch(),
) -> dict[str, float]:
    """Pre-train an encoder with masked words and next sentence, as `cloze.pretrain` does.

    Args:
        start: directory of the checkpoint that `config.init` names.
    """
    with init_distributed(config.device) as context:
        launch = launch if context.is_rank_zero else replace(launch, progress=SILENT)
        resume, progress = launch.resume, launch.progress
        if not resume:
            inputs = [config.data, config.init]
            context.run_on_rank_zero(lambda: check_output(run, overwrite=launch.overwrite, inputs=inputs))
            config = with_initial_architecture(config, start)
        config = context.run_on_rank_zero(lambda: verify_data(config))
        data = PretrainingData.load(config, context)
        if not resume and config.masking.whole_word and data.train.vocab_size_with_words is None:
            shares_V = np.exp(-data.unigram_nats.numpy())
            note = describe_whole_words(data.tokenizer.tokens, shares_V)
            if note is not None:
                progress.note(note)

        def load(checkpoint: Path | None) -> PretrainingObjective:
            if checkpoint is None:
                model = initial_model(config, start, data.tokenizer, progress)
            else:
                next_sentence = config.pairs.next_sentence
                model = load_for_pretraining(
                    checkpoint, next_sentence=next_sentence, seed=config.seed, verify=False
                )
            return build_objective(config, data, model)

        _warn_of_settings(config, data, progress)
        training_run = TrainingRun(
            path=run,
            settings=configuration.to_toml(config),
            config=config,
            evaluation=config.evaluation,
            evaluate_first=config.init is not None,
            budget=Budget(config.steps, config.budget_seconds),
            card=_build_card_info(config, data, start),
            context=context,
            launch=launch,
        )
        batches = partial(build_batches, config, data, run, progress)
        metrics = training_run.train(load, batches)
        context.run_on_rank_zero(lambda: _note_losses(run, progress))
        return metrics


def _build_card_info(config: PretrainConfig, data: PretrainingData, start: Path | None) -> CardInfo:
    """Return the facts about the run that are known before its first step; `start` is its initial checkpoint."""
    causal = config.model.attends_to != "all"
    head = f"{TARGETS_BY_ATTENTION[config.model.attends_to]}-token" if causal else "masked-word"
    heads = f"{head} and next-sentence heads" if config.pairs.next_sentence else f"{head} head"
    steps = [1] * len(config.phases) if config.steps is None else steps_per_phase(config.steps, config.phases)
    longest = max(phase.max_seq_length for phase, count in zip(config.phases, steps, strict=True) if count)
    held_out = f"{len(data.train):,} documents; {data.num_held_out:,} more held out"
    references = [DatasetReference(LEARNED_FROM, config.data, held_out, str(config.data_sha256))]
    return CardInfo(
        template="pretraining/card.md",
        facts={"config": config, "causal": causal, "heads": heads, "longest": longest},
        data=references,
        measured_on=f"documents held out of {code_span(config.data)}",
        license=config.license,
        pipeline_tag=None if causal else "fill-mask",
        settings=configuration.to_toml(config),
        base=None
        if config.init is None or start is None
        else BaseModel.read(config.init, start, commit=config.init_commit),
    )


def plan_pretraining(
    config: PretrainConfig, start: Path | None = None, *, progress: Progress = SILENT
) -> RunPlan:
    """Measure memory and time of a run in a few of its steps; nothing is written."""
    config = replace(config, google_instances=None)  # drawn ones are as long, and need not be built
    config = verify_data(with_initial_architecture(config, start))
    data = PretrainingData.load(config, DistributedContext(resolve_device(config.device)))
    steps = (
        [None] * len(config.phases) if config.steps is None else steps_per_phase(config.steps, config.phases)
    )
    return plan_run(
        lambda: build_objective(config, data, initial_model(config, start, data.tokenizer, progress)),
        build_batches(config, data, Path(), progress),
        config,
        [
            (f"sequences up to {phase.max_seq_length} tokens", count, phase.fraction)
            for phase, count in zip(config.phases, steps, strict=True)
        ],
        data.context,
        evaluations=config.evaluation.times + (config.init is not None),  # one before the first step
        progress=progress,
    )


def _note_losses(run: Path, progress: Progress) -> None:
    """Warn of a held-out loss above that of token frequencies; print its change since before the first step."""
    evaluations = [row for row in read_metrics(run) if row["kind"] == VALIDATION]
    first, last = evaluations[0], evaluations[-1]
    loss, frequencies = last["masked_lm_loss"], last.get("masked_lm_unigram_loss", math.inf)
    best = min(evaluations, key=lambda row: row["loss"])
    if loss > frequencies:
        rate = "higher" if best is last else "lower"
        what = f"the masked LM loss {loss:.3f} is above {frequencies:.3f}, that of word frequencies alone"
        progress.note(f"warning: {what}. Train longer, or with a {rate} optimizer.learning_rate")
    if first["step"]:
        return
    before, verb = first["masked_lm_loss"], "fell" if loss < first["masked_lm_loss"] else "rose"
    change = f"{abs(loss - before):.3f}, from {before:.3f} to {loss:.3f}"
    progress.note(f"the held-out loss on masked words {verb} by {change}")
    if best is not last:
        progress.note(f"the best checkpoint is that of step {best['step']:,}: {best['masked_lm_loss']:.3f}")


def _warn_of_settings(config: PretrainConfig, data: PretrainingData, progress: Progress) -> None:
    for phase, steps in zip(config.phases, steps_per_phase(config.steps or 0, config.phases), strict=True):
        if config.steps is not None and not steps:
            what = f"sequences of up to {phase.max_seq_length} tokens have {phase.fraction:.0%} of the run"
            progress.note(f"warning: {what}, and get none of its {config.steps:,} steps")
    instances = sum(batch.num_sequences for batch in data.held_out)
    if instances < min(MIN_HELD_OUT_INSTANCES, config.evaluation.max_instances):
        what = f"{data.num_held_out:,} held-out documents make {instances:,} instances: losses are uncertain"
        progress.note(f"warning: {what}; build the data set of more text, or hold more documents out")


def build_objective(
    config: PretrainConfig, data: PretrainingData, model: BertForPreTraining
) -> PretrainingObjective:
    """Return the objective of a run, with its model on the device."""
    return PretrainingObjective(
        model.to(data.context.device),
        data.tokenizer,
        held_out=data.held_out,
        unigram_nats=data.unigram_nats,
        next_sentence=config.pairs.next_sentence,
        context=data.context,
    )
