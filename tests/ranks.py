"""Start ranks as torchrun does, but from a process that has imported torch already."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from cloze.errors import ClozeError
from forked import PRELOADED


def free_port() -> int:
    """Return a port that no process uses."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Ranks:
    """Runs a function in every rank of a new process group."""

    def __init__(self, size: int, function: Callable[..., Any], *arguments: object) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        port = free_port()
        self.errors = context.Queue()
        self.processes: list[BaseProcess] = []
        for rank in range(size):
            names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
            environment = {name: str(value) for name, value in names.items()} | {"MASTER_ADDR": "127.0.0.1"}
            process = context.Process(
                target=_run_rank, args=(environment, self.errors, function, *arguments), daemon=True
            )
            process.start()
            self.processes.append(process)

    def join(self, seconds: float = 240) -> list[int | None]:
        """Wait for all ranks and return their exit codes."""
        for process in self.processes:
            process.join(seconds)
            process.kill()
        for process in self.processes:
            process.join()
        return [process.exitcode for process in self.processes]


def _run_rank(
    environment: dict[str, str], errors: Any, function: Callable[..., Any], *arguments: object
) -> None:
    os.environ.update(environment)
    torch.set_num_threads(1)
    try:
        function(*arguments)
    except ClozeError as error:
        errors.put((int(environment["RANK"]), str(error)))
        raise SystemExit(error.exit_code) from None
