"""Find the nearest texts or words by exact cosine similarity, in a file of vectors or in a model's word embeddings.

Shapes: D width of a vector, C rows of a chunk.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet

from cloze.errors import InputError
from cloze.inference.embedder import Embedder
from cloze.inference.embedding_files import read_texts
from cloze.inference.word_vectors import Vectors
from cloze.remote_files import PathOrUrl
from cloze.results import Result
from cloze.tokenization.special_tokens import UNUSED

_NO_ROWS: npt.NDArray[np.int64] = np.empty(0, np.int64)
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
    """Vectors of texts or words in a file of `cloze embed`.

    Args:
        path: .npy or .parquet.
        lines: the embedded file, for an .npy.
        text_column: column with the text, if that file is a table.
        chunk_size: rows that are read at once.
    """

    path: Path
    lines: Path | None = None
    text_column: str = "text"
    chunk_size: int = 16_384

    def __post_init__(self) -> None:
        if not self.path.is_file():
            raise InputError("no such file", where=self.path)
        if self.path.suffix not in (".npy", ".parquet"):
            remedy = "Give an .npy or .parquet file of cloze embed"
            raise InputError("not a file of vectors", where=self.path, remedy=remedy)
        if self.lines is None and self.path.suffix == ".npy":
            remedy = "Give `texts`, the file that was embedded"
            raise InputError("contains no texts", where=self.path, remedy=remedy)
        if self.lines is not None and self.path.suffix == ".parquet":
            raise InputError("contains its texts", where=self.path, remedy="Leave out `texts`")

    @property
    def is_of_words(self) -> bool:
        """Whether the vectors are of words."""
        return self.lines is None and "word" in _open_parquet(self.path).schema_arrow.names

    def vectors(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the rows in chunks, [C, D].

        Raises:
            InputError: the file is damaged, or contains something else.
        """
        if self.path.suffix == ".npy":
            try:
                with np.errstate(over="ignore"):
                    rows: npt.NDArray[Any] = np.lib.format.open_memmap(self.path, mode="r")
            except (ValueError, OverflowError, MemoryError, OSError) as error:  # the head may claim any size
                raise InputError(f"not an .npy file: {error}", where=self.path) from error
            if rows.ndim != 2 or rows.dtype.kind != "f":
                what = f"{rows.dtype} of shape {list(rows.shape)}, not vectors [rows, width]"
                raise InputError(what, where=self.path)
            for start in range(0, len(rows), self.chunk_size):
                yield rows[start : start + self.chunk_size]
        else:
            for lists in self._read_column("vector"):
                yield lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1)

    def texts(self) -> Iterator[str]:
        """Yield the text or word of each row."""
        if self.lines is not None:
            yield from read_texts(self.lines, self.text_column)
        else:
            for texts in self._read_column("word" if self.is_of_words else "text"):
                yield from texts.to_pylist()

    def _read_column(self, name: str) -> Iterator[Any]:
        batches = _open_parquet(self.path).iter_batches(self.chunk_size, columns=[name])
        try:
            for batch in batches:
                yield batch.column(name)
        except (pyarrow.ArrowException, OSError) as error:
            what = f"damaged: {str(error).splitlines()[0]}"
            raise InputError(what, where=self.path, remedy="Embed it again") from error


def neighbors_in_file(
    embedder: Embedder,
    file: VectorFile,
    query: str,
    *,
    plus: Sequence[str] = (),
    minus: Sequence[str] = (),
    top_k: int = 10,
    idf_source: PathOrUrl | None = None,
) -> list[Neighbor]:
    """Return the rows nearest to a text, without those of the texts given.

    Args:
        embedder: with the settings that made the file.
        query: a text; in a file of words, the mean of its words.
        plus: texts whose normalized vectors are added to the query's; those of `minus` are subtracted.
        idf_source: texts in which tokens were counted for idf_mean; None is the texts of the file.

    Raises:
        InputError: the file is damaged or was made with another model or settings, or a word is not in the vocabulary.
    """
    first = next(file.vectors(), None)
    if first is None:
        raise InputError("contains no vectors", where=file.path)
    if first.shape[1] != embedder.width:
        what = f"vectors of {first.shape[1]} numbers, the model makes {embedder.width}"
        raise InputError(what, where=file.path, remedy="Give the model and flags that it was made with")
    if embedder.pooling == "idf_mean" and not file.is_of_words:
        idf_texts = file.texts() if idf_source is None else read_texts(idf_source, file.text_column)
        embedder = embedder.with_idf(idf_texts)
    if not file.is_of_words:
        texts = list(islice(file.texts(), 1))
        cosine = float(_normalize(first[0]) @ _normalize(embedder(texts)[0])) if texts else 0.0
        if cosine < _MIN_COSINE:
            what = f"row 1 is not the model's vector of its text (cosine {cosine:.2f})"
            remedy = "Give the model and flags that it was made with, and its own texts"
            raise InputError(what, where=file.path, remedy=remedy)
    target = _combine(embedder, [query, *plus], minus, of_words=file.is_of_words)
    queries = {query, *plus, *minus}
    excluded = np.array([row for row, text in enumerate(file.texts()) if text in queries], np.int64)
    nearest = _nearest(file.vectors(), target, top_k, file.path, excluded)
    text_at = _texts_at(file, {row for row, _ in nearest})
    return [Neighbor(row + 1, text_at[row], cosine) for row, cosine in nearest]


