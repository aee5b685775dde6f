"""Find the nearest texts or words by exact cosine similarity, in a file of vectors or in a model's word embeddings.

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
_MIN_COSINE = 0.99  # of a text's vector and its row, which may be computed in bfloat16 and stored as float16


@dataclass(frozen=True, slots=True, repr=False)
class Neighbor(Result):
    """A row with a high cosine."""

    row: int
    """From 1: the line of the text, or the row of the table."""
    text: str
    cosine: float


def open_vectors(path: Path) -> pyarrow.parquet.ParquetFile:
    """Open a file of vectors of texts or words, which `cloze embed` wrote as .parquet."""
    check_file(path)
    try:
        file = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)
    except (pyarrow.ArrowException, OSError) as error:
        what = f"not a Parquet file: {error}"
        raise InputError(what, where=path, remedy="Write one with cloze embed -o FILE.parquet") from error
    names = file.schema_arrow.names
    if "vector" not in names or not {"text", "word"} & set(names):
        what = f"has the columns {', '.join(names)}, not text or word, and vector"
        raise InputError(what, where=path, remedy="Give a file of cloze embed")
    return file


def _read_chunks(path: Path, chunk_size: int) -> Iterator[Chunk]:
    file, start = open_vectors(path), 0
    names = file.schema_arrow.names
    of_words = "word" in names
    columns = ["word" if of_words else "text", *(["line"] if "line" in names and not of_words else [])]
    try:
        for batch in file.iter_batches(chunk_size, columns=[*columns, "vector"]):
            vectors = batch["vector"].flatten().to_numpy(zero_copy_only=False)
            end = start + len(batch)
            lines = batch["line"].to_pylist() if "line" in columns else range(start + 1, end + 1)
            yield lines, batch[columns[0]].to_pylist(), vectors.reshape(len(batch), -1)
            start = end
    except (pyarrow.ArrowException, OSError) as error:
        what = f"damaged: {str(error).splitlines()[0]}"
        raise InputError(what, where=path, remedy="Embed it again") from error


def neighbors_in_file(
    embedder: Embedder, path: Path, query: str, *, top_k: int = 10, chunk_size: int = 16_384
) -> list[Neighbor]:
    """Return the rows nearest to a text, in a file of words to the mean of its words, without the text itself."""
    _, texts, vectors = next(_read_chunks(path, chunk_size), ((), (), np.empty((0, 0))))
    if not len(vectors):
        raise InputError("contains no vectors", where=path)
    if vectors.shape[1] != embedder.width:
        what = f"vectors of {vectors.shape[1]} numbers, the model makes {embedder.width}"
        raise InputError(what, where=path, remedy="Give the model and flags that it was made with")
    of_words = "word" in open_vectors(path).schema_arrow.names
    if not of_words:
        cosine = float(normalize(vectors[0].astype(np.float32)) @ normalize(embedder(texts[0])))
        if cosine < _MIN_COSINE:
            what = f"row 1 is not the model's vector of its text (cosine {cosine:.2f})"
            raise InputError(what, where=path, remedy="Give the model and flags that it was made with")
    target = _vector_of_words(embedder, query) if of_words else embedder(query)
    return _nearest(_read_chunks(path, chunk_size), target, top_k, excluded={query}, where=path)


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
