"""SIGTERM and Ctrl-C as a request: finish what must be finished, save, leave."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from cloze.errors import ClozeError


class Interrupted(ClozeError):
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
    previous = {}

    def note(number: int, frame: FrameType | None) -> None:
        request.signal_name = signal.Signals(number).name
        restore()

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, note)
    except ValueError:  # only the main thread may set handlers; elsewhere the run cannot be interrupted this way
        pass
    try:
        yield request
    finally:
        restore()
