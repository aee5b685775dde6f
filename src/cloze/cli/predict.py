"""`cloze predict TASK`: predictions of a fine-tuned model, as JSON lines."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cloze.cli.common import (
    IN_THIS_PROCESS,
    Device,
    Flags,
    InputPlace,
    Models,
    OptionalName,
    OptionalOutputPlace,
    OptionalPath,
    PoolFlags,
    Settings,
    TaskName,
    required,
)
from cloze.errors import InputError

if TYPE_CHECKING:
    from cloze.inference.predictor import Predictor
    from cloze.tasks.task import AnyTask


def run(
    task: TaskName,
    input_file: InputPlace,
    /,
    *,
    model: Models,
    output: OptionalOutputPlace = None,
    text_column: OptionalName = None,
    settings: Settings = (),
    explain: bool = False,
    page: OptionalPath = None,
    pool: PoolFlags = IN_THIS_PROCESS,
    device: Device = "auto",
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Print predictions of a fine-tuned model: one JSON object a line, in the order of the input.

    Args:
        task: what the model was fine-tuned for; cloze tasks lists what there is.
        input_file: data in the task's format, without labels; for texts also plain text, a text a line, - for stdin;
            a file or a URL such as s3://bucket/texts.tsv.
        model: a fine-tuned checkpoint or a run, of which the best is taken; several answer as one, by the mean of
            their logits.
        output: write there instead of to stdout: a file or a URL.
        text_column: name of the column with the text, where it is not as in the training data.
        settings: a setting of the task, as in --set classification.pair_column=answer; may be given several times.
        explain: say of each word what it adds to the logit of what is predicted, by integrated gradients; of labels
            and scores of whole texts.
        page: with --explain, also write an HTML page with the words shaded.
        pool: where the work is done.
        device: cpu, cuda, mps or auto.
        overwrite: replace the output, and the page, where they exist.
        flags: flags of every verb.
    """
    from cloze import config as configuration
    from cloze.corpus.streams import STDIN
    from cloze.inference.ensemble import load_ensemble
    from cloze.inference.parallel import stream_answers
    from cloze.stores import as_place, refuse_existing_file
    from cloze.tasks.config import with_settings
    from cloze.training.workers import find_workplace

    required(model, "--model", verb="predict")
    if page is not None and not explain:
        raise InputError("a page shows explanations", where="--page", remedy="Say --explain, too")
    workplace = find_workplace(pool(), device)
    if explain and not workplace.is_here:
        what = "explanations are made in this process"
        raise InputError(what, where="--explain", remedy="Leave out --workers and --executor")
    check_output(output, overwrite=overwrite, source=input_file)
    if page is not None:
        refuse_existing_file(page, overwrite=overwrite, source=input_file)
        if output is not None and page.resolve() == Path(output).resolve():
            raise InputError("is the output, too", where="--page", remedy="Choose another name")
    predictor = load_ensemble(model, task, device=workplace.device_here)
    given = configuration.as_overrides({f"{task}.text_column": text_column})
    reader = with_settings(predictor.task, [*settings, *given], is_trained=True)
    predictor = replace(predictor, task=reader)
    place = as_place(input_file)
    # all but stdin is read twice: a wrong line is told before hours of work, and their end is known
    count = None if input_file == STDIN else sum(1 for _ in reader.examples(place, labelled=False))
    answers = stream_answers(
        predictor,
        model,
        reader.examples(place, labelled=False),
        workplace,
        total=count,
        progress=flags.progress,
    )
    if explain:
        _write_explained(predictor, answers, output, page, model=str(model[0]))
    else:
        write_predictions(predictor.task, answers, output)


def check_output(output: str | None, *, overwrite: bool, source: str) -> None:
    """Refuse a place that predictions cannot be written to, before there are any."""
    from cloze.corpus.streams import COMPRESSED
    from cloze.stores import refuse_existing_file

    if output is None:
        return
    if Path(output.lower()).suffix in COMPRESSED:
        remedy = "Leave out the last ending, and compress it afterwards"
        raise InputError("lines are written as they are, not compressed", where=output, remedy=remedy)
    refuse_existing_file(output, overwrite=overwrite, source=source)


def write_predictions(task: "AnyTask", answers: Iterable[tuple[Any, Any]], output: str | None) -> None:
    """Print examples' predictions, a line of JSON each, on stdout, into a file or to a URL."""
    with _open(output) as stream:
        for example, prediction in answers:
            _print(task.to_json(example, prediction), stream)


def _write_explained(
    predictor: "Predictor",
    answers: Iterable[tuple[Any, Any]],
    output: str | None,
    page: Path | None,
    *,
    model: str,
) -> None:
    """Do the same with an explanation in each line, and where a page is asked for write that, too."""
    from cloze.artifacts import write_text
    from cloze.evidence.explanations import ExplainedText, explanations_page
    from cloze.inference.explain import check_explainable, explain
    from cloze.text.characters import replace_lone_surrogates

    check_explainable(predictor)
    task = predictor.task
    texts = []
    with _open(output) as stream:
        for example, prediction in answers:
            found = explain(predictor, example, prediction)
            _print(task.to_json(example, prediction) | {"explanation": asdict(found)}, stream)
            if page is not None:
                texts.append(ExplainedText(example, found))
    if page is not None:
        write_text(page, replace_lone_surrogates(explanations_page(texts, task=task.name, model=model)))


def _print(row: dict[str, Any], stream: IO[str]) -> None:
    print(json.dumps(row, ensure_ascii=False), file=stream)


@contextmanager
def _open(output: str | None) -> Iterator[IO[str]]:
    """Yield stdout, or a file that is there only when all of it was written."""
    if output is None:
        yield sys.stdout
        return
    from cloze.stores import cache_directory, write_file_to

    with (
        write_file_to(output, room=cache_directory()) as temporary,
        # half a character of the data stands in JSON as it did there
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream,
    ):
        yield stream
