# ruff: noqa
"""Time a graph in cloze before and now, in a bare session, and its model: measure.py GRAPH TEXTS SECONDS OUT MODEL."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

import cloze

cloze.configure_process()
GRAPH, SECONDS = sys.argv[1], float(sys.argv[3])
LINES = [line for line in map(str.strip, Path(sys.argv[2]).read_text("utf-8").splitlines()) if line]
THREADS = int(os.environ["OMP_NUM_THREADS"])
SPINNING, FUSION = "session.intra_op.allow_spinning", "optimization.disable_specified_optimizers"


class Options(onnxruntime.SessionOptions):
    """The options of cloze, without those that are measured."""

    left_out: tuple[str, ...] = ()

    def add_session_config_entry(self, name: str, value: str) -> None:
        if name not in self.left_out:
            super().add_session_config_entry(name, value)


def embedder(tokens: int, *left_out: str) -> cloze.Embedder:
    Options.left_out = left_out
    embedder = cloze.Embedder.load(GRAPH)
    embedder.engine.batch_tokens = tokens
    return embedder


def bare_session() -> Callable[[Sequence[str]], Any]:
    """Batches of 32 in the order of the file, each padded to its longest text."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = real_session(f"{GRAPH}/model.onnx", options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(f"{GRAPH}/tokenizer.json")
    tokenizer.enable_padding()
    tokenizer.enable_truncation(512)

    def run(texts: Sequence[str]) -> None:
        for start in range(0, len(texts), 32):
            encodings = tokenizer.encode_batch(texts[start : start + 32])
            columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
            inputs = {
                name: np.array([getattr(encoding, column) for encoding in encodings])
                for name, column in columns.items()
            }
            session.run(None, inputs)

    return run


real_session, onnxruntime.SessionOptions = onnxruntime.InferenceSession, Options
contestants: dict[str, Callable[[Sequence[str]], Any]] = {
    "bare": bare_session(),
    "before": embedder(1024, SPINNING, FUSION),
    "without spinning": embedder(1024, FUSION),
    "256 tokens": embedder(256, SPINNING, FUSION),
    "now": embedder(256),
    "PyTorch": cloze.Embedder.load(sys.argv[5]),
}
tokenizer = cloze.load_tokenizer(GRAPH)
one = [line for line in LINES if len(tokenizer.encode(line)) == 32][:50]
works = {"one": [[text] for text in one], "many": [LINES[:96]]}
results: dict[str, Any] = {"load": []}
for work, inputs in works.items():
    seconds: dict[str, list[list[float]]] = {name: [] for name in contestants}
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        results["load"].append(os.getloadavg()[0])
        for name, run in contestants.items():
            repetitions = 6 if work == "one" else 1
            if work == "one":
                run(inputs[number % len(inputs)])
            for _ in range(repetitions):
                texts = inputs[number % len(inputs)]
                number += 1
                wall, processor = time.perf_counter(), time.process_time()
                run(texts)
                seconds[name].append([time.perf_counter() - wall, time.process_time() - processor])
            time.sleep(0.01)
    results[work] = seconds
    for name, rows in seconds.items():
        wall, processor = (1000 * np.array(rows) / len(inputs[0])).T
        quantiles = " ".join(f"{np.quantile(wall, share):.2f}" for share in (0.05, 0.1, 0.25, 0.5, 0.9))
        turns = len(wall) // repetitions
        ratios = np.array(
            [
                np.median(np.array(seconds["bare"])[i : i + repetitions, 0])
                / np.median(np.array(rows)[i : i + repetitions, 0])
                for i in range(0, turns * repetitions, repetitions)
            ]
        )
        low, middle, high = np.quantile(ratios, (0.25, 0.5, 0.75))
        print(
            f"{work:5s} {name:18s} ms of a text, 5% 10% 25% 50% 90%: {quantiles}; processor {np.median(processor):.2f}; "
            f"times as fast as bare {middle:.2f} ({low:.2f} to {high:.2f}), {turns} turns",
            flush=True,
        )
Path(sys.argv[4]).write_text(json.dumps(results), "utf-8")
print("load", min(results["load"]), max(results["load"]))
