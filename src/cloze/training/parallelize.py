"""An objective on one rank, replicated on every rank (DDP), or with its weights sharded over the ranks (FSDP2).

Losses are shares of the mean over the whole batch, so gradients are summed over the ranks, not averaged.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from cloze.errors import RunError
from cloze.training.distributed import DistributedContext, DistributionConfig
from cloze.training.interrupts import StopRequest, StopRequested
from cloze.training.memory import memory_errors
from cloze.training.metric_sums import MetricAccumulator, MetricSums
from cloze.training.objective import Objective, StepData
from cloze.training.precision import autocast

State = TypeVar("State")

_REMEDY = "Continue from the newest checkpoint with a smaller one: --resume --set micro_batch_tokens=N"


def parallelize(
    objective: Objective, context: DistributedContext, config: DistributionConfig
) -> "ParallelObjective":
    """Prepare an objective for training on the ranks of a run.

    Args:
        objective: the objective, with the same weights on every rank; sharding replaces its parameters by shards.
        context: the ranks.
        config: how they share the work.
    """
    if context.world_size == 1:
        return ParallelObjective(objective)
    reduce_dtype = torch.bfloat16 if config.reduce_dtype == "bfloat16" else torch.float32
    if config.sharded:
        return ShardedObjective(objective, context, reduce_dtype)
    return ReplicatedObjective(objective, reduce_dtype, _sum_bucket)


def full_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor whole, also if its parameter is sharded; then all ranks must call this."""
    whole: Tensor = tensor.full_tensor() if _is_sharded(tensor) else tensor  # type: ignore[attr-defined]
    return whole


def gather_tensors(tensors: Iterable[tuple[str, Tensor]], *, keep: bool) -> dict[str, Tensor]:
    """Return whole tensors on the CPU if this rank keeps them; all ranks must call this."""
    kept = {}
    for name, tensor in tensors:
        whole = full_tensor(tensor)
        if keep:
            kept[name] = whole.detach().cpu().contiguous()
    return kept


def distribute_like(parameter: Tensor, whole: Tensor) -> Tensor:
    """Move a whole tensor to the device of a parameter, and shard it if the parameter is; scalars stay whole."""
    whole = whole.to(parameter.device)
    if not _is_sharded(parameter) or whole.ndim == 0:
        return whole
    from torch.distributed.tensor import DTensor, distribute_tensor  # takes most of a second to import

    assert isinstance(parameter, DTensor)
    return distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)


def _is_sharded(tensor: Tensor) -> bool:
    return hasattr(tensor, "full_tensor")


def accumulate_gradients(
    parallel: "ParallelObjective",
    step: StepData[Any],
    compute_dtype: torch.dtype,
    stop: StopRequest | None = None,
) -> tuple[float, MetricAccumulator]:
    """Run forward and backward over the micro-batches of a step; gradients add up in the parameters.

    Returns:
        This rank's share of the step's loss, and its metrics.

    Raises:
        StopRequested: `stop` was set between two micro-batches.
    """
    device = next(parallel.objective.parameters()).device
    total = torch.zeros((), device=device)
    metrics = MetricAccumulator()
    passes = parallel.num_passes(len(step.batches))
    for number in range(passes):
        if stop:
            raise StopRequested
        batch = step.batches[number % len(step.batches)]
        # Other passes only take part in the communication of the ranks.
        counts = step.has_share and number < len(step.batches)
        with parallel.gradient_sync(enabled=number + 1 == passes):
            with autocast(device, compute_dtype):
                sums = parallel.module(batch)
                loss = step.mean_loss(sums, parallel.objective.loss_names)
            parallel.backward(loss if counts else 0 * loss)
        if counts:
            total += loss.detach()
            metrics.add(sums)
    return total.item(), metrics


class ParallelObjective:
    """An objective on a single rank; subclasses train it on several.

    Args:
        objective: the objective.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.module: nn.Module = objective
        """The module to call: the objective, or its wrapper."""

    def num_passes(self, num_batches: int) -> int:
        """Return how many forward passes a rank with so many micro-batches takes part in."""
        return num_batches

    def no_grad(self) -> AbstractContextManager[Any]:
        """Return the context for evaluation."""
        return torch.inference_mode()

    def gradient_sync(self, *, enabled: bool) -> AbstractContextManager[None]:
        """Return the context of a forward and backward pass; only with `enabled` gradients are summed over ranks."""
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Run the backward pass."""
        loss.backward()  # type: ignore[no-untyped-call]

    def finish_failed_step(self) -> None:
        """Complete, with meaningless gradients, the communication of a step that failed on this rank alone.

        Raises:
            RunError: that is not possible, so the other ranks cannot continue.
        """

    def full_model(self, *, keep: bool) -> nn.Module:
        """Return the model with whole weights if this rank keeps them; all ranks must call this."""
        return self.objective.model


