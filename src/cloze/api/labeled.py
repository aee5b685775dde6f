"""Score baselines on labeled data, write GLUE's submission, and describe tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack

from cloze.arguments import check_paths
from cloze.errors import InputError
from cloze.options import Device, LabeledOptions, Overwrite, ShowProgress
from cloze.progress import resolve_progress
from cloze.results import Result, html_table, shorten
from cloze.signatures import checks_arguments

if TYPE_CHECKING:  # not needed for --help
    from cloze.data.reading.formats import FormatDescription
    from cloze.tasks.registry import TaskDescription
    from cloze.tasks.task import Task


@dataclass(frozen=True, slots=True, repr=False)
class BaselineScores(Result):
    """The scores of a baseline trained on some examples."""

    baseline: str
    train_examples: int
    scores: dict[str, float]
    seconds: float


class BaselineResult(list[BaselineScores]):
    """The scores of baselines, by method and number of training examples."""

    def __init__(self, scores: Sequence[BaselineScores], task: "Task", num_examples: int, data: str) -> None:
        super().__init__(scores)
        self.task = task
        """The task, with the labels of the training data."""
        self.num_examples = num_examples
        """Examples that the baselines were scored on."""
        self.data = data
        """Where these examples are from."""

    def _repr_html_(self) -> str:
        return html_table(
            (f"{row.baseline}, {row.train_examples:,} training examples", shorten(row.scores)) for row in self
        )


@checks_arguments()
def baseline(
    task: "str | Task",
    *,
    train: Any,
    dev: Any = None,
    sizes: str = "all",
    progress: ShowProgress = False,
    **options: Unpack[LabeledOptions],
) -> BaselineResult:
    """Score baselines that need no encoder: the majority class, TF-IDF with a linear model, and others.

    Args:
        task: name of the task; cloze tasks lists them. In Python also a task with its settings.
        train: path or URL of a file in the task's format, or of a benchmark's directory. In Python also rows, as for
            `finetune`.
        dev: data to score on, in the same formats (default: the dev file of the directory, else a tenth of the training
            data).
        sizes: numbers of training examples for a learning curve, as in 100,500,2000,all. They are drawn at random; each
            sample contains the smaller ones.
    """
    from cloze.finetuning.data import read_examples, sample
    from cloze.finetuning.findings import tell
    from cloze.finetuning.preparation import check_trainable
    from cloze.optional_dependencies import require
    from cloze.tasks.config import with_settings
    from cloze.tasks.data import find_files, open_data, select_splits

    numbers, shown = _parse_sizes(sizes), resolve_progress(progress)
    configured = with_settings(task, **options)
    check_trainable(configured)
    require(["sklearn"], extra="tasks", where="a baseline")
    train, dev = select_splits(train, dev)
    if isinstance(train, (str, Path)) and (dev is None or isinstance(dev, (str, Path))):
        train, dev = find_files(configured, str(train), None if dev is None else str(dev))
    configured, train_file = open_data(configured, train, "train", "train")
    dev_file = None
    if dev is not None:
        configured, dev_file = open_data(configured, dev, "dev", "dev")
    fitted, examples, held_out, findings = read_examples(configured, train_file, dev_file)
    if not any(size is None or size <= len(examples) for size in numbers):
        raise InputError(f"there are {len(examples):,} examples to learn from", where=fitted.name)
    if not (baselines := fitted.answer.baselines(examples)):
        raise InputError("has no baseline", where=fitted.name)
    tell(findings, shown)
    results = []
    for size in numbers:
        if size is not None and size > len(examples):
            shown.note(f"{size:,} examples are left out: there are {len(examples):,}")
            continue
        learned = examples if size is None else sample(examples, size)
        for name, predict in baselines.items():
            start = perf_counter()
            scores = fitted.score(held_out, predict(learned, held_out))
            results.append(BaselineScores(name, len(learned), scores, perf_counter() - start))
    data = f"held out of {train_file}" if dev_file is None else str(dev_file)
    return BaselineResult(results, fitted, len(held_out), data)


@checks_arguments()
def glue_submission(
    *,
    model: Sequence[str | Path] | str | Path = (),
    data: str | Path,
    output: str | Path,
    fill_majority: bool = False,
    ensemble: bool = False,
    device: Device = "auto",
    overwrite: Overwrite = False,
    progress: ShowProgress = False,
) -> dict[str, str]:
    """Write the eleven prediction files of the GLUE server into a zip file.

    Args:
        model: fine-tuned checkpoint, run or hf://org/name for a task of GLUE; may be repeated. In Python a list of
            them.
        data: directory of GLUE, with a folder per task: CoLA, SST-2, …, diagnostic.
        output: zip file.
        fill_majority: predict the majority label for tasks without a model, as the paper did for WNLI.
        ensemble: average the logits of several models of one task.

    Returns:
        The source of each file by its name, as in "run-of-cola" or "majority: 0".
    """
    from cloze.artifacts import check_output_path
    from cloze.inference.glue_submission import write_submission

    check_output_path(path := Path(output), overwrite=overwrite, directory=False)
    return write_submission(
        check_paths(model, "model"),
        Path(data),
        path,
        fill_majority=fill_majority,
        ensemble=ensemble,
        device=device,
        progress=resolve_progress(progress),
    )


@checks_arguments()
def describe_tasks(task: str | None = None) -> "list[TaskDescription]":
    """Describe the tasks by their data, metrics, sources and settings, or one of them.

    Args:
        task: name of the task to describe (default: all of them).
    """
    from cloze.tasks.registry import TASKS, describe_task, find_task

    kinds = sorted(TASKS.values(), key=lambda task: task.name) if task is None else [find_task(task)]
    return [describe_task(kind) for kind in kinds]


@checks_arguments()
def describe_formats(task: str | None = None) -> "list[FormatDescription]":
    """Describe the formats of labeled data: of annotation tools, data sets and tables.

    A format is detected by name and content; where that may fail for tagging, `format` names it.

    Args:
        task: name of the task that reads them (default: any).
    """
    from cloze.data.reading import formats
    from cloze.tasks.registry import find_task

    return formats.describe_formats(None if task is None else find_task(task).name)


def _parse_sizes(sizes: str) -> list[int | None]:
    """Parse numbers of examples and the word "all", which is None."""
    numbers: list[int | None] = []
    for word in map(str.strip, sizes.split(",")):
        if word != "all" and not (word.isascii() and word.isdigit() and int(word) > 0):
            remedy = "Give numbers or all, separated by commas, as in 100,500,2000,all"
            raise InputError(f"{word!r} is not a number of examples", where="sizes", remedy=remedy)
        numbers.append(None if word == "all" else int(word))
    return list(dict.fromkeys(numbers))
