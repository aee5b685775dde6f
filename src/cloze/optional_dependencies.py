"""Check that the packages of an extra are installed, and import them without their telemetry."""

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from urllib.parse import urlsplit

from cloze.errors import InputError


def require(packages: Iterable[str], *, extra: str, where: object) -> None:
    """Raise if a package is not installed; call it before work that would fail later.

    Args:
        packages: names to import.
        extra: the extra of cloze-bert that installs them.
    """
    for package in packages:
        if find_spec(package) is None:
            remedy = f"Run pip install {_installed_from()}[{extra}]'"
            raise InputError(f"needs the package {package}", where=where, remedy=remedy)


def _installed_from() -> str:
    """Return how pip installs this package: from the directory that it is from, else by its name in an index."""
    from urllib.request import url2pathname  # imports ssl, which takes longer than all else here

    name = "cloze-bert"
    with suppress(metadata.PackageNotFoundError):
        record = json.loads(metadata.distribution(name).read_text("direct_url.json") or "{}")  # PEP 610
        directory = url2pathname(urlsplit(record.get("url", "")).path)
        if "dir_info" in record and Path(directory, "pyproject.toml").exists():
            option = "-e " if record["dir_info"].get("editable") else ""
            return f"{option}'{directory}"
    return f"'{name}"


_HUB_SWITCHES = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_UPDATE_CHECK": "1"}
TELEMETRY_SWITCHES = MappingProxyType(
    {
        "onnxruntime": {"ORT_DISABLE_TELEMETRY": "1"},
        "ray": {"RAY_USAGE_STATS_ENABLED": "0"},
        "datasets": _HUB_SWITCHES,
        "fsspec": _HUB_SWITCHES,  # hf:// uses huggingface_hub
        "huggingface_hub": _HUB_SWITCHES,
        "mlflow": {"MLFLOW_DISABLE_TELEMETRY": "true"},
        "sentence_transformers": _HUB_SWITCHES,
        "transformers": _HUB_SWITCHES,
    }
)
"""Environment variables that keep packages from reporting their use to their makers."""


def import_package(name: str) -> ModuleType:
    """Import a package with its telemetry switched off; a variable that the user has set stays.

    The switches are read when the package is imported, so it is imported through this function only.
    """
    for variable, value in TELEMETRY_SWITCHES.get(name.partition(".")[0], {}).items():
        os.environ.setdefault(variable, value)
    package = import_module(name)
    if name == "onnxruntime":
        package.disable_telemetry_events()
    return package