class _WithUnusedParameter(nn.Module):
    """An objective, and a parameter that its losses do not depend on.

    DDP must look for unused parameters: a head may leave out the pooler, a run without pairs the next-sentence head.
    Only then, too, does it keep its first buckets, so that a resumed run sums in the same order. If it finds none, it
    warns, around Python's filters.
    """

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective = objective
        self.unused = nn.Parameter(next(objective.parameters()).new_zeros(1))

    def forward(self, batch: Any) -> MetricSums:
        if batch is None:
            return {"unused": (0 * self.unused.sum(), 0)}
        sums: MetricSums = self.objective(batch)
        return sums


class ReplicatedObjective(ParallelObjective):
    """An objective on every rank; gradients are summed in buckets during the backward pass (DDP).

    Args:
        state: first argument of `hook`.
        hook: starts to sum a bucket, and returns a future of the sum.
    """

    def __init__(
        self, objective: Objective, state: State, hook: Callable[[State, GradBucket], Future[Tensor]]
    ) -> None:
        super().__init__(objective)
        self.module = self._ddp = DistributedDataParallel(
            _WithUnusedParameter(objective), find_unused_parameters=True
        )
        self._ddp.register_comm_hook(state, hook)
        self._accumulated: set[Tensor] = set()
        self._missing: Sequence[Tensor] | None = None
        for parameter in objective.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._accumulated.add)  # type: ignore[no-untyped-call]

    def gradient_sync(self, *, enabled: bool) -> AbstractContextManager[None]:
        """Return DDP's context without communication unless `enabled`."""
        return nullcontext() if enabled else self._ddp.no_sync()

    def backward(self, loss: Tensor) -> None:
        """Run the backward pass; if it fails, note which gradients are missing."""
        self._accumulated.clear()
        try:
            super().backward(loss)
        except Exception:
            if self._ddp.require_backward_grad_sync:
                self._missing = [leaf for leaf in _leaves(loss) if leaf not in self._accumulated]
            raise

    def finish_failed_step(self) -> None:
        """Send the missing buckets."""
        if self._missing is None:  # it failed before any bucket was sent
            loss = self.module(None)["unused"][0]
        elif self._missing:
            loss = torch.stack([0 * parameter.sum() for parameter in self._missing]).sum()
        else:
            raise RunError("out of memory while gradients were summed", remedy=_REMEDY)
        super().backward(loss)
        self._missing = None


def _leaves(loss: Tensor) -> Iterator[Tensor]:
    """Yield the parameters that a loss depends on."""
    nodes, seen = [loss.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        nodes += [before for before, _ in node.next_functions]


def _sum_bucket(dtype: torch.dtype, bucket: GradBucket) -> Future[Tensor]:
    """Sum gradients over all ranks in a number format."""
    buffer = bucket.buffer()
    with memory_errors():  # DDP does not ask for a bucket a second time, so the step cannot be repeated
        sent = buffer.to(dtype)
    future = distributed.all_reduce(sent, async_op=True).get_future()
    summed: Future[Tensor] = future.then(lambda done: buffer.copy_(done.value()[0]))
    return summed


class ShardedObjective(ParallelObjective):
    """An objective with its weights sharded over the ranks; each layer is gathered when it is needed (FSDP2)."""

    def __init__(self, objective: Objective, context: DistributedContext, reduce_dtype: torch.dtype) -> None:
        from torch.distributed.fsdp import (
            FSDPModule,
            MixedPrecisionPolicy,
            fully_shard,
            register_fsdp_forward_method,
        )

        self._whole_model = copy.deepcopy(objective.model).to("meta")
        super().__init__(objective)
        self._context = context
        policy = MixedPrecisionPolicy(reduce_dtype=reduce_dtype)
        for module in objective.modules():
            if isinstance(module, nn.ModuleList):
                for layer in module:
                    fully_shard(layer, mp_policy=policy)
        self._root = fully_shard(objective, mp_policy=policy)  # the same module, with another class
        register_fsdp_forward_method(objective, "evaluation_step")
        for module in objective.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(enable=True)

    def num_passes(self, num_batches: int) -> int:
        """Return the largest number of micro-batches of a rank: all ranks gather the weights of each pass."""
        return max(self._context.all_gather(num_batches))

    @contextmanager
    def no_grad(self) -> Iterator[None]:
        """Disable gradients, then free the gathered weights."""
        with torch.no_grad():  # weights gathered in inference mode could not be trained
            yield
        self._root.reshard()  # otherwise done by the backward pass

    @contextmanager
    def gradient_sync(self, *, enabled: bool) -> Iterator[None]:
        """Set whether gradients are summed in this pass."""
        self._root.set_requires_gradient_sync(enabled)
        yield

    def finish_failed_step(self) -> None:
        """Raise: the other ranks cannot gather weights without this one."""
        what = "out of memory, and sharded weights cannot be gathered without this rank"
        raise RunError(what, where=f"rank {self._context.rank}", remedy=_REMEDY)

    def full_model(self, *, keep: bool) -> nn.Module:
        """Gather the weights."""
        weights = gather_tensors(self.objective.model.state_dict().items(), keep=keep)
        if keep:
            self._whole_model.load_state_dict(weights, assign=True)
        return self._whole_model
