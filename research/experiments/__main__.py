"""Reproduce tables of the BERT paper and run studies: from a clone, `python -m experiments WHAT`.

python -m experiments TABLE …      a result table (table1 to table4) or an ablation (table5 to table8, figure5)
python -m experiments study FILE … the runs of a study, and its record
python -m experiments plan …       hours, network and storage of a pre-training run on many accelerators

Each has `--help`.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from cloze.cli import escape_unprintable, run_command

if TYPE_CHECKING:
    from cloze.cli.parser import Verb

COMMANDS = {"plan": "scale", "study": "study_command"}
"""By command, its module; another word is a table."""
PROGRAM = "python -m experiments"


def main(argv: list[str] | None = None) -> int:
    """Run one experiment; return the exit code, as `cloze` does."""
    escape_unprintable()
    arguments = sys.argv[1:] if argv is None else argv
    if arguments in ([], ["-h"], ["--help"]):
        print(__doc__)
        return 0 if arguments else 2
    program, module = PROGRAM, "experiments.table_command"
    if arguments[0] in COMMANDS:
        command, *arguments = arguments
        program, module = f"{PROGRAM} {command}", f"experiments.{COMMANDS[command]}"

    def load() -> "Verb":
        from cloze.cli.parser import Verb

        return Verb(import_module(module).run, lambda _: None)

    return run_command(program, load, arguments)


if __name__ == "__main__":
    sys.exit(main())
