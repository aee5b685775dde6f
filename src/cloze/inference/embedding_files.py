"""Embed the texts of a file and write their vectors, in bounded memory.

.npy      vectors only: row i belongs to line i, and an empty line is refused
.parquet  columns line, text and vector, without empty lines; of words line, word, start, end and vector
.jsonl    the same as JSON lines
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow

from cloze.choices import Clean
from cloze.data.reading.columns import Column
from cloze.data.reading.formats import open_source
from cloze.data.reading.source import ReadOptions
from cloze.data.reading.tables import parse_rows
from cloze.data.row_files import write_tables
from cloze.errors import InputError
from cloze.inference.embedder import Embedder, Vectors
from cloze.parallel_map import Workers, map_ordered
from cloze.progress import SILENT, Progress
from cloze.remote_files import PathOrUrl, check_output_file, write_file_to
from cloze.results import Result
from cloze.tokenization.unicode import replace_lone_surrogates
from cloze.tokenization.unknown import NONE_UNKNOWN, UnknownWords, count_unknown
from cloze.training.workers import LoadedPerWorker, place_workers

Unit: TypeAlias = Literal["texts", "words"]

_MAX_CHARACTERS: Mapping[Unit, int] = MappingProxyType({"texts": 1 << 19, "words": 1 << 16})
"""Of a part; one vector per word takes more memory than one per text."""
_ARROW_TYPES: Mapping[Unit, dict[str, pyarrow.DataType]] = MappingProxyType(
    {
        "texts": {"line": pyarrow.int64(), "text": pyarrow.string()},
        "words": {
            "line": pyarrow.int64(),
            "word": pyarrow.string(),
            "start": pyarrow.int64(),
            "end": pyarrow.int64(),
        },
    }
)


@dataclass(frozen=True, slots=True, repr=False)
class EmbeddingFileSummary(Result):
    """Counts of the texts read and the vectors written."""

    texts: int
    vectors: int
    width: int
    truncated: int
    """Texts longer than `max_seq_length`."""
    empty: int
    """Texts of white space, which have no vector."""
    unknown: int
    """Texts with words that the vocabulary does not know."""


_Part: TypeAlias = tuple[int, list[str]]
"""Consecutive texts of the input, and the line of the first one."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """The output rows of a part."""

    columns: dict[str, list[Any]]
    """All columns but the vectors, by name."""
    vectors: Vectors
    counts: tuple[int, int, int, int]
    """Texts, vectors, truncated texts, empty texts."""
    unknown: UnknownWords


def write_vectors(  # noqa: PLR0913 (the settings of a verb)
    load: "partial[Embedder]",
    source: PathOrUrl,
    output: PathOrUrl,
    *,
    of: Unit = "texts",
    text_column: str = "text",
    encoding: str | None = None,
    clean: Clean | None = None,
    workers: Workers = 1,
    device: str = "auto",
    texts_per_part: int = 2048,
    overwrite: bool = False,
    progress: Progress = SILENT,
) -> EmbeddingFileSummary:
    """Write the vectors of a file's texts, in their order and in bounded memory, to .npy, .parquet or .jsonl."""
    check_output_file(output, overwrite=overwrite, source=source)
    suffix = Path(output).suffix
    formats = [".parquet", ".jsonl"] if of == "words" else [".npy", ".parquet", ".jsonl"]
    if suffix not in formats:
        remedy = f"Its name must end in {', '.join(formats)}"
        raise InputError(f"not a format for vectors of {of}", where=output, remedy=remedy)
    if clean is not None and of == "words":
        what = "changes the characters that words are written with"
        raise InputError(what, where="clean", remedy="Leave it out, or leave out `tokens`")
    placement = place_workers(workers, device)
    embedder = load(device=placement.local_device)
    load = partial(load, device=placement.device)
    get = (lambda: embedder) if placement.in_process else LoadedPerWorker(load, placement.threads).get
    embed_part = partial(_embed_part, get, of)
    texts = read_texts(source, text_column, encoding, clean)
    parts = _split(texts, texts_per_part, _MAX_CHARACTERS[of], where=source, allows_empty=suffix != ".npy")
    counts = np.zeros(4, np.int64)
    unknown = NONE_UNKNOWN
    with progress.bar("embedding", total=None, unit="texts") as bar, write_file_to(output) as temporary:

        def rows() -> Iterator[_Rows]:
            nonlocal unknown
            for part in map_ordered(embed_part, parts, workers=placement.workers):
                yield part
                counts[:] += part.counts
                unknown += part.unknown
                bar.advance(part.counts[0])

        if suffix == ".npy":
            _write_npy(rows(), temporary, embedder.width)
        else:
            _write_tables(rows(), temporary, suffix, of, embedder.width)
        if not counts[1]:
            raise InputError("contains no text", where=source)
    unknown.warn("texts", where=source)
    num_texts, num_vectors, truncated, empty = counts.tolist()
    return EmbeddingFileSummary(num_texts, num_vectors, embedder.width, truncated, empty, unknown.unknown)


