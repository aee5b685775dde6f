"""The number format that a processor gets where nobody says which."""

import pytest
import torch

from cloze.training.precision import resolve_dtype


@pytest.mark.parametrize(
    ("avx512", "bfloat16_units", "expected"),
    [(True, False, torch.float32), (True, True, torch.bfloat16), (False, False, torch.bfloat16)],
    ids=["made up of float32", "AVX-512 with units", "another processor that says it has it"],
)
def test_bfloat16_is_taken_where_it_is_no_make_believe(
    monkeypatch: pytest.MonkeyPatch, avx512: bool, bfloat16_units: bool, expected: torch.dtype
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_avx512_supported", lambda: avx512)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: bfloat16_units)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    assert resolve_dtype("auto", torch.device("cpu")) == expected
