"""Resident memory of `embed`, `predict` and training by texts or steps, with lengths of real paragraphs.

    python verbs.py embed NOVEL.txt.xz -o embed.json [--texts 8000]
    python verbs.py predict NOVEL.txt.xz -m CLASSIFIER -o predict.json
    python verbs.py finetune NOVEL.txt.xz -o finetune.json [--texts 4000]

`finetune` trains a classifier on paragraphs that are cut at random places; the label is whether it has the word I.
"""

import argparse
import json
import lzma
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("work", choices=["embed", "predict", "finetune"])
parser.add_argument("novel", type=Path)
parser.add_argument("-o", "--output", type=Path, required=True)
parser.add_argument("-m", "--model", default="cloze-mini")
parser.add_argument("--texts", type=int, default=8000)
parser.add_argument("--every", type=int, default=200)
arguments = parser.parse_args()

with lzma.open(arguments.novel, "rt", encoding="utf-8-sig") as stream:
    paragraphs = [line.strip() for line in stream if len(line) > 80]
choose, started = random.Random(1), time.monotonic()
points: list[dict[str, float]] = []


def draw_texts(count: int) -> list[str]:
    """Return paragraphs cut at random places."""
    return [text[: choose.randint(1, len(text))] for text in choose.choices(paragraphs, k=count)]


def record(done: int, unit: str, process: int | str = "self") -> None:
    """Add the resident memory of a process, in all and without files, and write the points."""
    status = Path(f"/proc/{process}/status").read_text("ascii")
    fields = {"rss": "VmRSS", "anonymous": "RssAnon", "peak": "VmHWM"}
    sizes = {
        name: round(int(re.search(rf"{key}:\s+(\d+)", status)[1]) / 1024, 2) for name, key in fields.items()
    }
    points.append({unit: done, "seconds": round(time.monotonic() - started, 1), **sizes})
    arguments.output.write_text(json.dumps(points) + "\n", "ascii")


def rounds() -> Iterator[tuple[int, list[str]]]:
    for done in range(arguments.every, arguments.texts + 1, arguments.every):
        yield done, draw_texts(arguments.every)


if arguments.work == "finetune":
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "texts.tsv"
        rows = (text.replace("\t", " ") for text in draw_texts(arguments.texts))
        table.write_text(
            "text\tlabel\n" + "".join(f"{row}\t{'yes' if ' I ' in row else 'no'}\n" for row in rows), "utf-8"
        )
        command = [
            sys.executable,
            "-m",
            "cloze",
            "finetune",
            "classification",
            "-m",
            arguments.model,
            "-d",
            str(table),
        ]
        command += [
            "-o",
            f"{folder}/run",
            "--epochs",
            "1",
            "--batch-size",
            "8",
            "--set",
            "max_seq_length=256",
        ]
        training = subprocess.Popen([*command, "--set", "log_every_steps=25", "--quiet"])
        metrics, step = Path(folder) / "run/metrics.jsonl", 0
        while training.poll() is None:
            time.sleep(0.5)
            lines = metrics.read_text("ascii").splitlines() if metrics.exists() else []
            steps = [row["step"] for row in map(json.loads, lines[:-1]) if row["kind"] == "train"]
            if steps and steps[-1] > step and training.poll() is None:
                record(step := steps[-1], "steps", training.pid)
        assert training.returncode == 0
else:
    import cloze
    from cloze.process import configure_memory

    configure_memory("inference")  # as the verbs do
    if arguments.work == "embed":
        model = cloze.Embedder.load(arguments.model, device="cpu")
    else:
        model = cloze.TextClassifier.load(arguments.model, device="cpu")
    record(0, "texts")
    for done, texts in rounds():
        model(texts)
        record(done, "texts")
