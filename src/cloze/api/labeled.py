"""The verbs about labeled data: evaluate and predict, score predictions, baselines, GLUE's server, tasks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cloze.arguments import check_path, check_paths
from cloze.progress import Progress, resolve_progress

if TYPE_CHECKING:  # not needed for --help
    from cloze.tasks.description import TaskDescription


def describe_tasks(task: str | None = None) -> "list[TaskDescription]":
    """Describe the tasks by their data, metrics, sources and settings, or one of them.

    Args:
        task: name of the task to describe (default: all of them).

    Raises:
        InputError: there is no such task.
    """
    from cloze.tasks.description import describe_task
    from cloze.tasks.registry import find_task, tasks

    kinds = [kind for _, kind in sorted(tasks().items())] if task is None else [find_task(task)]
    return [describe_task(kind) for kind in kinds]


def glue_submission(
    *,
    model: Sequence[str | Path] | str | Path = (),
    data: str | Path,
    output: str | Path,
    fill_majority: bool = False,
    ensemble: bool = False,
    device: str = "auto",
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> dict[str, str]:
    """Write the eleven prediction files of the GLUE server into a zip file.

    Args:
        model: fine-tuned checkpoint, run or hf://org/name for a task of GLUE; may be repeated. In Python a list of
            them.
        data: directory of GLUE, with a folder per task: CoLA, SST-2, …, diagnostic.
        output: zip file.
        fill_majority: predict the majority label for tasks without a model, as the paper did for WNLI.
        ensemble: average the logits of several models of one task.
        device: cpu, cuda, mps or auto.
        overwrite: replace existing output.
        progress: True shows progress.

    Returns:
        The source of each file by its name, as in "run-of-cola" or "majority: 0".

    Raises:
        InputError: a task has no model, a model is not for a task of GLUE, or test data are missing or incomplete.
    """
    from cloze.artifacts import check_output_path
    from cloze.inference.glue_submission import write_submission

    check_output_path(path := check_path(output, "output"), overwrite=overwrite, directory=False)
    return write_submission(
        check_paths(model, "model"),
        check_path(data, "data"),
        path,
        fill_majority=fill_majority,
        ensemble=ensemble,
        device=device,
        progress=resolve_progress(progress),
    )
