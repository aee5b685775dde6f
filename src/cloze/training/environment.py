"""`environment.json`: where and with what a run was made, so that its figures can be judged."""

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from cloze import artifacts
from cloze.progress import Progress
from cloze.training.distribution import World
from cloze.training.precision import processor

ENVIRONMENT = "environment.json"
EARLIER = "earlier"
"""Where a run was made before it went on elsewhere: the same again, from its beginning on."""
_PACKAGES = ("cloze-bert", "torch", "numpy", "tokenizers", "safetensors", "pyarrow")


def describe_environment(device: torch.device, compute_dtype: torch.dtype) -> dict[str, Any]:
    """Return versions, processor, threads, device and number format."""
    return {
        "versions": {"python": platform.python_version()}
        | {name: metadata.version(name) for name in _PACKAGES},
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",  # the rest may name a machine
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "compute_dtype": str(compute_dtype).removeprefix("torch."),
    }


def write_environment(run: Path, world: World, compute_dtype: torch.dtype, progress: Progress) -> None:
    """Write it into a run, with the number of its ranks, and where the run was made before, if that was elsewhere."""
    described = describe_environment(world.device, compute_dtype) | {"ranks": world.size}
    file = run / ENVIRONMENT
    before = json.loads(file.read_text("utf-8")) if file.exists() else described
    earlier = before.pop(EARLIER, [])
    if changed := [name for name, value in described.items() if before.get(name) != value]:
        earlier = [*earlier, before]
        progress.note(
            f"warning: {', '.join(changed)} not as before: the bits need not be those of an unstopped run"
        )
    if earlier:
        described[EARLIER] = earlier
    artifacts.write_text(file, json.dumps(described, indent=1) + "\n")
