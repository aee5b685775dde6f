"""The number format of a processor under precision = "auto"."""

import pytest
import torch

from cloze.models.torch_internals import CpuInstructions
from cloze.training.precision import is_faster_in_bfloat16


@pytest.mark.parametrize(
    ("avx512", "avx512_bf16", "amx", "processor", "expected"),
    [
        (True, False, False, "AMD EPYC", False),
        (True, True, False, "AMD EPYC", True),
        (True, True, False, "Intel(R) Xeon(R) Processor", False),
        (True, True, True, "Intel(R) Xeon(R) Processor", True),
        (False, False, False, "another one with bfloat16", True),
    ],
)
def test_bfloat16_is_used_where_it_is_faster(avx512, avx512_bf16, amx, processor, expected):
    instructions = CpuInstructions(avx512, avx512_bf16, amx, onednn_bf16=True)
    assert is_faster_in_bfloat16(torch.device("cpu"), instructions, processor) is expected
