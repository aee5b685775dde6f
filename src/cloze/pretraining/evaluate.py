"""How well a pre-trained model names hidden words and tells next sentences, on any text."""

import math
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from cloze import artifacts
from cloze.corpus.batches import DrawnInstances
from cloze.corpus.build import build_dataset
from cloze.corpus.masking import MaskingConfig
from cloze.corpus.pairs import PairsConfig
from cloze.corpus.store import KIND, Dataset, Documents
from cloze.errors import InputError
from cloze.locate import resolve_checkpoint
from cloze.model.heads import BertForPreTraining
from cloze.pretraining.continuing import load_for_pretraining
from cloze.pretraining.material import unigram_nats
from cloze.pretraining.objective import TARGETS, PretrainingWork, held_out_batches
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer
from cloze.training.distribution import World
from cloze.training.precision import resolve_device


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainingEvaluationConfig:
    """What is asked of the model, and of how much of the text."""

    max_seq_length: int = 128
    max_instances: int = 10_000
    """Sequences at most, from all over the text."""
    pairs: PairsConfig = field(default_factory=PairsConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    seed: int = 0
    """Of pairs and masks."""
    micro_batch_tokens: int = 8192

    def __post_init__(self) -> None:
        if not 8 <= self.max_seq_length <= self.micro_batch_tokens or self.max_instances < 1:
            what = f"max_seq_length {self.max_seq_length} is not in 8..{self.micro_batch_tokens}"
            raise ValueError(f"{what}, or max_instances {self.max_instances} is not positive")


@dataclass(frozen=True, slots=True)
class PretrainingEvaluation:
    """Means over hidden words and over pairs, and how many there were."""

    masked_lm: dict[str, float]
    next_sentence: dict[str, float]
    masked_words: int
    pairs: int


def evaluate_pretrained(
    model: Path,
    data: Sequence[str | Path],
    config: PretrainingEvaluationConfig = PretrainingEvaluationConfig(),
    *,
    device: str = "auto",
    progress: Progress = SILENT,
) -> PretrainingEvaluation:
    """Measure a pre-trained model in float32; one that looks one way names neighbours in the place of hidden words.

    Args:
        model: a checkpoint with both heads of pre-training, or a run; without pairs that of masked words will do.
        data: text as `build_dataset` takes it; or one data set, of which the held-out documents are taken.
        config: what is asked.
        device: cpu, cuda, mps or auto.
        progress: where to tell how far it is.

    Raises:
        InputError: the model has no such heads, or the text or the data set is wrong.
    """
    checkpoint = resolve_checkpoint(Path(model))
    bert = load_for_pretraining(checkpoint, next_sentence=config.pairs.next_sentence, seed=config.seed)
    bert = bert.to(resolve_device(device))
    if config.max_seq_length > bert.config.max_position_embeddings:
        what = (
            f"max_seq_length {config.max_seq_length}, the model takes {bert.config.max_position_embeddings}"
        )
        raise InputError(what, where=checkpoint)
    if len(data) == 1 and (Path(data[0]) / artifacts.MANIFEST).is_file():
        dataset = Dataset.open(Path(data[0]))
        if Tokenizer.load(dataset.path).pieces != Tokenizer.load(checkpoint).pieces:
            remedy = "Give the text itself, or build the data set with --vocab MODEL"
            raise InputError("has another vocabulary than the model", where=dataset.path, remedy=remedy)
        held_out = dataset.split("validation")
        if not len(held_out):
            remedy = "Give the text itself, of which everything is measured"
            raise InputError("no documents are held out to measure on", where=dataset.path, remedy=remedy)
        return _measure(bert, held_out, dataset, config, progress)
    with tempfile.TemporaryDirectory(prefix="cloze-") as directory:
        build_dataset(data, checkpoint, Path(directory) / KIND, progress=progress)
        dataset = Dataset.open(Path(directory) / KIND, verify=False)
        return _measure(bert, dataset.documents, dataset, config, progress)


@torch.inference_mode()
def _measure(
    model: BertForPreTraining,
    documents: Documents,
    dataset: Dataset,
    config: PretrainingEvaluationConfig,
    progress: Progress,
) -> PretrainingEvaluation:
    source = DrawnInstances(
        documents,
        Tokenizer.load(dataset.path),
        max_seq_length=config.max_seq_length,
        max_predictions_per_seq=None,
        pairs=config.pairs,
        masking=config.masking,
        seed=config.seed,
        phase=0,
        targets=TARGETS[model.config.attends_to],
    )
    device = next(model.parameters()).device
    work = PretrainingWork(
        phases=[],
        held_out=held_out_batches(
            source, config.max_instances, model.config.attends_to, config.micro_batch_tokens
        ),
        unigram_nats=unigram_nats(documents, dataset.vocab_size).to(device),
        next_sentence=config.pairs.next_sentence,
        world=World(device),
    )
    sums: dict[str, float] = defaultdict(float)
    counts: dict[str, float] = defaultdict(float)
    with progress.bar("measuring", total=len(work.held_out), unit="batches") as bar:
        for measures in work.evaluate(model):
            for name, (total, number) in measures.items():
                sums[name] += total.item()
                counts[name] += number
            bar.advance(1)
    means = {name: total / max(counts[name], 1) for name, total in sums.items()}
    labels = np.concatenate([batch.next_sentence_labels for batch in work.held_out])
    random_share = float(labels.mean())
    masked = {name: value for name, value in means.items() if name.startswith("masked_lm")}
    pairs = {name: value for name, value in means.items() if name.startswith("next_sentence")}
    return PretrainingEvaluation(
        {**masked, "perplexity": math.exp(masked["masked_lm_loss"])},
        {**pairs, "majority_accuracy": max(random_share, 1 - random_share)} if pairs else {},
        int(counts["masked_lm_loss"]),
        len(labels) if pairs else 0,
    )
