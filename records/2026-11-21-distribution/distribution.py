"""Measure the time that ranks of a pre-training step spend on communication.

    PYTHONPATH=. python records/2026-11-21-distribution/distribution.py --sizes mini base -o record
    PYTHONPATH=. python records/2026-11-21-distribution/distribution.py --ranks 4 --device cuda --dtype bfloat16

The ranks are processes of this machine, started by torchrun's launcher; they communicate over its loopback (gloo), or
from device to device (NCCL and similar).

Communication is the time of a step beyond the same step without it: every rank computes the same share of the batch at
the same time and sends nothing. A single rank would be no fair comparison: it is faster, because it has the memory
bandwidth, caches and clock to itself, and the difference would count as communication. A step ends with its last rank,
so the time that ranks wait for one with more tokens is in all figures and cancels out.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any, ClassVar

import torch
from torch import Tensor, distributed
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from benchmarks.commands import run_program
from benchmarks.harness import Benchmark, Check, Contestant, Result, TimedBenchmark, TimedFunction, Timing, heading
from benchmarks.machine import describe_machine, dtype_name, synchronize
from benchmarks.pretrain import ClozeTrainer, Pretrain, build_trainer, draw_step
from cloze.errors import InputError, RunError
from cloze.progress import SILENT, Progress
from cloze.tables import text_table
from cloze.training.distributed import DistributedContext, DistributionConfig, init_distributed
from cloze.process import configure_memory
from cloze.training.objective import Objective
from cloze.training.parallelize import replicate
from cloze.training.precision import Precision, resolve_device, resolve_dtype

COMPUTING, OVERLAPPED, AFTERWARDS = "computing", "DDP", "DDP, afterwards"
SENDING = "sending"
_DOES: Mapping[str, str] = {
    COMPUTING: "every rank computes its share of the batch, all at once, and nothing is sent",
    OVERLAPPED: "gradients are summed in buckets during the backward pass, as in training",
    AFTERWARDS: "the same buckets, all sent after the backward pass",
    SENDING: "as many bytes as the gradients have, summed over the ranks without computing",
}
_BUCKET_BYTES = 25 * 2**20  # DDP's
_TOLERANCES = {torch.float32: (1e-5, 1e-3), torch.bfloat16: (2e-2, 5e-2)}
"""By number format: maximum difference from one rank of losses, in nats, and of gradient norms, relative."""


@dataclass(frozen=True, kw_only=True)
class Distribution(Benchmark):
    """Pre-training steps of several ranks on this machine: the time of sending gradients, overlapped or not."""

    name: ClassVar[str] = "distribution"

    rounds: int = 5
    """Measurements of each contestant."""
    sizes: tuple[str, ...] = ("mini", "base")
    """Sizes of the encoder."""
    ranks: int = 2
    """Processes, each with its share of every batch and of the cores."""
    batch: int = 32
    """Sequence pairs per step, of all ranks."""
    max_seq_length: int = 128
    """Maximum number of tokens of a pair."""
    dtype: Precision = "float32"
    """Number format of matrix products."""
    device: str = "cpu"
    """cpu, cuda or auto; each rank uses an accelerator of its own."""

    def run(self) -> Result:
        """Compare steps of several ranks with and without communication.

        Raises:
            RunError: a rank failed; its own message has the reason.
        """
        if self.ranks < 2 or self.batch % self.ranks:
            what = f"{self.ranks} ranks for a batch of {self.batch}"
            raise InputError(what, where="--ranks", remedy="Choose two or more that divide --batch")
        device = resolve_device(self.device)
        dtype = resolve_dtype(self.dtype, device)
        threads = max(1, torch.get_num_threads() // self.ranks)
        results = []
        for size in self.sizes:
            self.progress.note(f"measuring {size}")
            step = Pretrain(
                model=size,
                batch=self.batch,
                max_seq_length=self.max_seq_length,
                dtype=self.dtype,
                device=self.device,
            )
            results.append(_launch(self.ranks, _measure_rank, step, self.rounds, threads, self.progress))
        settings = {
            "ranks": self.ranks,
            "batch_size": self.batch,
            "max_seq_length": self.max_seq_length,
            "dtype": dtype_name(dtype),
            "device": str(device),
            "threads_of_a_rank": threads,
            "rounds": self.rounds,
        }
        return describe_distribution(settings, results, describe_machine(device, dtype))


@dataclass(frozen=True, slots=True)
class SizeResult:
    """The measurements of one size of the encoder."""

    size: str
    tokens: int
    """Tokens of a step, of all ranks."""
    gradient_bytes: int
    """Bytes that a step sums over the ranks."""
    timings: Mapping[str, Timing]
    """Seconds of a step until its last rank ends; of `SENDING`, of the sums alone."""
    checks: tuple[Check, ...]

    def communication_shares(self, name: str) -> list[float]:
        """Return the share of a step that is not computing, round by round."""
        rounds = zip(self.timings[COMPUTING].seconds, self.timings[name].seconds, strict=True)
        return [1 - computing / step for computing, step in rounds]

    @property
    def hidden_share(self) -> float | None:
        """The share of communication that overlap hides; None if communication adds no time."""
        added = self.timings[AFTERWARDS].median - self.timings[COMPUTING].median
        saved = self.timings[AFTERWARDS].median - self.timings[OVERLAPPED].median
        return saved / added if added > 0 else None

    @property
    def sent_bytes_per_second(self) -> list[float]:
        """The rate of sums without computing, round by round."""
        return [self.gradient_bytes / seconds for seconds in self.timings[SENDING].seconds]

    def as_dict(self) -> dict[str, Any]:
        """Return the entry of `record.json`."""
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
            "checks": [check.as_dict() for check in self.checks],
        }

    def as_text(self) -> str:
        """Return a table."""
        rows = []
        for name, timing in self.timings.items():
            values, form = self.communication_shares(name), "{:.1%}"
            if name == SENDING:
                values, form = [rate / 1e6 for rate in self.sent_bytes_per_second], "{:,.0f}"
            middle, low, high = (form.format(value) for value in _spread(values).values())
            unit = " MB/s" if name == SENDING else ""
            communication = "" if name == COMPUTING else f"{middle}{unit} ({low}, {high})"
            rows.append(
                [name, *(f"{value:.3g}" for value in _spread(timing.seconds).values()), communication]
            )
        lines = [
            f"{self.size}: {self.tokens:,} tokens per step, {self.gradient_bytes / 1e6:,.1f} MB of gradients",
            text_table(["seconds per step", "median", "min", "max", "communication (min, max)"], rows),
        ]
        if self.hidden_share is not None:
            lines.append(f"overlap hides {self.hidden_share:.0%} of the time that sending afterwards adds")
        return "\n".join([*lines, *map(str, self.checks)])


def describe_distribution(
    settings: Mapping[str, Any], sizes: Sequence[SizeResult], environment: Mapping[str, Any]
) -> Result:
    """Return a table of each size."""
    record = {
        "benchmark": Distribution.name,
        "settings": settings,
        "sizes": [size.as_dict() for size in sizes],
        "environment": environment,
    }
    does = "\n".join(f"{name}: {what}" for name, what in _DOES.items())
    text = "\n\n".join([heading(Distribution.name, settings), *(size.as_text() for size in sizes), does])
    return Result(Distribution.name, record, text, [check for size in sizes for check in size.checks])


def _launch(num_ranks: int, function: Callable[..., SizeResult], *arguments: object) -> SizeResult:
    """Call a function in new ranks, as torchrun starts them; return the result of rank 0."""
    launcher = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_ranks,
        run_id="cloze-bench",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=0.1,
    )
    try:
        results: dict[int, SizeResult] = elastic_launch(launcher, function)(*arguments)
    except SignalException as signal:
        raise KeyboardInterrupt from signal
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        what = f"rank {rank} ended with exit code {failure.exitcode}"
        raise RunError(what, where=Distribution.name) from error
    return results[0]


def _measure_rank(benchmark: Pretrain, rounds: int, threads: int, progress: Progress) -> SizeResult:
    """Take part in the measurement as one of the ranks."""
    configure_memory()
    torch.set_num_threads(threads)
    with init_distributed(benchmark.device) as context:
        alone = draw_step(benchmark, DistributedContext(context.device))[:2]
        expected = build_trainer(benchmark, *alone, context.device).loss_and_gradient_norm()
        trainers = _build_trainers(benchmark, context)
        checks = _compare(trainers, expected, context)
        num_bytes = sum(p.nbytes for p in trainers[COMPUTING].model.parameters() if p.requires_grad)
        gradients = torch.zeros(num_bytes, dtype=torch.uint8, device=context.device).view(torch.float32)
        work: dict[str, TimedFunction] = {name: partial(_step, trainer) for name, trainer in trainers.items()}
        work[SENDING] = partial(_sum_in_buckets, gradients)

        def prepare(job: TimedFunction) -> TimedFunction:
            context.all_reduce(0.0)  # so that all ranks start together
            return job

        # one step per turn: the clocks of ranks would disagree
        timings = TimedBenchmark(rounds=rounds, min_seconds=0.0).measure(
            [Contestant(name, _DOES[name], partial(prepare, job)) for name, job in work.items()]
        )
        last = {}
        for timing in timings:
            by_rank = context.all_gather(timing.seconds)
            last[timing.name] = replace(timing, seconds=tuple(map(max, zip(*by_rank, strict=True))))
        tokens = trainers[COMPUTING].data.num_tokens
        return SizeResult(benchmark.model, tokens, gradients.nbytes, last, checks)


def _step(trainer: ClozeTrainer) -> None:
    """Take a step, and free the gradients, whose memory the other contestants need."""
    trainer.step()
    trainer.optimizer.zero_grad(set_to_none=True)


def _build_trainers(benchmark: Pretrain, context: DistributedContext) -> dict[str, ClozeTrainer]:
    """Return the contestants, each with a model of its own and the rank's share of one step."""
    data, tokenizer, _ = draw_step(benchmark, context)
    contestants: Mapping[str, Callable[[Objective], DistributedDataParallel | None]] = {
        COMPUTING: lambda objective: None,
        OVERLAPPED: lambda objective: replicate(objective, context, DistributionConfig()),
        AFTERWARDS: _replicate_to_sum_afterwards,
    }
    trainers = {}
    for name, replicated in contestants.items():
        trainer = build_trainer(benchmark, data, tokenizer, context.device)
        trainers[name] = replace(trainer, replicas=replicated(trainer.objective))
    return trainers


