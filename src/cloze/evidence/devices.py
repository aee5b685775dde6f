"""Accelerators: what one was measured to reach in pre-training a BERT, and how it is joined to others."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloze.errors import InputError

_TABLE = Path(__file__).with_name("devices.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One accelerator, and the host it is in."""

    name: str
    flops_per_second: float
    """Reached on BERT's training steps, as `cloze bench pretrain` counts them; not what a data sheet says."""
    link_bytes_per_second: float
    """Between the accelerators of a host, each way."""
    network_bytes_per_second: float
    """Between hosts, each way, of a host."""
    per_host: int
    cores_per_host: int
    source: str


def known_devices() -> dict[str, Device]:
    """Return the accelerators of which a rate is published, by name."""
    table: dict[str, dict[str, Any]] = tomllib.loads(_TABLE.read_text("utf-8"))
    return {
        name: Device(
            name=name,
            flops_per_second=row["teraflops_per_second"] * 1e12,
            link_bytes_per_second=row["link_gigabytes_per_second"] * 1e9,
            network_bytes_per_second=row["network_gigabytes_per_second"] * 1e9,
            per_host=row["per_host"],
            cores_per_host=row["cores_per_host"],
            source=row["source"],
        )
        for name, row in table.items()
    }


def find_device(name: str) -> Device:
    """Return the accelerator called `name`.

    Raises:
        InputError: there is none.
    """
    devices = known_devices()
    if name not in devices:
        raise InputError(f"no device {name!r}", where="--device", remedy=f"Take one of {', '.join(devices)}")
    return devices[name]
