"""`environment.json`: the software and hardware of a run."""

import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from cloze import file_io
from cloze.process import usable_processors
from cloze.progress import Progress
from cloze.training.distributed import DistributedContext
from cloze.training.precision import processor

ENVIRONMENT = "environment.json"
EARLIER = "earlier"
"""Key of earlier environments of a run that was resumed elsewhere."""
_PACKAGES = ("cloze-bert", "torch", "numpy", "tokenizers", "safetensors", "pyarrow")


def describe_environment(device: torch.device, compute_dtype: torch.dtype) -> dict[str, Any]:
    """Return versions, processor, threads, device and number format."""
    return {
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in _PACKAGES},
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",  # the rest may name it
        "processor": processor(),
        "cores": usable_processors(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "compute_dtype": str(compute_dtype).removeprefix("torch."),
    }


def write_environment(
    run: Path, context: DistributedContext, compute_dtype: torch.dtype, progress: Progress
) -> None:
    """Write the environment of a run, with earlier ones that differ."""
    described = describe_environment(context.device, compute_dtype) | {"ranks": context.world_size}
    file = run / ENVIRONMENT
    before = file_io.read_json(file) if file.exists() else described
    earlier = before.pop(EARLIER, [])
    if changed := [name for name, value in described.items() if before.get(name) != value]:
        earlier = [*earlier, before]
        progress.note(
            f"warning: {', '.join(changed)} changed since the run started: results may differ in the last bits"
        )
    if earlier:
        described[EARLIER] = earlier
    file_io.write_json(file, described)
