"""Upload a checkpoint with its card to the Hugging Face Hub."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloze.errors import InputError
from cloze.file_names import CARD_FILE, MANIFEST, TRAINING_FOLDER, WEIGHTS_FILE, WEIGHTS_INDEX_FILE
from cloze.hub import (
    MAIN,
    MODEL_FILES,
    PREFIX,
    HubName,
    first_missing,
    hub_errors,
    is_repo,
    model_files,
    parse_hub_name,
    progress_bars,
)
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import verify_checkpoint
from cloze.models.config_file import load_config
from cloze.models.weight_files import weight_files
from cloze.optional_dependencies import import_package
from cloze.progress import Progress
from cloze.results import Result


@dataclass(frozen=True, slots=True, repr=False)
class PushReport(Result):
    """A commit on the Hub."""

    name: str
    """As in hf://org/name@commit."""
    url: str
    files: tuple[str, ...]
    """The files of the checkpoint."""
    removed: tuple[str, ...]
    """Files of an earlier model that loading would read."""


def upload(checkpoint: Path, target: HubName, *, private: bool, progress: Progress) -> PushReport:
    """Upload a checkpoint with its card as one commit."""
    files = model_files(checkpoint)
    size = sum((checkpoint / file).stat().st_size for file in files)
    hub: Any = import_package("huggingface_hub")
    api = hub.HfApi()
    with hub_errors(target, writing=True), progress_bars(shown=not progress.quiet):
        api.create_repo(target.repo, private=private or None, exist_ok=True)
        if private and not api.model_info(target.repo).private:
            remedy = "Leave out `private`, or make it private in its settings on the Hub"
            raise InputError("exists and is public", where=target, remedy=remedy)
        if target.revision is not None:
            api.create_branch(target.repo, branch=target.revision, exist_ok=True)
        read = {*MODEL_FILES, WEIGHTS_FILE, WEIGHTS_INDEX_FILE} - {CARD_FILE, *files}
        present = api.model_info(target.repo, revision=target.revision).siblings or ()
        removed = sorted(entry.rfilename for entry in present if entry.rfilename in read)
        visibility = "private " if private else ""
        progress.note(
            f"uploading {checkpoint} to the {visibility}repository {target}: {size / 1e6:,.1f} MB, {', '.join(files)}"
        )
        if CARD_FILE not in files:
            progress.note(f"warning: {checkpoint} has no card, {CARD_FILE}")
        if removed:
            progress.note(f"removing files of the model that is there: {', '.join(removed)}")
        commit = api.create_commit(
            target.repo,
            [
                *(hub.CommitOperationAdd(file, _contents(checkpoint, file)) for file in files),
                *(hub.CommitOperationDelete(file) for file in removed),
            ],
            commit_message="Upload a model with cloze",
            revision=target.revision or MAIN,
        )
    return PushReport(
        str(HubName(target.repo, commit.oid)), str(commit.commit_url), tuple(files), tuple(removed)
    )


def parse_target(name: str) -> HubName:
    """Return the repository and the branch to upload to."""
    target = parse_hub_name(name if name.startswith(PREFIX) else f"{PREFIX}{name}")
    if target is None or "/" not in target.repo or not is_repo(target.repo):
        remedy = "Write org/name, with your name on the Hub or that of an organization"
        raise InputError("is not the name of a repository", where=name, remedy=remedy)
    return HubName(target.repo, None if target.revision == MAIN else target.revision)


def find_checkpoint(directory: Path) -> Path:
    """Return the checkpoint that a directory or a run has."""
    remedy = "Give the directory of a checkpoint or a run"
    if not directory.is_dir():
        raise InputError("no such directory", where=directory, remedy=remedy)
    checkpoint = resolve_checkpoint(directory.absolute())
    verify_checkpoint(checkpoint)
    if (missing := first_missing(checkpoint, "model")) is not None:
        raise InputError(f"not a checkpoint: it has no {missing}", where=directory, remedy=remedy)
    load_config(checkpoint)
    if any(file.parent != checkpoint for file in weight_files(checkpoint)):
        remedy = f"Upload a whole copy: cloze import {checkpoint.name} -o DIR, then cloze push DIR"
        raise InputError("shares weights with another bundled model", where=directory, remedy=remedy)
    return checkpoint


def _contents(checkpoint: Path, file: str) -> str | bytes:
    """Return the path of a file, or the manifest without the files of the training state, which are not uploaded."""
    path = checkpoint / file
    if file != MANIFEST:
        return str(path)
    table = json.loads(path.read_bytes())
    table["files"] = {
        name: record for name, record in table["files"].items() if not name.startswith(f"{TRAINING_FOLDER}/")
    }
    return (json.dumps(table, indent=1) + "\n").encode()
