"""The model as each rank has it: alone, whole on every rank (DDP), or shared out over them (FSDP2).

All that computes with the model goes through `use`, where the engines see it come and go. Losses are shares of the
whole batch's mean, so gradients are summed over the ranks, never averaged.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed import GradBucket  # type: ignore[attr-defined]
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from cloze.errors import RunError
from cloze.training.distribution import DistributionConfig, World
from cloze.training.memory import memory_errors

Result = TypeVar("Result")
State = TypeVar("State")

_SMALLER = "Set a smaller micro_batch_tokens in run.toml: --resume then goes on from the newest checkpoint"


class Replica(Protocol):
    """A rank's part in training a model."""

    model: nn.Module

    def num_passes(self, own: int) -> int:
        """Return how often a rank with so many micro-batches must pass one through the model in a step."""

    def use(self, compute: Callable[[nn.Module], Result]) -> Result:
        """Compute something with the model; on all ranks where it is shared out."""

    def without_gradients(self) -> AbstractContextManager[Any]:
        """Return the context to measure the model in."""

    def accumulating(self, *, more: bool) -> AbstractContextManager[None]:
        """Return the context of a forward and backward pass: gradients are summed over ranks once no more follow."""

    def backward(self, loss: Tensor) -> None:
        """Pass a loss back through the model."""

    def catch_up(self) -> None:
        """Take part, with gradients that mean nothing, in what is left of a step that broke off on this rank alone.

        Raises:
            RunError: the other ranks cannot finish theirs.
        """

    def whole(self, *, keep: bool) -> nn.Module:
        """Return the model with all its weights, where they are to be kept."""


def replicate(model: nn.Module, world: World, config: DistributionConfig) -> Replica:
    """Prepare a model for training in a world.

    Args:
        model: on the rank's device, the same on every rank; where it is to be shared out its parameters become parts.
        world: of one, or of several ranks.
        config: how several share the work.
    """
    if world.size == 1:
        return Alone(model)
    reduce_dtype = torch.bfloat16 if config.reduce_dtype == "bfloat16" else torch.float32
    return (
        _Sharded(model, world, reduce_dtype)
        if config.sharded
        else Replicated(model, reduce_dtype, _sum_bucket)
    )


def assembled(tensor: Tensor) -> Tensor:
    """Return a tensor that may be shared out over the ranks as each of them would have it alone."""
    whole: Tensor = tensor.full_tensor() if _is_part(tensor) else tensor  # type: ignore[attr-defined]
    return whole


def gather(tensors: Iterable[tuple[str, Tensor]], *, keep: bool) -> dict[str, Tensor]:
    """Return tensors whole and on the processor, where they are to be kept; parts are put together by all ranks."""
    kept = {}
    for name, tensor in tensors:
        whole = assembled(tensor)
        if keep:
            kept[name] = whole.detach().cpu().contiguous()
    return kept


def like(parameter: Tensor, whole: Tensor) -> Tensor:
    """Return a whole tensor where and as a parameter is: this rank's part of it, where that is a part; counts stay."""
    whole = whole.to(parameter.device)
    if not _is_part(parameter) or whole.ndim == 0:
        return whole
    from torch.distributed.tensor import DTensor, distribute_tensor  # which takes most of a second to import

    assert isinstance(parameter, DTensor)
    return distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)


def _is_part(tensor: Tensor) -> bool:
    return hasattr(tensor, "full_tensor")


class Alone:
    """A rank that is the only one."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def num_passes(self, own: int) -> int:
        """Return `own`."""
        return own

    def use(self, compute: Callable[[nn.Module], Result]) -> Result:
        """Compute something with the model."""
        return compute(self.model)

    def without_gradients(self) -> AbstractContextManager[Any]:
        """Return torch's inference mode."""
        return torch.inference_mode()

    def accumulating(self, *, more: bool) -> AbstractContextManager[None]:
        """Return a context that does nothing."""
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Pass a loss back through the model."""
        loss.backward()  # type: ignore[no-untyped-call]

    def catch_up(self) -> None:
        """Do nothing: no other rank waits."""

    def whole(self, *, keep: bool) -> nn.Module:
        """Return the model."""
        return self.model


class _Door(nn.Module):
    """A module whose forward is whatever is computed with the model: losses are no forward of the model's own."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, compute: Callable[[nn.Module], Result]) -> Result:
        return compute(self.model)


