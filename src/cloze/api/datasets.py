"""Build and audit data sets, and preview their input."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from cloze import artifacts
from cloze.api.texts import BuildOptions, Inputs, ProcessingOptions, build_run, open_text
from cloze.errors import DataWarning, InputError
from cloze.model_paths import resolve_checkpoint
from cloze.options import Overwrite, ReadingOptions, ShowProgress
from cloze.progress import Progress, resolve_progress
from cloze.remote_files import is_url, write_directory_to
from cloze.signatures import checks_arguments

if TYPE_CHECKING:  # not needed for --help
    from cloze.data.audit import Audit
    from cloze.data.build.input_shards import InputPreview, InputSummary
    from cloze.data.build.parts import BuildSummary


@checks_arguments()
def build_dataset(
    inputs: Inputs = (),
    *,
    vocabulary: str | Path | None = None,
    output: str | Path,
    texts: Any = None,
    language: str | None = None,
    splitter: str | None = None,
    segmenter: str | None = None,
    validation_fraction: float | None = None,
    append: bool = False,
    **options: Unpack[BuildOptions],
) -> "BuildSummary":
    """Tokenize text into a data set on disk.

    The same text gives the same bytes with any number of workers. An interrupted build resumes when it is run again.

    Args:
        inputs: text files, folders, globs or URLs, plain or compressed; - is stdin.
        vocabulary: directory of a vocabulary or of a model with a tokenizer, cloze-mini or hf://org/name; needed unless
            documents are appended.
        output: directory or URL, as in s3://bucket/data, of the data set.
        texts: instead of inputs, texts in memory, each a document: any collection or iterator, or a table with the
            column text.
        language: ISO code of the language, for splitting paragraphs into sentences (default: en, or with append
            the language and splitter of the data set).
        splitter: "package.module:function" that splits paragraphs into sentences, instead of the rules of the language.
        segmenter: "package.module:function" that splits sentences into words for whole-word masking, in scripts without
            spaces.
        validation_fraction: share of held-out documents (default: 0.005, and up to 0.1 of a small data set; that of the
            data set that is appended to).
        append: add documents to an existing data set.

    Returns:
        Counts of what the inputs became.
    """
    from cloze.data.build import corpus as build
    from cloze.data.build.parts import BuildConfig

    tokenizer = None if vocabulary is None else resolve_checkpoint(vocabulary, files="tokenizer")
    if is_url(output) and append:
        raise InputError("append needs a local or shared directory", where=output)
    with (
        open_text(inputs, texts, options) as (files, reading),
        write_directory_to(output, overwrite=options["overwrite"]) as directory,
    ):
        config = BuildConfig(
            reading=reading,
            language=language,
            splitter=splitter,
            segmenter=segmenter,
            validation_fraction=validation_fraction,
        )
        run = build_run(options, overwrite=options["overwrite"])
        summary = build.build_dataset(files, tokenizer, directory, config, run, append=append)
        _warn_of_dataset(directory, run.progress)
        return summary


@checks_arguments()
def audit(
    dataset: str | Path,
    *,
    output: str | Path | None = None,
    split: Literal["train", "validation"] = "train",
    seq_lengths: Sequence[int] = (128, 512),
    whole_word: bool = False,
    sample: int = 100_000,
    overwrite: Overwrite = False,
    progress: ShowProgress = False,
) -> "Audit":
    """Measure a data set and the training instances drawn from it.

    Args:
        dataset: directory of the data set.
        output: HTML file with the same figures and plots.
        split: training documents or held-out documents.
        seq_lengths: maximum number of tokens of an instance, one value per phase.
        whole_word: mask whole words.
        sample: maximum number of instances measured per length.
    """
    from cloze.data.audit import AuditConfig, audit_dataset
    from cloze.data.dataset import Dataset
    from cloze.data.instances.masking import MaskingConfig
    from cloze.reports.audit_page import write_audit_page

    if output is not None:
        artifacts.check_output_path(Path(output), overwrite=overwrite, directory=False)
    config = AuditConfig(
        split=split,
        seq_lengths=tuple(seq_lengths),
        masking=MaskingConfig(whole_word=whole_word),
        sample=sample,
    )
    opened = Dataset.open(Path(dataset))
    measured = audit_dataset(opened, config, progress=resolve_progress(progress))
    if output is not None:
        write_audit_page(measured, Path(output))
    return measured


@checks_arguments()
def preview_inputs(inputs: Inputs, **options: Unpack[ReadingOptions]) -> "InputPreview":
    """Show what would be read, and write nothing.

    Args:
        inputs: text files, folders, globs or URLs, plain or compressed; - is stdin.
    """
    from cloze.data.build.input_shards import (
        InputPreview,
        describe_input_formats,
        plan_input_shards,
        read_documents,
        total_bytes,
    )

    with open_text(inputs, None, options) as (files, reading):
        shards = plan_input_shards(files, reading)
        documents = (document for shard in shards for document in read_documents(shard))
        return InputPreview(
            formats=tuple(describe_input_formats(shards)),
            size_bytes=total_bytes(shards),
            input_shards=len(shards),
            first_document=next(documents, None),
        )


@checks_arguments()
def check_inputs(inputs: Inputs, **options: Unpack[ProcessingOptions]) -> "InputSummary":
    """Read all input, report the first error, and write nothing.

    Args:
        inputs: text files, folders, globs or URLs, plain or compressed; - is stdin.
    """
    from cloze.data.build.input_shards import check_documents, plan_input_shards

    run = build_run(options)
    with open_text(inputs, None, options) as (files, reading):
        shards = plan_input_shards(files, reading, progress=run.progress)
        return check_documents(shards, reading.cleaning, run)


def _warn_of_dataset(directory: Path, progress: Progress) -> None:
    """Warn of a data set that training would refuse; note what is held out of one document."""
    from cloze.data.dataset import MIN_DOCUMENTS_FOR_PAIRS, Dataset

    dataset = Dataset.open(directory, verify=False)
    held_out = dataset.split("validation")
    if dataset.info.documents == 1 and len(held_out):
        share = held_out.num_tokens / dataset.info.tokens
        progress.note(f"one document: its end is held out, {share:.0%} of the tokens")
    if dataset.supports_pairs:
        return
    remark = (
        f"fewer than {MIN_DOCUMENTS_FOR_PAIRS} documents have two sentences, as next-sentence pairs need: train with "
        "pairs.next_sentence=false. The format paragraphs makes a document of the paragraphs between blank lines"
    )
    if not len(held_out):
        remark = (
            f"no held-out documents: {len(dataset.documents):,} in total, two different ones are needed. The format "
            "lines makes a document of each line"
        )
    warnings.warn(DataWarning(remark), stacklevel=3)
