"""Names, downloads and cached copies of models of the Hugging Face Hub, and its library's errors in one line."""

import logging
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cloze import file_io
from cloze.errors import ClozeError, InputError, RunError
from cloze.file_names import (
    ADDED_TOKENS_FILE,
    CARD_FILE,
    CONFIG_FILE,
    MANIFEST,
    MODULES_FILE,
    SENTENCE_LENGTH_FILE,
    SENTENCE_SETTINGS_FILE,
    SPECIAL_TOKENS_FILE,
    TASK_FILE,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    TORCH_WEIGHTS_FILE,
    VOCAB_FILE,
    WEIGHTS_FILE,
    WEIGHTS_INDEX_FILE,
)
from cloze.optional_dependencies import import_package

HubFiles: TypeAlias = Literal["model", "tokenizer", "pickle"]
"""The files that are read: of a model, of its tokenizer, or of a model whose weights may be pickled."""

PREFIX = "hf://"
MAIN = "main"
"""The default branch."""
TOKENIZERS = (TOKENIZER_FILE, VOCAB_FILE)
TOKENIZER_FILES = (*TOKENIZERS, TOKENIZER_CONFIG_FILE, SPECIAL_TOKENS_FILE, ADDED_TOKENS_FILE, MANIFEST)
MODEL_FILES = (
    CONFIG_FILE,
    *TOKENIZER_FILES,
    *(MODULES_FILE, SENTENCE_LENGTH_FILE, SENTENCE_SETTINGS_FILE),
    TASK_FILE,
    CARD_FILE,
)
"""The files that are read of a model, without its weights and the poolings of sentence-transformers."""

LOG = logging.getLogger("cloze.model_paths")  # the command line shows it

