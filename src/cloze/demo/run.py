"""The public function of the demo, which imports nothing heavy: `--help` reads it."""

from pathlib import Path
from typing import TYPE_CHECKING

from cloze.arguments import check_path
from cloze.options import Overwrite, ShowProgress
from cloze.parallel_map import AnyWorkers
from cloze.process import configure_process
from cloze.progress import resolve_progress
from cloze.suggestions import suggests_keywords

if TYPE_CHECKING:
    from cloze.demo.pipeline import DemoResult


@suggests_keywords()
def run_demo(
    *,
    output: str | Path = "demo-run",
    workers: AnyWorkers = "auto",
    overwrite: Overwrite = False,
    progress: ShowProgress = False,
) -> "DemoResult":
    """Train a vocabulary, pre-train, fine-tune and answer on bundled novels.

    Takes about five minutes on two idle CPU cores. A slow or busy machine takes longer, with the same results.

    Args:
        output: directory of all results.

    Raises:
        InputError: the output exists.
        Interrupted: SIGINT or SIGTERM was received.
    """
    configure_process()
    from cloze.demo import pipeline

    directory, shown = check_path(output, "output"), resolve_progress(progress)
    return pipeline.run_demo(directory, workers=workers, overwrite=overwrite, progress=shown)
