"""Find the directory of a model: a checkpoint, a run, a bundled model, or a model of the Hugging Face Hub."""

import logging
import os
from pathlib import Path
from typing import Literal, TypeAlias

from cloze import artifacts, file_io
from cloze.errors import InputError
from cloze.file_names import GRAPH_FACTS_FILE, GRAPH_FILE, MODULES_FILE
from cloze.hub import (
    PREFIX,
    HubFiles,
    HubName,
    download,
    find_cached,
    first_missing,
    has_all,
    is_repo,
    parse_hub_name,
)

RunLink: TypeAlias = Literal["latest", "best"]
"""A link in a run to one of its checkpoints."""

LOG = logging.getLogger(__name__)
"""Which checkpoint of a run was read, and what followed from it; the command line shows this."""
_BUNDLED_MODELS = Path(__file__).parent / "pretrained"
_NAMES_OF_HUB = f"a model of the Hub, as in {PREFIX}google-bert/bert-base-uncased"


def find_model_directory(path: Path | str, files: HubFiles = "model", *, commit: str | None = None) -> Path:
    """Return the directory of a model by its name, or any other path unchanged.

    `hf://org/name` is downloaded from the Hub where it is not in the cache. A name without that prefix is never sent
    anywhere: it is a path, else a bundled model, else a model in the cache.

    Args:
        files: those that are read of a model on the Hub.
        commit: the commit of a model on the Hub, where a run recorded it.
    """
    hub_name = parse_hub_name(path)
    if hub_name is not None:
        return download(HubName(hub_name.repo, commit or hub_name.revision), files)
    if artifacts.URL.match(str(path)):
        url = str(path).replace(":/", "://", 1).replace(":///", "://")
        what = "a model is a local directory or hf://org/name"
        raise InputError(what, where=url, remedy="Copy the files first")
    is_local = str(path).startswith(("./", "../", "~")) or Path(path).exists()
    name, path = str(Path(path)), Path(path)
    is_name = path.parts == (path.name,)
    bundled = {file.parent.name: file.parent for file in _BUNDLED_MODELS.glob("*/config.json")}
    directory = path if is_local or not (is_name or is_repo(name)) else bundled.get(name)
    if directory is not None:
        if commit is not None:
            what = f"is not a model of the Hub, and has no commit {commit}"
            raise InputError(what, where=path, remedy="Leave the commit out of the settings")
        return directory
    cached = find_cached(HubName(name, commit)) if is_repo(name) else None
    if cached is None and is_name:
        what = "no such file, directory or bundled model"
        remedy = f"Give a path, {_NAMES_OF_HUB}, or {' or '.join(sorted(bundled))}"
        raise InputError(what, where=path, remedy=remedy)
    if cached is None and path.parent.is_dir():
        return path
    if cached is None:
        what = "no such directory, and no such model in the cache of the Hub"
        raise InputError(what, where=path, remedy=f"{PREFIX}{path} downloads it")
    if missing := first_missing(cached, files):
        what = f"is in the cache of the Hub without {missing}"
        raise InputError(what, where=path, remedy=f"{PREFIX}{path} downloads it")
    note = "" if has_all(cached, files) else f", perhaps without {MODULES_FILE}; {PREFIX}{path} completes it"
    LOG.info("%s: commit %s, from the cache%s", path, cached.name, note)
    return cached


def is_bundled(path: Path) -> bool:
    """Return whether a directory is that of a bundled model."""
    return path.resolve().parent == _BUNDLED_MODELS.resolve()


def resolve_checkpoint(
    path: Path | str,
    prefer: RunLink = "best",
    *,
    files: HubFiles = "model",
    commit: str | None = None,
    graphs: bool = False,
) -> Path:
    """Return the directory of a model as `find_model_directory` does; of a run, its best or its latest checkpoint.

    A run that was not evaluated has no best checkpoint; its latest is returned. Which one it is, is logged.

    Args:
        graphs: accept an exported graph, which answers and has no weights to change.
    """
    path = find_model_directory(path, files, commit=commit)
    if files == "model" and not graphs:
        refuse_graph(path)
    if not (path / artifacts.RUN_CONFIG).is_file():
        return path
    links: tuple[RunLink, ...] = ("best", "latest") if prefer == "best" else ("latest",)
    for link in links:
        if os.path.lexists(path / link):
            checkpoint = follow_link(path, link)
            LOG.info("%s: %s checkpoint, %s", path, link, checkpoint.relative_to(path))
            return checkpoint
    raise InputError(
        "is a run without a checkpoint, or was copied without its links",
        where=path,
        remedy="Continue it with --resume of cloze pretrain or finetune",
    )


def is_graph(path: Path) -> bool:
    """Return whether a directory is a graph that cloze exported."""
    return (path / GRAPH_FACTS_FILE).is_file() and (path / GRAPH_FILE).is_file()


def refuse_graph(path: Path) -> None:
    """Refuse an exported graph where the modules of a model are needed."""
    if is_graph(path):
        what = "an exported graph, which has no weights, gradients or hidden layers"
        raise InputError(what, where=path, remedy="Give the model that it was exported from")


def follow_link(run: Path, link: RunLink) -> Path:
    """Return the checkpoint to which `latest` or `best` of a run links.

    Programs that follow links while they copy a run leave a copy of the checkpoint in the place of the link; then that
    is returned.
    """
    path = run / link
    if path.is_dir() and not path.is_symlink() and any(path.iterdir()):
        return path
    try:
        if not path.is_symlink() and not path.is_file():
            raise InputError("is not a link to a checkpoint", where=path)
        target = file_io.read_link(path)
        checkpoint = file_io.safe_join(run, target, where=path)
        if not target or not checkpoint.is_dir():
            what = f"names {target}, which does not exist" if target else "names no checkpoint"
            raise InputError(what, where=path)
    except InputError as error:
        error.remedy = "Copy the run again with its links, or write them again with `resume`"
        raise
    return checkpoint
