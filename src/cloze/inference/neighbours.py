"""What is nearest to a text among vectors in a file, or to a word in a model's table: every row is looked at.

Shapes: D width of a vector, C rows read at once.
"""

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow
import pyarrow.parquet

from cloze.errors import InputError
from cloze.inference.embed import Embedder, Vectors
from cloze.inference.embedding_files import read_texts
from cloze.stores import Place
from cloze.text.pieces import SPECIAL_PIECES, UNUSED

_ROWS_AT_ONCE = 16_384
_NONE: npt.NDArray[np.int64] = np.empty(0, np.int64)
_SAME = 0.99  # cosine of a text's vector with its row, which may be of bfloat16 and stored as float16


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A row that is near."""

    row: int
    """From 1: the line of the text, or the row of the table."""
    text: str
    cosine: float


@dataclass(frozen=True, slots=True)
class VectorFile:
    """Vectors of texts, or of words, in a file of `cloze embed`.

    Args:
        path: .npy or .parquet.
        lines: beside an .npy, the file that was embedded.
        text_column: where that is a table, the column with the text.
    """

    path: Path
    lines: Path | None = None
    text_column: str = "text"

    def __post_init__(self) -> None:
        if not self.path.is_file():
            raise InputError("no such file", where=self.path)
        if self.path.suffix not in (".npy", ".parquet"):
            remedy = "Give an .npy or a .parquet of cloze embed"
            raise InputError("not a file of vectors", where=self.path, remedy=remedy)
        if (self.lines is None) != (self.path.suffix == ".parquet"):
            wants = "says nothing of its texts" if self.lines is None else "has its texts in it"
            remedy = f"{'Give' if self.lines is None else 'Leave out'} --texts, the file that was embedded"
            raise InputError(wants, where=self.path, remedy=remedy)

    @property
    def is_of_words(self) -> bool:
        """Whether a vector is of a word."""
        return self.lines is None and "word" in _open_parquet(self.path).schema_arrow.names

    def vectors(self) -> Iterator[npt.NDArray[Any]]:
        """Yield the rows, [C, D], some at a time.

        Raises:
            InputError: the file is damaged, or holds something else.
        """
        if self.path.suffix == ".npy":
            rows = _open_npy(self.path)
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                yield rows[start : start + _ROWS_AT_ONCE]
            return
        for batch in _open_parquet(self.path).iter_batches(_ROWS_AT_ONCE, columns=["vector"]):
            lists = batch.column("vector")
            yield lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1)

    def texts(self) -> Iterator[str]:
        """Yield what each vector is of."""
        if self.lines is not None:
            yield from read_texts(self.lines, self.text_column)
            return
        column = "word" if self.is_of_words else "text"
        for batch in _open_parquet(self.path).iter_batches(_ROWS_AT_ONCE, columns=[column]):
            yield from batch.column(column).to_pylist()


def neighbours_in_file(
    embedder: Embedder,
    file: VectorFile,
    query: str,
    *,
    plus: Sequence[str] = (),
    minus: Sequence[str] = (),
    top_k: int = 10,
    idf_source: Place | None = None,
) -> list[Neighbour]:
    """Return the rows nearest to a text, by cosine; the texts given are left out.

    Args:
        embedder: makes vectors as those of the file were made.
        file: the vectors.
        query: a text; where the file is of words, the mean of its words is meant.
        plus: texts whose vectors of length 1 are added to the query's.
        minus: texts whose vectors are taken away.
        top_k: how many rows.
        idf_source: where pieces were counted for idf_mean; None is the texts of the file.

    Raises:
        InputError: the file is damaged, or its vectors are not of this embedder; it is of words, and the vocabulary has
            not one of those given.
    """
    first = next(file.vectors(), None)
    if first is None:
        raise InputError("holds no vectors", where=file.path)
    if first.shape[1] != embedder.width:
        what = f"vectors of {first.shape[1]} numbers, the model makes {embedder.width}"
        raise InputError(what, where=file.path, remedy="Give the model and flags that it was made with")
    if embedder.pooling == "idf_mean" and not file.is_of_words:
        counted = file.texts() if idf_source is None else read_texts(idf_source, file.text_column)
        embedder = embedder.with_idf(counted)
    if not file.is_of_words:
        _check_made_by(embedder, file, first[0])
    target = _combined(embedder, [query, *plus], minus, of_words=file.is_of_words)
    given = {query, *plus, *minus}
    left_out = np.array([row for row, text in enumerate(file.texts()) if text in given], np.int64)
    near = _nearest(file.vectors(), target, top_k, file.path, left_out)
    texts = _texts_at(file, [row for row, _ in near])
    return [Neighbour(row + 1, texts[row], cosine) for row, cosine in near]


def neighbours_in_table(
    embedder: Embedder,
    query: str,
    *,
    plus: Sequence[str] = (),
    minus: Sequence[str] = (),
    top_k: int = 10,
) -> list[Neighbour]:
    """Return the word pieces whose rows in the model's table are nearest to a word's; a row is a piece's id and 1.

    Args:
        embedder: of the layer 0.
        query: a word; of several pieces or words, the mean is meant.
        plus: words whose vectors of length 1 are added to the query's.
        minus: words whose vectors are taken away.
        top_k: how many pieces.

    Raises:
        InputError: there is no word in a text, or one that the vocabulary has not.
    """
    tokenizer = embedder.tokenizer
    target = _combined(embedder, [query, *plus], minus, of_words=True)
    given = {i for text in (query, *plus, *minus) for i in tokenizer.encode(text).input_ids}
    other = {
        i for i, piece in enumerate(tokenizer.pieces) if piece in SPECIAL_PIECES or UNUSED.fullmatch(piece)
    }
    rows_VD = embedder.model.embeddings.word_embeddings.weight.detach().float().cpu().numpy()
    rows = [i for i in range(tokenizer.vocab_size) if i not in given | other]
    near = _nearest(iter([rows_VD[rows]]), target, top_k, "the table of word embeddings")
    return [Neighbour(rows[i] + 1, tokenizer.pieces[rows[i]], cosine) for i, cosine in near]


def _combined(embedder: Embedder, plus: Sequence[str], minus: Sequence[str], *, of_words: bool) -> Vectors:
    """Return the sum of vectors of length 1, those of `minus` taken away."""
    texts = [*plus, *minus]
    if of_words:
        found = embedder.words(texts)
        for text, own in zip(texts, found, strict=True):
            if not own.words:
                raise InputError(f"no word in {text!r}", remedy="Give a word")
            if embedder.tokenizer.unk_id in embedder.tokenizer.encode(text).input_ids:
                what = f"a word of {text!r} is not in the vocabulary: all such have the vector of [UNK]"
                raise InputError(what, remedy="Give another word")
        vectors = np.stack([own.vectors.mean(0) for own in found])
    else:
        vectors = embedder(texts)
    signs = np.array([1] * len(plus) + [-1] * len(minus), np.float32)
    combined: Vectors = signs @ _of_length_1(vectors)
    return combined


def _of_length_1(vectors: npt.NDArray[Any]) -> Vectors:
    vectors = vectors.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found by the caller
        lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
        unit: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit


def _nearest(
    chunks: Iterator[npt.NDArray[Any]],
    target: Vectors,
    count: int,
    where: object,
    left_out: npt.NDArray[np.int64] = _NONE,
) -> list[tuple[int, float]]:
    """Return the rows with the highest cosines, and these; of equal ones the first. Those left out are sorted."""
    target = _of_length_1(target)
    best: list[tuple[float, int]] = []
    start = 0
    for chunk in chunks:
        cosines = _of_length_1(chunk) @ target
        if not np.isfinite(cosines).all():
            row = start + int(np.flatnonzero(~np.isfinite(cosines))[0]) + 1
            raise InputError(f"row {row} holds NaN or infinite values", where=where, remedy="Embed it anew")
        first, last = np.searchsorted(left_out, [start, start + len(chunk)])
        cosines[left_out[first:last] - start] = -np.inf
        order = np.argsort(-cosines, kind="stable")[:count]
        order = order[np.isfinite(cosines[order])]
        found = zip(cosines[order].tolist(), (-start - order).tolist(), strict=True)
        best = heapq.nlargest(count, [*best, *found])
        start += len(chunk)
    return [(-row, cosine) for cosine, row in best]


def _texts_at(file: VectorFile, rows: Collection[int]) -> dict[int, str]:
    """Return the texts of some rows.

    Raises:
        InputError: there are more or fewer texts than vectors.
    """
    wanted, texts = set(rows), {}
    number = -1
    for number, text in enumerate(file.texts()):
        if number in wanted:
            texts[number] = text
    num_rows = sum(len(chunk) for chunk in file.vectors())
    if number + 1 != num_rows:
        what = f"{num_rows:,} vectors, and {number + 1:,} texts in {file.lines}"
        raise InputError(what, where=file.path, remedy="Give the file that was embedded")
    return texts


def _check_made_by(embedder: Embedder, file: VectorFile, row: npt.NDArray[Any]) -> None:
    """Refuse vectors that the embedder does not make of their texts, by the first of them."""
    texts = list(islice(file.texts(), 1))
    cosine = float(_of_length_1(row) @ _of_length_1(embedder(texts)[0])) if texts else 0.0
    if cosine < _SAME:
        what = f"row 1 is not what the model makes of its text (cosine {cosine:.2f})"
        remedy = "Give the model and flags that it was made with, and its own texts"
        raise InputError(what, where=file.path, remedy=remedy)


def _open_npy(path: Path) -> npt.NDArray[Any]:
    try:
        rows: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise InputError(f"not an .npy file: {error}", where=path) from error
    if rows.ndim != 2 or rows.dtype.kind != "f":
        what = f"{rows.dtype} of shape {list(rows.shape)}, not vectors [rows, width]"
        raise InputError(what, where=path)
    return rows


def _open_parquet(path: Path) -> pyarrow.parquet.ParquetFile:
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"not a Parquet file: {error}", where=path) from error
    names = file.schema_arrow.names
    if "vector" not in names or not {"text", "word"} & set(names):
        what = f"has the columns {', '.join(names)}, not text or word, and vector"
        raise InputError(what, where=path, remedy="Give a file of cloze embed")
    return file
