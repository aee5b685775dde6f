"""Score, size and speed of teacher and students, in float32 and int8: python measure.py scores|times RUNS SHARED_DATA FILE.json

RUNS has what `runs.sh` wrote: a run for each task, stage and seed, as in RUNS/sst2-teacher-0. `times` adds to the file that
`scores` wrote; it wants an idle machine.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from cloze.export.int8 import export_int8
from cloze.inference.predictor import Predictor
from cloze.model_paths import resolve_checkpoint
from cloze.models.weight_files import WEIGHTS_FILE

TESTS = {"sst2": ("sst2", "glue/SST-2/dev.tsv"), "conll": ("conll2003", "ner/conll2003/eng.testb")}
STAGES = {"sst2": ("teacher", "plain", "distilled", "mini"), "conll": ("teacher", "plain", "distilled")}
PRECISIONS = ("float32", "int8")
SEEDS = (0, 1, 2)
TIMED = 800  # examples
ROUNDS = 5

what, runs, data, output = sys.argv[1], *map(Path, sys.argv[2:])


def load(prefix, stage, seed, precision):
    """Return the model of a run."""
    return Predictor.load(runs / f"{prefix}-{stage}-{seed}", TESTS[prefix][0], device="cpu", precision=precision)


def score(predictor, examples):
    """Return the main metric in percent."""
    task = predictor.task
    found = task.score(examples, predictor.predict(examples)[0])[task.main_metric]
    return found if task.name == "conll2003" else 100 * found


def sizes(prefix, stage):
    """Return the bytes of the weights in both formats."""
    checkpoint = resolve_checkpoint(runs / f"{prefix}-{stage}-0")
    with tempfile.TemporaryDirectory() as folder:
        export_int8(checkpoint, Path(folder) / "int8")
        files = (checkpoint / WEIGHTS_FILE, Path(folder) / "int8" / WEIGHTS_FILE)
        return [file.stat().st_size for file in files]


def measure_scores():
    """Return the row of each task, stage and precision."""
    rows = {}
    for prefix, (_, file) in TESTS.items():
        for stage in STAGES[prefix]:
            for precision, size in zip(PRECISIONS, sizes(prefix, stage), strict=True):
                scores = []
                for seed in SEEDS:
                    predictor = load(prefix, stage, seed, precision)
                    scores.append(score(predictor, list(predictor.task.examples(data / file))))
                spread = {"mean": statistics.mean(scores), "deviation": statistics.stdev(scores)}
                rows[f"{prefix}, {stage}, {precision}"] = {"scores": scores, **spread, "bytes": size}
                print(prefix, stage, precision, scores, flush=True)
    return rows


def measure_times(rows):
    """Add the speed of the first seed's models, timed in turn, to the rows."""
    for prefix, (_, file) in TESTS.items():
        models = {(stage, p): load(prefix, stage, 0, p) for stage in STAGES[prefix] for p in PRECISIONS}
        examples = list(models["teacher", "float32"].task.examples(data / file))
        examples = examples[:: len(examples) // TIMED][:TIMED]
        seconds = {key: [] for key in models}
        for number in range(1 + ROUNDS):
            for key, predictor in models.items():
                start = time.perf_counter()
                predictor.predict(examples)
                if number:
                    seconds[key].append(time.perf_counter() - start)
        for (stage, precision), taken in seconds.items():
            ratios = [base / mine for base, mine in zip(seconds["teacher", "float32"], taken, strict=True)]
            rows[f"{prefix}, {stage}, {precision}"] |= {
                "texts_per_second": len(examples) / statistics.median(taken),
                "times_teacher": statistics.median(ratios),
                "least_ratio": min(ratios),
                "most_ratio": max(ratios),
            }
            print(prefix, stage, precision, statistics.median(ratios), flush=True)
    return rows


result = measure_scores() if what == "scores" else measure_times(json.loads(output.read_text()))
output.write_text(json.dumps(result, indent=1) + "\n")
