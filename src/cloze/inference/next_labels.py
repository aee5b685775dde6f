"""Choose the unlabeled rows to label next: uncertain ones that differ from each other.

Shapes: N rows, K clusters, D hidden.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cloze.errors import InputError
from cloze.inference.embedder import Vectors
from cloze.inference.predictor import Predictor
from cloze.models.engine import VectorOutput
from cloze.progress import Progress
from cloze.tasks.answers.one_label import OneLabel
from cloze.tasks.predict import compute_outputs

_CANDIDATES, _ROUNDS, _SEED = 10, 30, 0


def choose_next_labels(
    predictor: Predictor, examples: Sequence[Any], count: int, *, progress: Progress
) -> list[tuple[int, Any, float]]:
    """Return the indices of rows to label, their predictions and their margins, the least certain first.

    Source: Zhdanov 2019, "Diverse mini-batch active learning", algorithm 2.
    """
    answer = predictor.task.answer
    if not isinstance(answer, OneLabel):
        raise InputError("does not give one label a row", where="model", remedy="Give a classifier")
    engine = predictor.model.engine(VectorOutput("mean"))  # first: a graph has none
    predictions = [prediction for _, prediction in predictor.stream(examples, progress=progress)]
    margins_N = np.array([np.diff(sorted(p.probabilities.values()))[-1] for p in predictions])
    candidates = np.argsort(margins_N, kind="stable")[: _CANDIDATES * count]
    features = [predictor.features(examples[i])[0] for i in candidates]  # the first window of a long text
    vectors = compute_outputs(answer, engine, features)
    vectors_ND = np.stack([vectors[i] for i in range(len(vectors))])
    chosen = candidates[choose_central(vectors_ND, 1 - margins_N[candidates], count)]
    return [(int(i), predictions[i], float(margins_N[i])) for i in sorted(chosen, key=margins_N.__getitem__)]


def choose_central(vectors_ND: Vectors, weights_N: Vectors, count: int) -> list[int]:
    """Return a row near the center of each of `count` clusters, or all rows, by k-means with weights."""
    rng, count = np.random.default_rng(_SEED), min(count, len(vectors_ND))

    def squared_distances(centers_KD: Vectors) -> Vectors:
        products_NK = vectors_ND @ centers_KD.T
        distances_NK: Vectors = (vectors_ND**2).sum(1)[:, None] + (centers_KD**2).sum(1) - 2 * products_NK
        return np.maximum(distances_NK, 0)

    centers_KD = vectors_ND[[int(weights_N.argmax())]]
    while len(centers_KD) < count:  # k-means++
        chances_N = weights_N * squared_distances(centers_KD).min(1) + np.finfo(np.float32).tiny
        center = vectors_ND[rng.choice(len(vectors_ND), p=chances_N / chances_N.sum())]
        centers_KD = np.concatenate([centers_KD, center[None]])
    for _ in range(_ROUNDS):
        nearest_N = squared_distances(centers_KD).argmin(1)
        of_cluster_KN = weights_N * (nearest_N == np.arange(count)[:, None])
        sizes_K1 = of_cluster_KN.sum(1, keepdims=True)
        means_KD = of_cluster_KN @ vectors_ND / np.maximum(sizes_K1, np.finfo(np.float32).tiny)
        centers_KD = np.where(sizes_K1 > 0, means_KD, centers_KD)
    distances_NK, chosen = squared_distances(centers_KD), list[int]()
    for distances_N in distances_NK.T:
        distances_N[chosen] = np.inf
        chosen.append(int(distances_N.argmin()))
    return chosen
