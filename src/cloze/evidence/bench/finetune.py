"""`cloze bench finetune`: an encoder tuned on the same data by both sides, seed by seed: scores, seconds an epoch."""

import gc
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from cloze import artifacts
from cloze.config import to_table
from cloze.errors import InputError
from cloze.evidence.bench.harness import (
    Check,
    Comparison,
    Timing,
    environment_of,
    require_peers,
)
from cloze.evidence.bench.parts import begin_parts
from cloze.evidence.bench.trainer import build_padded_model, train_with_trainer
from cloze.evidence.differences import paired_difference
from cloze.extras import require
from cloze.locate import resolve_checkpoint
from cloze.model.checkpoint import load_model
from cloze.progress import SILENT, Progress
from cloze.tasks.config import FinetuneConfig
from cloze.tasks.data import with_files
from cloze.tasks.run import Prepared, begin_run, precompute, prepare
from cloze.tasks.task import AnyTask
from cloze.training.distribution import World
from cloze.training.metrics_log import read_metrics
from cloze.training.precision import resolve_device, resolve_dtype

_OUTCOMES = "outcomes.json"

_TOLERANCE = 1e-4
"""How far logits of the same weights may be apart, in float32."""
_COMPARED_SEQUENCES = 32


@dataclass(frozen=True, slots=True)
class Outcome:
    """What fine-tuning with one seed gave one side."""

    side: str
    seed: int
    score: float
    """The task's main metric on the dev data, of the best epoch."""
    scores: dict[str, float]
    """All metrics, of that epoch."""
    seconds_per_epoch: float
    """Of training, the mean over epochs; scoring is not in it."""


