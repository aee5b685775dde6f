"""The data of a pre-training run: its data set, its instances, and the held-out instances to evaluate on."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cloze import artifacts
from cloze.choices import AttendsTo
from cloze.data.batch import DataPosition, Integers, PretrainingBatch
from cloze.data.build.part_files import content_hash
from cloze.data.dataset import MIN_DOCUMENTS_FOR_PAIRS, Dataset, Documents, dataset_fingerprint
from cloze.data.instances.google_instances import KIND, GoogleInstances, GoogleSettings, materialize
from cloze.data.instances.instances import BlockPlans, DynamicInstances, InstanceSource, micro_batches, take
from cloze.data.instances.masking import Targets
from cloze.errors import InputError
from cloze.pretraining.config import PhaseConfig, PretrainConfig
from cloze.progress import Progress
from cloze.tokenization.loading import load_wordpiece
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.training.distributed import DistributedContext
from cloze.training.objective import StepData

Reals: TypeAlias = npt.NDArray[np.float64]

TARGETS_BY_ATTENTION: Mapping[AttendsTo, Targets] = MappingProxyType(
    {"all": "masked", "left": "next", "right": "previous"}
)
"""The tokens that an encoder learns to predict, by those that it attends to."""
_HELD_OUT_SEED = 0  # the same pairs and masks in every run over the same data
_CAUSAL_PREDICTIONS = 8  # a causal encoder predicts every token, a bidirectional one about 15%


def verify_data(config: PretrainConfig) -> PretrainConfig:
    """Verify the data set of a run; return the settings with its SHA-256."""
    fingerprint = dataset_fingerprint(Dataset.open(Path(config.data)).path)
    if config.data_sha256 not in (None, fingerprint):
        what = "is not the data set that the settings were made for"
        remedy = "Restore the run's data, or leave data_sha256 out of a new run's settings"
        raise InputError(what, where=config.data, remedy=remedy)
    return replace(config, data_sha256=fingerprint)


@dataclass(frozen=True, slots=True)
class PretrainingData:
    """The data of a run, read and checked before anything is written."""

    context: DistributedContext
    tokenizer: WordPieceTokenizer
    train: Documents
    num_held_out: int
    """Held-out documents."""
    held_out: Sequence[PretrainingBatch]
    unigram_nats: Tensor

    @classmethod
    def load(cls, config: PretrainConfig, context: DistributedContext) -> "PretrainingData":
        """Read a run's data set, and draw the instances to evaluate on."""
        path = Path(config.data)
        dataset = Dataset.open(path, verify=False)
        context.check_batch_sizes([phase.batch_size for phase in config.phases])
        tokenizer, documents = load_wordpiece(path), dataset.split("validation")
        if not len(documents):
            what = "no documents are held out to evaluate on; one is held out of two different documents"
            remedy = "Build it of more documents: cloze corpus --format lines makes one of each line"
            raise InputError(what, where=path, remedy=remedy)
        if config.pairs.next_sentence and not dataset.supports_pairs:
            what = f"fewer than {MIN_DOCUMENTS_FOR_PAIRS} documents have two sentences, and pairs need two"
            remedy = "Build it of more text, or do without pairs: `pairs.next_sentence=false`"
            raise InputError(what, where=path, remedy=remedy)
        # drawn once, at the length of the last phase, so that all evaluations compare
        source = build_dynamic_instances(
            config, config.phases[-1], documents, tokenizer, seed=_HELD_OUT_SEED, number=0
        )
        count, attends_to = config.evaluation.max_instances, config.model.attends_to
        return cls(
            context=context,
            tokenizer=tokenizer,
            train=dataset.split("train"),
            num_held_out=len(documents),
            held_out=held_out_batches(source, count, attends_to, config.micro_batch_on(context.device)),
            unigram_nats=unigram_nats(dataset.train_token_counts),
        )


@dataclass(frozen=True, slots=True)
class PretrainingBatches:
    """The training batches of a run, of which this rank takes its share of each step."""

    phases: Sequence[tuple[PhaseConfig, InstanceSource]]
    context: DistributedContext

    def step_data(
        self, progress: float, position: DataPosition, micro_batch_tokens: int
    ) -> StepData[PretrainingBatch]:
        number = int(phase_indices(np.array(progress), [phase for phase, _ in self.phases]))
        if number != position.phase:
            position = DataPosition(phase=number)
        phase, source = self.phases[number]
        parts, next_position = take(source, position, phase.batch_size)
        batches: list[PretrainingBatch] = []
        rank, world_size, before = self.context.rank, self.context.world_size, 0
        for block, positions in parts:
            # every n-th instance of the whole batch, not of each part, so that all ranks have equally many
            share = positions[(rank - before) % world_size :: world_size]
            before += len(positions)
            if len(share):
                batches += micro_batches(source, block, share, micro_batch_tokens, progress=progress)
        return StepData(
            batches=batches,
            num_tokens=sum(len(batch.input_ids) for batch in batches),
            num_targets={
                "masked_lm_loss": sum(len(batch.masked_lm_ids) for batch in batches),
                "next_sentence_loss": sum(len(batch.next_sentence_labels) for batch in batches),
            },
            next_position=next_position,
            name=f"phase {number + 1}, epoch {position.epoch}, block {position.block}, instances from {position.index}",
        )


