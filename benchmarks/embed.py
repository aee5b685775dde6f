"""`python -m benchmarks embed` and `latency`: texts to sentence vectors, many at once and one at a time."""

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import tyro
from tokenizers import Tokenizer

from benchmarks.harness import (
    Check,
    Contestant,
    Peers,
    Result,
    TimedBenchmark,
    TimedFunction,
    import_peer,
    repeat,
)
from benchmarks.machine import describe_machine, synchronize
from cloze.cli.options import Device, Model
from cloze.errors import InputError
from cloze.inference.embedder import Embedder, EmbeddingConfig
from cloze.inference.embedding_files import read_texts
from cloze.model_paths import resolve_checkpoint
from cloze.optional_dependencies import require
from cloze.tokenization.tokenizer_files import TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from cloze.training.precision import resolve_device, resolve_dtype

_BATCH_SIZES = (32, 128, 512)
"""The default of sentence-transformers, and larger ones; a peer is measured with the fastest."""
_TRIALS = 2  # of each batch size in turn; the faster counts
_LATENCY_TEXTS = 100
_TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""Maximum distance from 1 of the cosine of the two vectors of a text."""

Vectors = npt.NDArray[np.float32]
Encode = Callable[[Sequence[str]], Vectors]
EncodeInBatches = Callable[[Sequence[str], int], Vectors]
"""A function from texts and a batch size to vectors."""


@dataclass(frozen=True, kw_only=True)
class _VectorBenchmark(TimedBenchmark):
    input: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="INPUT")]
    """Text with one text per line, or a table with a column text."""
    model: Model
    """A directory of sentence-transformers."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of matrix products."""
    device: Device = "cpu"
    """cpu, cuda, mps or auto."""

    @property
    def compute_dtype(self) -> torch.dtype:
        """The number format on the device."""
        return resolve_dtype(self.dtype, resolve_device(self.device))

    def load(self) -> tuple[Path, torch.device, Embedder]:
        """Return the model's directory, which the peers read too, the device, and cloze's model."""
        model, device = resolve_checkpoint(self.model), resolve_device(self.device)
        return model, device, Embedder.load(model, EmbeddingConfig(precision=self.dtype), device=self.device)

    def settings(self, texts: Sequence[str], **more: Any) -> dict[str, Any]:
        """Return the settings of the record."""
        device = resolve_device(self.device).type
        model = resolve_checkpoint(self.model).name
        shared = {"texts": len(texts), "precision": self.dtype, "device": device, "rounds": self.rounds}
        return {"model": model, **more, **shared}


