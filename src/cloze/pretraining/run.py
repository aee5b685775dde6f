"""A pre-training run from its settings to its last checkpoint."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from cloze import artifacts
from cloze import config as configuration
from cloze.corpus.batches import DrawnInstances, InstanceSource, PackedBatch
from cloze.corpus.original import GoogleSettings, MaterialisedInstances, materialise
from cloze.corpus.store import KIND, MIN_DOCUMENTS_TO_SPLIT, Dataset, Documents
from cloze.errors import InputError
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertModel
from cloze.model.checkpoint import load_model, write_model_files
from cloze.model.heads import BertForPreTraining
from cloze.model.new_rows import set_new_rows
from cloze.model.sinusoidal import fix_positions
from cloze.pretraining.config import ModelConfig, PhaseConfig, PretrainConfig
from cloze.pretraining.continuing import load_for_pretraining, old_pieces_of_new
from cloze.pretraining.objective import TARGETS, PretrainingWork, held_out_batches
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer
from cloze.training.budget import Budget, Clock, Steps
from cloze.training.checkpoints import Position, TrainingState, newest_checkpoint, not_as_begun, read_state
from cloze.training.cost import Workload
from cloze.training.distribution import World, join_world
from cloze.training.environment import write_environment
from cloze.training.loop import Trainer
from cloze.training.memory import available_memory
from cloze.training.model_card import CARD, CardFacts, DataUsed, model_card
from cloze.training.plan import MemoryPlan, Rehearsal, RunPlan, Stretch, evaluation_seconds, plan_memory
from cloze.training.precision import resolve_device, resolve_dtype

_HELD_OUT_SEED = 0  # the same pairs and masks in every run over the same data


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
        dataset = _open(config, world)
        config = replace(config, data_sha256=_fingerprint(config, dataset))
        material = _material(config, dataset, world)
        model = _initial_model(config, material, progress)
        if config.init is not None:
            config = replace(config, model=config.model.of(model.config))
        world.by_first(lambda: _begin(config, run))
        return _train(config, run, material, model, TrainingState(), None, progress)


def _begin(config: PretrainConfig, run: Path) -> None:
    if run.exists():
        shutil.rmtree(run)
    artifacts.write_text(run / artifacts.RUN_CONFIG, configuration.to_toml(config))


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
        InputError: `run` is not a run of `pretrain`, or its data set is not the one it began with.
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
    dataset = _open(config, world)
    _fingerprint(config, dataset)
    material = _material(config, dataset, world)
    checkpoint = world.by_first(lambda: newest_checkpoint(run, progress))
    if checkpoint is None:
        model = _initial_model(config, material, progress)
        return _train(config, run, material, model, TrainingState(), None, progress)
    model = load_model(checkpoint, BertForPreTraining, verify=False)
    if config.init is None and model.config != config.model.encoder(vocab_size=model.config.vocab_size):
        raise not_as_begun("model", run)
    if config.model.positions == "sinusoidal":
        fix_positions(model.bert)  # the same again, and not to be learned
    return _train(config, run, material, model, read_state(checkpoint), checkpoint, progress)


def _open(config: PretrainConfig, world: World) -> Dataset:
    """Open the data set; the first rank checks its files while the others wait."""
    path = Path(config.data)

    def check() -> None:
        artifacts.verify(path, kind=KIND)

    world.by_first(check)
    return Dataset.open(path, verify=False)


def plan_pretraining(config: PretrainConfig, *, progress: Progress = SILENT) -> RunPlan:
    """Say whether a run fits in memory and how long it will take, from a few micro-batches; nothing is written.

    Raises:
        InputError: as `pretrain`.
    """
    dataset = Dataset.open(Path(config.data))
    _fingerprint(config, dataset)
    config = replace(config, google_instances=None)  # drawn ones are as long, and need not be built
    material = _material(config, dataset, World(resolve_device(config.device)))
    dtype = resolve_dtype(config.precision, material.world.device)
    available = available_memory(material.world.device)
    model = _initial_model(config, material, progress).to(material.world.device)
    work = _work(config, material, Path(), progress)
    steps = [
        work.step_data(end - phase.fraction / 2, Position(number), config.micro_batch_tokens)
        for number, (phase, end) in enumerate(
            zip(config.phases, accumulate(phase.fraction for phase in config.phases), strict=True)
        )
    ]
    rehearsal = Rehearsal(model, work, config.optimizer, dtype)

    def memory() -> MemoryPlan:
        plans = [
            plan_memory(
                model,
                model.config,
                [Workload.of(batch) for batch in step.batches],
                dtype,
                rehearsal.optimizer,
                available=available,
                kept_copies=int(config.averaging is not None),
            )
            for step in steps
        ]
        return max(plans, key=lambda plan: plan.activations)

    stretches: list[Stretch] = []
    for phase, step in zip(config.phases, steps, strict=True) if memory().fits else ():
        progress.note(f"timing steps of sequences up to {phase.max_seq_length} tokens")
        seconds = rehearsal.step_seconds(step)
        if config.steps is not None:
            number = round(phase.fraction * config.steps)
        else:
            assert config.budget_seconds is not None
            number = int(phase.fraction * config.budget_seconds / seconds)
        name = f"sequences up to {phase.max_seq_length} tokens"
        stretches.append(Stretch(name, number, step.num_tokens, seconds))
    held_out = sum(len(batch.input_ids) for batch in (*material.held_out, *material.old_held_out))
    return RunPlan(
        device=str(material.world.device),
        dtype=str(dtype).removeprefix("torch."),
        memory=memory(),
        stretches=tuple(stretches),
        evaluation_seconds=config.evaluation.times * evaluation_seconds(held_out, stretches[-1:]),
    )


def _fingerprint(config: PretrainConfig, dataset: Dataset) -> str:
    """Return what identifies the data set's content; refuse one that is not the one the settings name."""
    found = artifacts.sha256_of(dataset.path / artifacts.MANIFEST)
    if config.data_sha256 not in (None, found):
        remedy = "Give the run its data back, or leave data_sha256 out of a new run's settings"
        raise InputError(
            "is not the data set that the settings were made for", where=config.data, remedy=remedy
        )
    return found


