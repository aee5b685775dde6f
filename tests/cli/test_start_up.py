"""What the first answer of a process waits for."""

import subprocess
import sys

from shop import Shop

PROGRAM = """
import sys
from cloze.cli import main
assert main(["fill", "-m", sys.argv[1], "The [MASK] of the house.", "--device", "cpu", "--quiet"]) == 0
print(*(name for name in ("torch._dynamo", "sympy") if name in sys.modules), file=sys.stderr)
"""


def test_a_blank_is_filled_without_torchs_compiler(shop: Shop) -> None:
    """Importing it takes longer than everything else but torch itself."""
    arguments = [sys.executable, "-c", PROGRAM, str(shop.checkpoint)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "[MASK] 1:" in done.stdout
    assert done.stderr.strip() == ""
