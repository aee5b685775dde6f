"""From directories to a server that listens, until it is told to stop."""

import gc
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import uvicorn

from cloze.errors import InputError, RunError
from cloze.serving.app import create_app
from cloze.serving.limits import Limits
from cloze.serving.models import load_models
from cloze.training.metrics_log import METRICS

_FEWEST_KEY_CHARACTERS = 16
_LAST_PORT = 65_535
_BACKLOG = 2048  # connections that wait to be taken


def serve(
    directories: Mapping[str, Path],
    watched: Mapping[str, Path],
    limits: Limits,
    *,
    host: str,
    port: int,
    threads: int,
    api_key: str | None,
    device: str,
    tell: Callable[[str], None],
) -> None:
    """Serve models until SIGTERM or Ctrl-C; requests under way are answered first.

    Args:
        directories: checkpoints or runs, by the names that requests give them; the first is the default.
        watched: runs that the page shows, by their names; those among the models are shown, too.
        limits: what is taken.
        host: the address to listen on.
        port: 0 takes one that is free.
        threads: of the computation.
        api_key: what requests have to know.
        device: cpu, cuda, mps or auto.
        tell: is told the address, once it answers.

    Raises:
        InputError: a model is missing or damaged, or a run is missing.
        RunError: the address is taken.
    """
    for path in watched.values():
        if not path.is_dir():
            raise InputError("no such run", where=path)
    models = load_models(directories, device=device)
    runs = {name: path for name, path in directories.items() if (path / METRICS).exists()} | dict(watched)
    app = create_app(models, limits, threads=threads, api_key=api_key, runs=runs)
    config = uvicorn.Config(
        app,
        http="h11",  # httptools, which is faster, reads heads without end into memory
        loop="asyncio",  # uvloop's connections fail with a traceback where the client has gone
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=int(limits.drain_seconds),
    )
    server = uvicorn.Server(config)
    # Remembered from here on, whatever is under way. A handler that raises would not do: in a finalizer, of which the
    # collection below runs many, what it raises is lost, and the server would go on for ever.
    signal.signal(signal.SIGTERM, server.handle_exit)
    # What is here now stays; to look through it for garbage again and again stops all requests for 0.1 s and more
    gc.collect()
    gc.freeze()
    with _listen(host, port) as listening:
        address, own_port = listening.getsockname()[:2]
        tell(f"http://{f'[{address}]' if ':' in address else address}:{own_port}")
        server.run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= _LAST_PORT:
        raise InputError(f"{port} is not in 0..{_LAST_PORT}", where="--port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        what = f"cannot listen on {host}:{port}: {error}"
        raise RunError(what, remedy="Give another --port or --host") from error
    # For its connections, too. Else a body waits until its head is acknowledged, which clients put off by 40 ms, and
    # asyncio sees to that only for sockets whose protocol is named, as it is not here.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def read_api_key(file: Path) -> str:
    """Read the key that requests have to know: the first line of a file.

    Raises:
        InputError: no such file, or a key that is none.
    """
    try:
        lines = file.read_text("ascii").splitlines()
    except OSError as error:
        raise InputError(error.strerror or str(error), where=file) from error
    except UnicodeDecodeError as error:
        raise InputError("the key has other characters than ASCII's", where=file) from error
    key = lines[0].strip() if lines else ""
    if len(key) < _FEWEST_KEY_CHARACTERS:
        what = f"a key of {len(key)} characters, {_FEWEST_KEY_CHARACTERS} at least"
        raise InputError(what, where=file, remedy="openssl rand -hex 32 makes one")
    return key
