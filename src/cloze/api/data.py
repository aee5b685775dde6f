"""Vocabularies and data sets, from files of text or from texts in memory."""

import json
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cloze import artifacts, file_io
from cloze.arguments import check_path, check_paths, check_texts
from cloze.data.cleaning import CleaningConfig, Step
from cloze.data.input_shards import ReadingConfig, plan_input_shards
from cloze.data.memory import check_unicode_texts
from cloze.errors import DataWarning, InputError
from cloze.parallel_map import AnyWorkers
from cloze.progress import Progress, resolve_progress
from cloze.ray_cluster import resolve_workers
from cloze.remote_files import is_url, write_directory_to

if TYPE_CHECKING:  # not needed for --help
    from cloze.data.audit import Audit
    from cloze.data.parts import BuildSummary
    from cloze.data.survey import InputPreview
    from cloze.data.vocabulary_extension import Extension
    from cloze.tokenization.statistics import TextStatistics, VocabularyStatistics
    from cloze.tokenization.tokenizer import Tokenizer

Inputs = str | Path | Iterable[str | Path]
"""One or several files, folders, globs, URLs, or - for stdin."""


def train_vocabulary(
    inputs: Inputs = (),
    *,
    output: str | Path,
    texts: Any = None,
    size: int = 30_522,
    cased: bool = False,
    keep_accents: bool = False,
    max_word_chars: int = 100,
    format: str = "auto",
    text_field: str = "text",
    limit: int | None = None,
    without: Sequence[Step] = (),
    workers: AnyWorkers = "auto",
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> "Tokenizer":
    """Train a WordPiece vocabulary on text.

    The same text gives the same bytes with any number of workers.

    >>> import cloze, tempfile
    >>> texts = ["the moor at night", "the hound on the moor"] * 50
    >>> tokenizer = cloze.train_vocabulary(texts=texts, output=f"{tempfile.mkdtemp()}/vocab", size=25)
    >>> tokenizer.vocab_size, "the" in tokenizer.tokens
    (25, True)

    Args:
        inputs: text files, folders, globs or URLs, plain or compressed; - is stdin.
        output: directory or URL, as in s3://bucket/vocab, of vocab.txt and the tokenizer.
        texts: instead of inputs, texts in memory, each a document: any collection or iterator, or a table with the
            column text.
        size: number of tokens, with the special ones.
        cased: keep upper case and accents.
        keep_accents: lower-case without removing accents and the marks of scripts such as Devanagari, Thai or Korean.
        max_word_chars: words of more characters are [UNK]. Runs of Thai, Lao or Khmer are often longer than 100.
        format: format of text files; auto detects it.
        text_field: field of JSON lines or column of tables with the text.
        limit: maximum number of documents to read (default: all).
        without: cleaning steps to skip.
        workers: number of processes; auto is one per core (in Python 1), ray the cluster at RAY_ADDRESS.
        overwrite: replace existing output.
        progress: True shows progress.

    Raises:
        InputError: the text is wrong, or too little for this size. Nothing is written.
        RunError: the disk is full.
    """
    from cloze.data import vocabulary

    check_path(output, "output")
    with _open_text(inputs, texts, format, text_field, limit, without) as (files, reading):

        def write(directory: Path) -> "Tokenizer":
            return vocabulary.train_vocabulary(
                files,
                directory,
                reading=reading,
                size=size,
                lowercase=not cased,
                keep_accents=keep_accents,
                max_word_chars=max_word_chars,
                workers=resolve_workers(workers),
                overwrite=overwrite,
                progress=resolve_progress(progress),
            )

        return write_directory_to(output, write, overwrite=overwrite)


def extend_vocabulary(
    vocabulary: str | Path,
    inputs: Inputs = (),
    *,
    output: str | Path,
    words: str | Path | Sequence[str] | None = None,
    number: int | None = None,
    texts: Any = None,
    format: str = "auto",
    text_field: str = "text",
    limit: int | None = None,
    without: Sequence[Step] = (),
    workers: AnyWorkers = "auto",
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> "Extension":
    """Add words to a vocabulary: first in its [unused] tokens, then at its end.

    All other tokens keep their ids.

    Args:
        vocabulary: directory of a vocabulary or of a model with a tokenizer, cloze-mini or hf://org/name.
        inputs: text to take words from, or to count words in: files, folders, globs or URLs; - is stdin.
        output: directory of the extended vocabulary.
        words: file of words to add, one per line. In Python also a list of words.
        number: instead of words, number of words to add: the most frequent ones of the text that are not tokens yet.
        texts: instead of inputs, texts in memory.
        format: format of text files; auto detects it.
        text_field: field of JSON lines or column of tables with the text.
        limit: maximum number of documents to read (default: all).
        without: cleaning steps to skip.
        workers: number of processes; auto is one per core (in Python 1), ray the cluster at RAY_ADDRESS.
        overwrite: replace existing output.
        progress: True shows progress.

    Raises:
        InputError: neither or both of words and number, a line that is not one word, or nothing to add.
        RunError: the disk is full.
    """
    from cloze.data import vocabulary_extension

    with (
        tempfile.TemporaryDirectory(prefix="cloze-") as directory,
        _open_text(inputs, texts, format, text_field, limit, without) as (files, reading),
    ):
        if words is not None and not isinstance(words, (str, Path)):
            file = Path(directory) / "words.txt"
            file.write_text("".join(f"{word}\n" for word in words), "utf-8")
            words = file
        return vocabulary_extension.extend_vocabulary(
            check_path(vocabulary, "vocabulary"),
            check_path(output, "output"),
            words=None if words is None else Path(words),
            inputs=files,
            number=number,
            reading=reading,
            workers=resolve_workers(workers),
            overwrite=overwrite,
            progress=resolve_progress(progress),
        )


@dataclass(frozen=True, slots=True)
class InspectedVocabulary:
    """The tokens of a vocabulary, and how it splits text."""

    directory: str
    vocabulary: "VocabularyStatistics"
    text: "TextStatistics | None"
    """Of the inputs, if there are any."""
    tokens: tuple[tuple[str, ...], ...]
    """Of each text that was given to show its tokens."""


def inspect_vocabulary(
    vocabulary: str | Path,
    inputs: Inputs = (),
    *,
    text: Sequence[str] = (),
    beside: Sequence[str | Path] = (),
    texts: Any = None,
    format: str = "auto",
    text_field: str = "text",
    limit: int | None = None,
    without: Sequence[Step] = (),
    workers: AnyWorkers = "auto",
    progress: bool | Progress = False,
) -> list[InspectedVocabulary]:
    """Show what is in a vocabulary and how it splits text.

    As in BERT, each punctuation mark and each Chinese character is a word.

    >>> import cloze
    >>> [inspected] = cloze.inspect_vocabulary("cloze-mini", text=["unreadable"], texts=["The ferret sat down there."])
    >>> inspected.tokens, inspected.text.words, inspected.text.tokens
    ((('unrea', '##da', '##ble'),), 6, 7)

    Args:
        vocabulary: directory of a vocabulary or of a model with a tokenizer, cloze-mini or hf://org/name.
        inputs: text to count words in: files, folders, globs or URLs; - is stdin.
        text: text to show the tokens of; several are possible.
        beside: other vocabularies to compare with.
        texts: instead of inputs, texts in memory.
        format: format of text files; auto detects it.
        text_field: field of JSON lines or column of tables with the text.
        limit: maximum number of documents to read (default: all).
        without: cleaning steps to skip.
        workers: number of processes; auto is one per core (in Python 1), ray the cluster at RAY_ADDRESS.
        progress: True shows progress.

    Returns:
        One for the vocabulary, then those beside it.

    Raises:
        InputError: a vocabulary is damaged, or the text is wrong or empty.
    """
    from cloze.data.word_counts import count_input_words
    from cloze.tokenization.loading import load_wordpiece
    from cloze.tokenization.statistics import describe_text, describe_vocabulary

    directories = [vocabulary, *check_paths(beside, "beside")]
    tokenizers = [load_wordpiece(check_path(path, "vocabulary")) for path in directories]
    examples = check_texts(text, "text")
    counts: Sequence[Mapping[str, int]] = [{}] * len(tokenizers)
    with _open_text(inputs, texts, format, text_field, limit, without) as (files, reading):
        if files:
            shown = resolve_progress(progress)
            counts = count_input_words(
                files, tokenizers, reading=reading, workers=resolve_workers(workers), progress=shown
            )
    return [
        InspectedVocabulary(
            str(directory),
            describe_vocabulary(tokenizer),
            describe_text(tokenizer, word_counts) if word_counts else None,
            tuple(tuple(tokenizer.encode(example).tokens[1:-1]) for example in examples),
        )
        for directory, tokenizer, word_counts in zip(directories, tokenizers, counts, strict=True)
    ]


def build_dataset(
    inputs: Inputs = (),
    *,
    vocabulary: str | Path | None = None,
    output: str | Path,
    texts: Any = None,
    format: str = "auto",
    text_field: str = "text",
    limit: int | None = None,
    without: Sequence[Step] = (),
    language: str = "en",
    splitter: str | None = None,
    segmenter: str | None = None,
    validation_fraction: float | None = None,
    append: bool = False,
    task: str | None = None,
    workers: AnyWorkers = "auto",
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> "BuildSummary | None":
    """Tokenize text into a data set on disk.

    The same text gives the same bytes with any number of workers. An interrupted build resumes when it is run again.

    Args:
        inputs: text files, folders, globs or URLs, plain or compressed; - is stdin.
        vocabulary: directory of a vocabulary or of a model with a tokenizer, cloze-mini or hf://org/name; needed unless
            documents are appended.
        output: directory or URL, as in s3://bucket/data, of the data set.
        texts: instead of inputs, texts in memory, each a document: any collection or iterator, or a table with the
            column text.
        format: format of text files; auto detects it.
        text_field: field of JSON lines or column of tables with the text.
        limit: maximum number of documents to read (default: all).
        without: cleaning steps to skip.
        language: ISO code of the language, for splitting paragraphs into sentences.
        splitter: "package.module:function" that splits paragraphs into sentences, instead of the rules of the language.
        segmenter: "package.module:function" that splits sentences into words for whole-word masking, in scripts without
            spaces.
        validation_fraction: share of held-out documents (default: 0.005, and up to 0.1 of a small data set; that of the
            data set that is appended to).
        append: add documents to an existing data set.
        task: the task of a job array, as in 3/8 for the third of eight; cloze corpus merge joins their parts.
        workers: number of processes; auto is one per core (in Python 1), ray the cluster at RAY_ADDRESS.
        overwrite: replace existing output, also of an unfinished job array with other settings.
        progress: True shows progress.

    Returns:
        Counts of what the inputs became; None for a task of a job array.

    Raises:
        InputError: the text, the vocabulary or a setting is wrong, or there is no data set to append to.
        RunError: the disk is full, or a worker died.
    """
    from cloze.data import build
    from cloze.data.job_arrays import ArrayTask
    from cloze.data.parts import BuildConfig

    check_path(output, "output")
    if vocabulary is not None:
        check_path(vocabulary, "vocabulary")
    if is_url(output) and (append or task is not None):
        raise InputError("append and task need a local or shared directory", where=output)
    if task is not None and (overwrite or texts is not None):
        where, remedy = (
            ("overwrite", "Give it to cloze corpus merge instead") if overwrite else ("texts", None)
        )
        raise InputError("cannot be combined with `task`", where=where, remedy=remedy)
    with _open_text(inputs, texts, format, text_field, limit, without) as (files, reading):
        config = BuildConfig(
            reading=reading,
            language=language,
            splitter=splitter,
            segmenter=segmenter,
            validation_fraction=validation_fraction,
        )

        def write(directory: Path) -> "BuildSummary | None":
            summary = build.build_dataset(
                files,
                vocabulary,
                directory,
                config,
                append=append,
                task=None if task is None else ArrayTask.parse(task),
                workers=resolve_workers(workers),
                overwrite=overwrite,
                progress=resolve_progress(progress),
            )
            if summary is not None:
                _warn_of_dataset(directory)
            return summary

        return write_directory_to(output, write, overwrite=overwrite)


def merge_datasets(
    output: str | Path, *, overwrite: bool = False, progress: bool | Progress = False
) -> "BuildSummary":
    """Merge the parts that the tasks of a job array wrote into a data set.

    Args:
        output: the output of the tasks.
        overwrite: replace existing output.
        progress: True shows progress.

    Raises:
        InputError: parts are missing or damaged, or the output exists.
        RunError: the disk is full.
    """
    from cloze.data.build import merge_array_tasks

    directory = check_path(output, "output")
    summary = merge_array_tasks(directory, overwrite=overwrite, progress=resolve_progress(progress))
    _warn_of_dataset(directory)
    return summary


def audit(
    dataset: str | Path,
    *,
    output: str | Path | None = None,
    split: Literal["train", "validation"] = "train",
    seq_lengths: Sequence[int] = (128, 512),
    whole_word: bool = False,
    sample: int = 100_000,
    overwrite: bool = False,
    progress: bool | Progress = False,
) -> "Audit":
    """Measure a data set and the training instances drawn from it.

    Args:
        dataset: directory of the data set.
        output: HTML file with the same figures and plots.
        split: training documents or held-out documents.
        seq_lengths: maximum number of tokens of an instance, one value per phase.
        whole_word: mask whole words.
        sample: maximum number of instances measured per length.
        overwrite: replace existing output.
        progress: True shows progress.

    Raises:
        InputError: the data set is damaged, or the output exists.
    """
    from cloze.data.audit import AuditConfig, audit_dataset
    from cloze.data.dataset import Dataset
    from cloze.data.masking import MaskingConfig
    from cloze.reports.audit_page import write_audit_page

    page = None if output is None else check_path(output, "output")
    if page is not None:
        artifacts.check_output_path(page, overwrite=overwrite, directory=False)
    config = AuditConfig(
        split=split,
        seq_lengths=tuple(seq_lengths),
        masking=MaskingConfig(whole_word=whole_word),
        sample=sample,
    )
    opened = Dataset.open(check_path(dataset, "dataset"))
    measured = audit_dataset(opened, config, progress=resolve_progress(progress))
    if page is not None:
        write_audit_page(measured, page, overwrite=overwrite)
    return measured


def preview_inputs(
    inputs: Inputs,
    *,
    format: str = "auto",
    text_field: str = "text",
    limit: int | None = None,
    without: Sequence[Step] = (),
) -> "InputPreview":
    """Show what would be read, and write nothing.

    Args:
        inputs: text files, folders, globs or URLs, plain or compressed; - is stdin.
        format: format of text files; auto detects it.
        text_field: field of JSON lines or column of tables with the text.
        limit: maximum number of documents to read (default: all).
        without: cleaning steps to skip.

    Raises:
        InputError: the beginning of the text cannot be read.
    """
    from cloze.data import survey

    with _open_text(inputs, None, format, text_field, limit, without) as (files, reading):
        return survey.preview_inputs(plan_input_shards(files, reading))


def check_inputs(
    inputs: Inputs,
    *,
    format: str = "auto",
    text_field: str = "text",
    limit: int | None = None,
    without: Sequence[Step] = (),
    workers: AnyWorkers = "auto",
    progress: bool | Progress = False,
) -> "InputPreview":
    """Read all input, report the first error, and write nothing.

    Args:
        inputs: text files, folders, globs or URLs, plain or compressed; - is stdin.
        format: format of text files; auto detects it.
        text_field: field of JSON lines or column of tables with the text.
        limit: maximum number of documents to read (default: all).
        without: cleaning steps to skip.
        workers: number of processes; auto is one per core (in Python 1), ray the cluster at RAY_ADDRESS.
        progress: True shows progress.

    Raises:
        InputError: the text cannot be read; the message has the place.
    """
    from cloze.data import survey

    with _open_text(inputs, None, format, text_field, limit, without) as (files, reading):
        shards = plan_input_shards(files, reading)
        shown = resolve_progress(progress)
        summary = survey.check_inputs(
            shards, reading.cleaning, workers=resolve_workers(workers), progress=shown
        )
        return replace(survey.describe_inputs(shards), summary=summary)


def _warn_of_dataset(directory: Path) -> None:
    """Warn of a data set that training would refuse or learn little from."""
    from cloze.data.dataset import DOMINANT_DOCUMENT_SHARE, MIN_DOCUMENTS_FOR_PAIRS, Dataset

    dataset = Dataset.open(directory, verify=False)
    remarks = []
    if not len(dataset.split("validation")):
        remarks.append(
            f"no held-out documents: {len(dataset.documents):,} in total, two different ones are needed. "
            "The format lines makes a document of each line"
        )
    elif not dataset.supports_pairs:
        remarks.append(
            f"fewer than {MIN_DOCUMENTS_FOR_PAIRS} documents have two sentences, as next-sentence pairs need: train "
            "with pairs.next_sentence=false. The format paragraphs makes a document of the paragraphs between blank "
            "lines"
        )
    if (share := dataset.documents.largest_share) > DOMINANT_DOCUMENT_SHARE:
        remarks.append(f"one document holds {share:.0%} of the tokens")
    for remark in remarks:
        warnings.warn(DataWarning(remark), stacklevel=3)


@contextmanager
def _open_text(
    inputs: Inputs,
    texts: Any,
    text_format: str,
    text_field: str,
    limit: int | None,
    without: Sequence[Step],
) -> Iterator[tuple[list[str], ReadingConfig]]:
    """Yield the names of inputs, or a temporary file of JSON lines with texts in memory, and how they are read."""
    reading = ReadingConfig(
        text_format=text_format,
        text_field=text_field,
        limit=limit,
        cleaning=CleaningConfig(without=tuple(without)),
    )
    is_empty = isinstance(inputs, tuple) and not inputs
    if texts is None:
        yield list(map(str, check_paths(inputs))), reading
        return
    for name, is_default in (
        ("inputs", is_empty),
        ("format", text_format == "auto"),
        ("text_field", text_field == "text"),
    ):
        if not is_default:
            raise InputError("excludes texts", where=name, remedy="Leave out one of them")
    with tempfile.TemporaryDirectory(prefix="cloze-") as directory:
        file = Path(directory) / "texts.jsonl"
        with file_io.disk_errors(file), file.open("w", encoding="utf-8", newline="\n") as stream:
            for text in check_unicode_texts(texts, "texts"):
                stream.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
        try:
            yield [str(file)], reading
        except InputError as error:
            where = error.where and error.where.replace(str(file), "texts")
            raise InputError(error.what, where=where, remedy=error.remedy) from error
