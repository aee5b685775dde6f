"""SIGTERM and Ctrl-C as requests to save and stop."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from cloze.errors import ClozeError
from cloze.progress import SILENT, Progress


class Interrupted(ClozeError):  # noqa: N818 (no error: the user asked for it)
    """A run was stopped by a signal, and has saved its state."""

    exit_code = 130


class StopRequested(Exception):  # noqa: N818 (leaves the middle of a step; no error)
    """A stop was requested; the loop saves its state and raises `Interrupted`."""


class StopRequest:
    """Whether a signal has arrived, and which."""

    def __init__(self) -> None:
        self.signal_name: str | None = None

    def __bool__(self) -> bool:
        return self.signal_name is not None


@contextmanager
def catch_signals(progress: Progress = SILENT) -> Iterator[StopRequest]:
    """Record the first SIGINT or SIGTERM in the yielded request, and say so; a second one has its usual effect."""
    request = StopRequest()
    previous: dict[signal.Signals, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        request.signal_name = signal.Signals(number).name
        restore()
        line = "stopping after this step, with a checkpoint; again to stop now"
        try:
            progress.note(line)
        except RuntimeError:  # the signal came while a line was printed
            os.write(sys.stderr.fileno(), f"{line}\n".encode())

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    if threading.current_thread() is threading.main_thread():  # other threads may not set handlers
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, note)
    try:
        yield request
    finally:
        restore()
