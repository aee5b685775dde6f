"""`cloze bench embed`: texts to sentence vectors, in sentences a second, beside other programs."""

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer

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
from cloze.locate import resolve_checkpoint
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from cloze.training.precision import resolve_device, resolve_dtype

_BATCH_SIZES = (32, 128, 512)
"""sentence-transformers' default, and larger ones; a peer is measured with the fastest."""
_TRIALS = 2  # in turn, of which the faster counts
_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""How far the cosine of the two sides' vectors of a text may be from 1."""
_INT8_TOLERANCE = 0.05
"""The same, where the other side has rounded its weights to 8 bits."""

Encode: TypeAlias = Callable[[Sequence[str], int], npt.NDArray[np.float32]]
"""From texts, and how many at once, to their vectors."""


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
    peers: Sequence[str] = ("sentence-transformers",),
    rounds: int = LEAST_ROUNDS,
    min_seconds: float = 1.0,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare texts to vectors in memory: tokenizing, batching, the encoder, pooling, normalising.

    Raises:
        InputError: there are no texts, no such model, or a peer is unknown or not installed.
    """
    if benchmark.max_texts < 1:
        raise InputError(f"{benchmark.max_texts} texts", where="--texts", remedy="Take one or more")
    require_peers(peers, PEERS)
    # the peers know no names and no runs
    benchmark = replace(benchmark, model=resolve_checkpoint(benchmark.model))
    device = resolve_device(benchmark.device)
    dtype = resolve_dtype(benchmark.precision, device)
    texts = _spread(benchmark.texts, benchmark.max_texts)
    embedder = Embedder.load(
        benchmark.model, EmbeddingConfig(precision=benchmark.precision), device=benchmark.device
    )
    sides = [_side("cloze", "packed, like lengths together, no padding", embedder, texts, device)]
    checks: list[Check] = []
    with tempfile.TemporaryDirectory(prefix="cloze-bench-") as directory:
        for peer in peers:
            encode, batch_size = _fastest(PEERS[peer].load(benchmark, device, dtype, Path(directory)), texts)
            does = f"{PEERS[peer].does}, batches of {batch_size}, the fastest of {', '.join(map(str, _BATCH_SIZES))}"
            sides.append(_side(peer, does, encode, texts, device))
            apart = 1 - _cosines(embedder(texts), encode(texts)).min()
            tolerance = max(_TOLERANCE[dtype], PEERS[peer].tolerance)
            checks.append(
                Check(f"1 - least cosine of a text's vectors beside {peer}", float(apart), tolerance)
            )
        timings = alternate(sides, rounds=rounds, min_seconds=min_seconds, progress=progress)
    lengths = np.array([min(len(embedder.tokenizer.encode(text)), embedder.max_seq_length) for text in texts])
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
        environment=environment_of(device, dtype, [peer.removesuffix("-int8") for peer in peers]),
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


def _fastest(encode: Encode, texts: Sequence[str]) -> tuple[Callable[[Sequence[str]], Any], int]:
    """Return what encodes texts with the batch size that is fastest, and that size."""
    seconds = dict.fromkeys(_BATCH_SIZES, float("inf"))
    for _ in range(_TRIALS):
        for size in _BATCH_SIZES:
            started = time.perf_counter()
            encode(texts, size)
            seconds[size] = min(seconds[size], time.perf_counter() - started)
    best = min(seconds, key=seconds.__getitem__)
    return lambda some: encode(some, best), best


def _sentence_transformers(
    benchmark: EmbedBenchmark, device: torch.device, dtype: torch.dtype, directory: Path
) -> Encode:
    library = import_peer("sentence_transformers")
    model = library.SentenceTransformer(
        str(benchmark.model), device=str(device), model_kwargs={"dtype": dtype}
    ).eval()

    def encode(texts: Sequence[str], batch_size: int) -> npt.NDArray[np.float32]:
        vectors: npt.NDArray[np.float32] = model.encode(
            list(texts), batch_size=batch_size, show_progress_bar=False
        )
        return vectors

    return encode


def _onnxruntime(
    benchmark: EmbedBenchmark,
    device: torch.device,
    dtype: torch.dtype,
    directory: Path,
    *,
    precision: Literal["float32", "int8"],
) -> Encode:
    """Export the model, and run the graph as docs/export.md has it, texts of like lengths together."""
    from cloze.extras import require

    require(["onnx", "onnxruntime"], extra="onnx", where="ONNX")
    from cloze.export.onnx import MODEL_FILE, export_onnx

    graph = directory / precision
    export_onnx(benchmark.model, graph, precision=precision)
    onnxruntime = import_peer("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(graph / MODEL_FILE, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(graph / TOKENIZER_FILE))
    settings = json.loads((graph / TOKENIZER_CONFIG_FILE).read_text("utf-8"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(settings["model_max_length"])

    def encode(texts: Sequence[str], batch_size: int) -> npt.NDArray[np.float32]:
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors: list[Any] = [None] * len(texts)
        for start in range(0, len(order), batch_size):
            own = order[start : start + batch_size]
            encodings = tokenizer.encode_batch([texts[i] for i in own])
            inputs = {
                "input_ids": [encoding.ids for encoding in encodings],
                "attention_mask": [encoding.attention_mask for encoding in encodings],
                "token_type_ids": [encoding.type_ids for encoding in encodings],
            }
            (found,) = session.run(None, {name: np.array(rows) for name, rows in inputs.items()})
            for i, vector in zip(own, found, strict=True):
                vectors[i] = vector
        return np.stack(vectors)

    return encode


@dataclass(frozen=True, slots=True)
class _Peer:
    does: str
    load: Callable[[EmbedBenchmark, torch.device, torch.dtype, Path], Encode]
    tolerance: float = 0.0


PEERS: Mapping[str, _Peer] = MappingProxyType(
    {
        "sentence-transformers": _Peer("encode()", _sentence_transformers),
        "onnxruntime": _Peer(
            "the float32 graph of cloze export, texts sorted by length",
            partial(_onnxruntime, precision="float32"),
        ),
        "onnxruntime-int8": _Peer(
            "the int8 graph of cloze export, texts sorted by length",
            partial(_onnxruntime, precision="int8"),
            _INT8_TOLERANCE,
        ),
    }
)
"""Whom cloze is compared with."""


def _cosines(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines: npt.NDArray[np.float64] = (ours * theirs).sum(1) / lengths
    return cosines
