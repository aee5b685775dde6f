"""Download the files of a model that are read from the Hugging Face Hub to its cache, and check their hashes."""

import logging
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cloze import file_io
from cloze.errors import ClozeError, InputError, RunError
from cloze.file_names import CONFIG_FILE, MODULES_FILE, TORCH_WEIGHTS_FILE, WEIGHTS_FILE, WEIGHTS_INDEX_FILE
from cloze.hub import (
    LOG,
    MAIN,
    MODEL_FILES,
    TOKENIZER_FILES,
    TOKENIZERS,
    HubFiles,
    HubName,
    cache_directory,
    checkpoint_files,
    find_cached,
    first_missing,
    has_all,
    hub_errors,
    import_hub,
    is_commit,
    is_unreachable,
    module_files,
    progress_bars,
    unchecked_marker,
    weight_names,
)

_OTHER_WEIGHTS = (".bin", ".h5", ".msgpack", ".ckpt.index", ".onnx", ".pt", ".safetensors")
_MEGABYTE = 1e6
_TIMEOUT_SECONDS = 30.0


def download(name: HubName, files: HubFiles) -> Path:
    """Return the directory of a model in the cache, after downloading the files that are missing there.

    Without a connection, what is in the cache is used, with a message.

    Args:
        name: the model; a commit whose files are in the cache needs no network.
    """
    cached = find_cached(name)
    if cached is not None and name.commit is not None and has_all(cached, files):
        return cached
    api = import_hub().HfApi()
    try:
        with hub_errors(name):
            info = api.model_info(
                name.repo, revision=name.revision, files_metadata=True, timeout=_TIMEOUT_SECONDS
            )
    except ClozeError as error:
        if cached is None or not is_unreachable(error.__cause__) or first_missing(cached, files) is not None:
            raise
        LOG.info("%s: commit %s, from the cache: there is no connection", name, cached.name)
        return cached
    commit = str(info.sha)
    if not is_commit(commit):
        raise RunError(f"the Hub says that its commit is {commit!r}", where=name)
    sizes = {entry.rfilename: entry.size or 0 for entry in info.siblings or ()}
    _check_readable(name, sizes, files)
    directory = cache_directory(name)
    snapshot = directory / "snapshots" / commit

    fetch = partial(_fetch, api, name, snapshot, sizes)
    with file_io.disk_errors(directory), hub_errors(name):
        if files == "tokenizer":
            is_new = fetch(TOKENIZER_FILES)
        else:
            is_new = fetch((*MODEL_FILES, *(() if WEIGHTS_FILE in sizes else (WEIGHTS_INDEX_FILE,))))
            weights = (
                [WEIGHTS_FILE] if WEIGHTS_FILE in sizes else weight_names(snapshot) or [TORCH_WEIGHTS_FILE]
            )
            is_new |= fetch((*weights, *module_files(snapshot), *checkpoint_files(snapshot)), shown=True)
        if is_new or cached != snapshot:
            _check_hashes(api, name, commit)
            unchecked_marker(snapshot).unlink(missing_ok=True)
        if files != "tokenizer" and MODULES_FILE not in sizes:
            file_io.write_text(directory / ".no_exist" / commit / MODULES_FILE, "", sync=False)
        if name.commit is None:
            ref = file_io.safe_join(directory / "refs", name.revision or MAIN, where=directory)
            file_io.write_text(ref, commit, sync=False)
    LOG.info("%s: commit %s", name, commit)
    return snapshot


def _fetch(
    api: Any,
    name: HubName,
    snapshot: Path,
    sizes: Mapping[str, int],
    names: Iterable[str],
    *,
    shown: bool = False,
) -> bool:
    """Download the files of a commit that the Hub has and the cache lacks; return whether there were any."""
    missing = [file for file in dict.fromkeys(names) if file in sizes and not (snapshot / file).is_file()]
    if (total := sum(map(sizes.__getitem__, missing))) > _MEGABYTE:
        LOG.info("%s: downloading %.0f MB to %s", name, total / _MEGABYTE, snapshot.parents[1])
    if missing:
        file_io.write_text(unchecked_marker(snapshot), "", sync=False)
    with progress_bars(shown=shown and LOG.isEnabledFor(logging.WARNING)):
        for file in missing:
            api.hf_hub_download(name.repo, file, revision=snapshot.name)
    return bool(missing)


def _check_readable(name: HubName, available: Collection[str], files: HubFiles) -> None:
    """Refuse a repository without a tokenizer or a model that cloze reads, before anything is downloaded."""
    if files == "tokenizer":
        if not any(file in available for file in TOKENIZERS):
            raise InputError(f"no tokenizer: neither {' nor '.join(TOKENIZERS)}", where=name)
        return
    if CONFIG_FILE not in available:
        raise InputError(f"not a model: it has no {CONFIG_FILE}", where=name, remedy="Give another name")
    pickles = {TORCH_WEIGHTS_FILE} if files == "pickle" else set()
    if not {WEIGHTS_FILE, WEIGHTS_INDEX_FILE, *pickles}.isdisjoint(available):
        return
    if TORCH_WEIGHTS_FILE in available:
        what = f"its weights are pickled: it has {TORCH_WEIGHTS_FILE}, but no {WEIGHTS_FILE}"
        remedy = f"Run cloze import {name} -o DIR, which reads tensors alone and runs no code in the file"
        raise InputError(what, where=name, remedy=remedy)
    others = sorted(file for file in available if file.endswith(_OTHER_WEIGHTS))
    what = f"no weights that cloze reads: no {WEIGHTS_FILE}" + (
        f", but {', '.join(others[:3])}" if others else ""
    )
    raise InputError(what, where=name, remedy="Give another name or another revision")


def _check_hashes(api: Any, name: HubName, commit: str) -> None:
    """Remove the files of a commit in the cache that differ from the Hub's hashes, and report the first."""
    check = api.verify_repo_checksums(name.repo, revision=commit)
    for mismatch in check.mismatches:
        link = check.verified_path / mismatch["path"]
        link.resolve().unlink(missing_ok=True)
        link.unlink(missing_ok=True)
    if check.mismatches:
        path = check.mismatches[0]["path"]
        what = f"{path} is damaged: the contents differ from the hash that the Hub has for it"
        raise RunError(what, where=name, remedy="Run it again: the file is downloaded from its start")
