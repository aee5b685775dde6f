"""Ranking metrics, equal to those of trec_eval on random rankings."""

import random

import pytest
import pytrec_eval

from cloze.metrics.ranking import RankedQuery, ranking_scores

TREC_NAMES = {"mrr@10": "recip_rank", "ndcg@10": "ndcg_cut_10", "map": "map", "recall@100": "recall_100"}


def _random_query(chance: random.Random) -> tuple[dict[str, int], dict[str, float]]:
    """Return graded judgments of some of 200 documents, and distinct scores of some of them."""
    documents = [f"d{number}" for number in range(200)]
    judged = {d: chance.choice([0, 0, 1, 1, 2, 3]) for d in chance.sample(documents, chance.randint(1, 40))}
    judged[chance.choice(documents)] = 1
    ranked = chance.sample(documents, chance.randint(1, 200))
    return judged, {document: float(place) for place, document in enumerate(ranked)}


@pytest.mark.protected
def test_a_thousand_random_rankings_score_as_in_trec_eval():
    chance = random.Random(1)
    for _ in range(1000):
        judged, scores = _random_query(chance)
        order = sorted(scores, key=lambda document: -scores[document])
        query = RankedQuery([judged.get(d, 0) for d in order], [r for r in judged.values() if r > 0])
        ours = ranking_scores([query])
        measures = {"recip_rank", "ndcg_cut.10", "map", "recall.100"}
        theirs = pytrec_eval.RelevanceEvaluator({"q": judged}, measures).evaluate({"q": scores})["q"]
        if theirs["recip_rank"] < 1 / 10:  # theirs knows no cutoff
            theirs["recip_rank"] = 0.0
        assert ours == pytest.approx({name: theirs[trec] for name, trec in TREC_NAMES.items()})


def test_metrics_are_means_over_queries():
    found_first = RankedQuery([1, 0, 0], [1])
    found_never = RankedQuery([0, 0, 0], [1, 1])
    assert ranking_scores([found_first, found_never]) == dict.fromkeys(TREC_NAMES, 0.5)
