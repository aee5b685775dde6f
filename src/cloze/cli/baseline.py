"""`cloze baseline TASK`: what a score has to be better than."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import tyro

from cloze.cli.common import DataPlace, Flags, OptionalName, OptionalPlace, Settings, TaskName
from cloze.errors import InputError

if TYPE_CHECKING:
    from cloze.tasks.baselines import BaselineScores


def run(
    task: TaskName,
    /,
    *,
    data: DataPlace,
    dev: OptionalPlace = None,
    text_column: OptionalName = None,
    label_column: OptionalName = None,
    learning_curve: Annotated[
        str | None, tyro.conf.arg(metavar="100,500,2000,all", help_behavior_hint="")
    ] = None,
    settings: Settings = (),
    flags: Flags,
) -> None:
    """Score what needs no encoder on a task: the most frequent answer, TF-IDF with a linear model and the like.

    Args:
        task: what is learned; cloze tasks lists what there is.
        data: a file in the task's format, or a directory with the files of a benchmark; or the URL of either.
        dev: such a file to score on; else that of the directory, else a tenth of the data is held out.
        text_column: name of the column with the text (text, where nothing says otherwise).
        label_column: name of the column with the label (label).
        learning_curve: score also what was learned from so many examples, drawn at random, each part in the next.
        settings: a setting of the task, as in --set classification.pair_column=answer; may be given several times.
        flags: flags of every verb.
    """
    from cloze import config as configuration
    from cloze.extras import require
    from cloze.stores import as_place
    from cloze.tasks.baselines import ALL, measure
    from cloze.tasks.config import with_settings
    from cloze.tasks.data import find_files, read_examples
    from cloze.tasks.finetune import check_task
    from cloze.tasks.registry import find_task

    sizes = (ALL,) if learning_curve is None else _sizes(learning_curve)
    given = {f"{task}.text_column": text_column, f"{task}.label_column": label_column}
    asked = with_settings(find_task(task)(), [*settings, *configuration.as_overrides(given)])
    check_task(asked)
    require(["sklearn"], extra="tasks", where="a baseline")
    train_file, dev_file = find_files(asked, data, dev)
    fitted, train, scored = read_examples(
        asked, as_place(train_file), None if dev_file is None else as_place(dev_file)
    )
    found = measure(fitted, train, scored, sizes, progress=flags.progress)
    place = dev_file or f"held out of {train_file}"
    text = [*_table(found), f"  on {len(scored):,} examples: {place}"]
    result = {
        "data": place,
        "examples": len(scored),
        "main_metric": fitted.main_metric,
        "baselines": [asdict(each) for each in found],
    }
    flags.print(result, "\n".join(text))


def _sizes(text: str) -> list[int | None]:
    """Read numbers of examples, and the word "all"."""
    sizes: list[int | None] = []
    for part in text.split(","):
        word = part.strip()
        if word == "all":
            sizes.append(None)
        elif word.isascii() and word.isdigit() and int(word) > 0:
            sizes.append(int(word))
        else:
            what = f"{word!r} is no number of examples"
            remedy = "Write numbers with commas between them, or all, as in 100,500,2000,all"
            raise InputError(what, where="--learning-curve", remedy=remedy)
    return list(dict.fromkeys(sizes))


def _table(found: "list[BaselineScores]") -> list[str]:
    """Return a column for each baseline and size, a line for each score."""
    head = [f"{'':<24}" + "".join(f"{each.baseline:>16}" for each in found)]
    head.append(f"  {'training examples':<22}" + "".join(f"{each.train_examples:>16,}" for each in found))
    names = list(dict.fromkeys(name for each in found for name in each.scores))
    rows = [
        f"  {name:<22}"
        + "".join(f"{each.scores[name]:>16.4f}" if name in each.scores else f"{'-':>16}" for each in found)
        for name in names
    ]
    seconds = f"  {'seconds':<22}" + "".join(f"{each.seconds:>16.1f}" for each in found)
    return [*head, *rows, seconds]
