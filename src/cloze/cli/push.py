"""`cloze push DIR org/name`: upload a checkpoint to the Hugging Face Hub."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cloze.cli import options


def run(
    directory: Annotated[Path, options.Flag(metavar="DIR")],
    name: Annotated[str, options.Flag(metavar="ORG/NAME")],
    /,
    *,
    private: options.Switch = False,
    revision: options.OptionalName = None,
    flags: options.Flags,
) -> None:
    """Upload a checkpoint with its card to the Hugging Face Hub.

    Uploads the files that loading reads, without the training state. Needs HF_TOKEN, or hf auth login.

    Args:
        directory: Checkpoint or run (its best checkpoint).
        name: Repository on the Hub; created if it does not exist.
        private: Create it as a private repository.
        revision: Branch to upload to (default: main); created if it does not exist.
    """
    from cloze.export.push import push

    report = push(directory, name, private=private, revision=revision, progress=flags.progress)
    flags.print(asdict(report), f"wrote {report.name}: {len(report.files)} files, {report.url}")