def read_texts(
    path: PathOrUrl, text_column: str = "text", encoding: str | None = None, clean: Clean | None = None
) -> Iterator[str]:
    """Yield the lines of a text file, or the cells of a table's column."""
    column = Column("text", names=(text_column,), flag="`text_column=NAME`")
    options = ReadOptions(reader="texts", columns=(column,), encoding=encoding, clean=clean)
    return parse_rows(open_source(path, options), lambda row: replace_lone_surrogates(row.text("text")))


def _split(
    texts: Iterable[str], max_texts: int, max_characters: int, *, where: PathOrUrl, allows_empty: bool
) -> Iterator[_Part]:
    part: list[str] = []
    first_line, characters = 1, 0
    for line, text in enumerate(texts, 1):
        if not allows_empty and not text.strip():
            remedy = "Remove it, or write .parquet or .jsonl, whose rows have the number of their line"
            raise InputError("an empty text has no vector", where=f"{where}:{line}", remedy=remedy)
        part.append(text)
        characters += len(text)
        if len(part) == max_texts or characters >= max_characters:
            yield first_line, part
            part, first_line, characters = [], line + 1, 0
    if part:
        yield first_line, part


def _embed_part(get_embedder: Callable[[], Embedder], of: Unit, part: _Part) -> _Rows:
    embedder = get_embedder()
    first_line, texts = part
    num_texts, num_empty = len(texts), sum(not text.strip() for text in texts)
    if of == "texts":
        lines = [line for line, text in enumerate(texts, first_line) if text.strip()]
        texts = [text for text in texts if text.strip()]
        result = embedder.embed(texts)
        counts = (num_texts, len(texts), result.num_truncated, num_empty)
        return _Rows({"line": lines, "text": texts}, result.vectors, counts, result.unknown)
    words_of_text = embedder.words(texts)
    words = [(line, word) for line, text in enumerate(words_of_text, first_line) for word in text.words]
    columns: dict[str, list[Any]] = {
        "line": [line for line, _ in words],
        "word": [word.text for _, word in words],
        "start": [word.start for _, word in words],
        "end": [word.end for _, word in words],
    }
    vectors = np.concatenate([text.vectors for text in words_of_text])
    num_truncated = sum(text.is_truncated for text in words_of_text)
    unknown = count_unknown(embedder.tokenizer, texts, embedder.token_ids(texts))
    return _Rows(columns, vectors, (num_texts, len(words), num_truncated, num_empty), unknown)


def _write_npy(rows: Iterator[_Rows], path: Path, width: int) -> None:
    """Append vectors; at the end, write their number into the header, which NumPy pads for that."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False}
    count = 0
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {**header, "shape": (0, width)})
        start = stream.tell()
        for part in rows:
            stream.write(np.ascontiguousarray(part.vectors).data)
            count += len(part.vectors)
        stream.seek(0)
        np.lib.format.write_array_header_1_0(stream, {**header, "shape": (count, width)})
        assert stream.tell() == start


def _write_tables(rows: Iterator[_Rows], path: Path, suffix: str, of: Unit, width: int) -> None:
    """Write the columns and vectors of parts."""
    vector = pyarrow.list_(pyarrow.float32(), width)
    schema = pyarrow.schema([*_ARROW_TYPES[of].items(), ("vector", vector)])

    def tables() -> Iterator[pyarrow.Table]:
        for part in rows:
            vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(part.vectors.reshape(-1)), width)
            yield pyarrow.table({**part.columns, "vector": vectors}, schema=schema)

    write_tables(tables(), schema, path, suffix)
