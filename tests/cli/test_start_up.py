"""Imports before the first answer of a process."""

import subprocess
import sys

import pytest
from samples import Samples

PROGRAM = """
import sys
from cloze.cli import main
assert main(["fill", "-m", sys.argv[1], "The [MASK] of the house.", "--device", "cpu", "--quiet"]) == 0
print(*(name for name in ("torch._dynamo", "sympy") if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.slow
def test_fill_does_not_import_the_compiler_of_torch(samples: Samples) -> None:
    arguments = [sys.executable, "-c", PROGRAM, str(samples.checkpoint)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "[MASK] 1:" in done.stdout
    assert done.stderr.strip() == ""  # the import takes longer than all others except torch's
