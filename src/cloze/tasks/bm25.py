"""BM25, by the library bm25s: which passages share rare words with a query (Robertson and Zaragoza 2009)."""

from collections.abc import Container, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cloze.extras import require


def bm25_scores(queries: Iterable[str], passages: Sequence[str]) -> Iterator[npt.NDArray[np.float32]]:
    """Score all passages, query by query, with the library's defaults and English stop words left out.

    Shapes: [P] of each query.

    Raises:
        InputError: bm25s is not installed.
    """
    require(["bm25s"], extra="tasks", where="BM25")
    import bm25s

    tokens = bm25s.tokenize(list(passages), stopwords="en", show_progress=False)
    index = bm25s.BM25()
    vocabulary: Container[str] = ()
    if any(tokens.ids):  # of stop words alone the library makes no index
        index.index(tokens, show_progress=False)
        vocabulary = index.vocab_dict
    for query in queries:
        [words] = bm25s.tokenize([query], stopwords="en", return_ids=False, show_progress=False)
        known = [word for word in words if word in vocabulary]
        yield index.get_scores(known) if known else np.zeros(len(passages), np.float32)


def bm25_order(queries: Iterable[str], passages: Sequence[str]) -> Iterator[npt.NDArray[np.int64]]:
    """Give, query by query, the numbers of the passages, the best first; of equal ones the earlier.

    Shapes: [P] of each query.

    Raises:
        InputError: bm25s is not installed.
    """
    return (np.argsort(-scores, kind="stable") for scores in bm25_scores(queries, passages))
