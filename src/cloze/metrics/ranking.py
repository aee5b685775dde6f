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
    """Return the means over queries of MRR@10, nDCG@10, average precision (MAP) and recall@100.

    nDCG is the sum of relevance / log2(rank + 1), divided by that of an ideal ranking.

    Source: Järvelin and Kekäläinen 2002 (nDCG), with a linear gain, as in trec_eval.
    """
    scores = []
    for query in queries:
        ranks = np.flatnonzero(np.asarray(query.relevance) > 0) + 1
        gain = _discounted(query.relevance[:CUTOFF])
        ideal = _discounted(sorted(query.judged, reverse=True)[:CUTOFF])
        precision = np.arange(1, len(ranks) + 1) / ranks
        num_found = np.count_nonzero(ranks <= RECALL_CUTOFF)
        reciprocal_rank = 1 / ranks[0] if len(ranks) and ranks[0] <= CUTOFF else 0.0
        scores.append(
            (
                reciprocal_rank,
                gain / ideal,
                precision.sum() / len(query.judged),
                num_found / len(query.judged),
            )
        )
    names = (f"mrr@{CUTOFF}", f"ndcg@{CUTOFF}", "map", f"recall@{RECALL_CUTOFF}")
    return {
        name: float(np.mean(values)) for name, values in zip(names, zip(*scores, strict=True), strict=True)
    }


def _discounted(relevance: Sequence[int]) -> float:
    return float((np.asarray(relevance) / np.log2(np.arange(len(relevance)) + 2)).sum())
