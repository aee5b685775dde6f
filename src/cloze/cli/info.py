"""`cloze info DIR`: what a directory is, and whether its files are as they were written."""

import json
from pathlib import Path

import tyro

from cloze import artifacts
from cloze.cli.common import Common, Flags


def run(directory: tyro.conf.Positional[Path], /, flags: Flags = Common()) -> None:
    """Say what a checkpoint, data set, vocabulary or run is, and check its manifest.

    Args:
        directory: what to look at.
        flags: flags of every verb.
    """
    print(directory, flags)
