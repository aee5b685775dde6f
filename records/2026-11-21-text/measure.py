"""Run a command; print its wall seconds, processor seconds and the most memory that its processes held at once.

    python measure.py COMMAND ARGUMENT…

Memory is the sum of the proportional set sizes (PSS) of the process and its descendants, four times a second: pages
that several of them share count once. Linux only.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Return a process and all that it began, as far as they live."""
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += descendants(int(child))
    return found


def proportional_set_size(pid: int) -> int:
    """Return the bytes of memory that a process answers for; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


began = time.perf_counter()
process = subprocess.Popen(sys.argv[1:])
peak = 0
while process.poll() is None:
    peak = max(peak, sum(map(proportional_set_size, descendants(process.pid))))
    time.sleep(0.25)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
sys.stdout.write(
    json.dumps(
        {
            "command": sys.argv[1:],
            "seconds": round(time.perf_counter() - began, 1),
            "processor_seconds": round(used.ru_utime + used.ru_stime, 1),
            "peak_megabytes": round(peak / 1e6),
            "exit": process.returncode,
        }
    )
    + "\n"
)
