"""`cloze bench distribution`: what a pre-training step of several ranks spends on each other's gradients.

The ranks are processes of this machine, started by torchrun's launcher; they speak over its loopback (gloo), or from
device to device (NCCL and its like).

Communication is what a step takes beyond the same step without it: every rank computes the same share of the batch, at
the same time, and sends nothing. One rank by itself would not do for that: with the others' memory bandwidth, caches
and clock at its disposal it is faster, and the difference would be taken for communication. A step is over when its
last rank is; so what ranks wait for one with more tokens is in all figures, and cancels out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import median
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.futures import Future

from cloze.errors import InputError, RunError
from cloze.evidence.bench.harness import (
    LEAST_ROUNDS,
    Check,
    Side,
    Timing,
    alternate,
    environment_of,
    require_checks,
    wait_for,
)
from cloze.evidence.bench.pretrain import (
    OurSteps,
    PretrainBenchmark,
    begin_steps,
    begin_training,
    build_model,
    draw_step,
)
from cloze.pretraining.config import Size
from cloze.progress import SILENT, Progress
from cloze.training.cost import parameter_bytes
from cloze.training.distribution import DistributionConfig, World, join_world
from cloze.training.memory import keep_freed_memory
from cloze.training.precision import Precision, resolve_device, resolve_dtype
from cloze.training.replicas import Alone, Replica, Replicated, replicate

COMPUTING, OVERLAPPED, AFTERWARDS, SHARDED, SENDING = (
    "computing",
    "DDP",
    "DDP, afterwards",
    "FSDP2",
    "sending",
)

_DOES: Mapping[str, str] = MappingProxyType(
    {
        COMPUTING: "every rank its share of the batch, all at once, and nothing is sent",
        OVERLAPPED: "gradients are summed in buckets while the backward pass goes on: what training does",
        AFTERWARDS: "the same buckets, all of them sent when the backward pass is over",
        SHARDED: "weights are shared out, and put together layer by layer when they are needed",
        SENDING: "as many bytes as the gradients have, summed over the ranks with nothing else to do",
    }
)
_BUCKET_BYTES = 25 * 2**20  # DDP's
_TOLERANCES = MappingProxyType({torch.float32: (1e-5, 1e-3), torch.bfloat16: (2e-2, 5e-2)})
"""By number format: how far the losses, in nats, and the gradient norms, relatively, may be from those of one rank."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DistributionBenchmark:
    """What is measured."""

    sizes: Sequence[Size] = ("mini", "base")
    ranks: int = 2
    batch_size: int = 32
    """Sequence pairs a step, of all ranks: 16 a rank are those of the paper's BERT on its TPU chips."""
    max_seq_length: int = 128
    precision: Precision = "float32"
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class SizeFound:
    """What was found of one size of the encoder."""

    size: Size
    tokens: int
    """In a step, of all ranks."""
    gradient_bytes: int
    """Summed over the ranks in a step."""
    timings: Mapping[str, Timing]
    """Seconds of a step, until its last rank is over; of `SENDING`, of the sums alone."""
    checks: tuple[Check, ...]

    def communication_shares(self, side: str) -> list[float]:
        """Return which part of a side's step, round by round, is not computing."""
        rounds = zip(self.timings[COMPUTING].seconds, self.timings[side].seconds, strict=True)
        return [1 - computing / whole for computing, whole in rounds]

    @property
    def hidden_share(self) -> float | None:
        """Which part of what communication adds afterwards overlap takes away; None where it adds nothing."""
        added = self.timings[AFTERWARDS].median - self.timings[COMPUTING].median
        saved = self.timings[AFTERWARDS].median - self.timings[OVERLAPPED].median
        return saved / added if added > 0 else None

    @property
    def sent_bytes_per_second(self) -> list[float]:
        """Return the rate of sums with nothing else to do, round by round."""
        return [self.gradient_bytes / seconds for seconds in self.timings[SENDING].seconds]

    def as_dict(self) -> dict[str, Any]:
        """Return figures as what JSON can say."""
        return {
            "size": self.size,
            "tokens_per_step": self.tokens,
            "gradient_bytes_per_step": self.gradient_bytes,
            "sent_bytes_per_second": _spread(self.sent_bytes_per_second),
            "hidden_share": self.hidden_share,
            "sides": [
                {
                    "name": name,
                    "does": timing.does,
                    **_spread(timing.seconds),
                    "seconds": list(timing.seconds),
                    "communication_share": None
                    if name == SENDING
                    else _spread(self.communication_shares(name)),
                }
                for name, timing in self.timings.items()
            ],
            "checks": [{**asdict(check), "holds": check.holds} for check in self.checks],
        }

    def as_text(self) -> str:
        """Return a table for a person."""
        lines = [
            f"{self.size}: {self.tokens:,} tokens a step, {self.gradient_bytes / 1e6:,.1f} MB of gradients",
            f"{'seconds a step':<16} {'median':>8} {'min':>8} {'max':>8}   communication (min, max)",
        ]
        for name, timing in self.timings.items():
            figures = " ".join(f"{value:>8.3g}" for value in _spread(timing.seconds).values())
            lines.append(f"{name:<16} {figures}   {self._said_of(name)}".rstrip())
        if self.hidden_share is not None:
            lines.append(f"overlap takes away {self.hidden_share:.0%} of what sending afterwards adds")
        lines += [
            f"{check.what}: {'agree' if check.holds else 'DISAGREE'}, "
            f"{check.difference:.2g} apart (at most {check.tolerance:.2g})"
            for check in self.checks
        ]
        return "\n".join(lines)

    def _said_of(self, side: str) -> str:
        if side == COMPUTING:
            return ""
        if side == SENDING:
            rates = _spread(self.sent_bytes_per_second).values()
            middle, least, most = (f"{rate / 1e6:,.0f}" for rate in rates)
            return f"{middle} MB/s ({least}, {most})"
        middle, least, most = (f"{share:.1%}" for share in _spread(self.communication_shares(side)).values())
        return f"{middle} ({least}, {most})"


