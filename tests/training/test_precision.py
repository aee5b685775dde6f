"""The number format of a processor under precision = "auto", and the memory of the process and of its container."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cloze.errors import InputError
from cloze.models.torch_internals import CpuInstructions
from cloze.training.config import RunSettings
from cloze.training.precision import (
    available_memory,
    finetuning_precision,
    is_faster_in_bfloat16,
    peak_memory,
    resolve_device,
    training_arithmetic,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("accelerator", "devices"), [(None, "auto, cpu"), ("cuda", "auto, cpu, cuda"), ("mps", "auto, cpu, mps")]
)
def test_a_missing_device_offers_those_of_the_machine(accelerator, devices, monkeypatch):
    found = accelerator and torch.device(accelerator)
    monkeypatch.setattr("torch.accelerator.current_accelerator", lambda **_: found)
    with pytest.raises(InputError) as caught:
        resolve_device("gpu")
    assert str(caught.value) == f"device: device 'gpu' is not available. Choose from {devices}."


AVX2 = CpuInstructions(avx512=False, avx512_bf16=False, amx=False, onednn_bf16=False)
AVX512 = CpuInstructions(avx512=True, avx512_bf16=False, amx=False, onednn_bf16=True)
ZEN4 = replace(AVX512, avx512_bf16=True, vnni=True)
AMX = replace(AVX512, avx512_bf16=True, amx=True)
AMD, INTEL = "AMD EPYC", "Intel(R) Xeon(R) Processor"


@pytest.mark.parametrize(
    ("device", "instructions", "processor", "expected"),
    [
        ("cpu", AVX2, AMD, False),
        ("meta", AMX, INTEL, False),
        ("cpu", replace(AVX2, onednn_bf16=True), "another one with bfloat16", True),
        ("cpu", AVX512, AMD, False),
        ("cpu", ZEN4, AMD, True),
        ("cpu", ZEN4, INTEL, False),
        ("cpu", AMX, INTEL, True),
    ],
)
def test_bfloat16_is_used_where_records_show_its_speed(device, instructions, processor, expected):
    assert is_faster_in_bfloat16(torch.device(device), instructions, processor) is expected


@pytest.mark.parametrize(
    ("precision", "device", "instructions", "hidden_size", "expected"),
    [
        ("auto", "cpu", AMX, 384, "float32"),
        ("auto", "cpu", AMX, 768, "auto"),
        ("bfloat16", "cpu", AMX, 384, "bfloat16"),
        ("auto", "cpu", replace(AMX, amx=False), 384, "auto"),
        ("auto", "meta", AMX, 384, "auto"),
    ],
)
def test_small_encoders_are_finetuned_in_float32(precision, device, instructions, hidden_size, expected):
    found = finetuning_precision(precision, torch.device(device), instructions, hidden_size=hidden_size)
    assert found == expected


def test_micro_batches_are_larger_on_a_gpu_unless_their_size_is_set():
    devices = (CPU, torch.device("cuda"))
    assert [RunSettings().micro_batch_on(device) for device in devices] == [4096, 16_384]
    assert [RunSettings(micro_batch_tokens=10).micro_batch_on(device) for device in devices] == [10, 10]


@pytest.mark.parametrize(
    ("flushes", "mode", "warn_only"), [(True, True, False), (False, True, True), (False, False, False)]
)
def test_training_leaves_the_arithmetic_as_it_was(flushes, mode, warn_only):
    def state() -> tuple[bool, bool, bool]:
        is_flushed = (torch.tensor(1e-40) * 1).item() == 0
        only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
        return is_flushed, torch.are_deterministic_algorithms_enabled(), only_warns

    before = state()
    try:
        torch.set_flush_denormal(flushes)
        torch.use_deterministic_algorithms(mode=mode, warn_only=warn_only)
        with training_arithmetic():
            assert state() == (True, True, True)
        assert state() == (flushes, mode, warn_only)
    finally:
        torch.set_flush_denormal(before[0])
        torch.use_deterministic_algorithms(mode=before[1], warn_only=before[2])


def test_peak_memory_includes_what_was_freed():
    before = peak_memory(CPU)
    size = before + 2**26
    np.ones(size, np.uint8)
    assert size <= peak_memory(CPU) < before + size + 2**26


def test_available_memory_respects_the_limit_of_a_container(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  900 kB\nMemAvailable:     500 kB\n")

    def available(device: torch.device = CPU, meminfo: Path = meminfo) -> int | None:
        return available_memory(device, meminfo=meminfo, cgroup=tmp_path)

    assert available() == 512_000
    (tmp_path / "memory.max").write_text("max\n")
    assert available() == 512_000
    (tmp_path / "memory.max").write_text("300000\n")
    (tmp_path / "memory.current").write_text("100000\n")
    (tmp_path / "memory.stat").write_text("anon 40000\nfile 60000\ninactive_file 30000\nactive_file 20000\n")
    assert available() == 250_000, "cached files can be dropped"
    assert available(torch.device("meta")) is None
    assert available(meminfo=tmp_path / "none") is None
