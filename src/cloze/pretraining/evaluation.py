"""Evaluation of a pre-trained model on any text: masked words and next sentences."""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import torch

from cloze.choices import InferencePrecision
from cloze.config import Positive, Range, Settings
from cloze.data.build.corpus import build_dataset
from cloze.data.build.input_shards import BuildRun
from cloze.data.dataset import KIND, Dataset
from cloze.data.instances.instances import DynamicInstances
from cloze.data.instances.masking import MaskingConfig
from cloze.data.instances.pairs import PairsConfig
from cloze.errors import InputError
from cloze.file_names import MANIFEST
from cloze.pretraining.data import TARGETS_BY_ATTENTION, held_out_batches, unigram_nats
from cloze.pretraining.initial_weights import load_for_pretraining
from cloze.pretraining.objective import PretrainingObjective
from cloze.progress import SILENT, Progress
from cloze.tokenization.loading import load_tokenizer
from cloze.training.distributed import DistributedContext
from cloze.training.metric_sums import EvaluatedSums, add_sums, means_of, read_sums
from cloze.training.precision import prepare_for_inference, resolve_device

_DEFAULT_LENGTH = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainingEvaluationConfig(Settings):
    """Instances to evaluate on."""

    max_seq_length: Annotated[int | None, Range("[8, 10000000]")] = None
    """Maximum number of tokens, including [CLS] and both [SEP]; None takes 128, or fewer if the model has fewer."""
    max_instances: Positive[int] = 10_000
    """Maximum number of sequences, drawn from all of the text."""
    pairs: PairsConfig = field(default_factory=PairsConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    seed: int = 0
    """Seed of pairs and masks."""
    micro_batch_tokens: int = 8192


@dataclass(frozen=True, slots=True)
class PretrainingEvaluation:
    """Mean metrics of masked words and of pairs, and the numbers of both."""

    masked_lm: dict[str, float]
    next_sentence: dict[str, float]
    masked_words: int
    pairs: int


def evaluate_pretrained(
    checkpoint: Path,
    data: Sequence[str | Path],
    config: PretrainingEvaluationConfig = PretrainingEvaluationConfig(),
    *,
    device: str = "auto",
    precision: InferencePrecision | None = None,
    verify: bool = True,
    progress: Progress = SILENT,
) -> PretrainingEvaluation:
    """Evaluate a pre-trained model; a causal model predicts adjacent tokens instead of masked ones.

    Args:
        checkpoint: directory of a model with the heads of pre-training; without pairs the masked-word head is enough.
        data: text for `build_dataset`; or one data set, whose held-out documents are used.
        device: cpu, cuda, mps or auto.
        precision: number format of matrix products, as in `prepare_for_inference`.
        verify: check the files of the checkpoint.
    """
    context = DistributedContext(resolve_device(device))
    next_sentence = config.pairs.next_sentence
    bert = load_for_pretraining(checkpoint, next_sentence=next_sentence, seed=config.seed, verify=verify)
    bert = bert.to(context.device)
    prepare_for_inference(bert, precision)
    limit = bert.config.max_position_embeddings
    config = replace(config, max_seq_length=config.max_seq_length or min(_DEFAULT_LENGTH, limit))
    assert config.max_seq_length is not None
    if config.max_seq_length > limit:
        what = f"max_seq_length {config.max_seq_length}, the model takes {limit}"
        raise InputError(what, where=checkpoint, remedy=f"Say `max_seq_length={limit}`")
    with tempfile.TemporaryDirectory(prefix="cloze-") as directory:
        if len(data) == 1 and (Path(data[0]) / MANIFEST).is_file():
            dataset = Dataset.open(Path(data[0]))
            if load_tokenizer(dataset.path).tokens != load_tokenizer(checkpoint).tokens:
                remedy = "Give the text itself, or build the data set with `vocabulary=MODEL`"
                raise InputError("has another vocabulary than the model", where=dataset.path, remedy=remedy)
            documents = dataset.split("validation")
            if not len(documents):
                what = "no documents are held out to evaluate on"
                remedy = "Give the text itself: then all of it is used"
                raise InputError(what, where=dataset.path, remedy=remedy)
        else:
            run = BuildRun(progress=progress)
            build_dataset(data, checkpoint, Path(directory) / KIND, run=run)
            dataset = Dataset.open(Path(directory) / KIND, verify=False)
            documents = dataset.documents
        tokenizer = load_tokenizer(dataset.path)
        attends_to = bert.config.attends_to
        source = DynamicInstances(
            documents,
            tokenizer,
            max_seq_length=config.max_seq_length,
            max_predictions_per_seq=None,
            pairs=config.pairs,
            masking=config.masking,
            seed=config.seed,
            phase=0,
            targets=TARGETS_BY_ATTENTION[attends_to],
        )
        held_out = held_out_batches(source, config.max_instances, attends_to, config.micro_batch_tokens)
        nats = unigram_nats(documents.token_counts(dataset.vocab_size))
    objective = PretrainingObjective(
        bert,
        tokenizer,
        held_out=held_out,
        unigram_nats=nats,
        next_sentence=next_sentence,
        context=context,
    )
    batches: list[EvaluatedSums] = []
    with torch.inference_mode(), progress.bar("measuring", total=len(held_out), unit="batches") as bar:
        for batch_metrics in objective.evaluate():
            batches.append(batch_metrics)
            bar.advance(1)
        means = means_of(add_sums(read_sums(batches)), objective.loss_names)
    labels = np.concatenate([batch.next_sentence_labels for batch in held_out])
    random_share = float(labels.mean())
    masked = {name: value for name, value in means.items() if name.startswith("masked_lm")}
    pairs = {name: value for name, value in means.items() if name.startswith("next_sentence")}
    return PretrainingEvaluation(
        {**masked, "perplexity": math.exp(masked["masked_lm_loss"])},
        {**pairs, "majority_accuracy": max(random_share, 1 - random_share)} if pairs else {},
        sum(len(batch.masked_lm_ids) for batch in held_out),
        len(labels) if pairs else 0,
    )