@dataclass(frozen=True, slots=True)
class _Material:
    """What a run is made from, besides its weights: read and checked before anything is written."""

    world: World
    tokenizer: Tokenizer
    train: Documents
    num_held_out: int
    """Documents."""
    held_out: Sequence[PackedBatch]
    old_held_out: Sequence[PackedBatch]
    unigram_nats: Tensor


def _material(config: PretrainConfig, dataset: Dataset, world: World) -> _Material:
    world.check_width([phase.batch_size for phase in config.phases])
    tokenizer = Tokenizer.load(dataset.path)
    train, validation = dataset.split("train"), dataset.split("validation")
    return _Material(
        world=world,
        tokenizer=tokenizer,
        train=train,
        num_held_out=len(validation),
        held_out=_held_out_batches(config, validation, tokenizer, data=config.data),
        old_held_out=_old_held_out_batches(config, tokenizer),
        unigram_nats=unigram_nats(train, dataset.vocab_size).to(world.device),
    )


def _initial_model(config: PretrainConfig, material: "_Material", progress: Progress) -> BertForPreTraining:
    """Return new weights, or those of the checkpoint to go on from, with rows for what its vocabulary has gained."""
    tokenizer = material.tokenizer
    if config.init is None:
        generator = torch.Generator().manual_seed(config.seed)
        encoder = BertModel(config.model.encoder(vocab_size=tokenizer.vocab_size), generator=generator)
        if config.model.positions == "sinusoidal":
            fix_positions(encoder)
        return BertForPreTraining(encoder, generator=generator)
    checkpoint = resolve_checkpoint(Path(config.init))
    model = load_for_pretraining(checkpoint, next_sentence=config.pairs.next_sentence, seed=config.seed)
    if model.config.attends_to != config.model.attends_to:
        what = f"attends to {model.config.attends_to}, the settings say {config.model.attends_to}"
        remedy = f"Say --set model.attends_to={model.config.attends_to}"
        raise InputError(what, where=config.init, remedy=remedy)
    longest, positions = (
        max(phase.max_seq_length for phase in config.phases),
        model.config.max_position_embeddings,
    )
    if longest > positions:
        what = f"max_seq_length {longest}, {config.init} takes {positions}"
        remedy = (
            "Give phases with shorter sequences in a TOML file; those of --config laptop have 128 at most"
        )
        raise InputError(what, where="phases", remedy=remedy)
    model = _with_dropout_of(config.model, model)
    rows = old_pieces_of_new(Tokenizer.load(checkpoint), tokenizer, where=config.data)
    if rows:
        set_new_rows(model, rows)
        progress.note(
            f"{len(rows):,} pieces are new to {config.init}: each begins as the mean of its old pieces"
        )
    return model


