"""A graph that `cloze export` wrote, as a source of models: ONNX Runtime computes, and torch is not imported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from cloze import artifacts
from cloze.choices import Combine, GraphPrecision, InferencePrecision
from cloze.config import from_dict
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE, GRAPH_FACTS_FILE, GRAPH_FILE
from cloze.inference.model_files import HeadKind, ModelFiles
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import Engine
from cloze.models.graph import ENCODER_FACTS, GRAPH_KIND, INPUTS
from cloze.models.onnx_engine import (
    EXPORT_AGAIN,
    TOKENS,
    GraphOutput,
    OnnxEngine,
    PooledEngine,
    start_session,
)
from cloze.models.pooling import Pooling
from cloze.models.sentence_transformers import SentenceEncoderConfig, load_sentence_encoder_config
from cloze.optional_dependencies import require
from cloze.process import compute_threads, openmp_threads
from cloze.tasks.task import AnyTask

if TYPE_CHECKING:
    import onnxruntime

_HIDDEN, _VECTORS = "last_hidden_state", "sentence_embedding"
_VECTOR_SHAPES: Mapping[str, tuple[str, ...]] = {
    _HIDDEN: ("length", "hidden_size"),
    _VECTORS: ("dimensions",),
}
_SHAPES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "BertForPreTraining": {
        "prediction_logits": ("length", "vocab_size"),
        "seq_relationship_logits": ("two",),
    },
    "BertForMaskedLM": {"logits": ("length", "vocab_size")},
    "BertForNextSentencePrediction": {"logits": ("two",)},
    "BertForSequenceClassification": {"logits": ("classes",)},
    "BertForTokenClassification": {"logits": ("length", "classes")},
    "BertForMultipleChoice": {"logits": ()},
    "BertForQuestionAnswering": {"start_logits": ("length",), "end_logits": ("length",)},
}
"""The shapes of outputs after the size of the batch, by the class of the model."""
_LOGITS: Mapping[HeadKind, tuple[str, ...]] = {
    "masked-word": ("length", "vocab_size"),
    "next-sentence": ("two",),
}
"""The shape of the logits of each head."""
_REMEDY = "Give the model that it was exported from"


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphFacts:
    """What `cloze export` wrote about a graph and answers need."""

    model: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    precision: GraphPrecision
    parameters: int
    encoder: EncoderConfig


@dataclass(frozen=True)
class ExportedGraph(ModelFiles):
    """A graph whose files are verified and read once for all the answers that it gives."""

    @classmethod
    def open(cls, directory: Path, precision: InferencePrecision | None) -> "ExportedGraph":
        """Return the graph in a directory; refuse another precision, and files that do not agree."""
        require(["onnxruntime"], extra="onnx", where=directory)
        artifacts.verify(directory, kind=GRAPH_KIND)
        graph = cls(directory)
        graph._check_sizes()
        stored = graph._facts.precision
        if precision not in (None, "auto", stored):
            what = f"is a graph in {stored}, not {precision}"
            is_exported = precision in get_args(GraphPrecision)
            remedy = f"Export one: cloze export MODEL --precision {precision}" if is_exported else _REMEDY
            raise InputError(what, where=directory, remedy=remedy)
        return graph

    @property
    def config(self) -> EncoderConfig:
        return self._facts.encoder

    def has(self, head: HeadKind) -> bool:
        if head == "vectors":
            return bool({_VECTORS, _HIDDEN} & {*self._facts.outputs})
        return self._logits(head) is not None

    def finetuned_engine(self, task: AnyTask, *, device: str) -> Engine:
        if not task.answer.has_head:  # its settings are those of the files: they are part of the graph
            stored = load_sentence_encoder_config(self.directory) or SentenceEncoderConfig()
            return self.vector_engine(
                stored.pooling,
                normalize=stored.normalize,
                truncate_dim=stored.truncate_dim,
                layers=(self.config.num_hidden_layers,),
                combine="sum",
                device=device,
            )
        if (model := self._facts.model) != task.answer.head_name or model not in _SHAPES:
            what = f"a graph of {model}, without a head for the task {task.name}"
            raise InputError(what, where=self.directory, remedy="Export a model of cloze finetune")
        return self._engine(
            {name: name for name in _SHAPES[model]}, device, classes=len(task.answer.class_names)
        )

    def masked_lm_engine(self, *, device: str) -> Engine:
        return self._pretrained_engine("masked-word", device)

    def next_sentence_engine(self, *, device: str) -> Engine:
        return self._pretrained_engine("next-sentence", device)

    def vector_engine(
        self,
        pooling: Pooling,
        *,
        normalize: bool,
        truncate_dim: int | None,
        layers: tuple[int, ...],
        combine: Combine,
        device: str,
    ) -> Engine:
        if layers != (self.config.num_hidden_layers,):
            raise InputError("an exported graph has the last layer alone", where="layers", remedy=_REMEDY)
        asked: dict[str, Any] = {"pooling": pooling, "normalize": normalize, "truncate_dim": truncate_dim}
        if _HIDDEN in self._facts.outputs:
            return self._engine({TOKENS: _HIDDEN}, device, partial(PooledEngine, **asked))
        if not self.has("vectors"):
            what = f"a graph of {self._facts.model}, without vectors of texts"
            raise InputError(
                what,
                where=self.directory,
                remedy="Export what cloze.Embedder.load(MODEL).save(NEW) writes, in Python",
            )
        stored = load_sentence_encoder_config(self.directory) or SentenceEncoderConfig()
        for name, value in asked.items():
            if value != getattr(stored, name):
                what = f"the exported graph has {getattr(stored, name)}, not {value}"
                raise InputError(what, where=name, remedy=f"Leave it out, or g{_REMEDY[1:]}")
        width = min(truncate_dim or self.config.hidden_size, self.config.hidden_size)
        return self._engine({_VECTORS: _VECTORS}, device, dimensions=width)

    @cached_property
    def _facts(self) -> GraphFacts:
        return read_graph_facts(self.directory)

    @cached_property
    def _session(self) -> "onnxruntime.InferenceSession":
        threads = openmp_threads() or compute_threads()  # torch's is 1 where a server loads
        return start_session(self.directory / GRAPH_FILE, threads=threads)

    def _check_sizes(self) -> None:
        config = read_json(self.directory / CONFIG_FILE)
        rows = {"max_position_embeddings": 1 + self.tokenizer.pad_id}  # of RoBERTa, before the first position
        for name in ENCODER_FACTS:
            size = getattr(self.config, name)
            if config.get(name, size) not in (size, size + rows.get(name, 0)):
                what = f"{name} is {size}, in {CONFIG_FILE} {config[name]!r}"
                raise InputError(what, where=self.directory / GRAPH_FACTS_FILE, remedy=EXPORT_AGAIN)

    def _engine(
        self, names: dict[str, str], device: str, make: Callable[..., OnnxEngine] = OnnxEngine, **sizes: int
    ) -> OnnxEngine:
        """Return the engine of some outputs of the graph, by their names in `run`, if it is as described."""
        if device not in ("auto", "cpu"):
            what = f"an exported graph runs on the CPU, not on {device}"
            raise InputError(what, where="device", remedy=f"Leave it out, or g{_REMEDY[1:]}")
        facts, config = self._facts, self.config
        sizes |= {"vocab_size": config.vocab_size, "hidden_size": config.hidden_size, "two": 2}
        shapes = {**_VECTOR_SHAPES, **_SHAPES.get(facts.model, {})}
        outputs = {}
        for name, output in names.items():
            width = tuple(sizes[size] for size in shapes[output] if size != "length")
            outputs[name] = GraphOutput(output, width, "length" in shapes[output])
        engine = make(self._session, config, facts.parameters, facts.precision, outputs)
        engine.check(self.directory / GRAPH_FILE, facts.outputs)
        return engine

    def _logits(self, head: HeadKind) -> str | None:
        """Return the output with the logits of a head."""
        shapes = _SHAPES.get(self._facts.model, {})
        return next((name for name, shape in shapes.items() if shape == _LOGITS[head]), None)

    def _pretrained_engine(self, head: HeadKind, device: str) -> OnnxEngine:
        if (logits := self._logits(head)) is None:
            what = f"a graph of {self._facts.model}, without the {head} head"
            remedy = "Export a pre-trained model: cloze export MODEL -o NEW"
            raise InputError(what, where=self.directory, remedy=remedy)
        return self._engine({"logits": logits}, device)


def read_graph_facts(directory: Path) -> GraphFacts:
    """Return what `cloze export` wrote about a graph; refuse missing facts and other inputs."""
    where, remedy = directory / GRAPH_FACTS_FILE, EXPORT_AGAIN
    table = read_json(where)
    names = [field.name for field in fields(GraphFacts)]
    missing = [name for name in names if name not in table]
    if not missing and isinstance(table["encoder"], dict):
        missing = [f"encoder.{name}" for name in ENCODER_FACTS if name not in table["encoder"]]
    if missing:
        raise InputError(f"{missing[0]} is missing", where=where, remedy=remedy)
    facts = from_dict(GraphFacts, {name: table[name] for name in names}, where=str(where))
    try:
        facts.encoder.check_size()
    except ValueError as error:
        raise InputError(str(error), where=where, remedy=remedy) from None
    if facts.inputs != INPUTS:
        raise InputError(f"the inputs are not {', '.join(INPUTS)}", where=where, remedy=remedy)
    return facts
