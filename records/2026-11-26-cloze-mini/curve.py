"""Draw curve.svg: held-out words named, by tokens read. python curve.py"""

import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

mpl.rcParams["svg.hashsalt"] = "cloze"
here = Path(__file__).parent
rows = [json.loads(line) for line in (here / "metrics.jsonl").read_text().splitlines()]
train = [row for row in rows if row["kind"] == "train"]
held_out = [row for row in rows if row["kind"] == "validation"]
steps, tokens = zip(*((row["step"], row["tokens"] / 1e6) for row in [{"step": 0, "tokens": 0}, *train]), strict=True)
read = np.interp([row["step"] for row in held_out], steps, tokens)
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
axes.plot(read, [100 * row["masked_lm_accuracy"] for row in held_out], marker="o", markersize=3)
axes.axvspan(read[-1] / 2, read[-1], alpha=0.1)
axes.text(0.75 * read[-1], axes.get_ylim()[0] + 0.4, "the rate falls", ha="center")
axes.set_xlabel("million tokens read, after the first 75 million")
axes.set_ylabel("held-out words named, %")
figure.savefig(here / "curve.svg", metadata={"Date": None})
