"""`cloze corpus`: tokenise text once into a data set on disk."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cloze.cli.common import (
    Corpus,
    Flags,
    OptionalNumber,
    OptionalOutputPlace,
    OptionalPath,
    PoolFlags,
    required,
)
from cloze.cli.reading import ReadingOrLookFlags, look
from cloze.errors import InputError

if TYPE_CHECKING:
    from cloze.corpus.seal import Summary


def run(
    corpus: Corpus,
    /,
    *,
    vocab: OptionalPath = None,
    output: OptionalOutputPlace = None,
    reading: ReadingOrLookFlags,
    language: Annotated[str, tyro.conf.arg(metavar="CODE")] = "en",
    splitter: Annotated[str | None, tyro.conf.arg(metavar="MODULE:FUNCTION", help_behavior_hint="")] = None,
    validation_fraction: OptionalNumber = None,
    append: bool = False,
    task: Annotated[str | None, tyro.conf.arg(metavar="I/N", help_behavior_hint="")] = None,
    pool: PoolFlags,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Tokenise text once into a data set on disk. The same text gives the same bytes, whatever the workers.

    Killed, it goes on where it was when it is run again.

    Args:
        corpus: text files, folders or globs, plain or compressed; - is stdin.
        vocab: directory of the vocabulary, or of any model with a tokenizer; or cloze-mini (required but with
            --append).
        output: directory of the data set, or a URL such as s3://bucket/data (required).
        reading: what the text files hold.
        language: how paragraphs are split into sentences, as an ISO code.
        splitter: a function of your own that splits them.
        validation_fraction: share of the documents held out from training (0.005); a data set that is added to has
            its own.
        append: add to the data set that is there, which stays as it is.
        task: do the share of task I of N, as in 3/8; then "cloze corpus merge" makes the data set of all.
        pool: where the work is done.
        overwrite: replace the output where it exists, and what is left of a build with other settings.
        flags: flags of every verb.
    """
    if reading.dry_run or reading.validate:
        look(corpus, reading, workers=pool(), flags=flags)
        return
    from cloze.corpus.build import BuildConfig, build_dataset, build_task, settings_of
    from cloze.corpus.inputs import versions_of
    from cloze.corpus.stage import Task
    from cloze.locate import resolve_checkpoint
    from cloze.stores import as_place, cache_directory, is_url, write_to

    output = str(as_place(required(output, "--output", verb="corpus")))
    vocab = vocab if append else required(vocab, "--vocab", verb="corpus")
    config = BuildConfig(
        reading=reading.config,
        language=language,
        splitter=splitter,
        **({} if validation_fraction is None else {"validation_fraction": validation_fraction}),
    )
    if append and validation_fraction is not None:
        what = "what is held out was settled when the data set was begun"
        raise InputError(what, where="--validation-fraction", remedy="Leave it out")
    if append and overwrite:
        raise InputError("does not go with --append", where="--overwrite", remedy="Leave one of them out")
    if task is not None and overwrite:
        remedy = "Leave it out, and say it to cloze corpus merge, which replaces the output"
        raise InputError("does not go with --task", where="--overwrite", remedy=remedy)
    if is_url(output) and (append or task is not None):
        what = (
            "--append and --task work on a data set of this machine, or of a file system that machines share"
        )
        raise InputError(what, where=output)
    if task is not None:
        build_task(
            corpus,
            vocab,
            Path(output),
            config,
            task=Task.parse(task),
            append=append,
            workers=pool(),
            progress=flags.progress,
        )
        flags.print({"directory": output, "task": task}, f"task {task} of {output} is through")
        return

    made: list[Summary] = []

    def write(directory: Path) -> None:
        summary = build_dataset(
            corpus,
            vocab,
            directory,
            config,
            append=append,
            workers=pool(),
            overwrite=overwrite,
            progress=flags.progress,
        )
        made.append(summary)
        warn_of_dataset(directory, flags)

    def asked() -> object:
        vocabulary = vocab and versions_of([str(resolve_checkpoint(vocab))])
        return versions_of(corpus), vocab, vocabulary, config, settings_of(config)

    write_to(output, write, asked=asked, room=cache_directory(), overwrite=overwrite)
    if made:
        print_summary(output, made[0], flags)
    else:
        flags.print({"directory": output}, f"wrote {output}, which was waiting on this machine")


def warn_of_dataset(directory: Path, flags: Flags) -> None:
    """Say at once what training would refuse, or learn little from."""
    from cloze.corpus.store import DOMINATING_SHARE, MIN_DOCUMENTS_TO_SPLIT, Dataset

    dataset = Dataset.open(directory, verify=False)
    if not len(dataset.split("validation")):
        flags.progress.note(
            f"warning: of {len(dataset.documents):,} documents none is held out to measure on: two that differ are "
            "needed. --format lines makes one of each line"
        )
    elif not dataset.makes_pairs:
        flags.progress.note(
            f"warning: fewer than {MIN_DOCUMENTS_TO_SPLIT} documents have two sentences, which pairs for next-sentence "
            "prediction need: train with --set pairs.next_sentence=false. --format paragraphs makes a document of all "
            "that stands between blank lines"
        )
    if (share := dataset.documents.largest_share) > DOMINATING_SHARE:
        flags.progress.note(
            f"warning: one document holds {share:.0%} of the pieces: little else is learned from"
        )


def print_summary(output: str | Path, summary: "Summary", flags: Flags) -> None:
    """Print what was made of a text."""
    from dataclasses import asdict

    result = asdict(summary)
    counts = ", ".join(f"{value:,} {name}" for name, value in result.items() if isinstance(value, int))
    flags.print({"directory": str(output), **result}, f"wrote {output}: {counts}")
