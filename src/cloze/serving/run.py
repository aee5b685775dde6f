"""From directories to a server that listens, until it is told to stop."""

import gc
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from types import FrameType

import uvicorn

from cloze.errors import InputError, RunError
from cloze.serving.app import create_app
from cloze.serving.engine import Engine
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
        InputError: a model is missing or damaged, a run is missing, or there is no such port.
        RunError: the address is taken.
    """
    for path in watched.values():
        if not path.is_dir():
            raise InputError("no such run", where=path)
    with _bind(host, port) as listening:
        models = load_models(directories, device=device)
        runs = {name: path for name, path in directories.items() if (path / METRICS).exists()} | dict(watched)
        is_local = ip_address(listening.getsockname()[0]).is_loopback
        hosts = {host, "127.0.0.1", "::1", "localhost"} if is_local and api_key is None else None
        app = create_app(models, limits, threads=threads, api_key=api_key, runs=runs, hosts=hosts)
        config = uvicorn.Config(
            app,
            http="h11",  # httptools, which is faster, reads heads without end into memory
            loop="asyncio",  # uvloop's connections fail with a traceback where the client has gone
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=int(limits.drain_seconds),
        )
        server = _Server(config, app.state.engine)
        # Remembered from here on, whatever is under way. A handler that raises would not do: in a finalizer, of which
        # the collection below runs many, what it raises is lost, and the server would go on for ever.
        signal.signal(signal.SIGTERM, server.handle_exit)
        # What is here now stays; to look through it for garbage again and again stops all requests for 0.1 s and more
        gc.collect()
        gc.freeze()
        _listen(listening)
        address, own_port = listening.getsockname()[:2]
        tell(f"http://{f'[{address}]' if ':' in address else address}:{own_port}")
        server.run(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that lets nothing more in once it is told to stop."""

    def __init__(self, config: uvicorn.Config, engine: Engine) -> None:
        super().__init__(config)
        self._engine = engine

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop."""
        self._engine.stop()
        super().handle_exit(sig, frame)


def _bind(host: str, port: int) -> socket.socket:
    """Take an address, without answering there yet: what is wrong with it is told before models are read."""
    if not 0 <= port <= _LAST_PORT:
        raise InputError(f"{port} is not in 0..{_LAST_PORT}", where="--port")
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with _taken(bound, f"{host}:{port}"):
        bound.bind((host, port))
    return bound


def _listen(bound: socket.socket) -> None:
    """Answer there from now on."""
    with _taken(bound, "{}:{}".format(*bound.getsockname()[:2])):
        bound.listen(_BACKLOG)
    # For its connections, too. Else a body waits until its head is acknowledged, which clients put off by 40 ms, and
    # asyncio sees to that only for sockets whose protocol is named, as it is not here.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@contextmanager
def _taken(bound: socket.socket, address: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        bound.close()
        what = f"cannot listen on {address}: {error}"
        raise RunError(what, remedy="Give another --port or --host") from error


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
