"""Cosines of vectors in one number format with those in float32, by tokens of the text.

    python cosines.py MODEL LINES [--precision int8]
"""

import argparse
import json
from pathlib import Path

import numpy as np

import cloze

parser = argparse.ArgumentParser()
parser.add_argument("model")
parser.add_argument("lines", type=Path)
parser.add_argument("--precision", default="int8")
arguments = parser.parse_args()

exact, rounded = (
    cloze.Embedder.load(arguments.model, precision=precision, device="cpu")
    for precision in ("float32", arguments.precision)
)
texts = [line for line in arguments.lines.read_text("utf-8").splitlines() if line.strip()]
lengths = np.array([len(ids) + 2 for ids in exact.token_ids(texts)])
first, second = exact(texts), rounded(texts)
cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
table = {}
for low, high in ((3, 5), (6, 8), (9, 16), (17, 32), (33, 64), (65, 512)):
    chosen = cosines[(lengths >= low) & (lengths <= high)]
    if len(chosen):
        table[f"{low} to {high}"] = {"texts": len(chosen), "mean": float(chosen.mean()), "least": float(chosen.min())}
table["all"] = {"texts": len(cosines), "mean": float(cosines.mean()), "least": float(cosines.min())}
print(json.dumps(table, indent=1))
