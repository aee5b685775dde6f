"""Time one text and 300 texts as before and with concurrent batches and free processors alone, idle and beside busy processes.

python concurrent_batches.py MODEL LINES [--rounds 5]     # LINES: a file with a text per line, for the texts of 32 tokens
"""

import argparse
import csv
import time
from pathlib import Path
from statistics import median
from unittest.mock import patch

import cloze

cloze.configure_process()  # before torch is imported

from benchmarks.harness import busy_processes  # noqa: E402

TABLE = Path(__file__).resolve().parents[2] / "examples" / "authors.csv"
BEFORE = (
    patch("cloze.models.engine.num_concurrent_batches", lambda tokens: 1),
    patch("cloze.models.threads.may_choose_threads", lambda: False),
)


def one_text(embedder, texts: list[str]) -> float:
    """Return the mean milliseconds of a text, over 0.7 seconds."""
    for text in texts[:5]:
        embedder(text)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < 0.7:
        embedder(texts[count % len(texts)])
        count += 1
    return (time.perf_counter() - started) / count * 1e3


def many_texts(embedder, token_ids: list) -> float:
    """Return the seconds of 300 texts."""
    started = time.perf_counter()
    embedder.embed_token_ids(token_ids)
    return time.perf_counter() - started


def main() -> None:
    """Print a line for each precision, number of busy processes, work and way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("lines", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    many = [row["text"] for row in csv.DictReader(TABLE.open())][:300]
    for precision in ("float32", "int8", "bfloat16"):
        embedder = cloze.Embedder.load(flags.model, device="cpu", precision=precision)
        lines = flags.lines.read_text().splitlines()
        short = [line for line in lines if len(embedder.tokenizer.encode(line)) == 32][:50]
        token_ids = embedder.token_ids(many)
        taken: dict[tuple[int, str, str], list[float]] = {}
        for _ in range(flags.rounds):
            for load in (0, 1, 2):
                with busy_processes(load):
                    for way in ("before", "now"):
                        for patched in BEFORE if way == "before" else ():
                            patched.start()
                        taken.setdefault((load, "one text", way), []).append(one_text(embedder, short))
                        taken.setdefault((load, "300 texts", way), []).append(many_texts(embedder, token_ids))
                        patch.stopall()
        for (load, work, way), values in taken.items():
            ratio = median(values) / median(taken[0, work, "before"])
            spread = f"({min(values):.2f} to {max(values):.2f})"
            print(f"{precision} beside {load}, {work}, {way}: {median(values):.2f} {spread}, {ratio:.2f} of idle before")


if __name__ == "__main__":
    main()