def bench_finetune(
    task: AnyTask,
    config: FinetuneConfig,
    *,
    peers: Sequence[str] = ("transformers",),
    rounds: int = 5,
    parts: Path | None = None,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare fine-tuning from the same weights on the same examples with the same settings.

    Both sides begin a seed with the same encoder and the same new head, read the same pieces, and use the same AdamW,
    with bias correction as Trainer has it, and schedule, and take the examples in the same order, but for a peer that
    puts like lengths together; each draws its own dropout. They take turns in going first. On spans they differ:
    transformers' softmax goes over the padding, too.

    Args:
        task: what is learned.
        config: how; its seed is the first.
        peers: whom to measure beside cloze.
        rounds: how many seeds.
        parts: a directory for what is finished, so that a run that was stopped goes on; None keeps nothing.
        progress: where to tell how far it is.

    Raises:
        InputError: a setting or the data are wrong, a peer is unknown or not installed.
    """
    require_peers(peers, PEERS)
    require((*task.libraries, "scipy"), extra="tasks", where=task.name)
    if rounds < 2:
        raise InputError(
            f"{rounds} seeds have no deviation", where="--rounds", remedy="Take 5, or 2 at least"
        )
    _check_settings(config)
    optimizer = replace(config.optimizer, bias_correction=True, epsilon=1e-8)
    config = with_files(task, replace(config, optimizer=optimizer))
    device = resolve_device(config.device)
    dtype = resolve_dtype(config.precision, device)
    start = resolve_checkpoint(Path(config.model))
    prepared = precompute(prepare(task, config, start, World(device), progress), config, progress)
    check = _compare_logits(prepared, config)

    settings = {
        "threads": torch.get_num_threads(),
        "task": to_table(prepared.task),
        "run": to_table(config),
        "peers": list(peers),
    }
    outcomes = _read_finished(parts, settings)
    sides = [CLOZE, *(PEERS[peer] for peer in peers)]
    turns = [
        (side, config.seed + number)
        for number in range(rounds)
        for side in (sides if number % 2 == 0 else reversed(sides))
    ]
    left = [(side, seed) for side, seed in turns if (side.name, seed) not in outcomes]
    with progress.bar("fine-tuning", total=len(turns), unit="runs", done=len(turns) - len(left)) as bar:
        for side, seed in left:
            gc.collect()
            outcomes[side.name, seed] = _tune(side, prepared, replace(config, seed=seed))
            _keep(parts, outcomes.values())
            bar.advance(1)
            bar.show(seed=seed, side=side.name)

    by_side = {
        side.name: [outcomes[side.name, config.seed + number] for number in range(rounds)] for side in sides
    }
    num_sequences = sum(len(own) for own in prepared.data.train_features)
    return Comparison(
        name="finetune",
        settings={
            "task": task.name,
            "epochs": config.epochs,
            "batch_size": config.batch_size,
            "learning_rate": config.optimizer.learning_rate,
            "max_seq_length": config.max_seq_length,
            "matrix products": str(dtype).removeprefix("torch."),
            "seeds": rounds,
        },
        amount=num_sequences,
        unit="sequences",
        timings=tuple(
            Timing(side.name, side.does, tuple(outcome.seconds_per_epoch for outcome in by_side[side.name]))
            for side in sides
        ),
        checks=(check,),
        environment=environment_of(device, dtype, ["transformers", "accelerate"]),
        notes=(
            f"{len(prepared.data.train):,} examples to learn from, {len(prepared.data.dev):,} to be scored on; "
            f"an epoch is {num_sequences:,} sequences; times are of epochs, without scoring",
            *(
                line
                for peer in peers
                for line in _score_lines(config.metric_of(task), by_side["cloze"], by_side[peer])
            ),
        ),
        results={
            "outcomes": [asdict(outcome) for side in sides for outcome in by_side[side.name]],
            "differences": {
                peer: asdict(paired_difference(_scores(by_side["cloze"]), _scores(by_side[peer])))
                for peer in peers
            },
        },
    )


def _check_settings(config: FinetuneConfig) -> None:
    """Refuse what reaches one side alone.

    Raises:
        InputError: such a setting is not as it is by itself.
    """
    plain = FinetuneConfig(model=config.model, train=config.train)
    for setting in ("evaluations_per_epoch", "budget_seconds", "seeds", "grid"):
        if getattr(config, setting) != getattr(plain, setting):
            remedy = "Leave it out; --rounds says how many seeds"
            raise InputError(f"{setting} is for cloze's side alone", where="--set", remedy=remedy)


def _read_finished(parts: Path | None, settings: dict[str, Any]) -> dict[tuple[str, int], Outcome]:
    """Return what a run with the same settings has finished, and begin to keep what this one does."""
    if parts is None:
        return {}
    begin_parts(parts, settings)
    if not (parts / _OUTCOMES).is_file():
        return {}
    found = [Outcome(**values) for values in json.loads((parts / _OUTCOMES).read_text("utf-8"))]
    return {(outcome.side, outcome.seed): outcome for outcome in found}


def _keep(parts: Path | None, outcomes: Iterable[Outcome]) -> None:
    """Write down all that is finished, in one step: a kill leaves what was there before, or this."""
    if parts is not None:
        artifacts.write_text(
            parts / _OUTCOMES, json.dumps([asdict(outcome) for outcome in outcomes], indent=1)
        )


def _scores(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.score for outcome in outcomes]


def _score_lines(metric: str, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> list[str]:
    lines = []
    for outcomes in (ours, theirs):
        scores = _scores(outcomes)
        each = " ".join(f"{score:.4g}" for score in scores)
        lines.append(f"{outcomes[0].side}: {metric} {fmean(scores):.4f} ± {stdev(scores):.4f} ({each})")
    difference = paired_difference(_scores(ours), _scores(theirs))
    lines.append(
        f"cloze less {theirs[0].side}: {difference.mean:+.4f}, "
        f"95% interval {difference.low:+.4f} to {difference.high:+.4f}, pairs {len(ours)}"
    )
    return lines


@dataclass(frozen=True, slots=True)
class _Side:
    name: str
    does: str
    tune: Callable[[Prepared, FinetuneConfig, Path], tuple[dict[str, float], float]]


def _tune(side: _Side, prepared: Prepared, config: FinetuneConfig) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="cloze-bench-") as directory:
        scores, seconds = side.tune(prepared, config, Path(directory) / "run")
    return Outcome(side.name, config.seed, scores[config.metric_of(prepared.task)], scores, seconds)


def _tune_ours(prepared: Prepared, config: FinetuneConfig, run: Path) -> tuple[dict[str, float], float]:
    scores = begin_run(prepared, config, run, SILENT)
    trained = [row for row in read_metrics(run) if row["kind"] == "train"]
    before = [0, *(row["tokens"] for row in trained)]
    seconds = sum(
        (row["tokens"] - tokens) / row["tokens_per_second"]
        for tokens, row in zip(before, trained, strict=False)
    )
    return scores, seconds / config.epochs


def _tune_with_trainer(
    prepared: Prepared, config: FinetuneConfig, run: Path, *, tuned: bool
) -> tuple[dict[str, float], float]:
    padded = build_padded_model(_new_model(prepared, config), prepared.task)
    scores, seconds = train_with_trainer(padded, prepared, config, directory=run, tuned=tuned)
    metric = config.metric_of(prepared.task)
    choose = min if metric in prepared.task.errors else max
    return choose(scores, key=lambda epoch: epoch[metric]), fmean(seconds)


CLOZE = _Side("cloze", "cloze finetune: packed batches, fused AdamW", _tune_ours)
PEERS: Mapping[str, _Side] = MappingProxyType(
    {
        "transformers": _Side(
            "transformers",
            "Trainer with cloze's pieces: batches padded to their longest, float32, sdpa attention, fused AdamW",
            partial(_tune_with_trainer, tuned=False),
        ),
        "transformers-tuned": _Side(
            "transformers-tuned",
            "the same in bfloat16, with sequences of like lengths in a batch",
            partial(_tune_with_trainer, tuned=True),
        ),
    }
)
"""Whom cloze is compared with."""


def _new_model(prepared: Prepared, config: FinetuneConfig) -> nn.Module:
    """Return the model that a run of ours with these settings begins with."""
    generator = torch.Generator().manual_seed(config.seed)
    return prepared.task.head(load_model(prepared.start), generator=generator)


def _compare_logits(prepared: Prepared, config: FinetuneConfig) -> Check:
    features = [feature for own in prepared.data.train_features for feature in own][:_COMPARED_SEQUENCES]
    packed = prepared.task.batch(features).packed
    ours = _new_model(prepared, config).eval()
    theirs = build_padded_model(ours, prepared.task).eval()
    with torch.inference_mode():
        difference = (ours(packed) - theirs(packed)).abs().max().item()
    return Check(f"float32 logits of {len(features)} sequences beside transformers", difference, _TOLERANCE)
