"""Find the nearest texts or words by exact cosine similarity, in a file of vectors or in a model's word embeddings.

Shapes: D width of a vector, C rows of a chunk.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet

from cloze.data.reading.files import check_file
from cloze.errors import InputError
from cloze.inference.embedder import Embedder, Vectors
from cloze.inference.embedding_files import read_texts
from cloze.results import Result
from cloze.tasks.arrays import normalize
from cloze.tokenization.special_tokens import UNUSED

Chunk: TypeAlias = tuple[Sequence[int], Sequence[str], npt.NDArray[Any]]
"""C rows from 1, their texts, and their vectors [C, D]."""
_MIN_COSINE = 0.99  # of a text's vector and its row, which may be computed in bfloat16 and stored as float16


@dataclass(frozen=True, slots=True, repr=False)
class Neighbor(Result):
    """A row with a high cosine."""

    row: int
    """From 1: the line of the text, or the row of the table."""
    text: str
    cosine: float


@dataclass(frozen=True, slots=True)
class VectorFile:
    """Vectors of texts or words in a file of `cloze embed`, .npy with the embedded file (`lines`) or .parquet."""

    path: Path
    lines: Path | None = None
    text_column: str = "text"
    chunk_size: int = 16_384

    def __post_init__(self) -> None:
        check_file(self.path)
        if self.path.suffix != (".parquet" if self.lines is None else ".npy"):
            remedy = "Give a .parquet file of cloze embed, or an .npy file and the embedded one as `texts`"
            raise InputError("not a file of vectors and texts", where=self.path, remedy=remedy)

    @property
    def is_of_words(self) -> bool:
        return self.lines is None and "word" in _open_parquet(self.path).schema_arrow.names

    def chunks(self) -> Iterator[Chunk]:
        """Yield the texts or words with their vectors."""
        if self.lines is None:
            yield from self._read_parquet()
            return
        try:
            with np.errstate(over="ignore"):
                rows: npt.NDArray[Any] = np.lib.format.open_memmap(self.path, mode="r")
        except (ValueError, OverflowError, MemoryError, OSError) as error:  # the head may claim any size
            raise InputError(f"not an .npy file: {error}", where=self.path) from error
        if rows.ndim != 2 or rows.dtype.kind != "f":
            what = f"{rows.dtype} of shape {list(rows.shape)}, not vectors [rows, width]"
            raise InputError(what, where=self.path)
        all_texts = read_texts(self.lines, self.text_column)
        for start in range(0, len(rows), self.chunk_size):
            end = min(start + self.chunk_size, len(rows))
            texts = list(islice(all_texts, end - start))
            num_texts = start + len(texts) + (sum(1 for _ in all_texts) if end == len(rows) else 0)
            if num_texts < end or (end == len(rows) < num_texts):
                what = f"{len(rows):,} vectors, and {num_texts:,} texts in {self.lines}"
                raise InputError(what, where=self.path, remedy="Give the file that was embedded")
            yield range(start + 1, end + 1), texts, rows[start:end]

    def _read_parquet(self) -> Iterator[Chunk]:
        file, start = _open_parquet(self.path), 0
        names = ["word"] if self.is_of_words else ["text", "line"]
        columns = [name for name in (*names, "vector") if name in file.schema_arrow.names]
        try:
            for batch in file.iter_batches(self.chunk_size, columns=columns):
                vectors = batch["vector"].flatten().to_numpy(zero_copy_only=False)
                end = start + len(batch)
                lines = batch["line"].to_pylist() if "line" in columns else range(start + 1, end + 1)
                yield lines, batch[names[0]].to_pylist(), vectors.reshape(len(batch), -1)
                start = end
        except (pyarrow.ArrowException, OSError) as error:
            what = f"damaged: {str(error).splitlines()[0]}"
            raise InputError(what, where=self.path, remedy="Embed it again") from error


def _open_parquet(path: Path) -> pyarrow.parquet.ParquetFile:
    try:
        file = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"not a Parquet file: {error}", where=path) from error
    names = file.schema_arrow.names
    if "vector" not in names or not {"text", "word"} & set(names):
        what = f"has the columns {', '.join(names)}, not text or word, and vector"
        raise InputError(what, where=path, remedy="Give a file of cloze embed")
    return file


def neighbors_in_file(embedder: Embedder, file: VectorFile, query: str, *, top_k: int = 10) -> list[Neighbor]:
    """Return the rows nearest to a text, in a file of words to the mean of its words, without the text itself."""
    _, texts, vectors = next(file.chunks(), ((), (), np.empty((0, 0))))
    if not len(vectors):
        raise InputError("contains no vectors", where=file.path)
    if vectors.shape[1] != embedder.width:
        what = f"vectors of {vectors.shape[1]} numbers, the model makes {embedder.width}"
        raise InputError(what, where=file.path, remedy="Give the model and flags that it was made with")
    if not file.is_of_words:
        cosine = float(normalize(vectors[0].astype(np.float32)) @ normalize(embedder(texts[0])))
        if cosine < _MIN_COSINE:
            what = f"row 1 is not the model's vector of its text (cosine {cosine:.2f})"
            remedy = "Give the model and flags that it was made with, and its own texts"
            raise InputError(what, where=file.path, remedy=remedy)
    target = _vector_of_words(embedder, query) if file.is_of_words else embedder(query)
    return _nearest(file.chunks(), target, top_k, excluded={query}, where=file.path)


def neighbors_in_table(embedder: Embedder, query: str, *, top_k: int) -> list[Neighbor]:
    """Return the tokens whose word embeddings are nearest to a word's or the mean of several; row is token id + 1."""
    tokenizer = embedder.tokenizer
    target = _vector_of_words(embedder, query)
    excluded = {*tokenizer.encode(query).tokens}
    excluded |= {tokenizer.tokens[i] for i in tokenizer.special_ids}
    excluded |= {token for token in tokenizer.tokens if UNUSED.fullmatch(token)}
    table_VD = embedder.encoder.embeddings.word_embeddings.weight.detach().float().cpu().numpy()
    ids = range(1, tokenizer.vocab_size + 1)
    chunk = (ids, tokenizer.tokens, table_VD[: tokenizer.vocab_size])
    return _nearest([chunk], target, top_k, excluded=excluded, where="the table of word embeddings")


