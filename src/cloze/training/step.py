"""One optimizer step: forward and backward over micro-batches, clipping, the update, and what becomes of a failed one.

The batch source names the instances, they pass through the model in micro-batches whose gradients add up, the norm is
clipped, the optimizer steps. Dropout is seeded in each step from (seed, step, rank), so a resumed run needs no random
states: the same step always draws the same numbers. Losses are shares of the mean over the whole batch, so gradients
are summed over the ranks, not averaged.
"""

import math
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.futures import Future as TorchFuture
from torch.nn.parallel import DistributedDataParallel

from cloze.callbacks import Callback
from cloze.data.batch import DataPosition
from cloze.data.hashing import mix
from cloze.errors import RunError, is_out_of_memory
from cloze.models.batch import pin_memory
from cloze.progress import Progress
from cloze.training.checkpoints import TrainingState
from cloze.training.config import RunSettings
from cloze.training.distributed import DistributedContext
from cloze.training.interrupts import StopRequest, StopRequested
from cloze.training.metric_sums import MeasuredStep, MetricSums, add_sums, read_sums
from cloze.training.objective import BatchSource, Objective, StepData
from cloze.training.optimizer import (
    AdamW,
    MuonAdamW,
    build_optimizer,
    clip_gradients,
    learning_rate_at,
    set_learning_rate,
)
from cloze.training.precision import autocast, resolve_dtype

_MAX_SKIPPED_STEPS = 2
"""Steps with an infinite or NaN loss that may follow each other; one more ends the run."""
_NUM_SEEDS = 2**32  # torch's CPU generator distinguishes no more, and reads the low bits


@dataclass(kw_only=True, slots=True)
class OptimizerSteps:
    """Takes the steps of a run.

    The data of a step are a pure function of their position. So a thread draws them ahead without changing anything,
    and a checkpoint has the position after the last step, whatever was drawn since.
    """

    path: Path | None
    """Directory of the run, for messages; a dry run has none."""
    state: TrainingState
    """The state after the last step."""
    objective: Objective
    batches: BatchSource
    config: RunSettings
    context: DistributedContext
    callbacks: Callback
    """Receives halved and skipped steps."""
    progress: Progress
    optimizer: AdamW = field(init=False)
    measured: list[MeasuredStep] = field(init=False, default_factory=list)
    """The steps since the last line of the log."""
    num_skipped: int = field(init=False, default=0)
    """Steps skipped in a row."""
    saved_step: int = field(init=False)
    """The step of the newest checkpoint."""
    compute_dtype: torch.dtype = field(init=False)
    """The format of matrix products."""
    micro_batch_tokens: int = field(init=False)
    """The setting, or the size left of it after memory ran out, if smaller."""
    _thread: ThreadPoolExecutor = field(init=False)
    _ahead: tuple[tuple[DataPosition, int], Future[StepData[Any]]] | None = field(init=False, default=None)
    _replicas: DistributedDataParallel | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        config = self.config
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="step-data")
        self.compute_dtype = resolve_dtype(config.precision, self.context.device)
        if self.context.world_size > 1:
            self._replicas = DistributedDataParallel(self.objective, find_unused_parameters=True)
            # sums gradients, which DDP by itself averages
            self._replicas.register_comm_hook(getattr(torch, config.distribution.reduce_dtype), _sum_bucket)
        self.optimizer = build_optimizer(self.objective.model, config.optimizer)
        tokens = config.micro_batch_on(self.context.device)
        self.micro_batch_tokens = min(self.state.micro_batch_tokens or tokens, tokens)
        self.saved_step = self.state.step

    def close(self) -> None:
        """Wait for the thread that draws the data, and drop what it has drawn."""
        self._thread.shutdown(cancel_futures=True)

    def take(self, share: float, next_share: float, stop: StopRequest) -> None:
        """Take one step, and meanwhile draw the data of the next one.

        Args:
            share: share of the run, in [0, 1], that is over when the step begins.
            next_share: the same for the step after it, as far as is known; the data of that step are drawn for it.

        Raises:
            StopRequested: a stop was requested between two micro-batches; weights are unchanged.
        """
        started = self.progress.clock()
        number = self.state.step + 1
        data = self._load(share, self.micro_batch_tokens)
        if next_share < 1:
            self._draw_ahead(next_share, data.next_position, self.micro_batch_tokens)
        while True:
            torch.manual_seed(int(mix(self.config.seed, self.state.step, self.context.rank)) % _NUM_SEEDS)
            self.optimizer.zero_grad()
            self.objective.model.train()
            # several ranks stop together, between steps
            stop_in_step = stop if self.context.world_size == 1 else None
            try:
                rank_loss, batches = accumulate_gradients(
                    self.objective, data, self.compute_dtype, replicas=self._replicas, stop=stop_in_step
                )
                break
            except (MemoryError, RuntimeError) as error:
                # several ranks cannot take a step again: DDP has sent some of its gradients
                if self._replicas is not None or not is_out_of_memory(error):
                    raise
            data = self._smaller_micro_batches(data, share)
        rank_norm = clip_gradients(self.objective.model.parameters(), self.config.optimizer.max_grad_norm)
        if self._replicas is not None:
            distributed.all_reduce(rank_loss)
        learning_rate = learning_rate_at(share, self.config.optimizer)
        set_learning_rate(self.optimizer, learning_rate)
        is_finite = rank_loss.isfinite() & rank_norm.isfinite()
        self.optimizer.step(found_inf=(~is_finite).float())
        # the only wait for the device in a step
        *sums, last = read_sums([*batches, {"loss": (rank_loss, 1), "norm": (rank_norm, 1)}])
        loss, norm = last["loss"][0], last["norm"][0]
        if math.isfinite(loss) and math.isfinite(norm):
            self.num_skipped = 0
            seconds = self.progress.clock() - started
            self.measured.append(MeasuredStep(add_sums(sums), learning_rate, norm, data.num_tokens, seconds))
        else:
            self._skip(number, f"loss {loss}, gradient norm {norm} at step {number} ({data.name})")
        tokens = self.state.tokens + data.num_tokens
        self.state = replace(self.state, step=number, tokens=tokens, position=data.next_position)

    def _load(self, share: float, micro_batch_tokens: int) -> StepData[Any]:
        """Return the data of the next step, drawn ahead or now, with the numbers of tokens and targets of all ranks.

        An error in the data is raised here.
        """
        place = (self.state.position, micro_batch_tokens)
        if self._ahead is None or self._ahead[0] != place:
            self._draw_ahead(share, *place)
        assert self._ahead is not None
        (_, drawn), self._ahead = self._ahead, None
        data = drawn.result()
        num_tokens, *counts = self.context.all_reduce(data.num_tokens, *data.num_targets.values())
        num_targets = dict(zip(data.num_targets, counts, strict=True))
        return replace(data, num_tokens=int(num_tokens), num_targets=num_targets)

    def _draw_ahead(self, share: float, position: DataPosition, micro_batch_tokens: int) -> None:
        def draw() -> StepData[Any]:
            data = self.batches.step_data(share, position, micro_batch_tokens)
            if self.context.device.type != "cuda":
                return data
            # copying pinned memory does not wait
            return replace(data, batches=[pin_memory(batch) for batch in data.batches])

        self._ahead = (position, micro_batch_tokens), self._thread.submit(draw)

    def _smaller_micro_batches(self, data: StepData[Any], share: float) -> StepData[Any]:
        """Return a step cut into more micro-batches; the run keeps their size."""
        self.optimizer.zero_grad()
        if self.context.device.type != "cpu":
            torch.accelerator.empty_cache()  # so that its blocks can be cut differently
        number, tokens = self.state.step + 1, self.micro_batch_tokens
        while tokens > 1:
            tokens //= 2
            smaller = self._load(share, tokens)
            if len(smaller.batches) > len(data.batches):
                break
        else:
            what = f"out of memory at step {number} with one sequence at a time"
            raise RunError(what, where=self.path, remedy="Use shorter sequences or a smaller model")
        self.micro_batch_tokens = tokens
        self.state = replace(self.state, micro_batch_tokens=tokens)
        values = {"micro_batch_tokens": tokens, "reason": "out of memory"}
        self.context.run_on_rank_zero(lambda: self.callbacks.on_event(number, "halved", values))
        what = f"out of memory at step {number}: micro_batch_tokens is {tokens:,} from here"
        self.progress.note(f"warning: {what}")
        return smaller

    def _skip(self, step: int, what: str) -> None:
        """Leave the weights unchanged; give up after too many skipped steps in a row."""
        self.num_skipped += 1
        self.context.run_on_rank_zero(lambda: self.callbacks.on_event(step, "skipped", {"reason": what}))
        self.progress.note(f"warning: {what}: the step was skipped")
        if self.num_skipped > _MAX_SKIPPED_STEPS:
            remedy = "Continue with a lower rate: `resume` `optimizer.learning_rate=RATE`"
            if isinstance(self.optimizer, MuonAdamW):  # its rate is a setting of its own
                remedy += " `optimizer.muon.learning_rate=RATE`"
            if self.saved_step and self.saved_step == step - self.num_skipped:
                remedy += (
                    f"; step {self.saved_step} was saved right before and may be corrupt: if so, delete it"
                )
            raise RunError(f"{what}, {self.num_skipped} times in a row", where=self.path, remedy=remedy)