@dataclass(frozen=True, kw_only=True)
class Embed(_VectorBenchmark):
    """Texts to sentence vectors, in sentences per second."""

    name: ClassVar[str] = "embed"
    peers_known: ClassVar[Collection[str]] = ("sentence-transformers", "onnxruntime", "onnxruntime-int8")

    vs: Peers = "sentence-transformers"
    """Compared programs: sentence-transformers, onnxruntime, onnxruntime-int8, each at its fastest."""
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
        for name in peers:
            peer = _PEERS[name]
            encode, batch_size = _fastest(peer.load(model, device, self.compute_dtype, directory), texts)
            does = f"{peer.does}, batches of {batch_size}, the fastest of {', '.join(map(str, _BATCH_SIZES))}"
            contestants.append(Contestant(name, does, _work(encode, texts, device)))
            tolerance = max(_TOLERANCES[self.compute_dtype], peer.tolerance)
            checks.append(_compare(name, embedder(texts), encode(texts), tolerance))
        tokens = [len(embedder.tokenizer.encode(text)) for text in texts]
        lengths = np.minimum(tokens, embedder.max_seq_length)
        return self.describe(
            self.measure(contestants),
            settings=self.settings(texts),
            amount=float(len(texts)),
            unit="sentences",
            checks=checks,
            environment=describe_machine(device, self.compute_dtype, peers),
            notes=(
                f"tokens of a text: mean {lengths.mean():.1f}, median {np.median(lengths):.0f}, "
                f"90% at most {np.quantile(lengths, 0.9):.0f}, longest {lengths.max()}",
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Latency(_VectorBenchmark):
    """One sentence at a time to its vector, in milliseconds."""

    name: ClassVar[str] = "latency"

    vs: Peers = "transformers"
    """Compared programs: transformers, in float32 with eager attention."""
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
        if peers:
            encode = _load_transformers(model, device)
            does = "AutoTokenizer and AutoModel on one text, float32, eager attention, mean over tokens"
            contestants.append(Contestant("transformers", does, _single_work(encode, texts, device)))
            ours, theirs = (np.concatenate([one([text]) for text in texts]) for one in (embedder, encode))
            checks.append(_compare("transformers", ours, theirs, _TOLERANCES[self.compute_dtype]))
        timings = self.measure(contestants)
        milliseconds = ", ".join(f"{timing.name} {timing.median * 1e3:.2f}" for timing in timings)
        return self.describe(
            timings,
            settings=self.settings(texts, tokens=self.tokens),
            unit="sentences",
            checks=checks,
            environment=describe_machine(device, self.compute_dtype, peers),
            notes=(f"milliseconds per sentence, one at a time: {milliseconds}",),
        )


def _sample_texts(path: Path, count: int) -> list[str]:
    """Return `count` texts that are not empty, from all over a file.

    Raises:
        InputError: the file has no text.
    """
    num_texts = sum(1 for text in read_texts(path) if text.strip())
    if not num_texts:
        raise InputError("has no text", where=path)
    every = max(1, num_texts // count)
    return list(islice((text for text in read_texts(path) if text.strip()), 0, every * count, every))


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


def _compare(peer: str, ours: npt.NDArray[Any], theirs: npt.NDArray[Any], tolerance: float) -> Check:
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    apart = 1 - float(((ours * theirs).sum(1) / norms).min())
    return Check(f"1 - smallest cosine of a text's vectors compared with {peer}", apart, tolerance)


def _load_transformers(directory: Path, device: torch.device) -> Encode:
    transformers = import_peer("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model: Any = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager")
    model.float().to(device).eval()

    def encode(texts: Sequence[str]) -> Vectors:
        batch = tokenizer(texts[0], return_tensors="pt", truncation=True).to(device)
        with torch.no_grad():
            vector: Vectors = model(**batch).last_hidden_state.mean(1).float().cpu().numpy()
        return vector

    return encode


def _load_sentence_transformers(
    directory: Path, device: torch.device, dtype: torch.dtype, _temporary: Path
) -> EncodeInBatches:
    library = import_peer("sentence_transformers")
    model = library.SentenceTransformer(
        str(directory), device=str(device), model_kwargs={"dtype": dtype}
    ).eval()

    return lambda texts, size: model.encode(list(texts), batch_size=size, show_progress_bar=False)


def _load_onnxruntime(
    directory: Path,
    _device: torch.device,
    _dtype: torch.dtype,
    temporary: Path,
    *,
    precision: Literal["float32", "int8"],
) -> EncodeInBatches:
    """Export the model, and run the graph as docs/export.md does, on texts sorted by length."""
    require(["onnx", "onnxruntime"], extra="onnx", where="ONNX")
    from cloze.export.onnx import MODEL_FILE, export_onnx

    graph = temporary / precision
    outputs = export_onnx(directory, graph, precision=precision).outputs
    if len(outputs) != 1:
        what = f"its graph returns {', '.join(outputs)}, not vectors"
        raise InputError(what, where=directory, remedy="Give a directory of sentence-transformers")
    onnxruntime = import_peer("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(graph / MODEL_FILE, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(graph / TOKENIZER_FILE))
    settings = json.loads((graph / TOKENIZER_CONFIG_FILE).read_text("utf-8"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(settings["model_max_length"])

    def encode(texts: Sequence[str], batch_size: int) -> Vectors:
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors: list[Any] = [None] * len(texts)
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            encodings = tokenizer.encode_batch([texts[i] for i in chosen])
            inputs = {
                "input_ids": [encoding.ids for encoding in encodings],
                "attention_mask": [encoding.attention_mask for encoding in encodings],
                "token_type_ids": [encoding.type_ids for encoding in encodings],
            }
            (batch_vectors,) = session.run(None, {name: np.array(rows) for name, rows in inputs.items()})
            for i, vector in zip(chosen, batch_vectors, strict=True):
                vectors[i] = vector
        return np.stack(vectors)

    return encode


class _Peer(NamedTuple):
    does: str
    load: Callable[[Path, torch.device, torch.dtype, Path], EncodeInBatches]
    tolerance: float = 0.0


_PEERS: Mapping[str, _Peer] = {
    "sentence-transformers": _Peer("encode()", _load_sentence_transformers),
    "onnxruntime": _Peer(
        "the float32 graph of cloze export, texts sorted by length",
        partial(_load_onnxruntime, precision="float32"),
    ),
    "onnxruntime-int8": _Peer(
        "the int8 graph of cloze export, texts sorted by length",
        partial(_load_onnxruntime, precision="int8"),
        tolerance=0.05,
    ),
}