def _replicate_to_sum_afterwards(objective: Objective) -> DistributedDataParallel:
    replicas = DistributedDataParallel(objective, find_unused_parameters=True)
    replicas.register_comm_hook([], sum_afterwards)
    return replicas


def _compare(
    trainers: Mapping[str, ClozeTrainer], expected: tuple[float, float], context: DistributedContext
) -> tuple[Check, ...]:
    """Compare losses and gradient norms with those of one rank that computes the whole batch."""
    expected_loss, expected_norm = expected
    loss_tolerance, norm_tolerance = _TOLERANCES[trainers[COMPUTING].dtype]
    checks = []
    for name, trainer in trainers.items():
        share, norm = trainer.loss_and_gradient_norm()
        trainer.optimizer.zero_grad(set_to_none=True)
        (loss,) = context.all_reduce(share)
        what = f"{name} and one rank, loss of {expected_loss:.4f} nats"
        checks.append(Check(what, abs(loss - expected_loss), loss_tolerance))
        if name != COMPUTING:  # its gradients are of the rank's own share
            what = f"{name} and one rank, gradient norm, relative"
            checks.append(Check(what, abs(norm / expected_norm - 1), norm_tolerance))
    return tuple(checks)


def sum_afterwards(waiting: list[tuple[Tensor, Future[Tensor]]], bucket: GradBucket) -> Future[Tensor]:
    """Keep a bucket until the last one is full; then sum all of them over the ranks (a hook of DDP)."""
    buffer = bucket.buffer()
    future: Future[Tensor] = Future(devices=[buffer.device] if buffer.device.type != "cpu" else None)
    waiting.append((buffer, future))
    if bucket.is_last():
        for kept, its_sum in waiting:
            sent = distributed.all_reduce(kept, async_op=True).get_future()
            sent.then(lambda done, its_sum=its_sum: its_sum.set_result(done.value()[0]))
        waiting.clear()
    return future


def _sum_in_buckets(gradients: Tensor) -> None:
    buckets = torch.split(gradients, _BUCKET_BYTES // gradients.element_size())
    for sent in [distributed.all_reduce(bucket, async_op=True) for bucket in buckets]:
        sent.wait()
    synchronize(gradients.device)


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


if __name__ == "__main__":
    sys.exit(run_program(Distribution, "distribution.py", sys.argv[1:]))
