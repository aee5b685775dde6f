"""Open the text of functions that read files or texts in memory."""

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cloze import file_io
from cloze.arguments import check_paths
from cloze.choices import Clean
from cloze.data.build.cleaning import CleaningConfig, Step
from cloze.data.build.input_shards import ReadingConfig
from cloze.data.reading.memory import check_unicode_texts
from cloze.errors import InputError

Inputs = str | Path | Iterable[str | Path]
"""One or several files, folders, globs, URLs, or - for stdin."""


@contextmanager
def open_text(
    inputs: Inputs,
    texts: Any,
    text_format: str,
    text_field: str,
    encoding: str | None,
    limit: int | None,
    without: Sequence[Step],
    clean: Clean | None,
) -> Iterator[tuple[list[str], ReadingConfig]]:
    """Yield the names of inputs, or a temporary file of JSON lines with texts in memory, and how they are read."""
    reading = ReadingConfig(
        text_format=text_format,
        text_field=text_field,
        encoding=encoding,
        limit=limit,
        cleaning=CleaningConfig(without=tuple(without), clean=clean),
    )
    is_empty = isinstance(inputs, tuple) and not inputs
    if texts is None:
        yield list(map(str, check_paths(inputs))), reading
        return
    for name, is_default in (
        ("inputs", is_empty),
        ("format", text_format == "auto"),
        ("text_field", text_field == "text"),
        ("encoding", encoding is None),
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
