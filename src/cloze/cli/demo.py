"""`cloze demo`: run the whole pipeline on bundled novels."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cloze.cli import options
from cloze.parallel_map import default_workers


def run(
    *,
    output: Annotated[Path, options.Flag(aliases=["-o"])] = Path("demo-run"),
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Train a vocabulary, pre-train, fine-tune and answer on bundled novels.

    Takes about five minutes on two idle CPU cores. A slow or busy machine takes longer, with the same results.

    Args:
        output: Directory of all results.
    """
    # before torch is loaded: on a busy machine, threads that spin for each other make a step take many times as long
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from cloze.demo.pipeline import format_result, run_demo
    from cloze.training.memory import configure_process_memory

    configure_process_memory()
    result = run_demo(output, workers=default_workers(), overwrite=overwrite, progress=flags.progress)
    table = asdict(result) | {"reports": [str(path) for path in result.reports]}
    flags.print(table, format_result(result))
