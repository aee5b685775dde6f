"""Score, size and speed of teacher and students, in float32 and int8: python measure.py RUNS SHARED_DATA -o FILE.json

RUNS has what `runs.sh` wrote: a run for each task, stage and seed, as in RUNS/sst2-teacher-0.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from cloze.export.int8 import export_int8
from cloze.inference.predictor import Predictor
from cloze.model_paths import resolve_checkpoint
from cloze.models.weight_files import WEIGHTS_FILE

TESTS = {"sst2": ("sst2", "glue/SST-2/dev.tsv"), "conll": ("conll2003", "ner/conll2003/eng.testb")}
STAGES = {"sst2": ("teacher", "plain", "distilled", "mini"), "conll": ("teacher", "plain", "distilled")}
SEEDS = (0, 1, 2)
TIMED = 800  # examples
ROUNDS = 5

parser = argparse.ArgumentParser()
parser.add_argument("runs", type=Path)
parser.add_argument("data", type=Path)
parser.add_argument("-o", type=Path, required=True)
arguments = parser.parse_args()


def seconds(predictor, examples):
    """Return how long all examples take."""
    start = time.perf_counter()
    predictor.predict(examples)
    return time.perf_counter() - start


result = {}
for prefix, (name, file) in TESTS.items():
    timed = {}
    for stage in STAGES[prefix]:
        scores = {"float32": [], "int8": []}
        for seed in SEEDS:
            run = arguments.runs / f"{prefix}-{stage}-{seed}"
            for precision, found in scores.items():
                predictor = Predictor.load(run, name, device="cpu", precision=precision)
                task = predictor.task
                examples = list(task.examples(arguments.data / file))
                found.append(100 * task.score(examples, predictor.predict(examples)[0])[task.main_metric])
                if seed == 0:
                    timed[stage, precision] = predictor
        checkpoint = resolve_checkpoint(arguments.runs / f"{prefix}-{stage}-0")
        with tempfile.TemporaryDirectory() as folder:
            export_int8(checkpoint, Path(folder) / "int8")
            sizes = {
                "float32": (checkpoint / WEIGHTS_FILE).stat().st_size,
                "int8": (Path(folder) / "int8" / WEIGHTS_FILE).stat().st_size,
            }
        for precision, found in scores.items():
            row = {"scores": found, "mean": statistics.mean(found), "deviation": statistics.stdev(found)}
            result[f"{name}, {stage}, {precision}"] = row | {"bytes": sizes[precision]}
            print(name, stage, precision, row, flush=True)
    few = examples[:: max(1, len(examples) // TIMED)][:TIMED]
    times = {key: [] for key in timed}
    for number in range(1 + ROUNDS):
        for key, predictor in timed.items():
            taken = seconds(predictor, few)
            if number:
                times[key].append(taken)
    for (stage, precision), taken in times.items():
        ratios = [base / mine for base, mine in zip(times["teacher", "float32"], taken, strict=True)]
        speed = {"texts_per_second": len(few) / statistics.median(taken), "times_teacher": statistics.median(ratios)}
        speed |= {"least_ratio": min(ratios), "most_ratio": max(ratios)}
        result[f"{name}, {stage}, {precision}"] |= speed
        print(name, stage, precision, speed, flush=True)
arguments.o.write_text(json.dumps(result, indent=1) + "\n")
