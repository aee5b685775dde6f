"""Text to a data set: every document is split into sentences and tokenised once.

The reader cuts the text into parts of whole documents, at places that depend on the text alone; workers turn each
part into one Arrow file. So the files are the same for any number of workers, and memory is bounded by theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from cloze import artifacts
from cloze.corpus.cleaning import CleaningConfig, CleaningCounts, clean_all
from cloze.corpus.documents import Document, in_parts
from cloze.corpus.readers import read_documents
from cloze.corpus.sources import ReadingConfig, describe_formats, plan_stretches, total_bytes
from cloze.corpus.store import KIND, MIN_DOCUMENTS_TO_SPLIT, Facts, write_facts, write_shard
from cloze.errors import InputError
from cloze.executor import map_ordered
from cloze.progress import SILENT, Progress
from cloze.text.sentences import check_language, split_sentences
from cloze.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Summary:
    """What a data set holds."""

    documents: int = 0
    sentences: int = 0
    pieces: int = 0
    unknown_pieces: int = 0
    """Pieces that are [UNK]."""
    single_sentence_documents: int = 0
    """They make no pair."""
    empty_documents: int = 0
    """Left out: nothing of them was left by the tokenizer's cleaning."""
    cleaning: CleaningCounts = CleaningCounts()

    def __add__(self, other: "Summary") -> "Summary":
        return Summary(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def build_dataset(
    inputs: Sequence[str | Path],
    vocabulary: Path,
    output: Path,
    *,
    reading: ReadingConfig = ReadingConfig(),
    language: str = "en",
    validation_fraction: float = 0.005,
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Summary:
    """Tokenise text into a data set on disk.

    Args:
        inputs: files, folders, globs, or - for stdin; plain or .gz, .bz2, .xz, .zst.
        vocabulary: a directory with a tokenizer.
        output: directory of the data set.
        reading: what the inputs hold and how it is cleaned.
        language: of the rules that split paragraphs, as an ISO code.
        validation_fraction: share of the documents held out from training, at least two of them.
        workers: processes.
        overwrite: replace the output.
        progress: where to tell how far it is.

    Raises:
        InputError: the text or the vocabulary is wrong; nothing was written.
        RunError: the disk is full.
    """
    output = Path(output)
    artifacts.refuse_existing(output, overwrite=overwrite)
    check_language(language)
    if not 0 < validation_fraction < 1:
        raise InputError(f"{validation_fraction} is not between 0 and 1", where="--validation-fraction")
    tokenizer = Tokenizer.load(vocabulary)
    stretches = plan_stretches(inputs, reading)
    for line in describe_formats(stretches):
        progress.note(line)
    summary = Summary()
    with (
        artifacts.write_directory(output, kind=KIND, overwrite=overwrite) as directory,
        progress.bar("tokenising", total=total_bytes(stretches), unit="bytes") as bar,
    ):
        tokenizer.save(directory)
        documents = (document for stretch in stretches for document in read_documents(stretch, bar))
        work = partial(_write_part, directory=directory, language=language, cleaning=reading.cleaning)
        for part in map_ordered(work, enumerate(in_parts(documents)), workers=workers):
            summary += part
            bar.show(documents=f"{summary.documents:,}", pieces=f"{summary.pieces:,}")
        if not summary.pieces:
            raise InputError("no text in it", where=", ".join(map(str, inputs)))
        write_facts(directory, _facts(summary, tokenizer, validation_fraction))
    _tell(summary, progress)
    return summary


def _write_part(
    numbered: tuple[int, list[Document]], *, directory: Path, language: str, cleaning: CleaningConfig
) -> Summary:
    """Clean and tokenise the documents of one part and write them as one shard."""
    number, documents = numbered
    tokenizer = _tokenizer(directory)
    cleaned, done = clean_all(documents, cleaning)
    rows = [document.sentences(partial(split_sentences, language=language)) for document in cleaned]
    pieces, lengths = tokenizer.ids([sentence for row in rows for sentence in row])
    row_of_sentence = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    document_lengths = np.bincount(row_of_sentence[lengths > 0], minlength=len(rows))
    write_shard(
        directory / f"documents-{number:05}.arrow",
        pieces,
        lengths[lengths > 0],
        document_lengths[document_lengths > 0],
        vocab_size=tokenizer.vocab_size,
    )
    return Summary(
        documents=int((document_lengths > 0).sum()),
        sentences=int((lengths > 0).sum()),
        pieces=len(pieces),
        unknown_pieces=int((pieces == tokenizer.unk_id).sum()),
        single_sentence_documents=int((document_lengths == 1).sum()),
        empty_documents=int((document_lengths == 0).sum()),
        cleaning=done,
    )


@lru_cache(maxsize=1)  # a worker sees many parts of one data set: no word is tokenised twice
def _tokenizer(directory: Path) -> Tokenizer:
    return Tokenizer.load(directory)


def _facts(summary: Summary, tokenizer: Tokenizer, validation_fraction: float) -> Facts:
    held_out = 0
    with_pairs = summary.documents - summary.single_sentence_documents
    if with_pairs >= MIN_DOCUMENTS_TO_SPLIT:
        held_out = min(max(2, round(validation_fraction * summary.documents)), with_pairs - 2)
    return Facts(
        vocab_size=tokenizer.vocab_size,
        documents=summary.documents,
        sentences=summary.sentences,
        pieces=summary.pieces,
        unknown_pieces=summary.unknown_pieces,
        validation_documents=held_out,
    )


def _tell(summary: Summary, progress: Progress) -> None:
    for line in summary.cleaning.in_words():
        progress.note(line)
    if summary.single_sentence_documents:
        number = f"{summary.single_sentence_documents:,}"
        progress.note(f"{number} documents of one sentence make no pair for next-sentence prediction")
    if summary.empty_documents:
        progress.note(f"{summary.empty_documents:,} documents had no text after cleaning and were left out")
    share = summary.unknown_pieces / summary.pieces
    if share > 0.01:
        progress.note(
            f"warning: {share:.1%} of the pieces are [UNK]: is this the vocabulary of this language?"
        )
