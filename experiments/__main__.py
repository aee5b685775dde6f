"""Reproduce tables of the BERT paper and run studies: from a clone, `python -m experiments WHAT`.

python -m experiments TABLE …      a result table (table1 to table4) or an ablation (table5 to table8, figure5)
python -m experiments study FILE … the runs of a study, and its record
python -m experiments adaptation … an encoder adapted to domains, with samples of several sizes
python -m experiments plan …       hours, network and storage of a pre-training run on many accelerators

Each has `--help`.
"""

import sys
from importlib import import_module

from cloze.cli import escape_unprintable, run_command

COMMANDS = ("adaptation", "plan", "study")
PROGRAM = "python -m experiments"


def main(argv: list[str] | None = None) -> int:
    """Run one experiment; return the exit code, as `cloze` does."""
    escape_unprintable()
    command, module, arguments = split_command(sys.argv[1:] if argv is None else argv)
    if command == PROGRAM and arguments in ([], ["-h"], ["--help"]):
        print(__doc__)
        return 0 if arguments else 2
    return run_command(command, lambda: import_module(module).run, arguments)


def split_command(arguments: list[str]) -> tuple[str, str, list[str]]:
    """Return the words of a command, the module that has its `run`, and the arguments that follow."""
    if arguments and arguments[0] in COMMANDS:
        return f"{PROGRAM} {arguments[0]}", f"experiments.{arguments[0]}_command", arguments[1:]
    return PROGRAM, "experiments.table_command", arguments


if __name__ == "__main__":
    sys.exit(main())
