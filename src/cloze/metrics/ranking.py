"""Metrics of ranking, equal to those of `trec_eval` for the same order of the documents.

A ranking is the relevance of its documents in order; 0 is not relevant or not judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CUTOFF = 10
"""Number of ranks for MRR and nDCG."""
RECALL_CUTOFF = 100


@dataclass(frozen=True, slots=True)
class RankedQuery:
    """The ranked documents of a query, and all of its relevant documents."""

    relevance: Sequence[int]
    """Of the ranked documents, in order."""
    judged: Sequence[int]
    """Of all relevant documents, ranked or not; at least one."""


def ranking_scores(queries: Sequence[RankedQuery]) -> dict[str, float]:
    """Return the means over queries of MRR@10, nDCG@10, average precision (MAP) and recall@100."""
    return {
        f"mrr@{CUTOFF}": float(np.mean([reciprocal_rank(query, CUTOFF) for query in queries])),
        f"ndcg@{CUTOFF}": float(np.mean([ndcg(query, CUTOFF) for query in queries])),
        "map": float(np.mean([average_precision(query) for query in queries])),
        f"recall@{RECALL_CUTOFF}": float(np.mean([recall(query, RECALL_CUTOFF) for query in queries])),
    }


def reciprocal_rank(query: RankedQuery, cutoff: int) -> float:
    """Return 1 / the rank of the first relevant document; 0 if it is beyond `cutoff`."""
    relevant = np.flatnonzero(np.asarray(query.relevance[:cutoff]) > 0)
    return 1 / (int(relevant[0]) + 1) if len(relevant) else 0.0


def ndcg(query: RankedQuery, cutoff: int) -> float:
    """Return the sum of relevance / log2(rank + 1) over the first `cutoff`, divided by that of an ideal ranking.

    Source: Järvelin and Kekäläinen 2002, with a linear gain, as in trec_eval.
    """
    ideal = sorted(query.judged, reverse=True)
    return _discounted(query.relevance[:cutoff]) / _discounted(ideal[:cutoff])


def average_precision(query: RankedQuery) -> float:
    """Return the mean precision at the ranks of all relevant documents; 0 for those not ranked."""
    ranks = np.flatnonzero(np.asarray(query.relevance) > 0) + 1
    return float((np.arange(1, len(ranks) + 1) / ranks).sum() / len(query.judged))


def recall(query: RankedQuery, cutoff: int) -> float:
    """Return the share of the relevant documents among the first `cutoff`."""
    return int((np.asarray(query.relevance[:cutoff]) > 0).sum()) / len(query.judged)


def _discounted(relevance: Sequence[int]) -> float:
    return float((np.asarray(relevance) / np.log2(np.arange(len(relevance)) + 2)).sum())