@dataclass(frozen=True, slots=True)
class DistributionFinding:
    """What was found."""

    settings: dict[str, Any]
    sizes: tuple[SizeFound, ...]
    environment: dict[str, Any]
    name: str = field(default="distribution")

    def as_dict(self) -> dict[str, Any]:
        """Return settings and figures as what JSON can say."""
        return {
            "benchmark": self.name,
            "settings": self.settings,
            "sizes": [found.as_dict() for found in self.sizes],
            "environment": self.environment,
        }

    def as_text(self) -> str:
        """Return a table for each size."""
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        does = "\n".join(f"{name}: {what}" for name, what in _DOES.items())
        return "\n\n".join([f"distribution: {settings}", *(found.as_text() for found in self.sizes), does])

    def pictures(self) -> dict[str, str]:
        """Return none: the tables say it."""
        return {}

    def require_agreement(self) -> None:
        """Raise where the sides did not compute the same thing.

        Raises:
            RunError: they did not.
        """
        require_checks(self.name, [check for found in self.sizes for check in found.checks])


def bench_distribution(
    benchmark: DistributionBenchmark, *, rounds: int = LEAST_ROUNDS, progress: Progress = SILENT
) -> DistributionFinding:
    """Compare steps of several ranks, with and without what they send each other.

    Raises:
        InputError: the ranks cannot share the batch evenly, or there are fewer than two.
        RunError: a rank failed; its own message says why.
    """
    if benchmark.ranks < 2 or benchmark.batch_size % benchmark.ranks:
        what = f"{benchmark.ranks} ranks for a batch of {benchmark.batch_size}"
        raise InputError(what, where="--ranks", remedy="Take two or more that divide --batch")
    device = resolve_device(benchmark.device)
    dtype = resolve_dtype(benchmark.precision, device)
    threads = max(1, torch.get_num_threads() // benchmark.ranks)
    found = []
    for size in benchmark.sizes:
        progress.note(f"measuring {size}")
        step = PretrainBenchmark(
            size=size,
            batch_size=benchmark.batch_size,
            max_seq_length=benchmark.max_seq_length,
            precision=benchmark.precision,
            device=benchmark.device,
        )
        found.append(_in_ranks(benchmark.ranks, _measure, step, rounds, threads, progress))
    return DistributionFinding(
        settings={
            "ranks": benchmark.ranks,
            "batch_size": benchmark.batch_size,
            "max_seq_length": benchmark.max_seq_length,
            "dtype": str(dtype).removeprefix("torch."),
            "device": str(device),
            "threads_of_a_rank": threads,
            "rounds": rounds,
        },
        sizes=tuple(found),
        environment=environment_of(device, dtype, []),
    )


def _in_ranks(ranks: int, function: Callable[..., SizeFound], *arguments: object) -> SizeFound:
    """Call a function in ranks of a new world, as torchrun would start them; return what the first one returns."""
    launcher = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id="cloze-bench",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=0.1,
    )
    try:
        found: dict[int, SizeFound] = elastic_launch(launcher, function)(*arguments)
    except SignalException as signal:
        raise KeyboardInterrupt from signal
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        raise RunError(
            f"rank {rank} ended with exit code {failure.exitcode}", where="bench distribution"
        ) from error
    return found[0]


