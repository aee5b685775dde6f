"""The engine that computes with ONNX Runtime, on CPUs and without torch.

Shapes: B sequences, L columns, T tokens in the packed batch, P masked positions, D hidden.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cloze.data.batch import MaskedBatch, PackedBatch
from cloze.errors import InputError, RunError, is_out_of_memory
from cloze.file_names import CONFIG_FILE, GRAPH_FACTS_FILE
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import MAX_TOKENS_ON_CPU, RUNNING, FloatArray
from cloze.models.pooling import Pooling, pool_groups
from cloze.optional_dependencies import import_package

if TYPE_CHECKING:
    import onnxruntime

_MAX_OUTPUTS = 1 << 23  # numbers of an output, 32 MB: ONNX Runtime keeps the memory of the largest batch
_MIN_NORM = 1e-12  # as torch's normalize
_SILENT = 4  # ONNX Runtime's log prints names of the file as they are; errors are exceptions, too
EXPORT_AGAIN = "Export the model again: cloze export MODEL -o NEW"

TOKENS = "token_embeddings"
"""The name of the vectors of tokens in `run`, as `TokenEncoder` has it."""


def start_session(graph: Path | bytes, *, threads: int) -> "onnxruntime.InferenceSession":
    """Return ONNX Runtime's session of a graph; copies and pickles contain the graph, and start their own."""
    runtime = import_package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.enable_mem_pattern = False  # plans for each new shape take memory and time
    options.log_severity_level = _SILENT

    def reduce(_: Any) -> tuple[Any, ...]:
        data = graph if isinstance(graph, bytes) else graph.read_bytes()
        return partial(start_session, data, threads=threads), ()

    session_class: Any = type("Session", (runtime.InferenceSession,), {"__reduce__": reduce})
    source = graph if isinstance(graph, bytes) else str(graph)
    try:
        session: onnxruntime.InferenceSession = session_class(
            source, options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # also UnicodeDecodeError, of a message with a name in the file
        if is_out_of_memory(error):
            raise
        what = f"ONNX Runtime {runtime.__version__} cannot read it: {_one_line(error)}"
        where = None if isinstance(graph, bytes) else graph
        raise InputError(what, where=where, remedy="Export the model again, or update onnxruntime") from error
    return session


class GraphOutput(NamedTuple):
    """An output as the description of a graph has it."""

    name: str
    width: tuple[int, ...]
    """Its sizes after the batch and the length."""
    is_of_tokens: bool
    """Whether it has a value for each token."""


@dataclass(frozen=True, eq=False)
class OnnxEngine:
    """Some outputs of a graph."""

    session: "onnxruntime.InferenceSession"
    config: EncoderConfig
    num_parameters: int
    number_format: str
    outputs: Mapping[str, GraphOutput]
    """By the names that `run` gives them."""
    device_type: str = "cpu"

    @property
    def batch_tokens(self) -> int:
        """The number of tokens that it reads at once: fewer where each has scores of the whole vocabulary."""
        widths = (output.width[0] for output in self.outputs.values() if output.is_of_tokens and output.width)
        return min(MAX_TOKENS_ON_CPU, _MAX_OUTPUTS // max(widths, default=1))

    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        """Return the outputs for a batch, padded for the graph; for a `MaskedBatch` only at the masked tokens.

        Raises:
            RunError: the graph cannot be computed, or its outputs are not finite or of another shape than described.
        """
        inputs, rows = _pad(batch)
        values = {
            name: array.reshape(-1, *output.width)[rows] if output.is_of_tokens else array
            for (name, output), array in zip(self.outputs.items(), self._compute(inputs), strict=True)
        }
        if not all(np.isfinite(array).all() for array in values.values()):
            remedy = "Export the model again in float32, or use the model itself"
            raise RunError("the exported graph computes values that are not finite", remedy=remedy)
        return values

    def check(self, graph: Path, outputs: Sequence[str]) -> None:
        """Compute a small batch, and refuse a graph that has other inputs or outputs than its description."""
        ids_BL = np.zeros((2, min(3, self.config.max_position_embeddings)), np.int64)
        try:
            if [output.name for output in self.session.get_outputs()] != list(outputs):
                raise RunError(f"its outputs are not {', '.join(outputs)}")
            self._compute({"input_ids": ids_BL, "attention_mask": ids_BL + 1, "token_type_ids": ids_BL})
        except (RunError, UnicodeDecodeError) as error:
            problem = getattr(error, "what", error)
            what = f"not the graph that {GRAPH_FACTS_FILE} and {CONFIG_FILE} describe: {problem}"
            raise InputError(what, where=graph, remedy=EXPORT_AGAIN) from error

    def _compute(self, inputs: Mapping[str, Any]) -> list[FloatArray]:
        try:
            names = [output.name for output in self.outputs.values()]
            arrays: list[FloatArray] = _run(self.session, names, inputs)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            raise RunError(
                f"ONNX Runtime cannot compute it: {_one_line(error)}", remedy=EXPORT_AGAIN
            ) from error
        for output, array in zip(self.outputs.values(), arrays, strict=True):
            shape = (*inputs["input_ids"].shape[: 1 + output.is_of_tokens], *output.width)
            actual = getattr(array, "dtype", None), getattr(array, "shape", None)
            if actual != (np.float32, shape):
                what = f"its output {output.name} is {actual[0]} {actual[1]}, not float32 {shape}"
                raise RunError(what, remedy=EXPORT_AGAIN)
        return arrays


def _run(session: "onnxruntime.InferenceSession", names: Sequence[str], inputs: Mapping[str, Any]) -> Any:
    """Run a graph so that Ctrl-C ends it, whatever loops it has.

    The main thread waits for another one: within ONNX Runtime it could not handle signals.
    """
    options = import_package("onnxruntime").RunOptions()
    options.log_severity_level = _SILENT
    RUNNING.add(options)
    try:
        if threading.current_thread() is not threading.main_thread():
            return session.run(names, inputs, options)
        return _other_thread().submit(session.run, names, inputs, options).result()
    finally:
        options.terminate = True
        RUNNING.discard(options)


@cache
def _other_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="cloze-graph")


os.register_at_fork(after_in_child=_other_thread.cache_clear)  # a forked process has no threads but its first


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _pad(batch: PackedBatch) -> tuple[dict[str, Any], Any]:
    """Return the inputs of a graph, [B, L], and the indices of the requested tokens among the B x L positions."""
    requested = batch.masked_lm_positions if isinstance(batch, MaskedBatch) else slice(None)
    names = ("input_ids", "token_type_ids")
    if len(batch.length_groups) == 1:  # nothing to pad
        (group,) = batch.length_groups
        inputs = {name: getattr(batch, name).reshape(group.count, group.length) for name in names}
        return {**inputs, "attention_mask": np.ones_like(inputs["input_ids"])}, requested
    is_real_BL = np.arange(batch.max_seqlen) < np.diff(batch.cu_seqlens)[:, None]
    inputs = {name: np.zeros(is_real_BL.shape, np.int64) for name in names}
    for name, ids_BL in inputs.items():
        ids_BL[is_real_BL] = getattr(batch, name)
    return {**inputs, "attention_mask": is_real_BL.astype(np.int64)}, np.flatnonzero(is_real_BL)[requested]


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledEngine(OnnxEngine):
    """The vectors of texts, from those of their tokens, which are the one output of the graph in `names`."""

    pooling: Pooling
    normalize: bool
    truncate_dim: int | None

    @property
    def tokens(self) -> OnnxEngine:
        return OnnxEngine(**{field.name: getattr(self, field.name) for field in fields(OnnxEngine)})

    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        """Return the vector of each text, [B, D]."""
        hidden_TD = super().run(batch)[TOKENS]
        vectors_BD = np.concatenate(pool_groups(hidden_TD, batch, self.pooling))
        if self.normalize:
            vectors_BD /= np.maximum(np.linalg.norm(vectors_BD, axis=1, keepdims=True), _MIN_NORM)
        return {"sentence_embedding": vectors_BD[:, : self.truncate_dim]}
