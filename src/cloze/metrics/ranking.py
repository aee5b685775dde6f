"""Scores of a ranking: how far up the relevant documents of each query stand.

A ranking is given as the relevance of its documents from the first to the last, 0 for a document that is not
relevant or that nobody judged. All agree with `trec_eval`, given the same order of the documents.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CUTOFF = 10
"""Ranks that MRR and nDCG look at."""
RECALL_CUTOFF = 100


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """A query's documents as they were ranked, and what there was to find."""

    relevance: Sequence[int]
    """From the first rank on; 0 = not relevant."""
    judged: Sequence[int]
    """Of every document that is relevant to the query, ranked or not: at least one."""


def ranking_scores(queries: Sequence[RankedQuery]) -> dict[str, float]:
    """Return the means over queries of MRR@10, nDCG@10, average precision (their mean is MAP) and recall@100."""
    return {
        f"mrr@{CUTOFF}": _mean([reciprocal_rank(query, CUTOFF) for query in queries]),
        f"ndcg@{CUTOFF}": _mean([ndcg(query, CUTOFF) for query in queries]),
        "map": _mean([average_precision(query) for query in queries]),
        f"recall@{RECALL_CUTOFF}": _mean([recall(query, RECALL_CUTOFF) for query in queries]),
    }


def reciprocal_rank(query: RankedQuery, cutoff: int) -> float:
    """Return 1 / the rank of the first relevant document; 0 where none is among the first `cutoff`."""
    found = np.flatnonzero(np.asarray(query.relevance[:cutoff]) > 0)
    return 1 / (int(found[0]) + 1) if len(found) else 0.0


def ndcg(query: RankedQuery, cutoff: int) -> float:
    """Return the sum of relevance / log2(rank + 1) over the first `cutoff`, as a share of the most there can be.

    Source: Järvelin and Kekäläinen 2002, with the gain linear in the relevance, as trec_eval has it.
    """
    ideal = sorted(query.judged, reverse=True)
    return _discounted(query.relevance[:cutoff]) / _discounted(ideal[:cutoff])


def average_precision(query: RankedQuery) -> float:
    """Return the mean, over all relevant documents, of the precision at their ranks; 0 for one not ranked."""
    ranks = np.flatnonzero(np.asarray(query.relevance) > 0) + 1
    return float((np.arange(1, len(ranks) + 1) / ranks).sum() / len(query.judged))


def recall(query: RankedQuery, cutoff: int) -> float:
    """Return the share of the relevant documents that stand among the first `cutoff`."""
    return int((np.asarray(query.relevance[:cutoff]) > 0).sum()) / len(query.judged)


def _discounted(relevance: Sequence[int]) -> float:
    return float((np.asarray(relevance) / np.log2(np.arange(len(relevance)) + 2)).sum())


def _mean(values: list[float]) -> float:
    return float(np.mean(values))
