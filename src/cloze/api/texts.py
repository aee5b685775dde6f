"""Open the text of functions that read files or texts in memory."""

import json
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloze import file_io
from cloze.arguments import check_paths
from cloze.errors import InputError
from cloze.options import Overwrite, ReadingOptions, ShowProgress
from cloze.parallel_map import AnyWorkers, resolve_workers
from cloze.progress import resolve_progress

if TYPE_CHECKING:  # not needed for --help
    from cloze.data.build.input_shards import BuildRun, ReadingConfig

Inputs = str | Path | Iterable[str | Path]
"""One or several files, folders, globs, URLs, or - for stdin."""


class ProcessingOptions(ReadingOptions, total=False):
    """How text is read, and by how many processes."""

    workers: AnyWorkers
    progress: ShowProgress


class BuildOptions(ProcessingOptions, total=False):
    """How an output is built from text."""

    overwrite: Overwrite


def build_run(options: ProcessingOptions, *, overwrite: bool = False) -> "BuildRun":
    """Return how a build runs."""
    from cloze.data.build.input_shards import BuildRun

    return BuildRun(
        workers=resolve_workers(options["workers"]),
        overwrite=overwrite,
        progress=resolve_progress(options["progress"]),
    )


@contextmanager
def open_text(
    inputs: Inputs, texts: Any, options: ReadingOptions
) -> Iterator["tuple[list[str], ReadingConfig]"]:
    """Yield the names of inputs, or a temporary file of JSON lines with texts in memory, and how they are read."""
    from cloze.data.build.cleaning import CleaningConfig
    from cloze.data.build.input_shards import ReadingConfig
    from cloze.data.reading.memory import check_unicode_texts

    reading = ReadingConfig(
        text_format=options["format"],
        text_field=options["text_field"],
        encoding=options["encoding"],
        limit=options["limit"],
        cleaning=CleaningConfig(without=tuple(options["without"]), clean=options["clean"]),
    )
    if texts is None:
        yield list(map(str, check_paths(inputs))), reading
        return
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