def _measure(benchmark: PretrainBenchmark, rounds: int, threads: int, progress: Progress) -> SizeFound:
    """Take part in the measurement, as one of the ranks."""
    keep_freed_memory()
    torch.set_num_threads(threads)
    with join_world(benchmark.device) as world:
        expected = begin_training(benchmark, world.device).loss_and_gradient_norm()
        steps = _steps(benchmark, world)
        checks = _compare(steps, expected, world)
        gradients = torch.zeros(
            parameter_bytes(steps[COMPUTING].replica.model)[1], dtype=torch.uint8, device=world.device
        ).view(torch.float32)
        work = {name: partial(_step, trained) for name, trained in steps.items()}
        work[SENDING] = partial(_sum_in_buckets, gradients)
        own = alternate(
            [_side(name, each, world) for name, each in work.items()],
            rounds=rounds,
            min_seconds=0.0,  # each rank takes one step: clocks would disagree
            progress=progress if world.is_first else SILENT,
        )
        last = [
            Timing(side.name, side.does, tuple(map(max, zip(*world.gather(side.seconds), strict=True))))
            for side in own
        ]
        return SizeFound(
            size=benchmark.size,
            tokens=steps[COMPUTING].data.num_tokens,
            gradient_bytes=gradients.nbytes,
            timings={timing.name: timing for timing in last},
            checks=checks,
        )


def _step(trained: OurSteps) -> None:
    """Take a step, and give back what the next one would begin by giving back: the other sides need the memory."""
    trained.step()
    trained.optimizer.zero_grad(set_to_none=True)


def _side(name: str, work: Callable[[], None], world: World) -> Side:
    def timed() -> None:
        work()
        wait_for(world.device)

    def prepare() -> Callable[[], None]:
        world.sums(0.0)  # so that all begin at once
        return timed

    return Side(name, _DOES[name], prepare)


def _steps(benchmark: PretrainBenchmark, world: World) -> dict[str, OurSteps]:
    """Return the sides, each with a model of its own, and all with the rank's share of one step."""
    work, data, vocab_size, _ = draw_step(benchmark, world)
    replicas: Mapping[str, Callable[[nn.Module], Replica]] = {
        COMPUTING: Alone,
        OVERLAPPED: lambda model: replicate(model, world, DistributionConfig()),
        AFTERWARDS: lambda model: Replicated(model, [], _sum_afterwards),
        SHARDED: lambda model: replicate(model, world, DistributionConfig(sharded=True)),
    }
    return {
        name: begin_steps(benchmark, replica(build_model(benchmark, vocab_size).to(world.device)), work, data)
        for name, replica in replicas.items()
    }


def _compare(steps: Mapping[str, OurSteps], expected: tuple[float, float], world: World) -> tuple[Check, ...]:
    """Hold each side's loss and gradient norm against those of one rank that takes the whole batch."""
    expected_loss, expected_norm = expected
    loss_tolerance, norm_tolerance = _TOLERANCES[steps[COMPUTING].dtype]
    checks = []
    for name, trained in steps.items():
        own_loss, norm = trained.loss_and_gradient_norm()
        trained.optimizer.zero_grad(set_to_none=True)
        (loss,) = world.sums(own_loss)
        what = f"{name} and one rank, loss of {expected_loss:.4f} nats"
        checks.append(Check(what, abs(loss - expected_loss), loss_tolerance))
        if name != COMPUTING:  # whose gradients are of its own share
            what = f"{name} and one rank, gradient norm, relative"
            checks.append(Check(what, abs(norm / expected_norm - 1), norm_tolerance))
    return tuple(checks)


def _sum_afterwards(waiting: list[tuple[Tensor, Future[Tensor]]], bucket: GradBucket) -> Future[Tensor]:
    """Keep a bucket until the last one is full; then sum all of them over the ranks."""
    buffer = bucket.buffer()
    summed: Future[Tensor] = Future(devices=[buffer.device] if buffer.device.type != "cpu" else None)
    waiting.append((buffer, summed))
    if bucket.is_last():
        for kept, its_sum in waiting:
            sent = distributed.all_reduce(kept, async_op=True).get_future()
            sent.then(lambda done, its_sum=its_sum: its_sum.set_result(done.value()[0]))
        waiting.clear()
    return summed


def _sum_in_buckets(gradients: Tensor) -> None:
    buckets = torch.split(gradients, _BUCKET_BYTES // gradients.element_size())
    for sent in [distributed.all_reduce(bucket, async_op=True) for bucket in buckets]:
        sent.wait()


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}