def neighbors_in_table(
    embedder: Embedder,
    query: str,
    *,
    plus: Sequence[str] = (),
    minus: Sequence[str] = (),
    top_k: int = 10,
) -> list[Neighbor]:
    """Return the tokens whose word embeddings are nearest to a word's; their row is the token id + 1.

    Args:
        embedder: of layer 0.
        query: a word; of several tokens or words, the mean.
        plus: words whose normalized vectors are added to the query's; those of `minus` are subtracted.

    Raises:
        InputError: a text has no word, or one that is not in the vocabulary.
    """
    tokenizer = embedder.tokenizer
    target = _combine(embedder, [query, *plus], minus, of_words=True)
    excluded = {i for text in (query, *plus, *minus) for i in tokenizer.encode(text).input_ids}
    excluded |= tokenizer.special_ids
    excluded |= {i for i, token in enumerate(tokenizer.tokens) if UNUSED.fullmatch(token)}
    table_VD = embedder.model.embeddings.word_embeddings.weight.detach().float().cpu().numpy()
    ids = [i for i in range(tokenizer.vocab_size) if i not in excluded]
    nearest = _nearest(iter([table_VD[ids]]), target, top_k, "the table of word embeddings")
    return [Neighbor(ids[row] + 1, tokenizer.tokens[ids[row]], cosine) for row, cosine in nearest]


def _combine(embedder: Embedder, plus: Sequence[str], minus: Sequence[str], *, of_words: bool) -> Vectors:
    """Return the sum of the normalized vectors, those of `minus` subtracted."""
    texts = [*plus, *minus]
    if of_words:
        words_of_text = embedder.words(texts)
        for text, words in zip(texts, words_of_text, strict=True):
            if not words.words:
                raise InputError(f"no word in {text!r}", remedy="Give a word")
            if embedder.tokenizer.unk_id in embedder.tokenizer.encode(text).input_ids:
                what = f"a word of {text!r} is not in the vocabulary, and would have the vector of [UNK]"
                raise InputError(what, remedy="Give another word")
        vectors = np.stack([words.vectors.mean(0) for words in words_of_text])
    else:
        vectors = embedder(texts)
    signs = np.array([1] * len(plus) + [-1] * len(minus), np.float32)
    combined: Vectors = signs @ _normalize(vectors)
    return combined


def _normalize(vectors: npt.NDArray[Any]) -> Vectors:
    vectors = vectors.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks for values that are not finite
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        normalized: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return normalized


def _nearest(
    chunks: Iterator[npt.NDArray[Any]],
    target: Vectors,
    count: int,
    where: object,
    excluded: npt.NDArray[np.int64] = _NO_ROWS,
) -> list[tuple[int, float]]:
    """Return the rows with the highest cosines, and these; the first of equal ones. `excluded` is sorted."""
    target = _normalize(target)
    best: list[tuple[float, int]] = []
    start = 0
    for chunk in chunks:
        cosines = _normalize(chunk) @ target
        if not np.isfinite(cosines).all():
            row = start + int(np.flatnonzero(~np.isfinite(cosines))[0]) + 1
            raise InputError(f"row {row} holds NaN or infinite values", where=where, remedy="Embed it again")
        first, last = np.searchsorted(excluded, [start, start + len(chunk)])
        cosines[excluded[first:last] - start] = -np.inf
        order = np.argsort(-cosines, kind="stable")[:count]
        order = order[np.isfinite(cosines[order])]
        candidates = zip(cosines[order].tolist(), (-start - order).tolist(), strict=True)
        best = heapq.nlargest(count, [*best, *candidates])
        start += len(chunk)
    return [(-row, cosine) for cosine, row in best]


def _texts_at(file: VectorFile, rows: set[int]) -> dict[int, str]:
    """Return the texts of some rows.

    Raises:
        InputError: the number of texts is not that of the vectors.
    """
    texts = {}
    num_texts = 0
    for number, text in enumerate(file.texts()):
        num_texts += 1
        if number in rows:
            texts[number] = text
    num_rows = sum(len(chunk) for chunk in file.vectors())
    if num_texts != num_rows:
        what = f"{num_rows:,} vectors, and {num_texts:,} texts in {file.lines}"
        raise InputError(what, where=file.path, remedy="Give the file that was embedded")
    return texts


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
