"""The engine that computes with ONNX Runtime, on CPUs and without torch.

Shapes: B sequences, L columns, T tokens in the packed batch, P masked positions, D hidden.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cloze.data.batch import MaskedBatch, PackedBatch
from cloze.errors import InputError
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import MAX_TOKENS_ON_CPU, FloatArray
from cloze.models.pooling import Pooling, pool_groups
from cloze.optional_dependencies import import_package

if TYPE_CHECKING:
    import onnxruntime

_MAX_OUTPUTS = 1 << 23  # numbers of an output, 32 MB: ONNX Runtime keeps the memory of the largest batch
_MIN_NORM = 1e-12  # as torch's normalize

TOKENS = "token_embeddings"
"""The name of the vectors of tokens in `run`, as `TokenEncoder` has it."""


def start_session(graph: Path | bytes, *, threads: int) -> "onnxruntime.InferenceSession":
    """Return ONNX Runtime's session of a graph; copies and pickles contain the graph, and start their own.

    Args:
        graph: a file or its contents.

    Raises:
        InputError: ONNX Runtime cannot read it.
    """
    runtime = import_package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.enable_mem_pattern = False  # plans for each new shape take memory and time

    def reduce(_: Any) -> tuple[Any, ...]:
        data = graph if isinstance(graph, bytes) else graph.read_bytes()
        return partial(start_session, data, threads=threads), ()

    session_class: Any = type("Session", (runtime.InferenceSession,), {"__reduce__": reduce})
    source = graph if isinstance(graph, bytes) else str(graph)
    kinds = runtime.capi.onnxruntime_pybind11_state
    try:
        session: onnxruntime.InferenceSession = session_class(
            source, options, providers=["CPUExecutionProvider"]
        )
    except (kinds.Fail, kinds.InvalidGraph, kinds.InvalidProtobuf, kinds.NotImplemented) as error:
        what = f"ONNX Runtime {runtime.__version__} cannot read it: {' '.join(str(error).split())[:200]}"
        where = None if isinstance(graph, bytes) else graph
        raise InputError(what, where=where, remedy="Export the model again, or update onnxruntime") from error
    return session


@dataclass(frozen=True, eq=False)
class OnnxEngine:
    """Some outputs of a graph."""

    session: "onnxruntime.InferenceSession"
    config: EncoderConfig
    num_parameters: int
    number_format: str
    names: Mapping[str, str]
    """The graph's name of each output, by the name that `run` gives it."""
    device_type: str = "cpu"

    @property
    def batch_tokens(self) -> int:
        """The number of tokens that it reads at once: fewer where each has scores of the whole vocabulary."""
        shapes = [output.shape for output in self.session.get_outputs() if output.name in self._token_outputs]
        width = max((shape[-1] for shape in shapes if len(shape) > 2), default=1)
        return min(MAX_TOKENS_ON_CPU, _MAX_OUTPUTS // width)

    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        """Return the outputs for a batch, padded for the graph; of a `MaskedBatch`, those of the masked tokens."""
        inputs, rows = _pad(batch)
        outputs = self.session.run(list(self.names.values()), inputs)
        return {
            name: values.reshape(-1, *values.shape[2:])[rows] if output in self._token_outputs else values
            for (name, output), values in zip(self.names.items(), outputs, strict=True)
        }

    @cached_property
    def _token_outputs(self) -> frozenset[str]:
        """The graph's outputs with a value for each token."""
        return frozenset(output.name for output in self.session.get_outputs() if "length" in output.shape)


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
        """The engine of the vectors of tokens."""
        return OnnxEngine(**{field.name: getattr(self, field.name) for field in fields(OnnxEngine)})

    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        """Return the vector of each text, [B, D]."""
        hidden_TD = super().run(batch)[TOKENS]
        vectors_BD = np.concatenate(pool_groups(hidden_TD, batch, self.pooling))
        if self.normalize:
            vectors_BD /= np.maximum(np.linalg.norm(vectors_BD, axis=1, keepdims=True), _MIN_NORM)
        return {"sentence_embedding": vectors_BD[:, : self.truncate_dim]}
