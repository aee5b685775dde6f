"""Time and peak memory of a command with the memory settings of another commit: python commands.py SETTINGS KERNELS VERB ...

SETTINGS is requests (glibc returns large freed arrays, as embed did before) or batches (it keeps them), KERNELS the number of
kernels that oneDNN keeps. A line on standard error has seconds, MB and page faults.
"""

import os
import resource
import sys
import time

settings, kernels, *arguments = sys.argv[1:]
os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] = kernels

from cloze import process  # noqa: E402
from cloze.cli import main  # noqa: E402 (oneDNN reads the limit once)

configure = process.configure_memory
process.configure_memory = lambda *_: configure(settings)
started = time.perf_counter()
try:
    main(arguments)
except SystemExit as end:
    assert not end.code, end
seconds, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
print(
    settings, kernels, f"{seconds:.1f} s, {used.ru_maxrss / 1024:.0f} MB, {used.ru_minflt:,} faults", file=sys.stderr
)
