"""Files of texts to files of vectors, any number of them in bounded memory.

.npy      the vectors alone: row i is of line i
.parquet  columns text and vector; of words line, word, start, end and vector
.jsonl    the same as JSON lines
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet
import torch

from cloze.corpus.streams import STDIN, is_compressed
from cloze.errors import InputError
from cloze.executor import Workers, map_ordered
from cloze.inference.embed import Embedder, EmbeddingConfig, Vectors
from cloze.progress import SILENT, Progress
from cloze.stores import Place, cache_directory, is_url, refuse_existing_file, write_file_to
from cloze.tasks.tables import check_is_text, count_rows, is_table, read_lines, read_rows
from cloze.text.characters import replace_lone_surrogates
from cloze.training.workers import Workplace, find_workplace

Of: TypeAlias = Literal["texts", "words"]
Stored: TypeAlias = npt.NDArray[np.float32] | npt.NDArray[np.float16]

_TEXTS_AT_ONCE = 2048
_CHARACTERS_AT_ONCE: Mapping[Of, int] = MappingProxyType({"texts": 1 << 19, "words": 1 << 16})
"""A vector a word takes more memory than one a text."""
_TYPES = MappingProxyType(
    {"text": pyarrow.string(), "word": pyarrow.string()}
    | dict.fromkeys(("line", "start", "end"), pyarrow.int64())
)


@dataclass(frozen=True, slots=True)
class EmbeddedFile:
    """What was written."""

    texts: int
    vectors: int
    width: int
    truncated: int
    """Texts that were longer than what is read of one."""
    empty: int
    """Texts of white space, whose vectors are of [CLS] [SEP] alone."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Some neighbouring texts of the input."""

    first_line: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a part becomes."""

    columns: dict[str, list[Any]]
    """Beside the vectors, by name."""
    vectors: Stored
    counts: tuple[int, int, int, int]
    """Texts, vectors, texts that were cut, empty texts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileConfig:
    """How a file is read, worked on and written."""

    of: Of = "texts"
    """What a vector is of."""
    text_column: str = "text"
    """Where tables have the text."""
    idf_source: Place | None = None
    """Where pieces are counted for idf_mean; None is the input itself, which is then read twice."""
    storage: Literal["float32", "float16"] = "float32"
    """Number format of the vectors in the file."""
    workers: Workers = 1
    """Processes, of a machine without an accelerator; or a cluster."""
    device: str = "auto"
    """cpu, cuda, mps or auto."""


def embed_file(
    model: Path,
    source: Place,
    output: Place,
    config: EmbeddingConfig,
    file: FileConfig,
    *,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> EmbeddedFile:
    """Write the vectors of a file's texts, in their order; memory does not grow with their number.

    Args:
        model: a checkpoint or a run.
        source: text, a text a line, or a table, by a path or a URL; - is stdin. An empty line is a text, so that rows
            are lines.
        output: a path or a URL that ends in .npy, .parquet or .jsonl. It is there when all of it is written, or not
            at all.
        config: which vectors are made.
        file: how the file is read, worked on and written.
        overwrite: replace the output where it exists.
        progress: where to tell how far it is.

    Raises:
        InputError: a file or a setting is wrong, or a number is too large for the storage.
        RunError: the disk is full, or a worker died.
    """
    refuse_existing_file(output, overwrite=overwrite, source=source)
    write = _writer(output, file.of)
    workplace = find_workplace(file.workers, file.device)
    embedder = Embedder.load(model, config, device=workplace.device_here)
    if config.pooling == "idf_mean":
        if file.idf_source is None and str(source) == STDIN:
            what = "stdin can be read only once, and idf_mean counts pieces first"
            raise InputError(what, where="pooling", remedy="Name a text to count in with --idf-from")
        embedder = embedder.with_idf(read_texts(file.idf_source or source, file.text_column))
    parts = _parts(read_texts(source, file.text_column), _CHARACTERS_AT_ONCE[file.of])
    counts = np.zeros(4, np.int64)
    with (
        progress.bar("embedding", total=_count_texts(source), unit="texts") as bar,
        write_file_to(output, room=cache_directory()) as temporary,
    ):
        work = _work(embedder, model, config, file.of, workplace)

        def rows() -> Iterator[_Rows]:
            for made in map_ordered(work, parts, workers=workplace.workers):
                yield replace(made, vectors=_as_stored(made.vectors, file.storage))
                counts[:] += made.counts
                bar.advance(made.counts[0])

        write(rows(), temporary, embedder.width, np.dtype(file.storage))
        if not counts[0]:
            raise InputError("holds no text", where=source)
    texts, vectors, truncated, empty = counts.tolist()
    return EmbeddedFile(texts, vectors, embedder.width, truncated, empty)


def read_texts(path: Place, text_column: str = "text") -> Iterator[str]:
    """Yield the lines of a text file, or the cells of a table's column.

    Raises:
        InputError: no such file or column, or a line that cannot be read.
    """
    if is_table(path):
        for row in read_rows(path, [text_column]):
            yield replace_lone_surrogates(row.text(text_column))
    else:
        check_is_text(path)
        for line, _ in read_lines(path):
            yield line


def _count_texts(source: Place) -> int | None:
    """Return about how many texts there are, where that is known before they are read."""
    if is_table(source):
        return count_rows(source)
    if is_url(source) or not Path(source).is_file() or is_compressed(str(source)):
        return None
    with Path(source).open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(partial(stream.read, 1 << 20), b""))


