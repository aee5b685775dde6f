"""Compute with attention heads switched off.

Shapes: T tokens, N heads, H head size, D hidden, O heads that are off.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.models.encoder import Encoder

Head: TypeAlias = tuple[int, int]
"""A layer and a head of it, counted from 0."""


@contextmanager
def heads_off(encoder: Encoder, heads: Collection[Head]) -> Iterator[None]:
    """Within the context, make the outputs of attention heads 0, before the dense layer on all of them.

    This holds for every head of a task on this encoder, as in `with heads_off(fill_mask.encoder, [(1, 2)])`.

    Source:
        Michel, Levy and Neubig 2019, "Are Sixteen Heads Really Better than One?", 2.3; `head_mask` of transformers 4.
    """
    num_heads = encoder.config.num_attention_heads
    off: list[list[int]] = [[] for _ in encoder.layers]
    for layer, head in heads:
        for name, number, count in (("layer", layer, len(off)), ("head", head, num_heads)):
            if not 0 <= number < count:
                raise InputError(f"{name} {number} is not in 0..{count - 1}", where="heads")
        if not hasattr(encoder.layers[layer], "attention_output"):
            raise InputError(f"the layers of a {type(encoder).__name__} have no heads", where="model")
        off[layer].append(head)

    def switch_off(numbers: list[int]) -> Any:
        def hook(module: nn.Module, inputs: tuple[Tensor]) -> Tensor:
            (context_TD,) = inputs
            context_TNH = context_TD.view(len(context_TD), num_heads, -1)
            numbers_O = torch.tensor(numbers, device=context_TD.device)
            return context_TNH.index_fill(1, numbers_O, 0).flatten(1)

        return hook

    layers: Any = encoder.layers
    handles = [
        layer.attention_output.register_forward_pre_hook(switch_off(numbers))
        for layer, numbers in zip(layers, off, strict=True)
        if numbers
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