def _vector_of_words(embedder: Embedder, text: str) -> Vectors:
    """Return the mean of the words of a text, [D]."""
    [words] = embedder.words([text])
    if not words.words:
        raise InputError(f"no word in {text!r}", remedy="Give a word")
    if embedder.tokenizer.unknown_id in embedder.tokenizer.encode(text).input_ids:
        what = f"a word of {text!r} is not in the vocabulary, and would have the vector of [UNK]"
        raise InputError(what, remedy="Give another word")
    mean: Vectors = words.vectors.mean(0)
    return mean


def _nearest(
    chunks: Iterable[Chunk], target: Vectors, count: int, *, excluded: Collection[str], where: object
) -> list[Neighbor]:
    """Return the rows with the highest cosines, the first of equal ones, without the texts `excluded`."""
    target = normalize(target)
    nearest: list[Neighbor] = []
    for rows, texts, vectors in chunks:
        with np.errstate(over="ignore", invalid="ignore"):
            cosines = normalize(vectors.astype(np.float32)) @ target
        if not np.isfinite(cosines).all():
            row = rows[np.flatnonzero(~np.isfinite(cosines))[0]]
            raise InputError(f"row {row} holds NaN or infinite values", where=where, remedy="Embed it again")
        cosines[[i for i, text in enumerate(texts) if text in excluded]] = -np.inf
        order = np.argsort(-cosines, kind="stable")[:count]
        candidates = (Neighbor(rows[i], texts[i], float(cosines[i])) for i in order.tolist())
        nearest = heapq.nlargest(count, [*nearest, *candidates], key=attrgetter("cosine"))
    return [neighbor for neighbor in nearest if neighbor.cosine > -np.inf]
