"""`python -m benchmarks finetune`: one encoder fine-tuned by cloze and peers, seed by seed: scores and speed."""

import gc
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, ClassVar, TypeAlias

import torch
from torch import nn

from benchmarks.harness import Check, Peers, Result, TimedBenchmark, Timing, describe_machine, dtype_name
from benchmarks.transformers_trainer import build_padded_model, train_with_trainer
from cloze.api.settings import finetuning_layers, resolve_finetuning
from cloze.choices import Precision
from cloze.cli.parameters import POSITIONAL
from cloze.config import read_dict
from cloze.errors import InputError
from cloze.finetuning.config import FinetuneConfig
from cloze.finetuning.finetune import scores_of_report
from cloze.finetuning.preparation import PreparedData, prepare_data
from cloze.finetuning.run import train_and_score
from cloze.metrics.regression import LOWER_IS_BETTER
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model
from cloze.optional_dependencies import require
from cloze.training.distributed import DistributedContext
from cloze.training.metrics_log import read_metrics
from cloze.training.precision import resolve_device, resolve_dtype
from cloze.training.run import Launch
from experiments.differences import paired_difference

_TOLERANCE = 1e-4
"""Maximum difference of logits of the same weights, in float32."""
_COMPARED_SEQUENCES = 32

ScoresAndSeconds: TypeAlias = tuple[dict[str, float], float]
"""The metrics of the best epoch, and the mean seconds of an epoch."""