def _with_dropout_of(settings: ModelConfig, model: BertForPreTraining) -> BertForPreTraining:
    """Return the model with the run's dropout, which is no part of what a checkpoint has learned."""
    config = replace(
        model.config,
        hidden_dropout_prob=settings.hidden_dropout_prob,
        attention_probs_dropout_prob=settings.attention_probs_dropout_prob,
    )
    with torch.device("meta"):  # shapes only
        same = BertForPreTraining(BertModel(config))
    same.load_state_dict(model.state_dict(), assign=True)
    return same


def _train(
    config: PretrainConfig,
    run: Path,
    material: _Material,
    model: BertForPreTraining,
    state: TrainingState,
    checkpoint: Path | None,
    progress: Progress,
) -> dict[str, float]:
    world, tokenizer = material.world, material.tokenizer
    compute_dtype = resolve_dtype(config.precision, world.device)
    work = _work(config, material, run, progress)
    world.by_first(lambda: write_environment(run, world, compute_dtype))
    facts = _card_facts(config, material)

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


def _work(config: PretrainConfig, material: _Material, run: Path, progress: Progress) -> PretrainingWork:
    return PretrainingWork(
        phases=[
            (phase, _instances(config, number, phase, material, run, progress))
            for number, phase in enumerate(config.phases)
        ],
        held_out=material.held_out,
        old_held_out=material.old_held_out,
        unigram_nats=material.unigram_nats,
        next_sentence=config.pairs.next_sentence,
        world=material.world,
    )


def _budget(config: PretrainConfig) -> Budget:
    if config.steps is not None:
        return Steps(config.steps)
    assert config.budget_seconds is not None
    return Clock(config.budget_seconds)


def _instances(
    config: PretrainConfig,
    number: int,
    phase: PhaseConfig,
    material: _Material,
    run: Path,
    progress: Progress,
) -> InstanceSource:
    """Draw a phase's instances as they are read, or build Google's and keep them with the run."""
    google = config.google_instances
    if google is None:
        return DrawnInstances(
            material.train,
            material.tokenizer,
            max_seq_length=phase.max_seq_length,
            max_predictions_per_seq=phase.max_predictions_per_seq,
            pairs=config.pairs,
            masking=config.masking,
            seed=config.seed,
            phase=number,
            targets=TARGETS[config.model.attends_to],
        )
    directory = run / "instances" / f"phase-{number + 1}"
    settings = GoogleSettings(
        max_seq_length=phase.max_seq_length,
        max_predictions_per_seq=phase.max_predictions_per_seq or phase.max_seq_length,
        dupe_factor=google.dupe_factor,
        short_seq_prob=config.pairs.short_seq_prob,
        masked_lm_prob=config.masking.masked_lm_prob,
        whole_word=config.masking.whole_word,
        seed=config.seed,
    )

    def build() -> None:
        if not directory.exists():
            artifacts.remove_leftovers(directory.parent)
            materialise(material.train, material.tokenizer, directory, settings, progress=progress)

    material.world.by_first(build)
    return MaterialisedInstances.open(directory)


