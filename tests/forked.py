"""Commands in real processes that start at once: forked from a server that has imported what they need."""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cloze.cli import main

_context = multiprocessing.get_context("forkserver")
# the server of all processes of a session; each would import these for seconds
PRELOADED = [
    *("cloze.cli.training", "cloze.api.pretraining", "cloze.finetuning.finetune", "cloze.pretraining.run"),
    *("jinja2", "pandas", "tensorboardX", "torch._dynamo", "torch.profiler"),
]
_context.set_forkserver_preload(PRELOADED)


class Command:
    """`cloze ARGUMENT…` in a process of its own; what it says as an error goes to a file.

    No file that it writes may grow over `max_bytes`, as on a full disk.
    """

    def __init__(self, arguments: Sequence[str], errors: Path, *, max_bytes: int | None = None) -> None:
        self._errors = errors
        errors.write_bytes(b"")
        self._process = _context.Process(target=_run, args=(list(arguments), errors, max_bytes))
        self._process.start()

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def said(self) -> str:
        """Return what was said as an error so far."""
        return self._errors.read_text(encoding="utf-8")

    def wait_until(self, is_so: Callable[[], object], seconds: float = 120) -> None:
        """Wait for something that comes before the end of the command."""
        end = time.monotonic() + seconds
        while not is_so():
            assert self.is_running, self.finish()
            assert time.monotonic() < end, f"timed out after {seconds} s"
            time.sleep(0.002)

    def wait_for(self, words: str) -> None:
        """Wait until words are said as an error."""
        self.wait_until(lambda: words in self.said())

    def finish(self, seconds: float = 120) -> str:
        """Wait for the end, and return what was said as an error."""
        self._process.join(seconds)
        if self.is_running:
            self._process.kill()
            raise TimeoutError(f"timed out after {seconds} s")
        return self.said()


def _run(arguments: list[str], errors: Path, max_bytes: int | None) -> None:
    with open(errors, "wb") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    if max_bytes is not None:
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background of a shell ignore it
    sys.exit(main(arguments))
