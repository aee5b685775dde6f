"""A graph that `cloze export` wrote, as a source of models: ONNX Runtime computes, and torch is not imported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from cloze import artifacts
from cloze.choices import Combine, GraphPrecision, InferencePrecision
from cloze.config import from_dict
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import GRAPH_FACTS_FILE, GRAPH_FILE
from cloze.inference.model_files import HeadKind, ModelFiles
from cloze.models.encoder_config import EncoderConfig
from cloze.models.engine import Engine
from cloze.models.graph import GRAPH_KIND
from cloze.models.onnx_engine import TOKENS, OnnxEngine, PooledEngine, start_session
from cloze.models.pooling import Pooling
from cloze.models.sentence_transformers import SentenceEncoderConfig, load_sentence_encoder_config
from cloze.optional_dependencies import require
from cloze.process import compute_threads, openmp_threads
from cloze.tasks.task import AnyTask

if TYPE_CHECKING:
    import onnxruntime

_LOGITS: Mapping[HeadKind, Mapping[str, str]] = {
    "masked-word": {"BertForMaskedLM": "logits", "BertForPreTraining": "prediction_logits"},
    "next-sentence": {
        "BertForNextSentencePrediction": "logits",
        "BertForPreTraining": "seq_relationship_logits",
    },
}
"""The output with the logits of each head, by the class of the model."""
_HIDDEN, _VECTORS = "last_hidden_state", "sentence_embedding"
_REMEDY = "Give the model that it was exported from"
_FACTS = ("model", "outputs", "precision", "parameters", "encoder")


@dataclass(frozen=True)
class ExportedGraph(ModelFiles):
    """A graph whose files are verified and read once for all the answers that it gives."""

    @classmethod
    def open(cls, directory: Path, precision: InferencePrecision | None) -> "ExportedGraph":
        """Return the graph in a directory.

        Raises:
            InputError: a file is not as it was written, or the graph has another precision.
        """
        require(["onnxruntime"], extra="onnx", where=directory)
        artifacts.verify(directory, kind=GRAPH_KIND)
        graph = cls(directory)
        stored = graph._facts["precision"]
        if precision not in (None, "auto", stored):
            what = f"is a graph in {stored}, not {precision}"
            is_exported = precision in get_args(GraphPrecision)
            remedy = f"Export one: cloze export MODEL --precision {precision}" if is_exported else _REMEDY
            raise InputError(what, where=directory, remedy=remedy)
        return graph

    @cached_property
    def config(self) -> EncoderConfig:
        """The sizes of the encoder."""
        where = str(self.directory / GRAPH_FACTS_FILE)
        config: EncoderConfig = from_dict(EncoderConfig, self._facts["encoder"], where=where)
        return config

    def has(self, head: HeadKind) -> bool:
        """Return whether it has a head, or vectors of tokens to pool."""
        if head == "vectors":
            return bool({_VECTORS, _HIDDEN} & {*self._facts["outputs"]})
        return self._facts["model"] in _LOGITS[head]

    def finetuned_engine(self, task: AnyTask, *, device: str) -> Engine:
        """Return the engine of the model with the head of a task.

        Raises:
            InputError: the graph has another head.
        """
        if not task.has_head:  # its settings are those of the files: they are part of the graph
            stored = load_sentence_encoder_config(self.directory) or SentenceEncoderConfig()
            return self.vector_engine(
                stored.pooling,
                normalize=stored.normalize,
                truncate_dim=stored.truncate_dim,
                layers=(self.config.num_hidden_layers,),
                combine="sum",
                device=device,
            )
        if (model := self._facts["model"]) != task.head_name:
            what = f"a graph of {model}, without a head for the task {task.name}"
            raise InputError(what, where=self.directory, remedy="Export a model of cloze finetune")
        return self._engine({name: name for name in self._facts["outputs"]}, device)

    def masked_lm_engine(self, *, device: str) -> Engine:
        """Return the engine whose `logits` are of masked tokens.

        Raises:
            InputError: the graph has no such head.
        """
        return self._pretrained_engine("masked-word", device)

    def next_sentence_engine(self, *, device: str) -> Engine:
        """Return the engine whose `logits` are of the next-sentence classes.

        Raises:
            InputError: the graph has no such head.
        """
        return self._pretrained_engine("next-sentence", device)

    def vector_engine(
        self,
        pooling: Pooling | None,
        *,
        normalize: bool,
        truncate_dim: int | None,
        layers: tuple[int, ...],
        combine: Combine,
        device: str,
    ) -> Engine:
        """Return the engine for the vectors of texts, or of tokens where `pooling` is None.

        Raises:
            InputError: the graph has no vectors, or has others than those asked for.
        """
        if layers != (self.config.num_hidden_layers,):
            raise InputError("an exported graph has the last layer alone", where="layers", remedy=_REMEDY)
        asked: dict[str, Any] = {"pooling": pooling, "normalize": normalize, "truncate_dim": truncate_dim}
        if _HIDDEN in self._facts["outputs"]:
            make = OnnxEngine if pooling is None else partial(PooledEngine, **asked)
            return self._engine({TOKENS: _HIDDEN}, device, make)
        if not self.has("vectors"):
            what = f"a graph of {self._facts['model']}, without vectors of texts"
            raise InputError(
                what,
                where=self.directory,
                remedy="Export what cloze.Embedder.load(MODEL).save(NEW) writes, in Python",
            )
        stored = load_sentence_encoder_config(self.directory) or SentenceEncoderConfig()
        for name, value in asked.items():
            if value != getattr(stored, name):
                what = f"the exported graph has {getattr(stored, name)}, not {value or 'idf_mean'}"
                raise InputError(what, where=name, remedy=f"Leave it out, or g{_REMEDY[1:]}")
        return self._engine({_VECTORS: _VECTORS}, device)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return read_graph_facts(self.directory)

    @cached_property
    def _session(self) -> "onnxruntime.InferenceSession":
        threads = openmp_threads() or compute_threads()  # torch's is 1 where a server loads
        return start_session(self.directory / GRAPH_FILE, threads=threads)

    def _engine(
        self, names: dict[str, str], device: str, make: Callable[..., OnnxEngine] = OnnxEngine
    ) -> OnnxEngine:
        if device not in ("auto", "cpu"):
            what = f"an exported graph runs on the CPU, not on {device}"
            raise InputError(what, where="device", remedy=f"Leave it out, or g{_REMEDY[1:]}")
        return make(self._session, self.config, self._facts["parameters"], self._facts["precision"], names)

    def _pretrained_engine(self, head: HeadKind, device: str) -> OnnxEngine:
        model = self._facts["model"]
        if not self.has(head):
            what = f"a graph of {model}, without the {head} head"
            remedy = "Export a pre-trained model: cloze export MODEL -o NEW"
            raise InputError(what, where=self.directory, remedy=remedy)
        return self._engine({"logits": _LOGITS[head][model]}, device)


def read_graph_facts(directory: Path) -> dict[str, Any]:
    """Return what `cloze export` wrote about a graph.

    Raises:
        InputError: a fact is missing.
    """
    facts = read_json(directory / GRAPH_FACTS_FILE)
    if missing := [name for name in _FACTS if name not in facts]:
        remedy = "Export the model again: cloze export MODEL -o NEW"
        raise InputError(f"{missing[0]} is missing", where=directory / GRAPH_FACTS_FILE, remedy=remedy)
    return facts
