"""SIGTERM and Ctrl-C as a request: finish what must be finished, save, leave."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from cloze.errors import ClozeError


class Interrupted(ClozeError):  # noqa: N818 (the user asked for it: no error)
    """The user or the system asked the run to stop, and it has saved its state."""

    exit_code = 130


class StopRequest:
    """Whether somebody asked to stop."""

    def __init__(self) -> None:
        self.signal_name: str | None = None

    def __bool__(self) -> bool:
        return self.signal_name is not None


@contextmanager
def catch_signals() -> Iterator[StopRequest]:
    """Collect the first SIGINT or SIGTERM in the yielded request; a second one acts as it always does."""
    request = StopRequest()
    previous: dict[signal.Signals, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        request.signal_name = signal.Signals(number).name
        restore()

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, note)
    try:
        yield request
    finally:
        restore()
