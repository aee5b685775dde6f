"""Flip labels of real rows, cross-validate, and count the flipped rows among the suspected ones: runs.py OUTPUT."""

import csv
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

OUT = Path(sys.argv[1])
SST2 = Path(os.environ["CLOZE_SHARED"]) / "data/glue/SST-2/train.tsv"
SETTINGS = [
    "--folds",
    "5",
    "--epochs",
    "3",
    "--learning-rate",
    "3e-4",
    "--precision",
    "float32",
    "--json",
    "--quiet",
]


def authors():
    """The 600 paragraphs of examples/authors.csv, without copies."""
    subprocess.run(["cloze", "examples", "-o", OUT / "examples", "--overwrite"], check=True)
    rows = csv.DictReader((OUT / "examples/authors.csv").open(newline=""))
    return sorted({row["text"]: row["author"] for row in rows}.items())


def sst2():
    """800 of the training sentences of at least 8 words, without copies."""
    rows = csv.DictReader(SST2.open(newline=""), delimiter="\t", quoting=csv.QUOTE_NONE)
    texts = {row["sentence"].strip(): row["label"] for row in rows if len(row["sentence"].split()) >= 8}
    return random.Random(0).sample(sorted(texts.items()), 800)


def flip(rows, share, seed):
    """Return which rows are flipped, and all rows, these with another label at random."""
    chosen, labels = random.Random(seed), sorted({label for _, label in rows})
    flipped = {*chosen.sample(range(len(rows)), round(share * len(rows)))}
    other = {label: [name for name in labels if name != label] for label in labels}
    noisy = [
        (text, chosen.choice(other[label]) if i in flipped else label) for i, (text, label) in enumerate(rows)
    ]
    return flipped, noisy


def measure(rows, flipped):
    """Return number, precision and recall of rows."""
    right = len(flipped & {*rows})
    return {"rows": len(rows), "precision": right / max(len(rows), 1), "recall": right / len(flipped)}


def run(name, rows, share, seed):
    """Make one cross-validation, and return its figures."""
    flipped, noisy = flip(rows, share, seed)
    directory = OUT / f"{name}-{share:.2f}-{seed}"
    with Path(f"{directory}.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("text", "label"), *noisy])
    command = [
        "cloze",
        "finetune",
        "classification",
        "-m",
        "cloze-mini",
        "-d",
        f"{directory}.csv",
        "-o",
        directory,
    ]
    start = time.time()
    printed = subprocess.run(
        [*command, "--seed", str(seed), *SETTINGS], check=True, capture_output=True, text=True
    )
    report = json.loads(printed.stdout)
    answers = list(csv.DictReader((directory / "out-of-fold.csv").open(newline="")))
    ranked = [suspect["row"] - 1 for suspect in report["suspects"]]
    wrong = [i for i, row in enumerate(answers) if row["gold"] != row["label"]]
    surest = sorted(wrong, key=lambda i: -float(answers[i]["probability"]))
    hits = [i for i in ranked if i in flipped]
    return {
        "run": directory.name,
        "rows": len(rows),
        "flipped": len(flipped),
        "seed": seed,
        "accuracy": report["settings"][0]["mean"]["accuracy"],
        "deviation": report["settings"][0]["deviation"]["accuracy"],
        "accuracy_on_true_labels": sum(
            answer["label"] == label for answer, (_, label) in zip(answers, rows, strict=True)
        )
        / len(rows),
        "suspects": measure(ranked, flipped),
        "first_as_many_as_flipped": measure(ranked[: len(flipped)], flipped),
        "all_wrong_answers": measure(wrong, flipped),
        "surest_wrong_answers": measure(surest[: len(ranked)], flipped),
        "right_label_named": sum(answers[i]["suspected_label"] == rows[i][1] for i in hits)
        / max(len(hits), 1),
        "seconds": round(time.time() - start),
    }


for share in (0.05, 0.10):
    for name, rows in (("authors", authors()), ("sst2", sst2())):
        with (OUT / "results.jsonl").open("a") as results:
            results.write(json.dumps(run(name, rows, share, seed=1)) + "\n")
