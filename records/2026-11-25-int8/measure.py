"""Scores of one model in several number formats on the same examples, with paired intervals.

    python measure.py TASK MODEL DATA [-n EXAMPLES] [--precisions float32,int8] -o FILE.json
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from cloze.inference.predictor import Predictor
from cloze.tasks.data import find_split_file

RESAMPLES = 500

parser = argparse.ArgumentParser()
parser.add_argument("task")
parser.add_argument("model")
parser.add_argument("data")
parser.add_argument("-n", type=int, default=None, help="examples from all over the data; default all")
parser.add_argument("--precisions", default="float32,bfloat16,int8")
parser.add_argument("-o", type=Path)
arguments = parser.parse_args()

predictions = {}
for precision in arguments.precisions.split(","):
    predictor = Predictor.load(arguments.model, arguments.task, device="cpu", precision=precision)
    task = predictor.task
    examples = list(task.examples(find_split_file(task, arguments.data, "dev")))
    if arguments.n:
        examples = examples[:: max(1, len(examples) // arguments.n)][: arguments.n]
    predictions[precision] = predictor.predict(examples)[0]


def score(precision, chosen):
    return task.score([examples[i] for i in chosen], [predictions[precision][i] for i in chosen])[task.metrics[0]]


everything = np.arange(len(examples))
scores = {precision: score(precision, everything) for precision in predictions}
scale = 1 if max(scores.values()) > 1.5 else 100  # points
generator = np.random.default_rng(0)
samples = [generator.integers(len(examples), size=len(examples)) for _ in range(RESAMPLES)]
reference, *others = predictions
base = [score(reference, sample) for sample in samples]
result = {"task": arguments.task, "model": Path(arguments.model).name, "metric": task.metrics[0], "examples": len(examples)}
result["scores"] = {precision: scale * value for precision, value in scores.items()}
for precision in others:
    differences = scale * (np.array([score(precision, sample) for sample in samples]) - base)
    low, high = np.quantile(differences, (0.025, 0.975))
    result[f"{precision} less {reference}"] = {
        "mean": scale * (scores[precision] - scores[reference]),
        "low": low,
        "high": high,
    }
text = json.dumps(result, indent=1)
print(text)
if arguments.o:
    arguments.o.write_text(text + "\n")