def build_batches(
    config: PretrainConfig, data: PretrainingData, run: Path, progress: Progress
) -> PretrainingBatches:
    """Return the training batches; Google's instances are built in the directory of the run."""
    if config.google_instances is None:
        plans: BlockPlans = {}
        sources: list[InstanceSource] = [
            build_dynamic_instances(
                config, phase, data.train, data.tokenizer, seed=config.seed, number=number, plans=plans
            )
            for number, phase in enumerate(config.phases)
        ]
    else:
        sources = [
            _google_instances(config, number, data, run, progress) for number in range(len(config.phases))
        ]
    return PretrainingBatches(list(zip(config.phases, sources, strict=True)), data.context)


def _google_instances(
    config: PretrainConfig, number: int, data: PretrainingData, run: Path, progress: Progress
) -> GoogleInstances:
    """Build the instances of a phase in the run's directory, unless a resumed run has them."""
    phase, google = config.phases[number], config.google_instances
    assert google is not None
    settings = GoogleSettings(
        max_seq_length=phase.max_seq_length,
        max_predictions_per_seq=phase.max_predictions_per_seq or phase.max_seq_length,
        dupe_factor=google.dupe_factor,
        short_seq_prob=config.pairs.short_seq_prob,
        masked_lm_prob=config.masking.masked_lm_prob,
        whole_word=config.masking.whole_word,
        seed=config.seed,
    )
    directory = run / "instances" / f"phase-{number + 1}-{content_hash(asdict(settings))}"

    def build() -> None:
        if directory.exists():
            artifacts.verify(directory, kind=KIND)
        else:
            artifacts.remove_temporary_files(directory.parent)
            materialize(data.train, data.tokenizer, directory, settings, progress=progress)

    data.context.run_on_rank_zero(build)
    return GoogleInstances.open(directory, verify=False)


def build_dynamic_instances(
    config: PretrainConfig,
    phase: PhaseConfig,
    documents: Documents,
    tokenizer: Tokenizer,
    *,
    seed: int,
    number: int,
    plans: BlockPlans | None = None,
) -> DynamicInstances:
    """Return the instances of a phase, drawn when they are read."""
    return DynamicInstances(
        documents,
        tokenizer,
        max_seq_length=phase.max_seq_length,
        max_predictions_per_seq=phase.max_predictions_per_seq,
        pairs=config.pairs,
        masking=config.masking,
        seed=seed,
        phase=number,
        targets=TARGETS_BY_ATTENTION[config.model.attends_to],
        plans={} if plans is None else plans,
    )


def held_out_batches(
    source: InstanceSource, count: int, attends_to: AttendsTo, micro_batch_tokens: int
) -> list[PretrainingBatch]:
    """Return the first instances of a block, whose order is random, as batches to evaluate on."""
    tokens = micro_batch_tokens if attends_to == "all" else micro_batch_tokens // _CAUSAL_PREDICTIONS
    return list(micro_batches(source, 0, np.arange(min(source.num_instances(0), count)), tokens))


def phase_indices(progress: Reals, phases: Sequence[PhaseConfig]) -> Integers:
    """Return the phase of each step that begins at a share `progress` of the run."""
    ends = np.cumsum([phase.fraction for phase in phases])
    return np.minimum(np.searchsorted(ends, progress + 1e-9, side="right"), len(phases) - 1)


def steps_per_phase(steps: int, phases: Sequence[PhaseConfig]) -> list[int]:
    """Return the number of steps of each phase; a short phase of a short run may have none."""
    ends = [
        bisect_right(
            range(steps), number, key=lambda step: int(phase_indices(np.array(step / steps), phases))
        )
        for number in range(len(phases))
    ]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def unigram_nats(token_counts: Integers) -> Tensor:
    """Return -log p of every token, where p is its share of the text with one added to each count."""
    counts = 1.0 + token_counts
    return torch.from_numpy(-np.log(counts / counts.sum())).float()
