"""BM25 ranking with the library bm25s (Robertson and Zaragoza 2009)."""

from collections.abc import Container, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cloze.optional_dependencies import require


def bm25_scores(queries: Iterable[str], passages: Sequence[str]) -> Iterator[npt.NDArray[np.float32]]:
    """Yield the scores of all passages [P] for each query, without English stop words."""
    require(["bm25s"], extra="experiments", where="BM25")
    import bm25s

    tokens = bm25s.tokenize(list(passages), stopwords="en", show_progress=False)
    index = bm25s.BM25()
    vocabulary: Container[str] = ()
    if any(tokens.ids):  # the library cannot index stop words alone
        index.index(tokens, show_progress=False)
        vocabulary = index.vocab_dict
    for query in queries:
        [words] = bm25s.tokenize([query], stopwords="en", return_ids=False, show_progress=False)
        known = [word for word in words if word in vocabulary]
        yield index.get_scores(known) if known else np.zeros(len(passages), np.float32)