@dataclass(frozen=True, kw_only=True)
class Finetune(TimedBenchmark):
    """Fine-tuning of one encoder on one task, seed by seed: scores, and seconds per epoch."""

    name: ClassVar[str] = "finetune"
    peers_known: ClassVar[Collection[str]] = ("transformers", "transformers-tuned")

    task: Annotated[str, POSITIONAL]
    """The task; cloze tasks lists all of them."""
    model: str
    """The pre-trained checkpoint to start from."""
    data: Path
    """A file in the task's format, or a directory with the files of a benchmark."""
    vs: Peers = "transformers"
    """Compared programs: transformers (float32), transformers-tuned (bfloat16, similar lengths together)."""
    config: str | None = None
    """A TOML file, or the name of a recipe, as for cloze finetune."""
    settings: tuple[str, ...] = ()
    """One setting, as in --set epochs=4; may be given several times."""
    dtype: Precision = "auto"
    """Number format of cloze's matrix products; auto is bfloat16 where the machine is faster with it."""
    device: str = "cpu"
    """cpu, cuda, mps or auto."""

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Compare fine-tuning from the same weights on the same examples with the same settings; a round is a seed.

        All contestants start a seed with the same encoder and new head, read the same tokens, use the same AdamW (with
        bias correction, as in transformers' Trainer) and schedule, and take the examples in the same order, except a
        peer that batches similar lengths; each draws its own dropout. The first one changes from seed to seed. Spans
        differ: transformers' softmax includes the padding.
        """
        if self.rounds < 2:
            what = f"{self.rounds} seeds have no deviation"
            raise InputError(what, where="--rounds", remedy="Choose 5, or 2 at least")
        settings = {"model": str(self.model), "train": str(self.data), "precision": self.dtype}
        settings |= {"device": self.device} | read_dict(overrides=self.settings)
        task, config = resolve_finetuning(
            finetuning_layers(self.task, None, {"config": self.config, "settings": settings})
        )
        require(["scipy"], extra="tasks", where=task.name)
        _check_settings(config)
        optimizer = replace(config.optimizer, bias_correction=True, epsilon=1e-8)
        config = replace(config, optimizer=optimizer)
        device = resolve_device(config.device)
        dtype = resolve_dtype(config.precision, device)
        prepared = prepare_data(task, config, DistributedContext(device), self.progress)
        config = prepared.config
        checks: list[Check] = []
        for name in peers:
            with self.attempt(name):
                checks = [_compare_logits(prepared, config)]
        outcomes = self._fine_tune_all(prepared, config, ["cloze", *peers])
        peers = [name for name in peers if name in outcomes]
        ours = outcomes["cloze"]
        timings = [
            Timing(name, CONTESTANTS[name][0], tuple(outcome.seconds_per_epoch for outcome in by_seed))
            for name, by_seed in outcomes.items()
        ]
        metric = prepared.metric
        num_sequences = sum(map(len, prepared.data.train_features))
        return self.describe(
            timings,
            settings={
                "task": task.name,
                "epochs": config.epochs,
                "batch_size": config.batch_size,
                "learning_rate": config.optimizer.learning_rate,
                "max_seq_length": config.max_seq_length,
                "matrix products": dtype_name(dtype),
                "seeds": self.rounds,
            },
            amount=num_sequences,
            unit="sequences",
            checks=checks,
            environment=describe_machine(device, dtype, ["transformers", "accelerate"]),
            notes=(
                f"{len(prepared.data.train):,} training examples, {len(prepared.data.dev):,} dev examples; "
                f"an epoch is {num_sequences:,} sequences; times are of epochs, without scoring",
                *(line for name in peers for line in _compare_scores(metric, ours, outcomes[name])),
            ),
            more={
                "outcomes": [asdict(outcome) for by_seed in outcomes.values() for outcome in by_seed],
                "differences": {
                    name: asdict(paired_difference(_scores(ours), _scores(outcomes[name]))) for name in peers
                },
            },
        )

    def _fine_tune_all(
        self, prepared: PreparedData, config: FinetuneConfig, names: list[str]
    ) -> dict[str, list["Outcome"]]:
        """Fine-tune every contestant with every seed."""
        outcomes = defaultdict(list)
        with self.progress.bar("fine-tuning", total=len(names) * self.rounds, unit="runs") as bar:
            for number in range(self.rounds):
                seeded = replace(config, seed=config.seed + number)
                for name in names if number % 2 == 0 else names[::-1]:
                    gc.collect()
                    with self.attempt(name):
                        if name not in self.failures:
                            outcomes[name].append(fine_tune(name, prepared, seeded))
                    bar.advance(1)
                    bar.show(seed=seeded.seed, contestant=name)
        return {name: outcomes[name] for name in names if name not in self.failures}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of fine-tuning with one seed."""

    side: str
    seed: int
    score: float
    """The task's main metric on the dev data, of the best epoch."""
    scores: dict[str, float]
    """All metrics of that epoch."""
    seconds_per_epoch: float
    """Mean training time of an epoch; scoring is not included."""


def _check_settings(config: FinetuneConfig) -> None:
    """Refuse settings that apply to cloze alone."""
    default = FinetuneConfig(model=config.model, train=config.train)
    for setting in ("evaluations_per_epoch", "budget_seconds", "seeds", "grid"):
        if getattr(config, setting) != getattr(default, setting):
            remedy = "Leave it out; --rounds sets the number of seeds"
            raise InputError(f"{setting} applies to cloze alone", where="--set", remedy=remedy)


def _scores(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.score for outcome in outcomes]


def _compare_scores(metric: str, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> list[str]:
    lines = []
    for outcomes in (ours, theirs):
        scores = _scores(outcomes)
        values = " ".join(f"{score:.4g}" for score in scores)
        lines.append(f"{outcomes[0].side}: {metric} {fmean(scores):.4f} ± {stdev(scores):.4f} ({values})")
    difference = paired_difference(_scores(ours), _scores(theirs))
    lines.append(
        f"cloze less {theirs[0].side}: {difference.mean:+.4f}, "
        f"95% interval {difference.low:+.4f} to {difference.high:+.4f}, pairs {len(ours)}"
    )
    return lines


def fine_tune(name: str, prepared: PreparedData, config: FinetuneConfig) -> Outcome:
    """Fine-tune and score a contestant with the seed of `config`."""
    with tempfile.TemporaryDirectory(prefix="cloze-bench-") as directory:
        scores, seconds = CONTESTANTS[name][1](prepared, config, Path(directory) / "run")
    return Outcome(name, config.seed, scores[prepared.metric], scores, seconds)


def _fine_tune_cloze(prepared: PreparedData, config: FinetuneConfig, run: Path) -> ScoresAndSeconds:
    scores = scores_of_report(train_and_score(replace(prepared, config=config), run, Launch()))
    rows = [row for row in read_metrics(run) if row["kind"] == "train"]
    before = [0, *(row["tokens"] for row in rows)]
    seconds = sum(
        (row["tokens"] - tokens) / row["tokens_per_second"] for tokens, row in zip(before, rows, strict=False)
    )
    return scores, seconds / config.epochs


def _fine_tune_transformers(
    prepared: PreparedData, config: FinetuneConfig, run: Path, *, tuned: bool
) -> ScoresAndSeconds:
    padded = build_padded_model(_new_model(prepared, config), prepared.task)
    scores, seconds = train_with_trainer(padded, prepared, config, directory=run, tuned=tuned)
    metric = prepared.metric
    best = min if metric in LOWER_IS_BETTER else max
    return best(scores, key=lambda epoch: epoch[metric]), fmean(seconds)


CONTESTANTS: Mapping[str, tuple[str, Callable[[PreparedData, FinetuneConfig, Path], ScoresAndSeconds]]]
CONTESTANTS = {
    "cloze": ("cloze finetune: packed batches, fused AdamW", _fine_tune_cloze),
    "transformers": (
        "Trainer with cloze's tokens: batches padded to their longest, float32, sdpa attention, fused AdamW",
        partial(_fine_tune_transformers, tuned=False),
    ),
    "transformers-tuned": (
        "the same in bfloat16, with sequences of similar lengths in a batch",
        partial(_fine_tune_transformers, tuned=True),
    ),
}
"""By contestant, its work, and how it is fine-tuned."""


def _new_model(prepared: PreparedData, config: FinetuneConfig) -> nn.Module:
    """Return the model with which a run of cloze with these settings starts."""
    generator = torch.Generator().manual_seed(config.seed)
    model: nn.Module = prepared.task.answer.head(load_model(prepared.start), generator=generator)
    return model


def _compare_logits(prepared: PreparedData, config: FinetuneConfig) -> Check:
    features = [feature for features in prepared.data.train_features for feature in features][
        :_COMPARED_SEQUENCES
    ]
    batch: Any = to_device(prepared.task.answer.batch(features))
    ours = _new_model(prepared, config).eval()
    theirs = build_padded_model(ours, prepared.task).eval()
    with torch.inference_mode():
        difference = (ours(batch) - theirs(batch)).abs().max().item()
    what = f"float32 logits of {len(features)} sequences compared with transformers"
    return Check(what, difference, _TOLERANCE)
