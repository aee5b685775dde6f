"""The number format that a processor gets where nobody says which."""

import pytest
import torch

from cloze.training import precision
from cloze.training.precision import resolve_dtype


@pytest.mark.parametrize(
    ("avx512", "instructions", "amx", "name", "expected"),
    [
        (True, False, False, "AMD EPYC", torch.float32),
        (True, True, False, "AMD EPYC", torch.bfloat16),
        (True, True, False, "Intel(R) Xeon(R) Processor", torch.float32),
        (True, True, True, "Intel(R) Xeon(R) Processor", torch.bfloat16),
        (False, False, False, "another that says it has it", torch.bfloat16),
    ],
)
def test_bfloat16_is_taken_where_it_is_faster(
    monkeypatch: pytest.MonkeyPatch,
    avx512: bool,
    instructions: bool,
    amx: bool,
    name: str,
    expected: torch.dtype,
) -> None:
    monkeypatch.setattr(precision, "processor", lambda: name)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: instructions)
    monkeypatch.setattr(torch.cpu, "_is_avx512_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    assert resolve_dtype("auto", torch.device("cpu")) == expected
