"""What a run is made from besides its weights: its text, its instances, and what it is measured on."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cloze import artifacts
from cloze.corpus.batches import DrawnInstances, InstanceSource, PackedBatch
from cloze.corpus.original import GoogleSettings, MaterialisedInstances, materialise
from cloze.corpus.store import KIND, MIN_DOCUMENTS_TO_SPLIT, Dataset, Documents, identity_of
from cloze.errors import InputError
from cloze.model.checkpoint import read_json
from cloze.pretraining.config import PhaseConfig, PretrainConfig
from cloze.pretraining.objective import TARGETS, PretrainingWork, held_out_batches
from cloze.progress import Progress
from cloze.text.tokenizer import Tokenizer
from cloze.training.checkpoints import not_as_begun
from cloze.training.distribution import World

_HELD_OUT_SEED = 0  # the same pairs and masks in every run over the same data


@dataclass(frozen=True, slots=True)
class Material:
    """Read and checked before anything is written."""

    world: World
    tokenizer: Tokenizer
    train: Documents
    num_held_out: int
    """Documents."""
    held_out: Sequence[PackedBatch]
    old_held_out: Sequence[PackedBatch]
    unigram_nats: Tensor


def open_dataset(config: PretrainConfig, world: World) -> Dataset:
    """Open the data set; the first rank checks its files while the others wait."""
    path = Path(config.data)

    def check() -> None:
        artifacts.verify(path, kind=KIND)

    world.by_first(check)
    return Dataset.open(path, verify=False)


def fingerprint(config: PretrainConfig, dataset: Dataset) -> str:
    """Return what identifies the data set's content; refuse one that is not the one the settings name."""
    found = identity_of(dataset.path, named=config.data_sha256)
    if config.data_sha256 not in (None, found):
        remedy = "Give the run its data back, or leave data_sha256 out of a new run's settings"
        raise InputError(
            "is not the data set that the settings were made for", where=config.data, remedy=remedy
        )
    return found


def gather(config: PretrainConfig, dataset: Dataset, world: World) -> Material:
    """Read what a run needs of its data set, and draw what it is measured on.

    Raises:
        InputError: nothing is held out, or no pairs can be made; a step is narrower than the ranks; or the old data
            have other pieces.
    """
    world.check_width([phase.batch_size for phase in config.phases])
    tokenizer, train = Tokenizer.load(dataset.path), dataset.split("train")
    return Material(
        world=world,
        tokenizer=tokenizer,
        train=train,
        num_held_out=len(dataset.split("validation")),
        held_out=_held_out_batches(config, dataset, tokenizer),
        old_held_out=_old_held_out_batches(config, tokenizer),
        unigram_nats=unigram_nats(train, dataset.vocab_size).to(world.device),
    )


def work_of(config: PretrainConfig, material: Material, run: Path, progress: Progress) -> PretrainingWork:
    """Return what the training loop is to do with the material; Google's instances are built in `run`."""
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


def _instances(
    config: PretrainConfig,
    number: int,
    phase: PhaseConfig,
    material: Material,
    run: Path,
    progress: Progress,
) -> InstanceSource:
    """Draw a phase's instances as they are read, or build Google's and keep them with the run."""
    google = config.google_instances
    if google is None:
        return drawn_instances(
            config, phase, material.train, material.tokenizer, seed=config.seed, number=number
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

    made_with = directory.with_suffix(".json")

    def build() -> None:
        if directory.exists():
            _check_made_with(made_with, settings, run)
            return
        artifacts.remove_leftovers(directory.parent)
        artifacts.write_text(made_with, json.dumps(asdict(settings), indent=1) + "\n")
        materialise(material.train, material.tokenizer, directory, settings, progress=progress)

    material.world.by_first(build)
    return MaterialisedInstances.open(directory)


def _check_made_with(file: Path, settings: GoogleSettings, run: Path) -> None:
    """Refuse to go on with instances that were built with other settings; runs of old did not write theirs down."""
    if not file.exists():
        return
    began = read_json(file)
    for name, value in asdict(settings).items():
        if began.get(name) != value:
            raise not_as_begun(f"{name}, with which the instances were built,", run)


def drawn_instances(
    config: PretrainConfig,
    phase: PhaseConfig,
    documents: Documents,
    tokenizer: Tokenizer,
    *,
    seed: int,
    number: int,
) -> DrawnInstances:
    """Draw instances as a phase has them."""
    return DrawnInstances(
        documents,
        tokenizer,
        max_seq_length=phase.max_seq_length,
        max_predictions_per_seq=phase.max_predictions_per_seq,
        pairs=config.pairs,
        masking=config.masking,
        seed=seed,
        phase=number,
        targets=TARGETS[config.model.attends_to],
    )


def _held_out_batches(config: PretrainConfig, dataset: Dataset, tokenizer: Tokenizer) -> list[PackedBatch]:
    """Draw the held-out instances once, at the last phase's length, so that all evaluations compare."""
    documents = dataset.split("validation")
    if not len(documents):
        what = "no documents are held out to measure on; of two that differ one is"
        remedy = "Build it of more documents: cloze corpus --format lines makes one of each line"
        raise InputError(what, where=dataset.path, remedy=remedy)
    if config.pairs.next_sentence and not dataset.makes_pairs:
        what = f"fewer than {MIN_DOCUMENTS_TO_SPLIT} documents have two sentences, and pairs need two to measure on"
        remedy = "Build it of more text, or do without pairs: --set pairs.next_sentence=false"
        raise InputError(what, where=dataset.path, remedy=remedy)
    source = drawn_instances(config, config.phases[-1], documents, tokenizer, seed=_HELD_OUT_SEED, number=0)
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
    return _held_out_batches(config, old, tokenizer)


def unigram_nats(documents: Documents, vocab_size: int) -> Tensor:
    """Return -log p of every piece, p its share of the training text with one added to each count."""
    counts = 1.0 + documents.piece_counts(vocab_size)
    return torch.from_numpy(-np.log(counts / counts.sum())).float()
