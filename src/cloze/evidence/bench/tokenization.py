"""`cloze bench tokenize`: text to ids, in megabytes a second."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import tokenizers
import torch

from cloze.evidence.bench.harness import (
    LEAST_ROUNDS,
    Comparison,
    Prepared,
    Side,
    alternate,
    environment_of,
    require_peers,
)
from cloze.evidence.bench.text import (
    THREADS,
    Excerpt,
    TextBenchmark,
    excerpt,
    same_pieces,
    tokenizers_threads,
)
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import TOKENIZER_FILE, Tokenizer

PEERS = ("tokenizers",)
_BATCH_SIZE = 1000


def bench_tokenize(
    benchmark: TextBenchmark,
    *,
    peers: Sequence[str] = PEERS,
    rounds: int = LEAST_ROUNDS,
    min_seconds: float = 1.0,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare the bulk path of a corpus, one thread, with the tokenizers library on the same lines.

    Raises:
        InputError: the text or the vocabulary is wrong, a peer is unknown.
    """
    require_peers(peers, PEERS)
    with excerpt(benchmark, progress) as text:
        earlier, lines = _halves(text)
        sides = list(_our_sides(text, earlier, lines))
        checks = []
        if "tokenizers" in peers:
            library = tokenizers.Tokenizer.from_file(str(text.vocabulary / TOKENIZER_FILE))
            library.encode_special_tokens = True  # a [MASK] in the text is text, as it is to us
            sides += _their_sides(library, lines)
            ours, _ = Tokenizer.load(text.vocabulary).ids(lines)
            theirs = np.fromiter(chain.from_iterable(_encode(library, lines)), np.uint32)
            checks.append(same_pieces("tokenizers", ours, theirs))
        timings = alternate(sides, rounds=rounds, min_seconds=min_seconds, progress=progress)
    num_bytes = sum(len(line.encode()) for line in lines)
    return Comparison(
        name="tokenize",
        settings={"megabytes": round(num_bytes / 1e6, 3), "lines": len(lines), "rounds": rounds},
        amount=num_bytes / 1e6,
        unit="MB",
        timings=timings,
        checks=tuple(checks),
        environment=environment_of(torch.device("cpu"), torch.float32, peers),
        notes=text.notes,
    )


def _halves(text: Excerpt) -> tuple[list[str], list[str]]:
    """Split the lines in two: the second half is measured, the first is what came before it."""
    lines = [line for document in text.documents for line in document.lines]
    return lines[: len(lines) // 2], lines[len(lines) // 2 :]


def _our_sides(text: Excerpt, earlier: list[str], lines: list[str]) -> tuple[Side, Side]:
    def fresh() -> Prepared:
        tokenizer = Tokenizer.load(text.vocabulary)
        tokenizer.ids([""])  # builds its tables, as reading the file did for the library
        return lambda: tokenizer.ids(lines)

    def going_on() -> Prepared:
        tokenizer = Tokenizer.load(text.vocabulary)
        tokenizer.ids(earlier)
        return lambda: tokenizer.ids(lines)

    return (
        Side(
            "cloze", "Tokenizer.ids over the second half of the text, no word seen before, one thread", fresh
        ),
        Side("cloze, going on", "the same after the first half of the text, as in a corpus", going_on),
    )


def _their_sides(library: tokenizers.Tokenizer, lines: list[str]) -> list[Side]:
    def with_threads(count: int) -> Prepared:
        def encode() -> None:
            with tokenizers_threads(count):
                _encode(library, lines)

        return encode

    does = f"encode_batch_fast on {_BATCH_SIZE:,} lines at a time, ids taken"
    return [
        Side("tokenizers, 1 thread", does, lambda: with_threads(1)),
        Side(f"tokenizers, {THREADS} threads", does, lambda: with_threads(THREADS)),
    ]


def _encode(library: tokenizers.Tokenizer, lines: list[str]) -> list[list[int]]:
    ids = []
    for start in range(0, len(lines), _BATCH_SIZE):
        batch = lines[start : start + _BATCH_SIZE]
        ids += [encoding.ids for encoding in library.encode_batch_fast(batch, add_special_tokens=False)]
    return ids
