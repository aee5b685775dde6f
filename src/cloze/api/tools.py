"""Describe, report on, upload and serve what cloze wrote."""

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cloze.arguments import check_integer, check_paths
from cloze.config import resolve
from cloze.options import Device, ModelPrecision, Overwrite, ShowProgress
from cloze.process import configure_process
from cloze.progress import Progress, resolve_progress
from cloze.serving.limits import Limits
from cloze.signatures import checks_arguments

if TYPE_CHECKING:  # not needed for --help
    from cloze.export.push import PushReport
    from cloze.reports.describe import Description

_MAX_THREADS = 1024


@checks_arguments()
def info(directory: str | Path) -> "Description":
    """Describe a directory and verify its files against the manifest.

    A directory without a manifest, as Hugging Face tools write it, is described only.

    Args:
        directory: checkpoint, data set, vocabulary or run, or hf://org/name.
    """
    from cloze.reports.describe import describe

    return describe(Path(directory))


@checks_arguments()
def report(run: str | Path, *, output: str | Path | None = None, overwrite: Overwrite = False) -> Path:
    """Write the curves, metrics, settings and machine of a run as one HTML file.

    Args:
        run: run of pretrain or finetune, finished or not.
        output: HTML file (default: report.html in the run, always replaced).

    Returns:
        The path of the file.
    """
    from cloze.artifacts import check_output_path
    from cloze.reports.run_report import write_report

    page = None if output is None else Path(output)
    if page is not None:
        check_output_path(page, overwrite=overwrite, directory=False)
    return write_report(Path(run), page)


@checks_arguments()
def push(
    directory: str | Path, name: str, *, private: bool = False, progress: ShowProgress = False
) -> "PushReport":
    """Upload a checkpoint with its card to the Hugging Face Hub, as one commit.

    Uploads the files that loading reads, without the training state. Files of an earlier model that loading would read
    are removed from the repository; others stay. Needs HF_TOKEN, or hf auth login.

    Args:
        directory: checkpoint or run (its best checkpoint).
        name: repository on the Hub and perhaps a branch, as in org/name@branch; created if they do not exist.
        private: create it as a private repository.
    """
    from cloze.export.push import find_checkpoint, parse_target, upload

    target = parse_target(name)
    checkpoint = find_checkpoint(Path(directory))
    return upload(checkpoint, target, private=private, progress=resolve_progress(progress))


@checks_arguments()
def serve(
    *,
    model: Sequence[str] = ("cloze-mini",),
    host: str = "127.0.0.1",
    port: int = 8080,
    api_key_file: str | Path | None = None,
    open: bool = False,
    allowed_host: Sequence[str] = (),
    cors: Sequence[str] = (),
    evaluation: str | Path | None = None,
    search: str | Path | None = None,
    lesson: Sequence[str | Path] = (),
    log: Literal["json"] | None = None,
    threads: int | None = None,
    device: Device = "auto",
    precision: ModelPrecision = None,
    **limits: Annotated[Any, Limits],
) -> None:
    """Serve models over HTTP, with an explorer page at /, until Ctrl-C or SIGTERM.

    On the command line, a variable of the environment stands for each flag, as CLOZE_PORT for --port.

    Args:
        model: cloze-mini, cloze-mini-sentences, a checkpoint, a run or hf://org/name, with its name in requests, as in
            NAME=MODEL; may be repeated, the first is the default.
        host: address to listen on; 0.0.0.0 accepts connections from other machines, and requires a key or `open`.
        port: port; 0 selects a free one.
        api_key_file: file with a key in each line; requests must send one, as Authorization: Bearer KEY. It is read
            again when it changes.
        open: answer requests from other machines without a key.
        allowed_host: accepted Host header, as behind a proxy, beside the names of this machine; may be repeated.
        cors: web origin whose pages may send requests, as in https://example.org; may be repeated.
        evaluation: file that cloze evaluate wrote with -o or --errors, which the page shows in its view Errors: .jsonl,
            .csv or .tsv.
        search: text file, or folder of text files, for POST /search; the first sentence encoder embeds them, or else
            the first model with vectors.
        lesson: file of a lesson, shown after the bundled lessons; may be repeated.
        log: json writes a line for each request, and all messages as JSON.
        threads: number of threads that compute (default: OMP_NUM_THREADS, else the cores, or fewer by a CPU quota).
    """
    from cloze.optional_dependencies import require

    require(["fastapi", "uvicorn", "prometheus_client", "orjson"], extra="serve", where="the server")
    configure_process("requests")
    from cloze.serving import server
    from cloze.serving.app import create_app
    from cloze.serving.json_log import log_as_json
    from cloze.serving.lessons import read_lessons
    from cloze.serving.served_model import index_documents, load_models

    progress = Progress(quiet=log is not None)
    note = progress.note if log is None else log_as_json()
    if not host.strip() or (api_key_file is None and not open):
        server.check_local(host)
    directories = server.parse_names(model, "model")
    settings = resolve(Limits, limits)
    number = None if threads is None else check_integer(threads, "threads", maximum=_MAX_THREADS)
    keys = None if api_key_file is None else server.KeyFile(Path(api_key_file))
    file = None if evaluation is None else server.check_evaluation(Path(evaluation))
    lessons = read_lessons([Path(path) for path in check_paths(lesson, "lesson")])
    number = server.set_threads(number, directories.values())
    with server.bind(host, port) as listening:
        models = load_models(directories, device=device, precision=precision)
        if search is not None:
            models = index_documents(models, search, progress)
        is_local = ip_address(listening.getsockname()[0]).is_loopback
        hosts = {host, "127.0.0.1", "::1", "localhost", *allowed_host}
        app = create_app(
            models,
            settings,
            threads=number,
            api_keys=keys,
            hosts=hosts if allowed_host or (is_local and keys is None) else None,
            cors=cors,
            evaluation=file,
            lessons=lessons,
        )
        told = f"serving {', '.join(directories)} at"
        server.run(app, listening, settings, tell=lambda address: note(f"{told} {address}"))
