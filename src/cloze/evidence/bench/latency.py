"""`cloze bench latency`: one sentence at a time to its vector, as a program asks that waits for the answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
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
    Prepared,
    Side,
    alternate,
    environment_of,
    import_peer,
    require_peers,
    wait_for,
)
from cloze.inference.embed import Embedder, EmbeddingConfig
from cloze.inference.embedding_files import read_texts
from cloze.locate import resolve_checkpoint
from cloze.progress import SILENT, Progress
from cloze.training.precision import resolve_device, resolve_dtype

PEERS = ("transformers",)
_TEXTS = 100
_TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""How far the cosine of the two sides' vectors of a text may be from 1."""

Encode = Callable[[str], npt.NDArray[np.float32]]


@dataclass(frozen=True, kw_only=True, slots=True)
class LatencyBenchmark:
    """What is measured."""

    model: Path
    """A directory of sentence-transformers, whose vectors are the normalised mean of the last layer."""
    texts: Path
    """A text a line."""
    tokens: int = 32
    """Pieces of a text, special ones included."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Ours; the peer computes in float32, as it is loaded."""
    device: str = "cpu"


def bench_latency(
    benchmark: LatencyBenchmark,
    *,
    peers: Sequence[str] = PEERS,
    rounds: int = LEAST_ROUNDS,
    min_seconds: float = 1.0,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare text to vector, a text at a time: tokenizing, the encoder, pooling.

    Raises:
        InputError: there is no text of that length, no such model, or a peer is unknown or not installed.
    """
    require_peers(peers, PEERS)
    # the peers know no names and no runs
    benchmark = replace(benchmark, model=resolve_checkpoint(benchmark.model))
    device = resolve_device(benchmark.device)
    dtype = resolve_dtype(benchmark.precision, device)
    embedder = Embedder.load(
        benchmark.model, EmbeddingConfig(precision=benchmark.precision), device=benchmark.device
    )
    texts = _of_length(embedder, benchmark)

    def encode(text: str) -> npt.NDArray[np.float32]:
        vector: npt.NDArray[np.float32] = embedder([text])[0]
        return vector

    sides = [_side("cloze", "Embedder on one text", encode, texts, device)]
    checks: list[Check] = []
    if "transformers" in peers:
        theirs = _transformers(benchmark.model, device)
        does = "AutoTokenizer and AutoModel on one text, float32, eager attention, mean over tokens"
        sides.append(_side("transformers", does, theirs, texts, device))
        apart = 1 - min(_cosine(encode(text), theirs(text)) for text in texts)
        checks.append(
            Check("1 - least cosine of a text's vectors beside transformers", apart, _TOLERANCES[dtype])
        )
    timings = alternate(sides, rounds=rounds, min_seconds=min_seconds, progress=progress)
    milliseconds = ", ".join(f"{timing.name} {timing.median * 1e3:.2f}" for timing in timings)
    return Comparison(
        name="latency",
        settings={
            "model": benchmark.model.name,
            "tokens": benchmark.tokens,
            "texts": len(texts),
            "precision": benchmark.precision,
            "device": device.type,
            "rounds": rounds,
        },
        amount=1.0,
        unit="sentences",
        timings=timings,
        checks=tuple(checks),
        environment=environment_of(device, dtype, peers),
        notes=(f"milliseconds a sentence, one at a time: {milliseconds}",),
    )


def _of_length(embedder: Embedder, benchmark: LatencyBenchmark) -> list[str]:
    texts = [
        text
        for text in read_texts(benchmark.texts)
        if len(embedder.tokenizer.encode(text)) == benchmark.tokens
    ]
    if not texts:
        raise InputError(f"holds no text of {benchmark.tokens} pieces", where=benchmark.texts)
    return texts[:_TEXTS]


def _side(name: str, does: str, encode: Encode, texts: Sequence[str], device: torch.device) -> Side:
    waiting = cycle(texts)

    def prepare() -> Prepared:
        text = next(waiting)

        def work() -> None:
            encode(text)
            wait_for(device)

        return work

    return Side(name, does, prepare)


def _transformers(directory: Path, device: torch.device) -> Encode:
    transformers = import_peer("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model: Any = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager")
    model.float().to(device).eval()

    def encode(text: str) -> npt.NDArray[np.float32]:
        batch = tokenizer(text, return_tensors="pt", truncation=True).to(device)
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state[0]
        vector: npt.NDArray[np.float32] = hidden.mean(0).float().cpu().numpy()
        return vector

    return encode


def _cosine(ours: npt.NDArray[np.float32], theirs: npt.NDArray[np.float32]) -> float:
    return float(ours @ theirs / (np.linalg.norm(ours) * np.linalg.norm(theirs)))
