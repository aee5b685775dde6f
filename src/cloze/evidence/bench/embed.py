"""`cloze bench embed`: texts to sentence vectors, in sentences a second, beside sentence-transformers."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from cloze.errors import InputError
from cloze.evidence.bench.harness import (
    LEAST_ROUNDS,
    Check,
    Comparison,
    Side,
    alternate,
    environment_of,
    import_peer,
    require_peers,
    wait_for,
)
from cloze.inference.embed import Embedder, EmbeddingConfig
from cloze.inference.embedding_files import read_texts
from cloze.progress import SILENT, Progress
from cloze.training.precision import resolve_device, resolve_dtype

PEERS = ("sentence-transformers",)

_BATCH_SIZES = (32, 128, 512)
"""The peer's default, and larger ones; it is measured with the fastest."""
_TRIALS = 2  # in turn, of which the faster counts
_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""How far the cosine of the two sides' vectors of a text may be from 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbedBenchmark:
    """What is measured."""

    model: Path
    """A directory of sentence-transformers."""
    texts: Path
    """A text a line; of a longer file, lines from all over it."""
    max_texts: int = 1000
    precision: Literal["float32", "bfloat16"] = "float32"
    device: str = "cpu"


def bench_embed(
    benchmark: EmbedBenchmark,
    *,
    peers: Sequence[str] = PEERS,
    rounds: int = LEAST_ROUNDS,
    min_seconds: float = 1.0,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare texts to vectors in memory: tokenizing, batching, the encoder, pooling, normalising.

    Raises:
        InputError: there are no texts, no such model, or a peer is unknown or not installed.
    """
    require_peers(peers, PEERS)
    device = resolve_device(benchmark.device)
    dtype = resolve_dtype(benchmark.precision, device)
    texts = _spread(benchmark.texts, benchmark.max_texts)
    embedder = Embedder.load(
        benchmark.model, EmbeddingConfig(precision=benchmark.precision), device=benchmark.device
    )
    sides = [_side("cloze", "packed, like lengths together, no padding", embedder, texts, device)]
    checks: list[Check] = []
    if "sentence-transformers" in peers:
        encode, batch_size = _their_encoder(benchmark, texts, device, dtype)
        does = f"encode() with batches of {batch_size}, the fastest of {', '.join(map(str, _BATCH_SIZES))}"
        sides.append(_side("sentence-transformers", does, encode, texts, device))
        apart = 1 - _cosines(embedder(texts), encode(texts)).min()
        what = "1 - least cosine of a text's vectors beside sentence-transformers"
        checks.append(Check(what, float(apart), _TOLERANCE[dtype]))
    lengths = np.array([min(len(embedder.tokenizer.encode(text)), embedder.max_seq_length) for text in texts])
    timings = alternate(sides, rounds=rounds, min_seconds=min_seconds, progress=progress)
    return Comparison(
        name="embed",
        settings={
            "model": benchmark.model.name,
            "texts": len(texts),
            "precision": benchmark.precision,
            "device": device.type,
            "rounds": rounds,
        },
        amount=float(len(texts)),
        unit="sentences",
        timings=timings,
        checks=tuple(checks),
        environment=environment_of(device, dtype, peers),
        notes=(
            f"tokens of a text: mean {lengths.mean():.1f}, median {np.median(lengths):.0f}, "
            f"90% at most {np.quantile(lengths, 0.9):.0f}, longest {lengths.max()}",
        ),
    )


def _spread(path: Path, count: int) -> list[str]:
    """Return `count` texts from all over a file, empty ones left out.

    Raises:
        InputError: there is none.
    """
    num_texts = sum(1 for text in read_texts(path) if text.strip())
    if not num_texts:
        raise InputError("holds no text", where=path)
    every = max(1, num_texts // count)
    return list(islice((text for text in read_texts(path) if text.strip()), 0, every * count, every))


def _side(
    name: str,
    does: str,
    encode: Callable[[Sequence[str]], object],
    texts: Sequence[str],
    device: torch.device,
) -> Side:
    def work() -> None:
        encode(texts)
        wait_for(device)

    return Side(name, does, lambda: work)


def _their_encoder(
    benchmark: EmbedBenchmark, texts: Sequence[str], device: torch.device, dtype: torch.dtype
) -> tuple[Callable[[Sequence[str]], Any], int]:
    """Return what encodes texts as the peer does, and its batch size, the fastest one."""
    library = import_peer("sentence_transformers")
    model = library.SentenceTransformer(
        str(benchmark.model), device=str(device), model_kwargs={"dtype": dtype}
    ).eval()

    def encode(some: Sequence[str], batch_size: int) -> Any:
        return model.encode(list(some), batch_size=batch_size, show_progress_bar=False)

    seconds = dict.fromkeys(_BATCH_SIZES, float("inf"))
    for _ in range(_TRIALS):
        for size in _BATCH_SIZES:
            started = time.perf_counter()
            encode(texts, size)
            seconds[size] = min(seconds[size], time.perf_counter() - started)
    best = min(seconds, key=seconds.__getitem__)
    return lambda some: encode(some, best), best


def _cosines(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines: npt.NDArray[np.float64] = (ours * theirs).sum(1) / lengths
    return cosines
