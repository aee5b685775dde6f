"""The device of a computation, its number format, its arithmetic and its memory."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn
from torch.utils import deterministic as torch_deterministic

from cloze.arguments import describe
from cloze.choices import InferencePrecision, Precision
from cloze.errors import InputError, RunError, is_out_of_memory
from cloze.models.encoder import find_encoder
from cloze.models.torch_internals import CpuInstructions, cpu_instructions
from cloze.process import processor

_STATUS = Path("/proc/self/status")
_WIDTH_OF_BASE = 768


def resolve_device(name: str) -> torch.device:
    """Return the device called `name`; "auto" is the accelerator if there is one."""
    if not isinstance(name, (str, torch.device)):
        raise InputError(f"device is {describe(name)}", remedy="Use auto, cpu, cuda or mps")
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if name == "auto":
        return accelerator or torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device).cpu()  # fails on "meta", which computes nothing
    except (RuntimeError, AssertionError) as error:
        what = f"device {str(name)!r} is not available"
        remedy = "Choose from auto, cpu" + (f", {accelerator.type}" if accelerator else "")
        raise InputError(what, where="device", remedy=remedy) from error
    return device


def resolve_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """Return the format of matrix products; "auto" is bfloat16 where that is faster than float32."""
    if precision == "auto" and is_faster_in_bfloat16(device, cpu_instructions(), processor()):
        return torch.bfloat16
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def finetuning_precision(
    precision: Precision, device: torch.device, instructions: CpuInstructions, *, hidden_size: int
) -> Precision:
    """Return the number format of fine-tuning, in which "auto" is float32 for small encoders on a CPU with AMX.

    An epoch of MRPC with an encoder of 384 took 114 s there in bfloat16, in float32 68 (records/2026-11-26-amx). oneDNN
    made its kernels again in every layer; it keeps more of them since (records/2026-11-26-vnni), which has not been
    measured with AMX.
    """
    is_slower = device.type == "cpu" and instructions.amx and hidden_size < _WIDTH_OF_BASE
    return "float32" if precision == "auto" and is_slower else precision


def inference_dtype(precision: InferencePrecision | None, device: torch.device) -> torch.dtype | None:
    """Return the `autocast_dtype` of an encoder that answers; by default bfloat16 on a GPU that has it, else float32.

    int8 is refused: a graph computes it.
    """
    if precision == "int8":
        what = "int8 is for answers, not for losses of pre-training"
        raise InputError(what, where="precision", remedy="Use float32 or bfloat16")
    dtype = resolve_dtype(precision or ("auto" if device.type == "cuda" else "float32"), device)
    return None if dtype == torch.float32 else dtype


def prepare_for_inference(model: nn.Module, precision: InferencePrecision | None) -> None:
    """Set the number format of a model's matrix products, on the device it is on. Heads stay in float32."""
    encoder = find_encoder(model)
    if encoder is None:
        return
    encoder.autocast_dtype = inference_dtype(precision, next(encoder.parameters()).device)
    if encoder.autocast_dtype is not None:
        for module in encoder.modules():
            if isinstance(module, nn.Linear):
                module.to(torch.bfloat16)  # once, instead of in every autocast


@contextmanager
def inference_arithmetic(model: nn.Module) -> Iterator[None]:
    """Compute as the saved model answers by default, without gradients; its weights stay in float32."""
    encoder = find_encoder(model)
    if encoder is not None:
        encoder.autocast_dtype = inference_dtype(None, next(encoder.parameters()).device)
    try:
        with torch.inference_mode():
            yield
    finally:
        if encoder is not None:
            encoder.autocast_dtype = None


def is_faster_in_bfloat16(device: torch.device, instructions: CpuInstructions, processor: str) -> bool:
    """Return whether a device is faster in bfloat16 than in float32."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        if instructions.avx512 and not instructions.amx:
            # oneDNN supports it here, too: emulated by float32 in five times its time, or by AVX512-BF16, which takes
            # 1.7 times as long as float32 on a Xeon, and on an EPYC 1 / 1.7
            return instructions.avx512_bf16 and "AMD" in processor
        return instructions.onednn_bf16
    return False


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """Return the context in which a forward pass runs in `dtype`; weights and sums stay in float32."""
    return torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32)


@contextmanager
def training_arithmetic(*, deterministic: bool = True) -> Iterator[None]:
    """Make torch use kernels whose sums do not depend on the order of threads, and flush denormal numbers to zero.

    Gradients through hundreds of steps of a BiLSTM fall below 1e-38, where a processor takes many times as long. On a
    GPU the gradient of flash attention may differ in its last bits from run to run; torch's warning is left out.
    """
    # without it, torch warns that cuBLAS adds in any order
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.get_deterministic_debug_mode()
    fill_before = torch_deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    # use_deterministic_algorithms would import torch's compiler
    torch.set_deterministic_debug_mode("warn" if deterministic else "default")
    # Filling memory before it is written costs 5% of a step, and nothing reads it before.
    torch_deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    denormal = torch.tensor(1e-40)
    flushed_before = not (denormal * 1).item()  # torch cannot say it
    torch.set_flush_denormal(True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Flash Attention defaults to a non-deterministic")
            yield
    finally:
        torch.set_flush_denormal(flushed_before)
        torch.set_deterministic_debug_mode(before)
        torch_deterministic.fill_uninitialized_memory = fill_before  # type: ignore[attr-defined]


def available_memory(
    device: torch.device, *, meminfo: Path = Path("/proc/meminfo"), cgroup: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return the bytes that can be taken without swapping, or None if neither system nor device knows.

    Args:
        cgroup: directory with the limits of the container.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type != "cpu" or not meminfo.exists():
        return None
    fields = dict(line.split(":") for line in meminfo.read_text("ascii").splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit = cgroup / "memory.max"
    if not limit.exists() or limit.read_text("ascii").strip() == "max":
        return available
    counts = dict(line.split() for line in (cgroup / "memory.stat").read_text("ascii").splitlines())
    cached_files = int(counts["inactive_file"]) + int(counts["active_file"])  # dropped when memory is needed
    used = int((cgroup / "memory.current").read_text("ascii")) - cached_files
    return min(available, int(limit.read_text("ascii")) - used)


def peak_memory(device: torch.device) -> int | None:
    """Return the peak bytes of this process, or of its tensors on an accelerator; None if the system does not say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if device.type != "cpu" or sys.platform == "win32":
        return None
    if not _STATUS.exists():
        import resource  # not on Windows

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    # on Linux not by getrusage: there a spawned process starts with its parent's peak
    lines = dict(line.split(":", 1) for line in _STATUS.read_text("utf-8").splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turn a failed allocation that smaller micro-batches did not cure into one line for the user."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        remedy = "Say `micro_batch_tokens=N` with a smaller N: results are the same but for rounding"
        raise RunError("out of memory", remedy=remedy) from error
