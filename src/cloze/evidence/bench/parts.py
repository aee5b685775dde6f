"""What a long benchmark has finished, kept beside its output until all is: a run that was stopped goes on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cloze import artifacts
from cloze.errors import InputError

_SETTINGS = "settings.json"


def begin_parts(directory: Path, settings: Mapping[str, Any]) -> None:
    """Begin to keep the parts of a benchmark, or go on where it was left.

    Args:
        directory: where they are kept.
        settings: all that a part depends on, as JSON can say it.

    Raises:
        InputError: parts of other settings are there.
    """
    told = json.dumps(settings, indent=1, sort_keys=True) + "\n"
    file = directory / _SETTINGS
    if file.is_file() and file.read_text("utf-8") != told:
        what = "holds the beginning of a benchmark with other settings"
        raise InputError(what, where=directory, remedy="Give the same settings, another output, or delete it")
    artifacts.write_text(file, told)
