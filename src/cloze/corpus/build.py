"""Text to a data set: every document is cleaned, split into sentences and tokenised once.

Stretches of the text become parts on their own, wherever that is done (`cloze.corpus.stage`); what is a matter of all
of them together is decided when they are sealed (`cloze.corpus.seal`). So the bytes are the same for any number of
workers and tasks, and however often the work was cut off.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cloze import artifacts
from cloze.corpus import stage as stages
from cloze.corpus.cleaning import clean_all
from cloze.corpus.documents import Document
from cloze.corpus.duplicates import LONG_PARAGRAPH_CHARACTERS, digest_of
from cloze.corpus.seal import Summary, count_shard, read_summary, seal
from cloze.corpus.sources import ReadingConfig, Stretch, describe_formats, plan_stretches
from cloze.corpus.stage import MakePart, Stage, Task
from cloze.corpus.store import (
    Dataset,
    Digests,
    Integers,
    Shard,
    offsets_of,
    write_shard,
)
from cloze.corpus.streams import STDIN
from cloze.errors import InputError
from cloze.executor import Workers
from cloze.progress import SILENT, Bar, Progress
from cloze.text.sentences import check_language, split_sentences
from cloze.text.splitters import load_splitter, source_of
from cloze.text.tokenizer import Tokenizer

_KIND = "corpus"
_STEPS_OF_SEALING = ("duplicate_documents", "duplicate_paragraphs")
_PACKAGES = ("cloze-bert", "sentencex", "tokenizers", "pyarrow")  # that decide on the bytes of a part


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildConfig:
    """How text becomes a data set."""

    reading: ReadingConfig = ReadingConfig()
    """What the inputs hold and how they are cleaned."""
    language: str = "en"
    """Of the rules that split paragraphs into sentences, as an ISO code."""
    splitter: str | None = None
    """ "package.module:function" to split paragraphs with instead of the rules."""
    validation_fraction: float = 0.005
    """Share of the documents held out from training, at least two of them."""

    def __post_init__(self) -> None:
        check_language(self.language)
        if not 0 < self.validation_fraction < 1:
            what = f"{self.validation_fraction} is not between 0 and 1"
            raise InputError(what, where="--validation-fraction")


def build_dataset(
    inputs: Sequence[str | Path],
    vocabulary: Path | None,
    output: Path,
    config: BuildConfig = BuildConfig(),
    *,
    append: bool = False,
    workers: Workers = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Summary:
    """Tokenise text into a data set on disk.

    Killed at any moment, it goes on where it was when it is called again: finished parts wait beside the output.

    Args:
        inputs: files, folders, globs, or - for stdin; plain or .gz, .bz2, .xz, .zst.
        vocabulary: a directory with a tokenizer; None takes that of the data set which is appended to.
        output: directory of the data set.
        config: how it is read, cleaned, split and held out.
        append: add to the data set that is there. What it has stays as it is, and what it holds out.
        workers: processes, or a cluster.
        overwrite: replace the output, and what is left of a build with other settings.
        progress: where to tell how far it is.

    Returns:
        What was made of the inputs.

    Raises:
        InputError: the text, the vocabulary or a setting is wrong, or there is no data set to append to.
        RunError: the disk is full, or a worker died.
    """
    output = Path(output)
    stages.refuse_to_read(output, inputs)

    def refuse_existing() -> None:
        if not append:
            hint = ", add to it with --append"
            artifacts.refuse_existing(output, overwrite=overwrite, inputs=[vocabulary], resume_hint=hint)

    if not stages.is_sealed(output):
        refuse_existing()
    stage, stretches = _begin(
        inputs, vocabulary, output, config, append=append, overwrite=overwrite, progress=progress
    )
    if stages.is_sealed(output):  # it was killed between the last two steps
        return _remove_stage(stage, progress)
    make = _part_maker(stage, config)
    with stage.kept_if_of_use(progress):
        refuse_existing()  # what was sealed was something else
        with progress.bar("tokenising", total=stage.bytes_to_read(stretches), unit="bytes") as bar:
            parts = stage.work_until_whole(stretches, make, workers=workers, bar=bar, progress=progress)
            _show(parts, bar)
        return _seal(stage, overwrite=overwrite, progress=progress)


def build_task(
    inputs: Sequence[str | Path],
    vocabulary: Path | None,
    output: Path,
    config: BuildConfig = BuildConfig(),
    *,
    task: Task,
    append: bool = False,
    workers: Workers = 1,
    progress: Progress = SILENT,
) -> None:
    """Do the share of one task of a job array: the parts that are its own. `merge_tasks` makes a data set of all.

    The tasks need nothing in common but the inputs and the directory of the output; they may run at any time, on any
    machine, again, and with other numbers of them. Arguments as those of `build_dataset`.

    Raises:
        InputError: the text, the vocabulary or a setting is wrong, or not as it is for the other tasks.
        RunError: the disk is full, or a worker died.
    """
    output = Path(output)
    if STDIN in map(str, inputs):
        raise InputError("can be read by one task alone", where="stdin", remedy="Name files")
    stages.refuse_to_read(output, inputs)
    if not append:  # whether it may be replaced is for `merge_tasks` to ask, which does it
        artifacts.refuse_existing(output, overwrite=True, inputs=[vocabulary])
    is_made = not append and (output / artifacts.MANIFEST).is_file() and not stages.is_begun(output)
    stage, stretches = _begin(
        inputs, vocabulary, output, config, append=append, is_task=True, progress=progress
    )
    if is_made:
        what = f"warning: {output} is made already: cloze corpus merge --overwrite will replace it"
        progress.note(f"{what}. If it shall stay, delete {stage.directory}")
    make = _part_maker(stage, config)
    with progress.bar("tokenising", total=stage.bytes_to_read(stretches, task), unit="bytes") as bar:
        _show(stage.work(stretches, make, workers=workers, bar=bar, task=task), bar)


def merge_tasks(output: Path, *, overwrite: bool = False, progress: Progress = SILENT) -> Summary:
    """Make a data set of what the tasks of a job array have finished.

    Raises:
        InputError: something is missing or damaged, or the output exists.
        RunError: the disk is full.
    """
    output = Path(output)
    stage = stages.reopen(output)
    if stage.plan["settings"]["kind"] != _KIND:
        raise InputError("no parts of a data set", where=stage.directory)
    if stages.is_sealed(output):
        return _remove_stage(stage, progress)
    if not stage.plan["sealing"]["append"]:
        artifacts.refuse_existing(output, overwrite=overwrite)
    if damaged := stage.discard_damaged():
        what = f"{len(damaged)} parts were damaged and are deleted"
        remedy = "Run the tasks again: what is finished is not done again"
        raise InputError(what, where=damaged[0], remedy=remedy)
    return _seal(stage, overwrite=overwrite, progress=progress)


def _begin(
    inputs: Sequence[str | Path],
    vocabulary: Path | None,
    output: Path,
    config: BuildConfig,
    *,
    append: bool,
    progress: Progress,
    is_task: bool = False,
    overwrite: bool = False,
) -> tuple[Stage, list[Stretch]]:
    """Check everything and open the stage."""
    if config.splitter is not None:
        load_splitter(config.splitter)
    if append:
        Dataset.open(output, verify=not is_task)  # once more when it is sealed
    tokenizer = _choose_tokenizer(vocabulary, output if append else None)
    stretches = plan_stretches(inputs, config.reading)
    for line in describe_formats(stretches):
        progress.note(line)
    stage = stages.begin(
        output,
        stretches,
        settings={"kind": _KIND, "vocabulary": _hash(tokenizer), **settings_of(config)},
        sealing={
            "inputs": list(map(str, inputs)),
            "validation_fraction": config.validation_fraction,
            "append": append,
            "without": sorted({*config.reading.cleaning.without} & {*_STEPS_OF_SEALING}),
        },
        fill=tokenizer.save,
        is_task=is_task,
        overwrite=overwrite,
    )
    return stage, stretches


def settings_of(config: BuildConfig) -> dict[str, Any]:
    """Return what decides on the bytes of a part, beside its text and the vocabulary."""
    return {
        "language": config.language,
        "splitter": None if config.splitter is None else [config.splitter, source_of(config.splitter)],
        "without": sorted({*config.reading.cleaning.without} - {*_STEPS_OF_SEALING}),
        **{name: metadata.version(name) for name in _PACKAGES},
    }


def _choose_tokenizer(vocabulary: Path | None, appended_to: Path | None) -> Tokenizer:
    if appended_to is None:
        if vocabulary is None:
            raise InputError("no vocabulary was given", where="--vocab", remedy="Name its directory")
        return Tokenizer.load(vocabulary)
    tokenizer = Tokenizer.load(appended_to)
    if vocabulary is not None and _hash(Tokenizer.load(vocabulary)) != _hash(tokenizer):
        remedy = "Leave --vocab out to take the data set's own"
        raise InputError(f"is not the vocabulary of {appended_to}", where=vocabulary, remedy=remedy)
    return tokenizer


def _hash(tokenizer: Tokenizer) -> str:
    """Hash all that decides on the ids of a text."""
    added = sorted(
        tokenizer.added_pieces, key=tokenizer.pieces.index
    )  # in which order they stand is all the same
    table = {**asdict(tokenizer), "added_pieces": added, "model_max_length": None}
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _part_maker(stage: Stage, config: BuildConfig) -> MakePart:
    vocabulary = stage.plan["settings"]["vocabulary"]
    return partial(_make_part, directory=stage.directory, vocabulary=vocabulary, config=config)


def _show(parts: Iterable[dict[str, Any]], bar: Bar) -> None:
    """Let parts be made, and tell how much is in them."""
    documents = pieces = 0
    for record in parts:
        documents += record["summary"]["documents"]
        pieces += record["summary"]["pieces"]
        bar.show(documents=f"{documents:,}", pieces=f"{pieces:,}")


def _make_part(
    documents: list[Document], path: Path, *, directory: Path, vocabulary: str, config: BuildConfig
) -> dict[str, Any]:
    """Clean, split and tokenise the documents of one part, and write them as a shard."""
    tokenizer = _tokenizer(directory, vocabulary)
    cleaned, done = clean_all(documents, config.reading.cleaning)
    split = partial(split_sentences, language=config.language, splitter=config.splitter)
    sentences_of_lines = [some for document in cleaned for some in document.sentences_of_lines(split)]
    pieces, lengths = tokenizer.ids([sentence for some in sentences_of_lines for sentence in some])
    rows, shard = _assemble(cleaned, list(map(len, sentences_of_lines)), pieces, lengths)
    write_shard(path, shard, vocab_size=tokenizer.vocab_size)
    counts = count_shard(shard, tokenizer.unk_id)
    summary = replace(counts, empty_documents=len(cleaned) - len(rows), cleaning=done)
    return {"summary": asdict(summary), "documents": _runs(rows)}


def _assemble(
    documents: Sequence[Document],
    sentences_of_lines: Sequence[int],
    pieces: npt.NDArray[Any],
    lengths: Integers,
) -> tuple[list[Document], Shard]:
    """Put tokenised documents together, without those and their sentences of which the tokenizer left nothing.

    Args:
        documents: that are put together.
        sentences_of_lines: how many sentences each of all their lines has.
        pieces: of all sentences, end to end.
        lengths: how many of them each sentence has.

    Returns:
        The documents of which something is left, and their shard.
    """
    lines = [(document, line) for document in documents for line in document.lines]
    line_bounds = offsets_of([len(document.lines) for document in documents])
    sentence_bounds = offsets_of(lengths > 0)[offsets_of(sentences_of_lines)]  # of the lines, in what is left
    is_long = np.array([_is_long_paragraph(document, line) for document, line in lines], np.bool_)
    long = np.flatnonzero(is_long & (np.diff(sentence_bounds) > 0))
    sentences_of_documents = np.diff(sentence_bounds[line_bounds])
    long_of_documents = np.diff(np.searchsorted(long, line_bounds))
    kept = sentences_of_documents > 0
    rows = [document for document, stays in zip(documents, kept, strict=True) if stays]
    return rows, Shard(
        pieces=pieces,
        sentence_offsets=offsets_of(lengths[lengths > 0]),
        document_offsets=offsets_of(sentences_of_documents[kept]),
        document_digests=_digests(document.lines for document in rows),
        paragraph_offsets=offsets_of(long_of_documents[kept]),
        paragraph_digests=_digests([lines[number][1]] for number in long),
        paragraph_starts=sentence_bounds[long],
        paragraph_ends=sentence_bounds[long + 1],
    )


def _is_long_paragraph(document: Document, line: str) -> bool:
    return document.kind == "paragraphs" and len(line) >= LONG_PARAGRAPH_CHARACTERS


def _digests(texts: Iterable[Iterable[str]]) -> Digests:
    return np.fromiter(map(digest_of, texts), np.uint64)


def _runs(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Say briefly of what kind documents are and where each begins."""

    def alike(document: Document) -> tuple[str, str]:
        file, colon, _ = document.where.rpartition(":")
        return file + colon, document.kind

    return [
        {"file": file, "kind": kind, "places": [document.where.removeprefix(file) for document in run]}
        for (file, kind), run in groupby(documents, alike)
    ]


