"""Find the nearest texts in a file of vectors, or the nearest tokens of a model, by exact cosine similarity.

Shapes: D width of a vector, C rows of a chunk.
"""

import heapq
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from cloze.results import Result
from cloze.tasks.arrays import normalize
from cloze.tokenization.special_tokens import UNUSED

Chunk: TypeAlias = tuple[Sequence[int], Sequence[str], npt.NDArray[Any]]
"""C rows from 1, their texts, and their vectors [C, D]."""
_MIN_COSINE = 0.99  # of a text's vector and its row, which may be computed in bfloat16


@dataclass(frozen=True, slots=True, repr=False)
class Neighbor(Result):
    """A row with a high cosine."""

    row: int
    """From 1: the line of the text, or the row of the table."""
    text: str
    cosine: float


def _read_chunks(path: Path, chunk_size: int) -> Iterator[Chunk]:
    """Yield the rows of a file of texts that `cloze embed` wrote as .parquet."""
    check_file(path)
    try:
        file, start = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True), 0
        names = file.schema_arrow.names
        if not {"vector", "text"} <= set(names):
            what = f"has the columns {', '.join(names)}, not text and vector"
            raise InputError(what, where=path, remedy="Give a file of texts of cloze embed")
        columns = [name for name in ("line", "text", "vector") if name in names]
        for batch in file.iter_batches(chunk_size, columns=columns):
            vectors = batch["vector"].flatten().to_numpy(zero_copy_only=False)
            end = start + len(batch)
            lines = batch["line"].to_pylist() if "line" in columns else range(start + 1, end + 1)
            yield lines, batch["text"].to_pylist(), vectors.reshape(len(batch), -1)
            start = end
    except (pyarrow.ArrowException, OSError) as error:
        what = f"no Parquet file, or damaged: {str(error).splitlines()[0]}"
        raise InputError(what, where=path, remedy="Write it with cloze embed -o FILE.parquet") from error


def neighbors_in_file(
    embedder: Embedder, path: Path, query: str, *, top_k: int = 10, chunk_size: int = 16_384
) -> list[Neighbor]:
    """Return the rows nearest to a text, without the text itself."""
    _, texts, vectors = next(_read_chunks(path, chunk_size), ((), (), np.empty((0, 0))))
    if not len(vectors):
        raise InputError("contains no vectors", where=path)
    remedy = "Give the model and flags that it was made with"
    if vectors.shape[1] != embedder.width:
        what = f"vectors of {vectors.shape[1]} numbers, the model makes {embedder.width}"
        raise InputError(what, where=path, remedy=remedy)
    cosine = float(normalize(vectors[0].astype(np.float32)) @ normalize(embedder(texts[0])))
    if cosine < _MIN_COSINE:
        what = f"row 1 is not the model's vector of its text (cosine {cosine:.2f})"
        raise InputError(what, where=path, remedy=remedy)
    return _nearest(_read_chunks(path, chunk_size), embedder(query), top_k, excluded={query}, where=path)


def neighbors_in_table(embedder: Embedder, query: str, *, top_k: int) -> list[Neighbor]:
    """Return the tokens whose word embeddings are nearest to a word's or the mean of several; row is token id + 1."""
    tokenizer = embedder.tokenizer
    [words] = embedder.words([query])
    if not words.words:
        raise InputError(f"no word in {query!r}", remedy="Give a word")
    encoding = tokenizer.encode(query)
    if tokenizer.unknown_id in encoding.input_ids:
        what = f"a word of {query!r} is not in the vocabulary, and would have the vector of [UNK]"
        raise InputError(what, remedy="Give another word")
    excluded = {*encoding.tokens}
    excluded |= {tokenizer.tokens[i] for i in tokenizer.special_ids}
    excluded |= {token for token in tokenizer.tokens if UNUSED.fullmatch(token)}
    table_VD = embedder.encoder.embeddings.word_embeddings.weight.detach().float().cpu().numpy()
    ids = range(1, tokenizer.vocab_size + 1)
    chunk = (ids, tokenizer.tokens, table_VD[: tokenizer.vocab_size])
    return _nearest(
        [chunk], words.vectors.mean(0), top_k, excluded=excluded, where="the table of word embeddings"
    )


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
