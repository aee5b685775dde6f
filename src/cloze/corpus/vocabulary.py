"""Text to a vocabulary: words are counted in parts, by workers, and the pieces learned from the counts."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from cloze import artifacts
from cloze.corpus.readers import Document, find_files, in_parts, read_documents, total_bytes
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
    files = find_files(inputs)
    counts: Counter[str] = Counter()
    with progress.bar("counting words", total=total_bytes(files), unit="bytes") as bar:
        count = partial(_count_part, lowercase=lowercase)
        for part in map_ordered(count, in_parts(read_documents(files, bar)), workers=workers):
            counts.update(part)
            bar.show(distinct=f"{len(counts):,}")
    if not counts:
        raise InputError("no text in it", where=", ".join(map(str, inputs)))
    tokenizer = Tokenizer.from_pieces(
        learn_vocabulary(counts, size=size, progress=progress), lowercase=lowercase
    )
    with artifacts.write_directory(output, kind=KIND, overwrite=overwrite) as directory:
        tokenizer.save(directory)
    return tokenizer


def _count_part(documents: list[Document], *, lowercase: bool) -> "Counter[str]":
    return count_words((line for document in documents for line in document), lowercase=lowercase)
