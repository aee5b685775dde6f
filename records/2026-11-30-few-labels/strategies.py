# ruff: noqa: D103, T201
"""Accuracy of a logistic head after each batch of labels, by strategy; held-back labels of the pools."""

import json
import sys
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from cloze.inference.next_labels import choose_central

CACHE, SETS, MODELS, SEEDS = (
    Path(sys.argv[1]),
    sys.argv[2].split(","),
    sys.argv[3].split(","),
    int(sys.argv[4]),
)
START, BATCH, END = 20, 20, 300


def fit(vectors, labels):
    center = vectors.mean(0)
    scale = np.sqrt(((vectors - center) ** 2).sum(1).mean())
    model = LogisticRegression(C=1.0 * (1 + (len(np.unique(labels)) == 2)), max_iter=1000)
    model.fit((vectors - center) / scale, labels)
    return lambda rows: model.predict_proba((rows - center) / scale), model.classes_


def kmeans_pp(squares, product, count, rng, weights=None):
    """k-means++ seeding; `product(i)` are the inner products with row i."""
    chosen = [int(np.argmax(squares))]
    distances = np.maximum(squares + squares[chosen[0]] - 2 * product(chosen[0]), 0)
    while len(chosen) < count:
        chances = distances * (1 if weights is None else weights)
        chances[chosen] = 0
        i = int(rng.choice(len(chances), p=chances / chances.sum()))
        chosen.append(i)
        distances = np.minimum(distances, np.maximum(squares + squares[i] - 2 * product(i), 0))
    return chosen


def badge(vectors, chances, count, rng):
    errors = chances - np.eye(chances.shape[1])[chances.argmax(1)]
    squares = (errors**2).sum(1) * (vectors**2).sum(1)
    return kmeans_pp(squares, lambda i: (errors @ errors[i]) * (vectors @ vectors[i]), count, rng)


def entropy(chances):
    return -(chances * np.log(np.maximum(chances, 1e-12))).sum(1)


def margin(chances):
    ordered = np.sort(chances, 1)
    return 1 - (ordered[:, -1] - ordered[:, -2])


def k_center(vectors, known, candidates, count):
    distances = (
        np.min(((vectors[candidates][:, None] - known[None]) ** 2).sum(-1), 1) if len(known) < 400 else None
    )
    chosen = []
    for _ in range(count):
        i = int(np.argmax(distances))
        chosen.append(i)
        distances = np.minimum(distances, ((vectors[candidates] - vectors[candidates][i]) ** 2).sum(1))
    return [candidates[i] for i in chosen]


def select(strategy, pool, labeled, vectors, chances, rng):
    rest = np.setdiff1d(pool, labeled)
    p = chances[rest]
    if strategy == "random":
        return rng.choice(rest, BATCH, replace=False)
    if strategy == "entropy":
        return rest[np.argsort(-entropy(p))[:BATCH]]
    if strategy == "margin":
        return rest[np.argsort(-margin(p))[:BATCH]]
    if strategy == "badge":
        return rest[badge(vectors[rest], p, BATCH, rng)]
    if strategy == "kcenter":
        return np.array(k_center(vectors, vectors[labeled], rest, BATCH))
    if strategy == "margin+kcenter":
        top = rest[np.argsort(-margin(p))[: 10 * BATCH]]
        return np.array(k_center(vectors, vectors[labeled], top, BATCH))
    if strategy == "margin+kmeans":  # Zhdanov 2019: weighted k-means of the most informative
        from sklearn.cluster import KMeans

        order = np.argsort(-margin(p))[: 10 * BATCH]
        top = rest[order]
        means = KMeans(BATCH, n_init=1, random_state=0).fit(
            vectors[top], sample_weight=margin(p)[order] + 1e-9
        )
        distances = ((vectors[top][:, None] - means.cluster_centers_[None]) ** 2).sum(-1)
        return np.unique(top[distances.argmin(0)])
    if strategy == "next-labels":  # as `cloze next-labels`
        margins = 1 - margin(p)
        order = np.argsort(margins, kind="stable")[: 10 * BATCH]
        return rest[order[choose_central(vectors[rest[order]], 1 - margins[order], BATCH)]]
    raise ValueError(strategy)


def main():
    for name in SETS:
        data = dict(np.load(CACHE / f"{name}.npz"))
        labels, gold = data["pool_labels"], data["test_labels"]
        for model in MODELS:
            vectors, test = (data[f"{part}_{model}"].astype(float) for part in ("pool", "test"))
            center = vectors.mean(0)
            vectors, test = vectors - center, test - center
            for strategy in sys.argv[5].split(","):
                for seed in range(SEEDS):
                    rng = np.random.default_rng(seed)
                    pool = np.arange(len(labels))
                    labeled = rng.choice(pool, START, replace=False)
                    curve = []
                    while True:
                        predict, classes = fit(vectors[labeled], labels[labeled])
                        curve.append(float((classes[predict(test).argmax(1)] == gold).mean()))
                        if len(labeled) >= END:
                            break
                        chosen = select(strategy, pool, labeled, vectors, predict(vectors), rng)
                        labeled = np.concatenate([labeled, chosen])
                    row = {"set": name, "model": model, "strategy": strategy, "seed": seed, "curve": curve}
                    print(json.dumps(row), flush=True)


main()
