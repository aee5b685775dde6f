"""A pre-training run from its settings to its last checkpoint."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from cloze import artifacts
from cloze import config as configuration
from cloze.config import to_table
from cloze.corpus.store import identity_of
from cloze.errors import InputError
from cloze.model.bert import BertConfig
from cloze.model.checkpoint import load_model, write_model_files
from cloze.model.heads import BertForPreTraining
from cloze.pretraining.card import card_facts
from cloze.pretraining.config import ModelConfig, PretrainConfig
from cloze.pretraining.initial import check_lengths, initial_model
from cloze.pretraining.material import Material, fingerprint, gather, open_dataset, work_of
from cloze.pretraining.objective import steps_of_phases
from cloze.progress import SILENT, Progress
from cloze.training.budget import Budget, Clock, Steps
from cloze.training.checkpoints import (
    TrainingState,
    check_fixed,
    newest_checkpoint,
    not_as_begun,
    read_state,
)
from cloze.training.distribution import World, join_world
from cloze.training.environment import write_environment
from cloze.training.loop import Trainer
from cloze.training.model_card import CARD, model_card
from cloze.training.precision import resolve_dtype
from cloze.training.run_lock import alone_at, check_nobody_is_at


def pretrain(
    config: PretrainConfig, run: Path, *, overwrite: bool = False, progress: Progress = SILENT
) -> dict[str, float]:
    """Pre-train an encoder with masked words and next sentence; under torchrun, on all of its ranks.

    Args:
        config: the settings; `run.toml` keeps them.
        run: directory of the run.
        overwrite: replace the run that is there.
        progress: where to tell how far it is.

    Returns:
        The last measures on held-out documents: losses in nats, accuracies in 0..1.

    Raises:
        InputError: a setting, the data set or the checkpoint to start from is wrong; nothing was written.
        Interrupted: SIGINT or SIGTERM came, and the state was saved.
        RunError: the loss stayed infinite or NaN, the disk is full, or a rank was lost.

    Source:
        Devlin et al. 2019, 3.1 and A.2; google-research/bert run_pretraining.py @eedf571.
    """
    run = Path(run)
    with join_world(config.device) as world:
        progress = progress if world.is_first else SILENT
        if world.restarts and world.by_first(lambda: _is_run_of(config, run)):
            return _resume(
                configuration.load(PretrainConfig, run / artifacts.RUN_CONFIG), run, world, progress
            )
        inputs = [config.data, config.init, config.old_data]
        world.by_first(
            lambda: artifacts.refuse_existing(
                run, overwrite=overwrite, inputs=inputs, resume_hint=", go on with --resume"
            )
        )
        dataset = open_dataset(config, world)
        config = replace(config, data_sha256=fingerprint(config, dataset))
        material = gather(config, dataset, world)
        model = initial_model(config, material.tokenizer, progress)
        if config.init is not None:
            config = replace(config, model=config.model.of(model.config))
        world.by_first(lambda: _begin(config, run))
        with alone_at(run, world):
            return _train(config, run, material, model, TrainingState(fixed=_fixed(config)), None, progress)


def _begin(config: PretrainConfig, run: Path) -> None:
    check_nobody_is_at(run)
    settings = configuration.to_toml(config)
    artifacts.clear_directory(run)
    artifacts.write_text(run / artifacts.RUN_CONFIG, settings)


def _is_run_of(config: PretrainConfig, run: Path) -> bool:
    """Return whether a run was begun with these settings: torchrun repeats its command, which then goes on."""
    if not (run / artifacts.RUN_CONFIG).is_file():
        return False
    begun = configuration.load(PretrainConfig, run / artifacts.RUN_CONFIG)
    model = begun.model if config.init is None else config.model  # else the checkpoint's stands in run.toml
    return replace(begun, data_sha256=config.data_sha256, model=model) == config


def resume_pretraining(run: Path, *, progress: Progress = SILENT) -> dict[str, float]:
    """Go on with a run from its newest checkpoint that is whole, with the settings it was started with.

    Raises:
        InputError: `run` is not a run of `pretrain`, its data set or a setting is not the one it began with, or it has
            checkpoints of which none is whole.
    """
    run = Path(run)
    if not (run / artifacts.RUN_CONFIG).is_file():
        raise InputError(
            f"no run to resume: it has no {artifacts.RUN_CONFIG}", where=run, remedy="Leave out --resume"
        )
    config = configuration.load(PretrainConfig, run / artifacts.RUN_CONFIG)
    with join_world(config.device) as world:
        return _resume(config, run, world, progress if world.is_first else SILENT)


def _resume(config: PretrainConfig, run: Path, world: World, progress: Progress) -> dict[str, float]:
    dataset = open_dataset(config, world)
    config = replace(config, data_sha256=fingerprint(config, dataset))
    material = gather(config, dataset, world)
    with alone_at(run, world):
        checkpoint = world.by_first(lambda: newest_checkpoint(run, progress))
        if checkpoint is None:
            model = initial_model(config, material.tokenizer, progress)
            state = TrainingState(fixed=_fixed(config))
        else:
            model, state = load_model(checkpoint, BertForPreTraining, verify=False), read_state(checkpoint)
            if not _is_of(config.model, model.config):
                raise not_as_begun("model", run)
            check_fixed(state, _fixed(config), run)
            if config.model.positions == "sinusoidal":
                model.bert.embeddings.position_embeddings.requires_grad_(requires_grad=False)
        if config.init is not None:
            check_lengths(config, model.config)
            config = replace(config, model=config.model.of(model.config))
        return _train(config, run, material, model, state, checkpoint, progress)


def _fixed(config: PretrainConfig) -> dict[str, Any]:
    """Return what says which instances a run draws, and when: with another it would not go on but become another."""
    table = to_table(config)
    names = ("seed", "steps", "budget_seconds", "phases", "pairs", "masking")
    fixed = {name: table.get(name) for name in names}
    fixed["model.positions"] = config.model.positions
    if config.old_data is not None:
        fixed["old_data"] = identity_of(Path(config.old_data))
    return fixed


def _is_of(settings: ModelConfig, encoder: BertConfig) -> bool:
    """Return whether an encoder is as the settings say; what they cannot say is as in the checkpoint of `init`."""
    said = settings.encoder(vocab_size=encoder.vocab_size)
    unsaid = {name: getattr(encoder, name) for name in ("type_vocab_size", "layer_norm_eps")}
    return replace(said, **unsaid) == encoder


def _train(
    config: PretrainConfig,
    run: Path,
    material: Material,
    model: BertForPreTraining,
    state: TrainingState,
    checkpoint: Path | None,
    progress: Progress,
) -> dict[str, float]:
    world, tokenizer = material.world, material.tokenizer
    compute_dtype = resolve_dtype(config.precision, world.device)
    work = work_of(config, material, run, progress)
    world.by_first(lambda: write_environment(run, world, compute_dtype, progress))
    for phase, steps in zip(config.phases, steps_of_phases(config.steps or 0, config.phases), strict=True):
        if config.steps is not None and not steps:
            what = f"sequences of up to {phase.max_seq_length} tokens have {phase.fraction:.0%} of the run"
            progress.note(f"warning: {what}, and get none of its {config.steps:,} steps")
    facts = card_facts(config, material)

    def write_model(directory: Path, model: nn.Module, state: TrainingState) -> None:
        write_model_files(directory, model, tokenizer)
        (directory / CARD).write_text(model_card(facts, model, run, state), encoding="utf-8")

    trainer = Trainer(
        model=model.to(world.device),
        work=work,
        budget=_budget(config),
        run=run,
        write_model=write_model,
        optimizer_config=config.optimizer,
        checkpoint_config=config.checkpoints,
        evaluation_config=config.evaluation,
        seed=config.seed,
        compute_dtype=compute_dtype,
        micro_batch_tokens=config.micro_batch_tokens,
        progress=progress,
        world=world,
        distribution_config=config.distribution,
        state=state,
        averaging_config=config.averaging,
    )
    return trainer.train(resume_from=checkpoint)


def _budget(config: PretrainConfig) -> Budget:
    if config.steps is not None:
        return Steps(config.steps)
    assert config.budget_seconds is not None
    return Clock(config.budget_seconds)
