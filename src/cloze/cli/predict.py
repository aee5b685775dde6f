"""`cloze predict TASK`: predictions of a fine-tuned model, as JSON lines."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Literal

import tyro

from cloze.cli.common import Device, Flags, Model, OptionalName, OptionalPath


def run(
    task: tyro.conf.Positional[Literal["classification"]],
    input_file: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="INPUT")],
    /,
    *,
    model: Model,
    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"])] = None,
    text_column: OptionalName = None,
    pair_column: OptionalName = None,
    device: Device = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Print predictions of a fine-tuned model: one JSON object a line, in the order of the input.

    Args:
        task: what the model was fine-tuned for.
        input_file: a TSV, CSV or JSON lines file; or plain text, a text a line; - is plain text from stdin.
        model: a fine-tuned checkpoint or a run.
        output: write there instead of to stdout.
        text_column: name of the column with the text, where it is not as in the training data.
        pair_column: name of the column with the second text, likewise.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from dataclasses import asdict

    from cloze.artifacts import refuse_existing
    from cloze.inference.classify import TextClassifier, classify_file

    if output is not None:
        refuse_existing(output, overwrite=overwrite, directory=False)
    classifier = TextClassifier.load(model, device=device)
    predictions = classify_file(
        classifier, input_file, text_column=text_column, pair_column=pair_column, progress=flags.progress
    )
    with _open(output) as stream:
        for prediction in predictions:
            print(json.dumps(asdict(prediction), ensure_ascii=False), file=stream)


@contextmanager
def _open(output: Path | None) -> Iterator[IO[str]]:
    """Yield stdout, or a file that is there only when all of it was written."""
    if output is None:
        yield sys.stdout
        return
    from cloze.artifacts import disk_errors

    with disk_errors(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        temporary = output.with_name(f".writing-{output.name}")
        try:
            with temporary.open("w", encoding="utf-8", newline="\n") as stream:
                yield stream
            temporary.replace(output)
        finally:
            temporary.unlink(missing_ok=True)
