"""Check that the packages of an extra are installed, and import them without their telemetry."""

import os
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType, ModuleType

from cloze.errors import InputError


def require(packages: Iterable[str], *, extra: str, where: object) -> None:
    """Raise if a package, which the extra of cloze-bert installs, is missing; call it before work that needs it."""
    for package in packages:
        if find_spec(package) is None:
            remedy = f"Run pip install 'cloze-bert[{extra}]'"
            raise InputError(f"needs the package {package}", where=where, remedy=remedy)


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
