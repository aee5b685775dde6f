"""Compute with a graph that `cloze export` wrote, in ONNX Runtime: on CPUs and without torch.

Shapes: B sequences, L columns, T tokens in the packed batch, P masked positions, D hidden.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cloze import artifacts
from cloze.choices import GraphPrecision, InferencePrecision
from cloze.config import from_dict
from cloze.data.batch import MaskedBatch, PackedBatch
from cloze.errors import InputError, RunError, is_out_of_memory
from cloze.file_io import read_json
from cloze.file_names import GRAPH_FACTS_FILE, GRAPH_FILE
from cloze.inference.model import Model
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import (
    GRAPH_KIND,
    MODEL_ITSELF,
    RUNNING,
    FloatArray,
    HeadOutput,
    Output,
    VectorOutput,
    thread_pool,
)
from cloze.models.pooling import pool_groups
from cloze.models.sentence_transformers import SentenceEncoderConfig, load_sentence_encoder_config
from cloze.optional_dependencies import import_package, require
from cloze.process import compute_threads, openmp_threads
from cloze.tasks.arrays import normalize
from cloze.tokenization.loading import load_tokenizer

if TYPE_CHECKING:
    import onnxruntime

_HIDDEN, _TOKENS, _VECTORS = "last_hidden_state", "token_embeddings", "sentence_embedding"
_VECTOR_SHAPES: Mapping[str, tuple[str, ...]] = {
    _TOKENS: ("length", "hidden_size"),
    _VECTORS: ("dimensions",),
}
_SHAPES: Mapping[str | None, Mapping[str, tuple[str, ...]]] = {
    "BertForMaskedLM": {"logits": ("length", "vocab_size")},
    "BertForNextSentencePrediction": {"logits": ("two",)},
    "BertForSequenceClassification": {"logits": ("classes",)},
    "BertForTokenClassification": {"logits": ("length", "classes")},
    "BertForMultipleChoice": {"logits": ()},
    "BertForQuestionAnswering": {"start_logits": ("length",), "end_logits": ("length",)},
}
"""The shapes of outputs after the size of the batch, by their names in `run` and the class of the head."""
_LOGITS_OF_PRETRAINING = {
    "BertForMaskedLM": "prediction_logits",
    "BertForNextSentencePrediction": "seq_relationship_logits",
}
"""The output of a graph with both heads of pre-training for each of them."""
BATCH_TOKENS = 256  # activations stay in the cache of a core, and scores of the vocabulary take 31 MB
_MAX_NARROW, _MAX_SHORT = 384, 64  # hidden size and tokens that one thread computes as fast as two, idle
_SILENT = 4  # ONNX Runtime's log prints names of the file as they are; errors are exceptions, too
_EXPORT_AGAIN = "Export the model again: cloze export MODEL -o NEW"
_REMEDY = "Give the model that it was exported from"


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphFacts:
    """What `cloze export` wrote about a graph and answers need."""

    model: str
    outputs: tuple[str, ...]
    precision: GraphPrecision
    parameters: int
    encoder: EncoderConfig


class GraphOutput(NamedTuple):
    """An output as the description of a graph has it."""

    name: str
    width: tuple[int, ...]
    """Its sizes after the batch and the length."""
    is_of_tokens: bool
    """Whether it has a value for each token."""


class GraphModel(Model):
    """A graph whose files are verified and read once for all outputs that it has.

    Args:
        model: the checkpoint in whose place the graph answers; None for a graph of `cloze export`.
    """

    is_graph = True

    def __init__(
        self, directory: Path, device: str, precision: InferencePrecision | None, *, model: Path | None = None
    ) -> None:
        """Refuse another device or precision, and files that do not agree."""
        self._source, self._remedy = (directory, _REMEDY) if model is None else (model, MODEL_ITSELF)
        require(["onnxruntime"], extra="onnx", where=directory)
        artifacts.verify(directory, kind=GRAPH_KIND)
        self.facts = read_graph_facts(directory)
        super().__init__(directory, self.facts.encoder, load_tokenizer(directory))
        if precision not in (None, "auto", stored := self.facts.precision):
            raise InputError(f"is a graph in {stored}, not {precision}", where=directory, remedy=_REMEDY)
        if device not in ("auto", "cpu"):
            what = f"an exported graph runs on the CPU, not on {device}"
            raise InputError(what, where="device", remedy=_REMEDY)
        threads = openmp_threads() or compute_threads()  # torch's is 1 where a server loads
        self._session = self._short_session = start_session(directory / GRAPH_FILE, threads=threads)
        is_narrow = self.facts.precision == "int8" and self.config.hidden_size <= _MAX_NARROW
        if threads > 1 and is_narrow:  # which waits for other threads longer than they compute
            self._short_session = start_session(directory / GRAPH_FILE, threads=1)
        self.has_vectors = bool({_VECTORS, _HIDDEN} & {*self.facts.outputs})

    def has(self, output: HeadOutput) -> bool:
        return bool(self._logits(output))

    def start(self, output: Output) -> "GraphEngine":
        facts, config = self.facts, self.config
        sizes = {"vocab_size": config.vocab_size, "hidden_size": config.hidden_size, "two": 2}
        if isinstance(output, VectorOutput):
            names, shapes = self._vectors(output), _VECTOR_SHAPES
            description = f"vectors of {'texts' if output.pooling else 'tokens'}"
            sizes["dimensions"] = min(output.truncate_dim or config.hidden_size, config.hidden_size)
        else:
            names, shapes = self._logits(output), _SHAPES.get(output.head_name, {})
            description, sizes["classes"] = output.description, output.num_classes
        if not names:
            what = f"a graph of {facts.model}, without {description}"
            raise InputError(what, where=self._source, remedy=self._remedy)
        outputs = {}
        for name, stored in names.items():
            width = tuple(sizes[size] for size in shapes[name] if size != "length")
            outputs[name] = GraphOutput(stored, width, "length" in shapes[name])
        return GraphEngine(self, outputs, output)

    def compute(self, names: Sequence[str], inputs: Mapping[str, Any]) -> Any:
        """Return some outputs of the graph. Ctrl-C ends a long text; a short one ends within a moment."""
        size = inputs["input_ids"].size
        if size <= BATCH_TOKENS:
            return self._run(self._short_session if size <= _MAX_SHORT else self._session, names, inputs)
        options = import_package("onnxruntime").RunOptions()
        RUNNING.add(options)  # until it has ended, also where the main thread no longer waits for it
        if threading.current_thread() is threading.main_thread():  # which handles signals while it waits
            return thread_pool(1).submit(self._run_long, names, inputs, options).result()
        return self._run_long(names, inputs, options)

    def _run_long(self, names: Sequence[str], inputs: Mapping[str, Any], options: Any) -> Any:
        try:
            return self._run(self._session, names, inputs, options)
        finally:
            RUNNING.discard(options)

    @staticmethod
    def _run(session: Any, *arguments: Any) -> Any:
        try:
            return session.run(*arguments)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            what = f"ONNX Runtime cannot compute it: {_one_line(error)}"
            raise RunError(what, remedy=_EXPORT_AGAIN) from error

    def check_outputs(self) -> None:
        """Refuse a graph that has other outputs than its description."""
        if [stored.name for stored in self._session.get_outputs()] != list(self.facts.outputs):
            raise RunError(f"its outputs are not {', '.join(self.facts.outputs)}")

    def _logits(self, output: HeadOutput) -> dict[str, str]:
        """Return the outputs of the graph that are those of a head, by their names in `run`."""
        if self.facts.model == output.head_name:
            return {name: name for name in _SHAPES.get(self.facts.model, ())}
        name = _LOGITS_OF_PRETRAINING.get(output.head_name or "")
        return {"logits": name} if name and self.facts.model == "BertForPreTraining" else {}

    def _vectors(self, output: VectorOutput) -> dict[str, str]:
        """Return the output of the graph from which vectors are computed, by its name in `run`."""
        if output.layers not in (None, (self.config.num_hidden_layers,)):
            raise InputError("a graph has the last layer alone", where="layers", remedy=self._remedy)
        if _HIDDEN in self.facts.outputs:
            return {_TOKENS: _HIDDEN}
        if output.pooling is None or _VECTORS not in self.facts.outputs:
            return {}
        stored = load_sentence_encoder_config(self.directory) or SentenceEncoderConfig()
        for name in ("pooling", "normalize", "truncate_dim"):
            value, expected = getattr(output, name), getattr(stored, name)
            if value != expected:
                what = f"the exported graph has {expected}, not {value}"
                raise InputError(what, where=name, remedy=self._remedy)
        return {_VECTORS: _VECTORS}


class GraphEngine:
    """Some outputs of a graph, by the names that `run` gives them; from vectors of tokens, those of texts."""

    device_type = "cpu"
    batch_tokens = BATCH_TOKENS

    def __init__(self, model: GraphModel, outputs: Mapping[str, GraphOutput], output: Output) -> None:
        """Compute a small batch, and refuse a graph that has other inputs or outputs than its description."""
        self.number_format: str = model.facts.precision
        self.num_parameters = model.facts.parameters
        self._model, self._outputs = model, outputs
        self._output: Any = output
        self._pooling = getattr(output, "pooling", None) if _TOKENS in outputs else None
        self._names = [stored.name for stored in outputs.values()]
        ids_BL = np.zeros((2, min(3, model.config.max_position_embeddings)), np.int64)
        inputs = {"input_ids": ids_BL, "attention_mask": ids_BL + 1, "token_type_ids": ids_BL}
        try:
            model.check_outputs()
            arrays = model.compute(self._names, inputs)
            for graph_output, array in zip(outputs.values(), arrays, strict=True):
                shape = (*ids_BL.shape[: 1 + graph_output.is_of_tokens], *graph_output.width)
                actual = getattr(array, "dtype", None), getattr(array, "shape", None)
                if actual != (np.float32, shape):
                    name = graph_output.name
                    raise RunError(f"its output {name} is {actual[0]} {actual[1]}, not float32 {shape}")
        except (RunError, UnicodeDecodeError) as error:
            problem = getattr(error, "what", error)
            what = f"not the graph that {GRAPH_FACTS_FILE} describes: {problem}"
            raise InputError(what, where=model.directory / GRAPH_FILE, remedy=_EXPORT_AGAIN) from error

    def run(self, batch: PackedBatch) -> Mapping[str, FloatArray]:
        """Return the outputs for a batch, padded for the graph; for a `MaskedBatch` only at the masked tokens."""
        inputs, rows = _pad(batch)
        arrays = self._model.compute(self._names, inputs)
        values = {
            name: array.reshape(-1, *output.width)[rows] if output.is_of_tokens else array
            for (name, output), array in zip(self._outputs.items(), arrays, strict=True)
        }
        if self._pooling:
            values = {_VECTORS: np.concatenate(pool_groups(values[_TOKENS], batch, self._pooling))}
        if not all(np.isfinite(array).all() for array in values.values()):
            remedy = "Export the model again in float32, or use the model itself"
            raise RunError("the exported graph computes values that are not finite", remedy=remedy)
        if self._pooling:
            vectors_BD = normalize(values[_VECTORS]) if self._output.normalize else values[_VECTORS]
            values = {_VECTORS: vectors_BD[:, : self._output.truncate_dim]}
        return values


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


def start_session(graph: Path | bytes, *, threads: int) -> "onnxruntime.InferenceSession":
    """Return ONNX Runtime's session of a graph; copies and pickles contain the graph, and start their own."""
    runtime = import_package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.enable_mem_pattern = False  # plans for each new shape take memory and time
    # on a busy machine a thread that spins holds the core that the others wait for
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # with AVX-512 Gelu is faster than BiasGelu
    options.add_session_config_entry("optimization.disable_specified_optimizers", "BiasGeluFusion")
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


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def read_graph_facts(directory: Path) -> GraphFacts:
    """Return what `cloze export` wrote about a graph."""
    where = directory / GRAPH_FACTS_FILE
    table, names = read_json(where), [field.name for field in fields(GraphFacts)]
    return from_dict(GraphFacts, {name: table[name] for name in names if name in table}, where=str(where))
