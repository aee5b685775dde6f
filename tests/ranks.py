"""Start ranks as torchrun does, but from a process that has imported torch already."""

import faulthandler
import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from torch.distributed import TCPStore

from cloze.errors import ClozeError
from forked import PRELOADED

SECONDS = 240
"""Time of a rank; one that hangs says where, before the test's own time limit ends it."""


class Ranks:
    """Runs a function in every rank of a new process group."""

    def __init__(self, size: int, function: Callable[..., Any], *arguments: object) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        # as torchrun's agent does: no other process can take the port before the ranks meet
        self.store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self.errors = context.Queue()
        self.processes: list[BaseProcess] = []
        for rank in range(size):
            names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": self.store.port}
            environment = {name: str(value) for name, value in names.items()}
            environment |= {"MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": "True"}
            process = context.Process(
                target=_run_rank, args=(environment, self.errors, function, *arguments), daemon=True
            )
            process.start()
            self.processes.append(process)

    def join(self, seconds: float = SECONDS) -> list[int | None]:
        """Wait for all ranks and return their exit codes."""
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))
            process.kill()
        for process in self.processes:
            process.join()
        return [process.exitcode for process in self.processes]


def _run_rank(
    environment: dict[str, str], errors: Any, function: Callable[..., Any], *arguments: object
) -> None:
    os.environ.update(environment)
    torch.set_num_threads(1)
    faulthandler.dump_traceback_later(SECONDS - 20)
    try:
        function(*arguments)
    except ClozeError as error:
        errors.put((int(environment["RANK"]), str(error)))
        raise SystemExit(error.exit_code) from None
