"""Compare the speed of cloze and its peers: from a clone, `python -m benchmarks WHAT`.

`python -m benchmarks` lists the benchmarks, `python -m benchmarks WHAT --help` the flags of one.
"""

import sys

from cloze.cli import escape_unprintable
from cloze.process import configure_threads

PROGRAM = "python -m benchmarks"


def main(argv: list[str] | None = None) -> int:
    """Run one benchmark; return the exit code, as `cloze` does."""
    escape_unprintable()
    configure_threads()
    from benchmarks.commands import BENCHMARKS, run_program  # imports torch

    name, *arguments = (sys.argv[1:] if argv is None else argv) or [""]
    if name in ("", "-h", "--help"):
        print(__doc__)
        print(
            *(f"  {name:<12} {str(kind.__doc__).partition(chr(10))[0]}" for name, kind in BENCHMARKS.items()),
            sep="\n",
        )
        return 0 if name else 2

    if name not in BENCHMARKS:
        print(f"error: no benchmark {name!r}. Choose from {', '.join(BENCHMARKS)}.", file=sys.stderr)
        return 2
    return run_program(BENCHMARKS[name], f"{PROGRAM} {name}", arguments)


if __name__ == "__main__":
    sys.exit(main())
