"""The program `cloze`, which is also `python -m cloze`."""

import os
import signal
import sys


def main() -> int:
    """Run the command line; Ctrl-C is answered while it is imported, too."""
    is_handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else the parent ignores it
    if is_handled:
        signal.signal(signal.SIGINT, _stop)
    from cloze.cli import main as run

    if is_handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


def _stop(*_: object) -> None:
    os.write(2, b"error: interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