@lru_cache(maxsize=1)  # a worker sees many parts of one data set: no word is tokenised twice
def _tokenizer(directory: Path, vocabulary: str) -> Tokenizer:
    """Load the tokenizer of a stage.

    Args:
        directory: of the stage.
        vocabulary: its hash. It also tells those apart that were in the same place.

    Raises:
        InputError: it is not the tokenizer that the parts were begun with.
    """
    tokenizer = Tokenizer.load(directory)
    if _hash(tokenizer) != vocabulary:
        what = "the tokenizer in it is not the one that it was begun with"
        raise InputError(what, where=directory, remedy="Copy the files of the vocabulary there, or delete it")
    return tokenizer


def _seal(stage: Stage, *, overwrite: bool, progress: Progress) -> Summary:
    sealing = stage.plan["sealing"]
    dataset = Dataset.open(stage.output) if sealing["append"] else None
    summary = seal(
        stage,
        _tokenizer(stage.directory, stage.plan["settings"]["vocabulary"]),
        validation_fraction=sealing["validation_fraction"],
        left_out=sealing["without"],
        dataset=dataset,
        overwrite=overwrite,
    )
    stage.remove()
    _tell(summary, progress)
    return summary


def _remove_stage(stage: Stage, progress: Progress) -> Summary:
    progress.note(f"{stage.output} is whole: only its parts were still to be removed")
    stage.remove()
    return read_summary(stage.output)


def _tell(summary: Summary, progress: Progress) -> None:
    for line in (
        *summary.cleaning.in_words(),
        *summary.duplicate_documents.in_words("documents"),
        *summary.duplicate_paragraphs.in_words("long paragraphs"),
    ):
        progress.note(line)
    if summary.single_sentence_documents:
        number = f"{summary.single_sentence_documents:,}"
        progress.note(f"{number} documents of one sentence make no pair for next-sentence prediction")
    if summary.empty_documents:
        progress.note(f"{summary.empty_documents:,} documents of which nothing was left were left out")
    if summary.unknown_pieces > 0.01 * summary.pieces:
        share = summary.unknown_pieces / summary.pieces
        progress.note(
            f"warning: {share:.1%} of the pieces are [UNK]: is this the vocabulary of this language?"
        )
