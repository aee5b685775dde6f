"""Text to a vocabulary: words are counted in parts, by workers, and the pieces learned from the counts."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cloze import artifacts
from cloze.corpus.cleaning import CleaningConfig, CleaningCounts, clean_all
from cloze.corpus.documents import Document, in_parts
from cloze.corpus.readers import read_documents
from cloze.corpus.sources import ReadingConfig, describe_formats, plan_stretches, total_bytes
from cloze.errors import InputError
from cloze.executor import map_ordered
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer
from cloze.text.vocabulary import learn_vocabulary
from cloze.text.words import count_words

KIND = "vocabulary"


def train_vocabulary(
    inputs: Sequence[str | Path],
    output: Path,
    *,
    reading: ReadingConfig = ReadingConfig(),
    size: int = 30_522,
    lowercase: bool = True,
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> Tokenizer:
    """Learn a WordPiece vocabulary from text: the same bytes from the same text, whatever the workers.

    Args:
        inputs: files, folders, globs, or - for stdin; plain or .gz, .bz2, .xz, .zst.
        output: directory for vocab.txt and the tokenizer.
        reading: what the inputs hold and how it is cleaned.
        size: pieces, special ones included.
        lowercase: False keeps case and accents.
        workers: processes.
        overwrite: replace the output.
        progress: where to tell how far it is.

    Raises:
        InputError: the text is wrong or too little for so many pieces; nothing was written.
        RunError: the disk is full.
    """
    output = Path(output)
    artifacts.refuse_existing(output, overwrite=overwrite)
    stretches = plan_stretches(inputs, reading)
    for line in describe_formats(stretches):
        progress.note(line)
    counts: Counter[str] = Counter()
    done = CleaningCounts()
    with progress.bar("counting words", total=total_bytes(stretches), unit="bytes") as bar:
        documents = (document for stretch in stretches for document in read_documents(stretch, bar))
        count = partial(_count_part, cleaning=reading.cleaning, lowercase=lowercase)
        for part, cleaned in map_ordered(count, in_parts(documents), workers=workers):
            counts.update(part)
            done += cleaned
            bar.show(distinct=f"{len(counts):,}")
    for line in done.in_words():
        progress.note(line)
    if not counts:
        raise InputError("no text in it", where=", ".join(map(str, inputs)))
    tokenizer = Tokenizer.from_pieces(
        learn_vocabulary(counts, size=size, progress=progress), lowercase=lowercase
    )
    with artifacts.write_directory(output, kind=KIND, overwrite=overwrite) as directory:
        tokenizer.save(directory)
    return tokenizer


def _count_part(
    documents: list[Document], *, cleaning: CleaningConfig, lowercase: bool
) -> "tuple[Counter[str], CleaningCounts]":
    cleaned, done = clean_all(documents, cleaning)
    words = count_words((line for document in cleaned for line in document.lines), lowercase=lowercase)
    return words, done
