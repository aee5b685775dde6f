"""`cloze predict TASK`: predictions of a fine-tuned model, as JSON lines."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import tyro

from cloze.cli.common import Device, Flags, Models, OptionalName, OptionalPath, Settings, TaskName, required

if TYPE_CHECKING:
    from cloze.tasks.task import AnyTask


def run(
    task: TaskName,
    input_file: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="INPUT")],
    /,
    *,
    model: Models,
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"])] = None,
    text_column: OptionalName = None,
    settings: Settings = (),
    device: Device = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Print predictions of a fine-tuned model: one JSON object a line, in the order of the input.

    Args:
        task: what the model was fine-tuned for; cloze tasks lists what there is.
        input_file: data in the task's format, without labels; for texts also plain text, a text a line, - for stdin.
        model: a fine-tuned checkpoint or a run, of which the best is taken; several answer as one, by the mean of
            their logits.
        output: write there instead of to stdout.
        text_column: name of the column with the text, where it is not as in the training data.
        settings: a setting of the task, as in --set classification.pair_column=answer; may be given several times.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from dataclasses import replace

    from cloze import config as configuration
    from cloze.artifacts import refuse_existing
    from cloze.inference.ensemble import load_ensemble
    from cloze.tasks.config import with_settings
    from cloze.tasks.tables import count_rows

    required(model, "--model", verb="predict")
    if output is not None:
        refuse_existing(output, overwrite=overwrite, directory=False)
    predictor = load_ensemble(model, task, device=device)
    given = configuration.as_overrides({f"{task}.text_column": text_column})
    reader = with_settings(predictor.task, [*settings, *given])
    predictor = replace(predictor, task=reader)
    examples = reader.examples(input_file, labelled=False)
    answers = predictor.stream(examples, total=count_rows(input_file), progress=flags.progress)
    write_predictions(predictor.task, answers, output)


def write_predictions(task: "AnyTask", answers: Iterable[tuple[Any, Any]], output: Path | None) -> None:
    """Print examples' predictions, a line of JSON each, on stdout or into a file."""
    with _open(output) as stream:
        for example, prediction in answers:
            print(json.dumps(task.to_json(example, prediction), ensure_ascii=False), file=stream)


@contextmanager
def _open(output: Path | None) -> Iterator[IO[str]]:
    """Yield stdout, or a file that is there only when all of it was written."""
    if output is None:
        yield sys.stdout
        return
    from cloze.artifacts import write_file

    with write_file(output) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as stream:
        yield stream