def _held_out_batches(
    config: PretrainConfig, documents: Documents, tokenizer: Tokenizer, *, data: str
) -> list[PackedBatch]:
    """Draw the held-out instances once, at the last phase's length, so that all evaluations compare."""
    if not len(documents):
        what = (
            f"no documents are held out to measure on; of {MIN_DOCUMENTS_TO_SPLIT} documents or more some are"
        )
        remedy = (
            "Build it of more documents: --format paragraphs makes one of all that stands between blank lines"
        )
        raise InputError(what, where=data, remedy=remedy)
    phase = config.phases[-1]
    source = DrawnInstances(
        documents,
        tokenizer,
        max_seq_length=phase.max_seq_length,
        max_predictions_per_seq=phase.max_predictions_per_seq,
        pairs=config.pairs,
        masking=config.masking,
        seed=_HELD_OUT_SEED,
        phase=0,
        targets=TARGETS[config.model.attends_to],
    )
    count, attends_to = config.evaluation.max_instances, config.model.attends_to
    return held_out_batches(source, count, attends_to, config.micro_batch_tokens)


def _old_held_out_batches(config: PretrainConfig, tokenizer: Tokenizer) -> list[PackedBatch]:
    """Draw the same from the held-out documents of the text that the checkpoint was trained on, where it is named."""
    if config.old_data is None:
        return []
    old = Dataset.open(Path(config.old_data))
    if Tokenizer.load(old.path).pieces != tokenizer.pieces:
        remedy = "Build it with the same vocabulary, cloze corpus --vocab"
        raise InputError(f"has another vocabulary than {config.data}", where=config.old_data, remedy=remedy)
    return _held_out_batches(config, old.split("validation"), tokenizer, data=config.old_data)


def unigram_nats(documents: Documents, vocab_size: int) -> Tensor:
    """Return -log p of every piece, p its share of the training text with one added to each count."""
    counts = 1.0 + documents.piece_counts(vocab_size)
    return torch.from_numpy(-np.log(counts / counts.sum())).float()


def _card_facts(config: PretrainConfig, material: _Material) -> CardFacts:
    """Return what the model card says of the run before it has begun."""
    begun = "random weights" if config.init is None else f"the weights of `{config.init}`"
    one_way = config.model.attends_to != "all"
    heads = f"{TARGETS[config.model.attends_to]}-piece head" if one_way else "masked-word head"
    if config.pairs.next_sentence:
        heads = f"{heads.removesuffix(' head')} and next-sentence heads"
    finetuning = "cloze finetune classification -m DIR -d DATA -o RUN"
    longest = max(phase.max_seq_length for phase in config.phases)
    assert config.data_sha256 is not None
    return CardFacts(
        title="A BERT pre-trained with cloze",
        summary=f"An encoder with its {heads} (Devlin et al. 2019), pre-trained from {begun}.",
        use=finetuning
        if one_way
        else f'cloze fill -m DIR "Some text with a [MASK]."\n{finetuning}\n'
        "# transformers: AutoModelForPreTraining.from_pretrained(DIR)",
        data=[
            DataUsed(
                role="learned from",
                name=config.data,
                extent=f"{len(material.train):,} documents; {material.num_held_out:,} more held out",
                sha256=config.data_sha256,
            ),
            *_old_data_used(config),
        ],
        measured_on=f"documents held out of `{config.data}`",
        intended_use="To be fine-tuned for a task on texts like those it learned from, and to study."
        if one_way
        else "To be fine-tuned for a task on texts like those it learned from, to fill in hidden words, and to "
        "study. It does not write texts, and what it fills in is likely, not true.",
        limits=f"In this run it learned from sequences of at most {longest} tokens. The held-out documents are of the "
        "same source as those it learned from.",
        license=config.license,
        pipeline_tag=None if one_way else "fill-mask",
        settings=configuration.to_toml(config),
    )


def _old_data_used(config: PretrainConfig) -> list[DataUsed]:
    if config.old_data is None:
        return []
    sha256 = artifacts.sha256_of(Path(config.old_data) / artifacts.MANIFEST)
    return [
        DataUsed(role="measured on, too", name=config.old_data, extent="held-out documents", sha256=sha256)
    ]
