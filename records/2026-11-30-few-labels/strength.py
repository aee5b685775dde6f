# ruff: noqa: D103, E741, T201
"""Compare variances of the prior on held-out rows of the pools; the test rows are not read."""

import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

VARIANCES = (0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)


def main():
    torch.set_num_threads(1)
    print("| set | vectors | rows a class |", *(f"{v:g} |" for v in VARIANCES))
    total = []
    for name in ("sst2", "cola", "mrpc", "authors", "genres"):
        data = dict(np.load(Path(sys.argv[1]) / f"{name}.npz"))
        labels = data["pool_labels"]
        for model in ("cloze-mini-sentences", "MiniLM"):
            vectors = data[f"pool_{model}"].astype(float)
            for size in (4, 16, 64, 256):
                table = []
                for seed in range(5):
                    order = np.random.default_rng(100 + seed).permutation(len(labels))
                    rows = np.concatenate(
                        [order[labels[order] == label][:size] for label in np.unique(labels)]
                    )
                    if min(np.unique(labels[rows], return_counts=True)[1]) < size:
                        continue
                    rest = np.setdiff1d(order, rows)
                    rest = np.concatenate([rest[labels[rest] == label][:40] for label in np.unique(labels)])
                    center = vectors[rows].mean(0)
                    scale = np.sqrt(((vectors[rows] - center) ** 2).sum(1).mean())
                    both = len(np.unique(labels)) == 2
                    scores = []
                    for variance in VARIANCES:
                        fit = LogisticRegression(C=variance * (1 + both), max_iter=2000)
                        fit.fit((vectors[rows] - center) / scale, labels[rows])
                        chances = fit.predict_proba((vectors[rest] - center) / scale)
                        gold = np.searchsorted(fit.classes_, labels[rest])
                        right = (chances.argmax(1) == gold).mean()
                        scores.append((right, -np.log(chances[np.arange(len(gold)), gold]).mean()))
                    table.append(scores)
                if len(table) == 5:
                    mean = np.mean(table, 0)
                    total.append(mean)
                    print(
                        f"| {name} | {model} | {size} |",
                        *(f"{100 * a:.1f} ({l:.2f}) |" for a, l in mean),
                        flush=True,
                    )
    print("| mean | | |", *(f"{100 * a:.1f} ({l:.2f}) |" for a, l in np.mean(total, 0)))


main()
