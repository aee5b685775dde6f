"""`cloze serve`: serve models over HTTP, with an explorer page."""

import os
import sys
from pathlib import Path
from typing import Annotated

from cloze.cli import options
from cloze.errors import InputError
from cloze.parallel_map import default_workers

_MAX_THREADS = 1024


def run(
    *,
    model: Annotated[
        options.Repeated,
        options.Flag(aliases=["-m"], metavar="[NAME=]MODEL"),
    ] = (),
    host: Annotated[str, options.Flag(metavar="ADDRESS")] = "127.0.0.1",
    port: int = 8080,
    api_key_file: options.OptionalPath = None,
    open: options.Switch = False,
    top_k: options.TopK = None,
    threads: Annotated[
        int | None,
        options.Flag(metavar="INT"),
    ] = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    flags: options.Flags,
) -> None:
    """Serve models over HTTP, with an explorer page at /, until Ctrl-C or SIGTERM.

    Args:
        model: cloze-mini, cloze-mini-sentences, a checkpoint, a run or hf://org/name, with its name in requests; may be
            repeated, the first is the default.
        host: Address to listen on; 0.0.0.0 accepts connections from other machines, and requires a key or --open.
        port: Port; 0 selects a free one.
        api_key_file: File whose first line is the key that requests must send, as Authorization: Bearer KEY.
        open: Answer requests from other machines without a key.
        top_k: Maximum number of classes that /predict returns, the most probable first; by default all.
        threads: Number of threads that compute; fewer where other programs use the cores, too.
    """
    from cloze.arguments import check_integer
    from cloze.optional_dependencies import require

    require(["fastapi", "uvicorn", "prometheus_client", "orjson"], extra="serve", where="the server")
    from cloze.serving.limits import Limits
    from cloze.serving.server import check_local, read_api_key, serve
    from cloze.training.memory import configure_process_memory

    configure_process_memory("requests")
    if not host.strip() or (api_key_file is None and not open):
        check_local(host)

    directories = _parse_names(model or ("cloze-mini",))
    serve(
        directories,
        Limits(classes=None if top_k is None else check_integer(top_k, "--top-k")),
        host=host,
        port=port,
        threads=_number_of_threads(threads),
        api_key=None if api_key_file is None else read_api_key(api_key_file),
        device=device,
        precision=precision,
        tell=lambda address: print(
            f"serving {', '.join(directories)} at {address}", file=sys.stderr, flush=True
        ),
    )


def _number_of_threads(threads: int | None) -> int:
    """Return the number of the flag, else that of OpenMP's environment variable, else that of the cores."""
    import torch

    from cloze.arguments import check_integer

    if threads is None:
        return torch.get_num_threads() if "OMP_NUM_THREADS" in os.environ else default_workers()
    return check_integer(threads, "--threads", maximum=_MAX_THREADS)


def _parse_names(arguments: tuple[str, ...]) -> dict[str, Path]:
    """Parse NAME=DIR, or DIR, whose name is the default; an existing path may contain "="."""
    from cloze.hub import parse_hub_name

    directories: dict[str, Path] = {}
    for argument in arguments:
        name, equals, path = ("", "", "") if Path(argument).exists() else argument.partition("=")
        hub_name = parse_hub_name(path if equals else argument)
        directory = Path(path if equals else argument)
        default = directory.resolve().name if hub_name is None else Path(hub_name.repo).name
        if equals and not (name and path):
            raise InputError(
                f"{argument!r} lacks a name or a directory", where="--model", remedy="Write NAME=DIR"
            )
        name = name if equals else default
        if name in directories:
            raise InputError(f"the name {name!r} is used twice", where="--model", remedy="Write NAME=DIR")
        directories[name] = directory
    return directories
