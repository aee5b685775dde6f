"""The number format that a processor gets where nobody says which."""

import pytest
import torch

from cloze.training.precision import resolve_dtype


@pytest.mark.parametrize(
    ("avx512", "amx", "expected"),
    [(True, False, torch.float32), (True, True, torch.bfloat16), (False, False, torch.bfloat16)],
    ids=["AVX-512 alone", "AVX-512 and AMX", "another processor that says it has it"],
)
def test_bfloat16_is_taken_where_it_is_faster(
    monkeypatch: pytest.MonkeyPatch, avx512: bool, amx: bool, expected: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    assert resolve_dtype("auto", torch.device("cpu")) == expected
