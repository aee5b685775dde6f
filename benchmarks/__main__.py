"""Compare the speed of cloze and its peers: from a clone, `python -m benchmarks WHAT`.

`python -m benchmarks --help` lists the benchmarks, `python -m benchmarks WHAT --help` the flags of one.
"""

import sys

from cloze.cli import escape_unprintable, run_command


def main(argv: list[str] | None = None) -> int:
    """Run one benchmark; return the exit code, as `cloze` does."""
    escape_unprintable()
    return run_command("python -m benchmarks", "benchmarks.commands", sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