_URL = re.compile(r"hf:/+(?P<repo>[^@]*)(?P<at>@(?P<revision>.*))?", re.DOTALL)
_REPO = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)?", re.ASCII)
_REVISION = re.compile(r"\w[\w.+-]*(?:/\w[\w.+-]*)*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SNAPSHOT = re.compile(r"models--([^/\\]+)[/\\]snapshots[/\\]([0-9a-f]{40})$")
_MAX_COMMIT_BYTES = 1 << 10
_MODULE = re.compile(r"\d+_\w+/config\.json|sentence_[\w-]+_config\.json")
"""The settings of a pooling, in the folder that sentence-transformers names, and the length of old versions."""
_MEGABYTE = 1e6
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class HubName:
    """The name of a model on the Hub."""

    repo: str
    """As in google-bert/bert-base-uncased."""
    revision: str | None = None
    """A branch, a tag or a commit; None is the branch main."""

    def __str__(self) -> str:
        return f"{PREFIX}{self.repo}{'' if self.revision is None else f'@{self.revision}'}"

    @property
    def commit(self) -> str | None:
        """The revision if it is a full commit hash, which always names the same files."""
        return self.revision if self.revision and _COMMIT.fullmatch(self.revision) else None


def is_repo(name: str) -> bool:
    """Return whether a text has the form of a repository's name on the Hub, as in org/name or name."""
    return _REPO.fullmatch(name) is not None and ".." not in name and "--" not in name


def parse_hub_name(path: Path | str) -> HubName | None:
    """Parse `hf://org/name` or `hf://org/name@revision`, also as a `Path` writes it; None for other paths."""
    match = _URL.fullmatch(str(path))
    if match is None:
        return None
    repo, revision = match["repo"], match["revision"]
    is_model = is_repo(repo) and not repo.startswith(("datasets/", "spaces/"))
    if not is_model or (match["at"] and (not _REVISION.fullmatch(revision) or ".." in revision)):
        url = PREFIX + str(path).removeprefix("hf:").lstrip("/")
        remedy = "Write hf://org/name or hf://org/name@revision"
        raise InputError("is not the name of a model on the Hub", where=url, remedy=remedy)
    return HubName(repo, revision)


def name_of_snapshot(directory: Path) -> HubName | None:
    """Return the name and commit of a directory in the cache; None for any other directory."""
    match = _SNAPSHOT.search(str(directory))
    return None if match is None else HubName(match[1].replace("--", "/"), match[2])


@contextmanager
def progress_bars(*, shown: bool) -> Iterator[None]:
    """Hide the progress bars of huggingface_hub unless they are to be shown."""
    utils: Any = import_package("huggingface_hub").utils
    hides = not shown and not utils.are_progress_bars_disabled()
    if hides:
        utils.disable_progress_bars()
    try:
        yield
    finally:
        if hides:
            utils.enable_progress_bars()


def cache_directory(name: HubName) -> Path:
    """Return the directory of a model in the cache, which transformers shares; it may not exist."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{name.repo.replace('/', '--')}"


def find_cached(name: HubName) -> Path | None:
    """Return the directory in the cache with files of a model, without the network; None if it is not there."""
    import_package("huggingface_hub")  # not try_to_load_from_cache, whose import takes 0.2 s at each start
    directory = cache_directory(name)
    commit = name.commit
    if commit is None:
        where = directory / "refs"
        file = file_io.safe_join(where, name.revision or MAIN, where=where)
        try:
            commit = file_io.read_file(file, max_bytes=_MAX_COMMIT_BYTES).decode(errors="replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
    snapshot = directory / "snapshots" / commit
    return snapshot if _COMMIT.fullmatch(commit) and snapshot.is_dir() else None


def first_missing(directory: Path, files: HubFiles) -> str | None:
    """Return the name of a required file that a model in the cache lacks; None if it has all."""
    weights = (WEIGHTS_FILE, WEIGHTS_INDEX_FILE, *([TORCH_WEIGHTS_FILE] if files == "pickle" else []))
    required = (TOKENIZERS,) if files == "tokenizer" else (TOKENIZERS, (CONFIG_FILE,), weights)
    return next(
        (names[0] for names in required if not any((directory / name).is_file() for name in names)), None
    )


def has_all(directory: Path, files: HubFiles) -> bool:
    """Return whether a directory in the cache has all files of its commit that are read.

    A model without modules of sentence-transformers is complete only if the cache recorded that its commit has none.
    """
    absent = directory.parents[1] / ".no_exist" / directory.name / MODULES_FILE
    knows_modules = files == "tokenizer" or (directory / MODULES_FILE).is_file() or absent.is_file()
    return knows_modules and first_missing(directory, files) is None


def files_to_read(available: Iterable[str], files: HubFiles) -> list[str]:
    """Return the files that loading a model reads, and its card, of those in a repository or a directory."""
    names = {*available}
    if files == "tokenizer":
        return sorted(names & {*TOKENIZER_FILES})
    tensors = {name for name in names if name.endswith(".safetensors") and "/" not in name}
    if WEIGHTS_FILE in names:
        weights = {WEIGHTS_FILE}
    elif WEIGHTS_INDEX_FILE in names:
        weights = tensors | {WEIGHTS_INDEX_FILE}
    else:
        weights = names & {TORCH_WEIGHTS_FILE} if files == "pickle" else set()
    return sorted(weights | {name for name in names if name in MODEL_FILES or _MODULE.fullmatch(name)})


def model_files(directory: Path) -> list[str]:
    """Return the names of the files in a directory that loading a model reads, and of its card."""
    paths = (path for pattern in ("*", "*/*") for path in directory.glob(pattern) if path.is_file())
    return files_to_read((path.relative_to(directory).as_posix() for path in paths), "model")


def download(name: HubName, files: HubFiles) -> Path:
    """Return the directory of a model in the cache, after downloading the files that are missing there.

    A commit whose files are in the cache needs no network. Without a connection, what is in the cache is used, with a
    message.
    """
    cached = find_cached(name)
    if cached is not None and name.commit is not None and has_all(cached, files):
        return cached
    hub: Any = import_package("huggingface_hub")
    api = hub.HfApi()
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
    sizes = {entry.rfilename: entry.size or 0 for entry in info.siblings or ()}
    _check_readable(name, sizes, files)
    at_commit = HubName(name.repo, info.sha)
    snapshot = find_cached(at_commit)
    names = files_to_read(sizes, files)
    missing = {file for file in names if snapshot is None or not (snapshot / file).is_file()}
    if (total := sum(sizes[file] for file in missing)) > _MEGABYTE:
        LOG.info("%s: downloading %.0f MB to %s", name, total / _MEGABYTE, cache_directory(name))
    with file_io.disk_errors(cache_directory(name)), hub_errors(name):
        # the configuration last: without it no model is complete whose hashes are not checked
        for part in (missing - {CONFIG_FILE}, missing & {CONFIG_FILE}):
            for file in sorted(part):  # snapshot_download leaves three bars, which are drawn again at exit
                shown = sizes[file] > _MEGABYTE and LOG.isEnabledFor(logging.WARNING)
                with progress_bars(shown=shown):
                    api.hf_hub_download(name.repo, file, revision=info.sha)
            if part:
                _check_hashes(api, name, info.sha)
        snapshot = find_cached(at_commit)
        if snapshot is None:
            raise InputError("no files that cloze reads", where=name)
        if MODULES_FILE not in sizes and not has_all(snapshot, files):
            with suppress(hub.errors.EntryNotFoundError):  # which the library records in the cache
                api.hf_hub_download(name.repo, MODULES_FILE, revision=info.sha)
        if snapshot != cached:
            api.resolve_revision(name.repo, revision=name.revision)  # which the library records, too
    LOG.info("%s: commit %s", name, info.sha)
    return snapshot


def _check_readable(name: HubName, available: Collection[str], files: HubFiles) -> None:
    """Refuse a repository without a tokenizer or a model that cloze reads, before anything is downloaded."""
    if files == "tokenizer":
        if not any(file in available for file in TOKENIZERS):
            raise InputError(f"no tokenizer: neither {' nor '.join(TOKENIZERS)}", where=name)
        return
    if CONFIG_FILE not in available:
        raise InputError(f"not a model: it has no {CONFIG_FILE}", where=name, remedy="Give another name")
    if WEIGHTS_FILE in available or WEIGHTS_INDEX_FILE in available:
        return
    if TORCH_WEIGHTS_FILE not in available:
        remedy = "Give another name or another revision"
        raise InputError(f"no weights that cloze reads: no {WEIGHTS_FILE}", where=name, remedy=remedy)
    if files != "pickle":
        what = f"its weights are pickled: it has {TORCH_WEIGHTS_FILE}, but no {WEIGHTS_FILE}"
        remedy = f"Run cloze import {name} -o DIR, which reads tensors alone and runs no code in the file"
        raise InputError(what, where=name, remedy=remedy)


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


@contextmanager
def hub_errors(where: object, *, writing: bool = False) -> Iterator[None]:
    """Turn the errors of huggingface_hub into a ClozeError of one line, at a repository or the URL of a file."""
    try:
        yield
    except ClozeError:
        raise
    except Exception as error:
        cloze_error = to_cloze_error(error, where, writing=writing)
        if cloze_error is None:
            raise
        raise cloze_error from error


def is_unreachable(error: BaseException | None) -> bool:
    """Return whether an error of huggingface_hub means that there was no connection, or that it broke."""
    from huggingface_hub import errors

    http_errors = tuple(base for base in errors.HfHubHTTPError.__bases__ if base is not OSError)  # of httpx
    no_connection = (*http_errors, errors.OfflineModeIsEnabled)
    return isinstance(error, no_connection) and not isinstance(error, errors.HfHubHTTPError)


def to_cloze_error(error: Exception, where: object, *, writing: bool = False) -> ClozeError | None:
    """Return the error in one line for an error of huggingface_hub; None for any other."""
    from huggingface_hub import constants, errors, get_token

    wrappers = (RuntimeError, errors.LocalEntryNotFoundError)  # of a thread that uploads; of a failed request
    if isinstance(error, wrappers) and isinstance(error.__cause__, Exception):
        return to_cloze_error(error.__cause__, where, writing=writing)
    if isinstance(error, errors.OfflineModeIsEnabled):
        what = f"cannot be {'written' if writing else 'downloaded'} while HF_HUB_OFFLINE is set"
        return InputError(what, where=where, remedy="Unset it, or give what is on this machine")
    endpoint, right = constants.ENDPOINT, "write" if writing else "read"
    if is_unreachable(error):
        reason = " ".join(str(error).split()) or type(error).__name__
        return RunError(f"no connection to {endpoint}: {reason[:200]}", where=where, remedy="Run it again")
    for kind, what, remedy in (
        (errors.HFValidationError, "is not a name of the Hub", "Write org/name"),
        (errors.EntryNotFoundError, "no such file", None),
        (errors.RevisionNotFoundError, "no such revision", "Give a branch, a tag or a commit"),
    ):
        if isinstance(error, kind):
            return InputError(what, where=where, remedy=remedy)
    if not isinstance(error, errors.HfHubHTTPError):
        return None
    status = error.response.status_code
    if isinstance(error, errors.GatedRepoError):
        page = str(where).split("@")[0].replace(PREFIX, f"{endpoint}/")
        what = "its authors restrict the access to it"
        remedy = f"Ask for access at {page}, and set HF_TOKEN to your token"
    elif status == 401 and get_token() is not None:
        what, remedy = f"{endpoint} refuses the token", "Set HF_TOKEN to a valid one, or run hf auth login"
    elif status == 401 and writing:
        what, remedy = "needs a token", "Set HF_TOKEN to a token with write access, or run hf auth login"
    elif status in (401, 404) or isinstance(error, errors.RepositoryNotFoundError):
        what = f"no such repository at {endpoint}, or a private one"
        remedy = f"Check the name, or set HF_TOKEN to a token that may {right} it"
    elif status == 403:
        what, remedy = f"the token may not {right} it", f"Use a token with {right} access"
    else:
        return _server_error(error, f"{endpoint} answers with error {status}", where)
    return InputError(what, where=where, remedy=remedy)


def _server_error(error: Any, what: str, where: object) -> RunError:
    status, headers = error.response.status_code, error.response.headers
    if status == 429:
        wait = re.search(r"\bt=(\d+)", headers.get("ratelimit", "")) or re.fullmatch(
            r"\s*(\d+)\s*", headers.get("retry-after", "")
        )
        remedy = f"Run it again {f'in {wait[1]} seconds' if wait else 'later'}"
        return RunError("too many requests", where=where, remedy=remedy)
    message = f": {error.server_message.splitlines()[0][:200]}" if error.server_message else ""
    return RunError(what + message, where=where, remedy="Run it again later" if status >= 500 else None)
