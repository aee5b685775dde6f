"""Private functions of torch, and its errors that are known by their text: this torch still has them."""

import pytest
import torch

from cloze.errors import is_out_of_memory
from cloze.models.torch_internals import cpu_instructions, is_lost_rank, scale_


def test_a_failed_allocation_on_the_cpu_is_recognized():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    for error in (
        caught.value,
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate"),
    ):
        assert is_out_of_memory(error)


def test_other_errors_are_not_taken_for_these():
    error = RuntimeError("shapes do not fit")
    assert not is_out_of_memory(error)
    assert not is_lost_rank(error)
    assert is_lost_rank(torch.distributed.DistNetworkError("no more"))


def test_tensors_are_scaled_in_place():
    tensors = [torch.ones(2), torch.full((3, 1), 4.0)]
    scale_(tensors, torch.tensor(0.5))
    assert [tensor.flatten().tolist() for tensor in tensors] == [[0.5, 0.5], [2.0, 2.0, 2.0]]


def test_instructions_are_flags():
    instructions = cpu_instructions()
    assert {type(getattr(instructions, name)) for name in instructions.__slots__} == {bool}