class Replicated(Alone):
    """Every rank has the whole model; gradients are summed in buckets while the backward pass still runs.

    Args:
        state: what `hook` is given first.
        hook: begins to sum a bucket, and returns the sum to come.
    """

    def __init__(
        self, model: nn.Module, state: State, hook: Callable[[State, GradBucket], Future[Tensor]]
    ) -> None:
        super().__init__(model)
        door = _Door(model)
        # DDP looks for unused weights: a head may leave out the pooler, a run without pairs the next-sentence head.
        # Only then, too, does it keep to the buckets it began with: a resumed run sums in the order of one that was
        # not stopped. It warns, around Python's filters, where it finds none.
        door.never_used = self._never_used = nn.Parameter(next(model.parameters()).new_zeros(1))
        self._engine = DistributedDataParallel(door, find_unused_parameters=True)
        self._engine.register_comm_hook(state, hook)
        self._reached: set[Tensor] = set()
        self._awaited: Sequence[Tensor] | None = None
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._reached.add)  # type: ignore[no-untyped-call]

    def use(self, compute: Callable[[nn.Module], Result]) -> Result:
        """Compute something with the model, where DDP sees it if it is to be trained."""
        if not torch.is_grad_enabled():
            return super().use(compute)
        result: Result = self._engine(compute)
        return result

    def accumulating(self, *, more: bool) -> AbstractContextManager[None]:
        """Return DDP's context in which nothing is sent, where more follow."""
        return self._engine.no_sync() if more else nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Pass a loss back; note what is missing where that breaks off."""
        self._reached.clear()
        try:
            super().backward(loss)
        except Exception:
            if self._engine.require_backward_grad_sync:  # and so waits for those that are missing
                self._awaited = [leaf for leaf in _leaves(loss) if leaf not in self._reached]
            raise

    def catch_up(self) -> None:
        """Send the buckets that are missing, some of zeros."""
        if self._awaited is None:  # it broke off before the others could send anything
            loss = self._engine(lambda _: 0 * self._never_used.sum())
        elif self._awaited:
            loss = torch.stack([0 * parameter.sum() for parameter in self._awaited]).sum()
        else:
            raise RunError("out of memory while gradients were summed", remedy=_SMALLER)
        loss.backward()
        self._awaited = None


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
    with memory_errors():  # DDP does not ask for a bucket a second time, so the step cannot be taken again
        sent = buffer.to(dtype)
    future = distributed.all_reduce(sent, async_op=True).get_future()
    summed: Future[Tensor] = future.then(lambda done: buffer.copy_(done.value()[0]))
    return summed


class _Sharded:
    """Every rank has a part of each weight; a layer is put together when it is its turn."""

    def __init__(self, model: nn.Module, world: World, reduce_dtype: torch.dtype) -> None:
        from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

        self._shapes = copy.deepcopy(model).to("meta")
        self.model = model
        self._world = world
        policy = MixedPrecisionPolicy(reduce_dtype=reduce_dtype)
        for module in model.modules():
            if isinstance(module, nn.ModuleList):
                for layer in module:
                    fully_shard(layer, mp_policy=policy)
        self._engine = _Door(model)
        fully_shard(self._engine, mp_policy=policy)  # which makes an FSDPModule of it
        for module in self._engine.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(enable=True)

    def num_passes(self, own: int) -> int:
        return max(self._world.gather(own))  # every pass puts layers together, by all ranks

    def use(self, compute: Callable[[nn.Module], Result]) -> Result:
        result: Result = self._engine(compute)
        return result

    @contextmanager
    def without_gradients(self) -> Iterator[None]:
        with torch.no_grad():  # weights that were put together in inference mode could not be trained
            yield
        self._engine.reshard()  # type: ignore[operator]  # which else the backward pass does

    @contextmanager
    def accumulating(self, *, more: bool) -> Iterator[None]:
        self._engine.set_requires_gradient_sync(not more)  # type: ignore[operator]
        yield

    def backward(self, loss: Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def catch_up(self) -> None:
        what = "out of memory, and weights that are shared out cannot be put together without this rank"
        raise RunError(what, where=f"rank {self._world.rank}", remedy=_SMALLER)

    def whole(self, *, keep: bool) -> nn.Module:
        weights = gather(self.model.state_dict().items(), keep=keep)
        if keep:
            self._shapes.load_state_dict(weights, assign=True)
        return self._shapes