def _parts(texts: Iterable[str], max_characters: int) -> Iterator[_Part]:
    part: list[str] = []
    first_line, characters = 1, 0
    for line, text in enumerate(texts, 1):
        part.append(text)
        characters += len(text)
        if len(part) == _TEXTS_AT_ONCE or characters >= max_characters:
            yield _Part(first_line, tuple(part))
            part, first_line, characters = [], line + 1, 0
    if part:
        yield _Part(first_line, tuple(part))


def _work(
    embedder: Embedder, model: Path, config: EmbeddingConfig, of: Of, workplace: Workplace
) -> Callable[[_Part], _Rows]:
    """Return what makes rows of a part, here or in a worker, which reads the model itself."""
    if workplace.is_here:
        return partial(_rows_of, embedder, of)
    loading = _Loading(uuid.uuid4().hex, model, config, workplace)
    return partial(_rows_of_worker, loading, embedder.idf, of)


@dataclass(frozen=True, slots=True)
class _Loading:
    """How a worker comes to its embedder."""

    call: str
    """Tells models apart that were in the same place."""
    model: Path
    config: EmbeddingConfig
    workplace: Workplace


def _rows_of_worker(loading: _Loading, idf: Vectors | None, of: Of, part: _Part) -> _Rows:
    return _rows_of(replace(_embedder_of_worker(loading), idf=idf), of, part)


@lru_cache(maxsize=1)  # a worker sees many parts
def _embedder_of_worker(loading: _Loading) -> Embedder:
    torch.set_num_threads(loading.workplace.threads)
    return Embedder.load(loading.model, loading.config, device=loading.workplace.device)


def _rows_of(embedder: Embedder, of: Of, part: _Part) -> _Rows:
    """Make vectors of some texts, or of their words."""
    empty = sum(not text.strip() for text in part.texts)
    if of == "texts":
        made = embedder.embed(part.texts)
        counts = (len(part.texts), len(part.texts), made.num_truncated, empty)
        return _Rows({"text": list(part.texts)}, made.vectors, counts)
    found = embedder.words(part.texts)
    words = [(line, word) for line, own in enumerate(found, part.first_line) for word in own.words]
    columns: dict[str, list[Any]] = {
        "line": [line for line, _ in words],
        "word": [word.text for _, word in words],
        "start": [word.start for _, word in words],
        "end": [word.end for _, word in words],
    }
    vectors = np.concatenate([own.vectors for own in found])
    return _Rows(columns, vectors, (len(found), len(words), sum(own.is_truncated for own in found), empty))


def _as_stored(vectors: Stored, storage: str) -> Stored:
    """Return vectors in the number format of the file.

    Raises:
        InputError: a number is too large for it.
    """
    with np.errstate(over="ignore"):
        stored: Stored = vectors.astype(storage)
    if not np.isfinite(stored).all():
        what = f"{np.abs(vectors).max():g} is too large for {storage}"
        raise InputError(what, where="dtype", remedy="Say --dtype float32, or --normalize")
    return stored


def _writer(output: Place, of: Of) -> Callable[[Iterator[_Rows], Path, int, np.dtype[Any]], None]:
    """Return what writes the format that a name asks for.

    Raises:
        InputError: it asks for none, or for one that has no room for words.
    """
    ending = Path(output).suffix
    if ending not in _WRITERS:
        remedy = f"Its name must end in {', '.join(_WRITERS)}"
        raise InputError("not a format for vectors", where=output, remedy=remedy)
    if of == "words" and ending == ".npy":
        remedy = "Write words to .parquet or .jsonl"
        raise InputError("has no room for words beside their vectors", where=output, remedy=remedy)
    return _WRITERS[ending]


def _write_npy(rows: Iterator[_Rows], path: Path, width: int, dtype: np.dtype[Any]) -> None:
    """Append vectors; the number of rows is filled in at the end: NumPy's header leaves room for it."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False}
    count = 0
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {**header, "shape": (0, width)})
        begin = stream.tell()
        for some in rows:
            stream.write(np.ascontiguousarray(some.vectors).data)
            count += len(some.vectors)
        stream.seek(0)
        np.lib.format.write_array_header_1_0(stream, {**header, "shape": (count, width)})
        assert stream.tell() == begin


def _write_parquet(rows: Iterator[_Rows], path: Path, width: int, dtype: np.dtype[Any]) -> None:
    writer = None
    try:
        for some in rows:
            flat = pyarrow.array(some.vectors.reshape(-1))
            vectors = pyarrow.FixedSizeListArray.from_arrays(flat, width)
            # a part may have no rows, and then nothing to tell a type from
            columns = {name: pyarrow.array(own, _TYPES[name]) for name, own in some.columns.items()}
            table = pyarrow.table({**columns, "vector": vectors})
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(path, table.schema, use_dictionary=list(some.columns))
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _write_json_lines(rows: Iterator[_Rows], path: Path, width: int, dtype: np.dtype[Any]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for some in rows:
            for *values, vector in zip(*some.columns.values(), some.vectors, strict=True):
                row = dict(zip(some.columns, values, strict=True)) | {"vector": vector.tolist()}
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")


_WRITERS = MappingProxyType({".npy": _write_npy, ".parquet": _write_parquet, ".jsonl": _write_json_lines})
