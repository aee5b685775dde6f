"""An objective replicated on every rank of a run (DDP), and the gradients of a step.

Losses are shares of the mean over the whole batch, so gradients are summed over the ranks, not averaged.
"""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from cloze.training.distributed import DistributedContext, DistributionConfig
from cloze.training.interrupts import StopRequest, StopRequested
from cloze.training.metric_sums import MetricSums
from cloze.training.objective import Objective, StepData
from cloze.training.precision import autocast


def replicate(
    objective: Objective, context: DistributedContext, config: DistributionConfig
) -> DistributedDataParallel | None:
    """Return a wrapper whose backward pass sums gradients over the ranks; None if there is one rank."""
    if context.world_size == 1:
        return None
    replicas = DistributedDataParallel(objective, find_unused_parameters=True)
    replicas.register_comm_hook(getattr(torch, config.reduce_dtype), _sum_bucket)
    return replicas


def _sum_bucket(dtype: torch.dtype, bucket: GradBucket) -> Future[Tensor]:
    buffer = bucket.buffer()
    future = distributed.all_reduce(buffer.to(dtype), async_op=True).get_future()
    summed: Future[Tensor] = future.then(lambda done: buffer.copy_(done.value()[0]))
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

    Args:
        step: this rank's share of the step.
        replicas: the wrapper of `replicate`, which sums the gradients of the last micro-batch over the ranks.

    Returns:
        This rank's share of the step's loss, and the metrics of its micro-batches; nothing waits for the device.

    Raises:
        StopRequested: `stop` was set between two micro-batches.
    """
    device = next(objective.parameters()).device
    total = torch.zeros((), device=device)
    metrics: list[MetricSums] = []
    for number, batch in enumerate(step.batches, start=1):
        if stop:
            raise StopRequested
        is_last = number == len(step.batches)
        with nullcontext() if replicas is None or is_last else replicas.no_sync():
            with autocast(device, compute_dtype):
                sums = (replicas or objective)(batch)
                loss = step.mean_loss(sums, objective.loss_names)
            # a rank without a share only takes part in the sum
            shared = loss if step.has_share else 0 * loss
            shared.backward()  # type: ignore[no-untyped-call]
        if step.has_share:
            total += loss.detach()
            metrics.append({name: (value.detach(), count) for name, (value, count) in sums.items()})
    return total, metrics
