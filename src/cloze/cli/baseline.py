"""`cloze baseline TASK`: score baselines that need no encoder."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cloze.cli import options, row_options
from cloze.errors import InputError
from cloze.tables import format_score, text_table

if TYPE_CHECKING:
    from cloze.tasks.baselines import BaselineScores


def run(
    task: options.TaskName,
    /,
    *,
    data: options.DataPathOrUrl,
    dev: options.OptionalPathOrUrl = None,
    rows: row_options.RowFlags = row_options.AS_THE_TASK_SAYS,
    learning_curve: Annotated[str | None, options.Flag(metavar="100,500,2000,all")] = None,
    settings: options.TaskSettings = (),
    flags: options.Flags,
) -> None:
    """Score baselines: the majority class, TF-IDF with a linear model, and others.

    Args:
        data: File in the task's format, or directory of a benchmark.
        dev: File to score on (default: that of the directory, else a tenth of the data).
        learning_curve: Numbers of training examples, drawn at random; each sample contains the smaller ones.
    """
    from cloze.api.finetuning import baseline
    from cloze.tasks.baselines import ALL
    from cloze.tasks.registry import find_task

    sizes = (ALL,) if learning_curve is None else _parse_sizes(learning_curve)
    configured = row_options.configure(
        find_task(task)(),
        settings,
        **asdict(rows),
    )
    scores = baseline(configured, data, dev, sizes=sizes, progress=flags.progress)
    result = {
        "data": scores.data,
        "examples": scores.num_examples,
        "main_metric": scores.task.main_metric,
        "baselines": [asdict(row) for row in scores],
    }
    flags.print(result, f"{_format_table(scores)}\n  on {scores.num_examples:,} examples: {scores.data}")


def _parse_sizes(text: str) -> list[int | None]:
    """Parse numbers of examples and the word "all", which is None."""
    sizes: list[int | None] = []
    for part in text.split(","):
        word = part.strip()
        if word == "all":
            sizes.append(None)
        elif word.isascii() and word.isdigit() and int(word) > 0:
            sizes.append(int(word))
        else:
            remedy = "Give numbers or all, separated by commas, as in 100,500,2000,all"
            raise InputError(f"{word!r} is not a number of examples", where="--learning-curve", remedy=remedy)
    return list(dict.fromkeys(sizes))


def _format_table(baselines: "list[BaselineScores]") -> str:
    """Return a column for each baseline and size, and a row for each score."""
    rows = [["  training examples", *(f"{baseline.train_examples:,}" for baseline in baselines)]]
    for name in dict.fromkeys(name for baseline in baselines for name in baseline.scores):
        scores = [baseline.scores.get(name) for baseline in baselines]
        rows.append([f"  {name}", *("-" if score is None else format_score(score) for score in scores)])
    rows.append(["  seconds", *(f"{baseline.seconds:.1f}" for baseline in baselines)])
    return text_table(["", *(baseline.baseline for baseline in baselines)], rows)
