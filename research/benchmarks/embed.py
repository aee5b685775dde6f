"""`python -m benchmarks embed` and `latency`: texts to sentence vectors, many at once and one at a time."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.harness import (
    Check,
    Contestant,
    Limit,
    Peers,
    Result,
    TimedBenchmark,
    TimedFunction,
    Timing,
    describe_busy,
    describe_machine,
    matrix_product_rate,
    repeat,
    synchronize,
)
from benchmarks.sentence_peers import (
    GRAPH_PEERS,
    INT8_TOLERANCE,
    PEERS,
    TOLERANCES,
    Encode,
    EncodeInBatches,
    Vectors,
    load_transformers,
)
from cloze.cli.parameters import POSITIONAL
from cloze.errors import InputError
from cloze.inference.embedder import Embedder
from cloze.inference.embedding_files import read_texts
from cloze.model_paths import is_graph, resolve_checkpoint
from cloze.training.precision import resolve_device, resolve_dtype
from experiments.step_cost import forward_flops

_BATCH_SIZES = (32, 128, 512)
"""The default of sentence-transformers, and larger ones; a peer is measured with the fastest."""
_TRIALS = 2  # of each batch size in turn; the faster counts
_LATENCY_TEXTS = 100
_LENGTHS = (8, 16, 32, 64, 512)
"""Upper ends of the groups of texts by tokens, whose cosines are reported."""


@dataclass(frozen=True, kw_only=True)
class _VectorBenchmark(TimedBenchmark):
    input: Annotated[Path, POSITIONAL]
    """Text with one text per line, or a table with a column text."""
    model: str
    """A directory of sentence-transformers."""
    dtype: Literal["float32", "bfloat16", "int8"] = "float32"
    """Number format of matrix products; beside int8, peers that have no int8 compute in float32."""
    device: str = "cpu"
    """cpu, cuda, mps or auto."""
    busy: int = 0
    """Time everything beside this number of busy processes, too; idle and busy turns alternate."""

    @property
    def compute_dtype(self) -> torch.dtype:
        """The number format of peers on the device."""
        return resolve_dtype("float32" if self.dtype == "int8" else self.dtype, resolve_device(self.device))

    @property
    def tolerance(self) -> float:
        """Maximum distance from 1 of the cosine of the two vectors of a text."""
        return INT8_TOLERANCE if self.dtype == "int8" else TOLERANCES[self.compute_dtype]

    def load(self) -> tuple[Path, torch.device, Embedder]:
        """Return the model's directory, which the peers read too, the device, and cloze's model."""
        model, device = resolve_checkpoint(self.model, graphs=True), resolve_device(self.device)
        return model, device, Embedder.load(model, precision=self.dtype, device=self.device)

    def time(
        self, contestants: Sequence[Contestant], *, texts: float = 1.0
    ) -> tuple[tuple[Timing, ...], list[str], dict[str, Any]]:
        """Return the idle timings, and notes and entries of the record about those beside busy processes.

        Args:
            texts: number of texts of one piece of work.
        """
        timings = self.measure(contestants, busy=self.busy)
        idle, busy = timings[: len(contestants)], timings[len(contestants) :]
        if not busy:
            return idle, [], {}
        sides, text = describe_busy(idle, busy, self.busy, "sentences", amount=texts)
        return idle, [text], {"busy": sides}

    def settings(self, texts: Sequence[str], **more: Any) -> dict[str, Any]:
        """Return the settings of the record."""
        device = resolve_device(self.device).type
        model = resolve_checkpoint(self.model, graphs=True).name
        shared = {"texts": len(texts), "precision": self.dtype, "device": device, "rounds": self.rounds}
        return {"model": model, **more, **shared}


@dataclass(frozen=True, kw_only=True)
class Embed(_VectorBenchmark):
    """Texts to sentence vectors, in sentences per second."""

    name: ClassVar[str] = "embed"
    peers_known: ClassVar[Collection[str]] = (
        "sentence-transformers",
        "onnxruntime",
        "onnxruntime-int8",
        "openvino",
        "openvino-int8",
    )

    vs: Peers = "sentence-transformers"
    """Compared programs: sentence-transformers, onnxruntime, onnxruntime-int8, openvino, openvino-int8, each at its
    fastest."""
    texts: int = 1000
    """Number of texts, from all over the input."""

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Compare tokenizing, batching, the encoder, pooling and normalization, in memory."""
        if self.texts < 1:
            raise InputError(f"{self.texts} texts", where="--texts", remedy="Choose one or more")
        model, device, embedder = self.load()
        texts = _sample_texts(self.input, self.texts)
        does = "packed, similar lengths together, no padding"
        contestants = [Contestant("cloze", does, _work(embedder, texts, device))]
        checks: list[Check] = []
        vectors = {"cloze": embedder(texts)}
        for name in peers:
            peer = PEERS[name]
            with self.attempt(name):
                encode, batch_size = _fastest(peer.load(model, device, self.compute_dtype, directory), texts)
                does = f"{peer.does}, batches of {batch_size}, the fastest of {', '.join(map(str, _BATCH_SIZES))}"
                vectors[name] = encode(texts)
                tolerance = max(self.tolerance, peer.tolerance)
                checks.append(_compare(name, vectors["cloze"], vectors[name], tolerance))
                contestants.append(Contestant(name, does, _work(encode, texts, device)))
        tokens = [len(embedder.tokenizer.encode(text)) for text in texts]
        lengths = np.minimum(tokens, embedder.max_seq_length)
        limit = None
        if self.dtype != "int8":  # torch has no int8 product to compare with
            rate, size = matrix_product_rate(device, self.compute_dtype)
            flops = forward_flops(embedder.model.config, int(lengths.sum()), int((lengths**2).sum()))
            products = f"{self.dtype} products, {rate / 1e12:.3g} TFLOP/s at {size} x {size}"
            limit = Limit(f"if the machine's rate of {products}, were all", len(texts) * rate / flops)
        exact = Embedder.load(model, device=self.device)(texts)
        cosines = {name: cosines_by_length(exact, rounded, lengths) for name, rounded in vectors.items()}
        idle, notes, more = self.time(contestants, texts=float(len(texts)))
        return self.describe(
            idle,
            settings=self.settings(texts),
            amount=float(len(texts)),
            unit="sentences",
            checks=checks,
            limit=limit,
            more={"cosines": cosines, **more},
            environment=describe_machine(device, self.compute_dtype, peers),
            notes=(
                f"tokens of a text: mean {lengths.mean():.1f}, median {np.median(lengths):.0f}, "
                f"90% at most {np.quantile(lengths, 0.9):.0f}, longest {lengths.max()}",
                *(
                    f"cosines of {name} with cloze in float32: {describe_cosines(rounded)}"
                    for name, rounded in cosines.items()
                    if name.endswith("int8") or self.dtype == "int8"
                ),
                *notes,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Latency(_VectorBenchmark):
    """One sentence at a time to its vector, in milliseconds."""

    name: ClassVar[str] = "latency"
    peers_known: ClassVar[Collection[str]] = (
        *("transformers", "sentence-transformers", "onnxruntime-int8", "openvino-int8"),
        *("onnxruntime", "fastembed"),
    )

    vs: Peers = "transformers"
    """Compared programs: transformers, in float32; sentence-transformers, onnxruntime, onnxruntime-int8, openvino-int8.
    If the model is an exported graph, with the same graph: onnxruntime (the session alone, on ids made before),
    sentence-transformers, fastembed."""
    tokens: int = 32
    """Tokens of a sentence, special ones included; sentences of other lengths are skipped."""

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Compare tokenizing, the encoder and pooling of one text at a time; vectors are means of the last layer."""
        model, device, embedder = self.load()
        lines = read_texts(self.input)
        texts = [text for text in lines if len(embedder.tokenizer.encode(text)) == self.tokens][
            :_LATENCY_TEXTS
        ]
        if not texts:
            raise InputError(f"has no text of {self.tokens} tokens", where=self.input)
        contestants = [Contestant("cloze", "Embedder on one text", _single_work(embedder, texts, device))]
        checks: list[Check] = []
        for name in peers:
            if is_graph(model) and name not in GRAPH_PEERS:
                remedy = "Choose onnxruntime, sentence-transformers or fastembed"
                raise InputError(f"{name} does not run the graph itself", where="--vs", remedy=remedy)
            with self.attempt(name):
                if is_graph(model):
                    does, load = GRAPH_PEERS[name]
                    encode = load(model, embedder, texts)
                elif name == "transformers":
                    encode = load_transformers(model, device)
                    does = "AutoTokenizer and AutoModel on one text, float32, mean over tokens"
                else:
                    encode = partial(
                        _in_one_batch, PEERS[name].load(model, device, self.compute_dtype, directory)
                    )
                    does = f"{PEERS[name].does}, one text"
                ours, theirs = (np.concatenate([one([text]) for text in texts]) for one in (embedder, encode))
                is_int8 = is_graph(model) or name.endswith("-int8")
                tolerance = INT8_TOLERANCE if is_int8 else self.tolerance
                checks.append(_compare(name, ours, theirs, tolerance))
                contestants.append(Contestant(name, does, _single_work(encode, texts, device)))
        idle, notes, more = self.time(contestants)
        milliseconds = ", ".join(f"{timing.name} {timing.median * 1e3:.2f}" for timing in idle)
        return self.describe(
            idle,
            settings=self.settings(texts, tokens=self.tokens),
            unit="sentences",
            checks=checks,
            environment=describe_machine(device, self.compute_dtype, peers),
            notes=[f"milliseconds per sentence, one at a time: {milliseconds}", *notes],
            more=more,
        )


def _sample_texts(path: Path, count: int) -> list[str]:
    """Return `count` texts that are not empty, from all over a file."""
    num_texts = sum(1 for text in read_texts(path) if text.strip())
    if not num_texts:
        raise InputError("has no text", where=path)
    every = max(1, num_texts // count)
    return list(islice((text for text in read_texts(path) if text.strip()), 0, every * count, every))


def cosines_by_length(
    exact: Vectors, rounded: Vectors, lengths: npt.NDArray[Any]
) -> dict[str, tuple[float, float, int]]:
    """Return the mean and the least cosine of vectors of the same texts, and their number, by tokens of the texts."""
    cosines = _cosines(exact, rounded)
    groups: dict[str, tuple[float, float, int]] = {}
    for low, high in pairwise((0, *_LENGTHS)):
        chosen = cosines[(lengths > low) & (lengths <= high)]
        if len(chosen):
            groups[f"{low + 1} to {high}"] = float(chosen.mean()), float(chosen.min()), len(chosen)
    return groups | {"all": (float(cosines.mean()), float(cosines.min()), len(cosines))}


def describe_cosines(groups: Mapping[str, tuple[float, float, int]]) -> str:
    """Return the cosines as one line."""
    return "; ".join(
        f"{name} tokens mean {mean:.4f}, least {least:.4f} ({count})"
        for name, (mean, least, count) in groups.items()
    )


def _in_one_batch(encode: EncodeInBatches, texts: Sequence[str]) -> Vectors:
    return encode(texts, len(texts))


def _work(encode: Encode, texts: Sequence[str], device: torch.device) -> Callable[[], TimedFunction]:
    def work() -> None:
        encode(texts)
        synchronize(device)

    return repeat(work)


def _single_work(encode: Encode, texts: Sequence[str], device: torch.device) -> Callable[[], TimedFunction]:
    """Take the next text at each call."""
    turns = cycle([_work(encode, [text], device) for text in texts])
    return lambda: next(turns)()


def _fastest(encode: EncodeInBatches, texts: Sequence[str]) -> tuple[Encode, int]:
    """Return the encoder at its fastest batch size, and that size."""
    seconds = dict.fromkeys(_BATCH_SIZES, float("inf"))
    for _ in range(_TRIALS):
        for size in _BATCH_SIZES:
            started = time.perf_counter()
            encode(texts, size)
            seconds[size] = min(seconds[size], time.perf_counter() - started)
    best = min(seconds, key=seconds.__getitem__)
    return lambda some: encode(some, best), best


def _compare(peer: str, ours: Vectors, theirs: Vectors, tolerance: float) -> Check:
    apart = 1 - float(_cosines(ours, theirs).min())
    return Check(f"1 - smallest cosine of a text's vectors compared with {peer}", apart, tolerance)


def _cosines(ours: Vectors, theirs: Vectors) -> npt.NDArray[np.float64]:
    exact = (vectors.astype(np.float64) for vectors in (ours, theirs))
    one, other = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in exact)
    cosines: npt.NDArray[np.float64] = (one * other).sum(1)
    return cosines
