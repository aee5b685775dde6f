"""`cloze corpus`: tokenize text into a data set on disk."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cloze.cli import options
from cloze.cli.reading_options import ReadingOrPreviewFlags, preview
from cloze.errors import InputError

if TYPE_CHECKING:
    from cloze.data.parts import BuildSummary


def run(
    corpus: options.TextInputs,
    /,
    *,
    vocab: Annotated[options.OptionalName, options.Flag(metavar="VOCAB")] = None,
    output: options.OptionalOutputPathOrUrl = None,
    reading: ReadingOrPreviewFlags,
    language: Annotated[str, options.Flag(metavar="CODE")] = "en",
    splitter: Annotated[str | None, options.Flag(metavar="MODULE:FUNCTION")] = None,
    segmenter: Annotated[str | None, options.Flag(metavar="MODULE:FUNCTION")] = None,
    validation_fraction: options.OptionalNumber = None,
    append: options.Switch = False,
    task: Annotated[str | None, options.Flag(metavar="I/N")] = None,
    pool: options.WorkerFlags,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Tokenize text into a data set on disk.

    The same text gives the same bytes with any number of workers.

    An interrupted build resumes when the command is run again.

    Args:
        corpus: Text files, folders or globs, plain or compressed; - is stdin.
        vocab: Directory of a vocabulary or of a model with a tokenizer, cloze-mini or hf://org/name (required without
            --append).
        output: Directory or URL, as in s3://bucket/data, of the data set (required).
        language: ISO code of the language, for splitting paragraphs into sentences.
        splitter: Function that splits paragraphs into sentences, instead of --language.
        segmenter: Function that splits sentences into words for whole-word masking, in scripts without spaces.
        validation_fraction: Share of held-out documents (default: 0.005, and up to 0.1 of a small data set);
            --append keeps that of the data set.
        append: Add documents to an existing data set.
        task: Build part I of N, as in 3/8, in a job array; cloze corpus merge then makes the data set.
    """
    if reading.dry_run or reading.validate:
        preview(corpus, reading, workers=pool.resolve(), flags=flags)
        return
    from cloze.data.build import BuildConfig, build_array_task, build_dataset
    from cloze.data.job_arrays import ArrayTask
    from cloze.remote_files import is_url, to_path_or_url, write_directory_to

    output = str(to_path_or_url(options.required(output, "--output", verb="corpus")))
    vocab = vocab if append else options.required(vocab, "--vocab", verb="corpus")
    config = BuildConfig(
        reading=reading.config,
        language=language,
        splitter=splitter,
        segmenter=segmenter,
        validation_fraction=validation_fraction,
    )
    if task is not None and overwrite:
        remedy = "Give it to cloze corpus merge instead"
        raise InputError("cannot be combined with --task", where="--overwrite", remedy=remedy)
    if is_url(output) and (append or task is not None):
        raise InputError("--append and --task need a local or shared directory", where=output)
    if task is not None:
        build_array_task(
            corpus,
            vocab,
            Path(output),
            config,
            task=ArrayTask.parse(task),
            append=append,
            workers=pool.resolve(),
            progress=flags.progress,
        )
        flags.print({"directory": output, "task": task}, f"finished task {task} of {output}")
        return

    def write(directory: Path) -> "BuildSummary":
        summary = build_dataset(
            corpus,
            vocab,
            directory,
            config,
            append=append,
            workers=pool.resolve(),
            overwrite=overwrite,
            progress=flags.progress,
        )
        print_warnings(directory, flags)
        return summary

    summary = write_directory_to(output, write, overwrite=overwrite)
    print_summary(output, summary, flags)


def print_warnings(directory: Path, flags: options.Flags) -> None:
    """Warn of a data set that training would refuse or learn little from."""
    from cloze.data.dataset import DOMINANT_DOCUMENT_SHARE, MIN_DOCUMENTS_FOR_PAIRS, Dataset

    dataset = Dataset.open(directory, verify=False)
    if not len(dataset.split("validation")):
        flags.progress.note(
            f"warning: no held-out documents: {len(dataset.documents):,} in total, two different ones are needed. "
            "--format lines makes a document of each line"
        )
    elif not dataset.supports_pairs:
        flags.progress.note(
            f"warning: fewer than {MIN_DOCUMENTS_FOR_PAIRS} documents have two sentences, as next-sentence pairs "
            "need: train with --set pairs.next_sentence=false. --format paragraphs makes a document of the "
            "paragraphs between blank lines"
        )
    if (share := dataset.documents.largest_share) > DOMINANT_DOCUMENT_SHARE:
        flags.progress.note(f"warning: one document holds {share:.0%} of the tokens")


def print_summary(output: str | Path, summary: "BuildSummary", flags: options.Flags) -> None:
    """Print the counts of a new data set."""
    names = ("documents", "sentences", "tokens", "unknown_tokens")
    text = ", ".join(f"{getattr(summary, name):,} {name.replace('_', ' ')}" for name in names)
    flags.print({"directory": str(output), **summary.as_dict()}, f"wrote {output}: {text}")