def _sum_bucket(dtype: torch.dtype, bucket: GradBucket) -> TorchFuture[Tensor]:
    buffer = bucket.buffer()
    future = distributed.all_reduce(buffer.to(dtype), async_op=True).get_future()
    summed: TorchFuture[Tensor] = future.then(lambda done: buffer.copy_(done.value()[0]))
    return summed


def accumulate_gradients(
    objective: Objective,
    step: StepData[Any],
    compute_dtype: torch.dtype,
    *,
    replicas: DistributedDataParallel | None = None,
    stop: StopRequest | None = None,
) -> tuple[Tensor, list[MetricSums]]:
    """Run forward and backward over the micro-batches of a step; gradients add up in the parameters.

    Return this rank's share of the step's loss, and the metrics of its micro-batches; nothing waits for the device.
    """
    device = next(objective.parameters()).device
    total = torch.zeros((), device=device)
    metrics: list[MetricSums] = []
    for number, batch in enumerate(step.batches, start=1):
        if stop:
            raise StopRequested
        is_last = number == len(step.batches)
        # the last one sums over ranks
        with nullcontext() if replicas is None or is_last else replicas.no_sync():
            with autocast(device, compute_dtype):
                sums = (replicas or objective)(batch)
                # this micro-batch's share of the means over the step
                names = objective.loss_names
                first, *others = (sums[name][0] / max(step.num_targets[name], 1) for name in names)
                loss = sum(others, start=first)
            # a rank without a share only takes part in the sum
            shared = loss if step.has_share else 0 * loss
            shared.backward()
        if step.has_share:
            total += loss.detach()
            metrics.append({name: (value.detach(), count) for name, (value, count) in sums.items()})
    return total, metrics
