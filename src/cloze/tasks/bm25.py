"""BM25, by the library bm25s: which passages share rare words with a query (Robertson and Zaragoza 2009)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cloze.extras import require


def bm25_scores(queries: Sequence[str], passages: Sequence[str]) -> npt.NDArray[np.float32]:
    """Score every passage for every query, with the library's defaults and English stop words left out.

    Shapes: [Q, P].

    Raises:
        InputError: bm25s is not installed.
    """
    require(["bm25s"], extra="tasks", where="BM25")
    import bm25s

    scores = np.zeros((len(queries), len(passages)), np.float32)
    tokens = bm25s.tokenize(list(passages), stopwords="en", show_progress=False)
    if not any(tokens.ids):  # stop words alone, of which the library makes no index
        return scores
    index = bm25s.BM25()
    index.index(tokens, show_progress=False)
    for row, query in zip(scores, queries, strict=True):
        [words] = bm25s.tokenize([query], stopwords="en", return_ids=False, show_progress=False)
        if known := [word for word in words if word in index.vocab_dict]:
            row[:] = index.get_scores(known)
    return scores


def bm25_order(queries: Sequence[str], passages: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the numbers of the passages for each query, the best first; of equal ones the earlier.

    Shapes: [Q, P].

    Raises:
        InputError: bm25s is not installed.
    """
    return np.argsort(-bm25_scores(queries, passages), axis=1, kind="stable")
