"""Measure the encoders of the study on documents that none of them has read, at each length that they take.

    python evaluate.py RUNS TEXT -o FILE.json

RUNS is the folder `runs` of the study's output. TEXT is raw text; its first 4 MB are used.
"""

import argparse
import json
import lzma
import tempfile
from pathlib import Path

from cloze.data.instances.pairs import PairsConfig
from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained

CHARACTERS, TOKENS = 4_000_000, 131_072

parser = argparse.ArgumentParser()
parser.add_argument("runs", type=Path)
parser.add_argument("text", type=Path)
parser.add_argument("-o", type=Path, required=True)
arguments = parser.parse_args()

losses: dict[str, dict[str, dict[str, float]]] = {}  # by variant, length and seed, in nats
with tempfile.TemporaryDirectory() as folder:
    sample = Path(folder) / "held-out.txt"
    with lzma.open(arguments.text, "rt", encoding="utf-8") as stream:
        sample.write_text(stream.read(CHARACTERS).rpartition("\n\n")[0], "utf-8")
    for run in sorted(arguments.runs.glob("*/seed-*")):
        longest = int(run.parent.name.rpartition("-")[2])
        for length in (128, 512, 2048):
            if length > longest:
                continue
            config = PretrainingEvaluationConfig(
                max_seq_length=length, max_instances=TOKENS // length, pairs=PairsConfig(next_sentence=False)
            )
            measured = evaluate_pretrained(run, [sample], config, device="cpu").masked_lm
            losses.setdefault(run.parent.name, {}).setdefault(str(length), {})[run.name] = round(measured["masked_lm_loss"], 4)
            print(run.parent.name, run.name, length, measured, flush=True)
arguments.o.write_text(json.dumps(losses, indent=1) + "\n")
