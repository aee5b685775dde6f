"""Vocabularies and data sets, from files of text or from texts in memory."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloze import file_io
from cloze.arguments import check_path, check_paths
from cloze.data.cleaning import CleaningConfig, Step
from cloze.data.input_shards import ReadingConfig
from cloze.data.memory import to_text_rows
from cloze.errors import InputError
from cloze.parallel_map import Workers
from cloze.progress import Progress, resolve_progress
from cloze.remote_files import write_directory_to

if TYPE_CHECKING:  # not needed for --help
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
    workers: Workers = 1,
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
        limit: maximum number of documents to read; None reads all.
        without: cleaning steps to skip.
        workers: number of processes, or a cluster.
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
                workers=workers,
                overwrite=overwrite,
                progress=resolve_progress(progress),
            )

        return write_directory_to(output, write, overwrite=overwrite)


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
            stream.writelines(f"{row}\n" for row in to_text_rows(texts, "texts"))
        yield [str(file)], reading
