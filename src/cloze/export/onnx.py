"""Export a model as an ONNX graph, checked in ONNX Runtime before it is written."""

import dataclasses
import hashlib
import json
import logging
import math
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from cloze import artifacts
from cloze.choices import GraphPrecision
from cloze.errors import InputError, RunError, is_out_of_memory
from cloze.export.graph import INT8_LIMIT, MAX_INT8, OPSET, build_graph, padded_outputs
from cloze.file_io import cache_directory, read_json
from cloze.file_names import CARD_FILE, CONFIG_FILE, GRAPH_FACTS_FILE, GRAPH_FILE, TASK_FILE
from cloze.markdown import render_markdown
from cloze.model_paths import is_graph, resolve_checkpoint
from cloze.models.config_file import load_labels
from cloze.models.encoder import get_encoder
from cloze.models.engine import ENCODER_FACTS, GRAPH_KIND, GRAPH_PACKAGES, INPUTS, MODEL_ITSELF, VectorOutput
from cloze.models.external_weights import ExternalModel, load_external_model
from cloze.models.heads import BertForFeatureExtraction, SentenceEncoder
from cloze.models.sentence_transformers import load_sentence_encoder_config, save_sentence_encoder_config
from cloze.models.torch_internals import cpu_instructions
from cloze.models.weight_files import weight_files
from cloze.optional_dependencies import import_package
from cloze.results import Result
from cloze.training.model_card import BaseModel

LOG = logging.getLogger(__name__)
TOLERANCE = 1e-4
RELATIVE_TOLERANCE = 1e-5
"""A float32 graph differs from torch by at most the first, plus the second for each unit of the largest output."""

_MAX_FILE_BYTES = 2**31 - 2**20  # protocol buffers end at 2 GB
_SEED = 12345
_INT8_FORMAT = 1
"""A change of the int8 graphs that neither a file nor a version shows; it makes them again."""
_MAX_COMPARED_LENGTH = 1024  # a graph computes all pairs of tokens
_DATA_ROWS = tuple(f"| {role} |" for role in (artifacts.LEARNED_FROM, artifacts.SCORED_ON))
"""The starts of the rows about data in the card of a run."""


@dataclass(frozen=True, slots=True)
class ParityCheck:
    """The difference between a graph and torch on one padded batch."""

    batch: int
    length: int
    largest_difference: float
    largest_value: float
    """Of torch's outputs, in absolute terms, for comparison with the difference."""
    lowest_cosine: float
    """Of a text's or a token's outputs, with torch's."""

    @property
    def limit(self) -> float:
        """The largest difference of a float32 graph."""
        return TOLERANCE + RELATIVE_TOLERANCE * self.largest_value


@dataclass(frozen=True, slots=True, repr=False)
class ExportReport(Result):
    """The written graph and its checks."""

    model: str
    precision: GraphPrecision
    outputs: tuple[str, ...]
    bytes: int
    checks: tuple[ParityCheck, ...]
    """A float32 graph has passed them; for others they measure the loss of precision."""


def export_onnx(
    source: Path | str, output: Path, *, precision: GraphPrecision = "float32", overwrite: bool = False
) -> ExportReport:
    """Write a model as an ONNX graph with its tokenizer, for ONNX Runtime without cloze or torch.

    Args:
        source: a checkpoint of cloze or transformers, or a run, whose best or else latest checkpoint is exported.
        output: the directory to write, atomically.

    Raises:
        InputError: the source is damaged, a model without a graph, or too large for one file; the output exists.
        RunError: a float32 graph differs from torch by more than its limit, or another returns values that are not
            finite; the disk is full.
    """
    artifacts.check_output_path(Path(output), overwrite=overwrite, inputs=[source])
    checkpoint = resolve_checkpoint(source)
    loaded = _load(checkpoint)
    graph = _trace(loaded.model, checkpoint, precision, INT8_LIMIT)
    checks = compare_with_torch(graph.SerializeToString(), loaded.model)
    for check in checks:
        difference, is_limited = check.largest_difference, precision == "float32"
        if not math.isfinite(difference) or (is_limited and difference > check.limit):
            limit = f", the limit is {check.limit:.2g}" if is_limited else ""
            raise RunError(f"the graph differs from torch by {difference:.2g}{limit}", where=checkpoint)
    with artifacts.write_directory(Path(output), kind=GRAPH_KIND, overwrite=overwrite) as directory:
        report = _fill(directory, loaded, graph, precision, checks)
        if (checkpoint / TASK_FILE).is_file():
            shutil.copyfile(checkpoint / TASK_FILE, directory / TASK_FILE)
        if (sentence_encoder := load_sentence_encoder_config(checkpoint)) is not None:
            hidden_size = get_encoder(loaded.model).config.hidden_size
            save_sentence_encoder_config(directory, sentence_encoder, hidden_size=hidden_size)
        problem_type = read_json(checkpoint / CONFIG_FILE).get("problem_type")
        card = render_markdown(
            "export/card.md",
            title=" ".join(Path(source).name.split()),
            base=BaseModel.read(str(source), checkpoint),
            head=report.model,
            outputs=report.outputs,
            labels=list(load_labels(checkpoint)) if "logits" in report.outputs else [],
            is_multi_label=problem_type == "multi_label_classification",
            max_length=loaded.tokenizer.model_max_length,
            precision=precision,
            data=[
                line for line in artifacts.read_card(checkpoint).splitlines() if line.startswith(_DATA_ROWS)
            ],
        )
        (directory / CARD_FILE).write_text(card, "utf-8")
    return report


def int8_graph(checkpoint: Path, *, of_encoder: bool, remake: bool = False) -> Path:
    """Return the directory of the int8 graph of a checkpoint in the cache, which is made where it is missing.

    Where the processor adds products of 8-bit numbers in 32 bits, weights have 8 bits instead of the 7 of
    `export_onnx`. Two processes may make the same graph; the last one replaces the other's.

    Args:
        of_encoder: the graph of the encoder, for vectors; otherwise of the model with its head.
        remake: replace a damaged graph.
    """
    has_vnni = cpu_instructions().vnni
    # a bundled model has the weights of another one
    folders = {checkpoint, *(file.parent for file in weight_files(checkpoint))}
    hashes = sorted({artifacts.directory_sha256(folder) for folder in folders})
    versions = [version(package) for package in ("torch", *GRAPH_PACKAGES)]
    key = json.dumps([_INT8_FORMAT, has_vnni, of_encoder, hashes, versions])
    directory = cache_directory() / "int8" / hashlib.sha256(key.encode()).hexdigest()[:32]
    if is_graph(directory) and not remake:
        return directory
    LOG.info("%s: tracing the int8 graph, which is kept in %s", checkpoint, directory)
    loaded = _load(checkpoint, of_encoder=of_encoder)
    graph = _trace(loaded.model, checkpoint, "int8", MAX_INT8 if has_vnni else INT8_LIMIT)
    with artifacts.write_directory(directory, kind=GRAPH_KIND, overwrite=True) as temporary:
        _fill(temporary, loaded, graph, "int8", ())
    return directory


def _trace(model: Any, checkpoint: Path, precision: GraphPrecision, int8_limit: int) -> onnx.ModelProto:
    try:
        graph = build_graph(model, precision=precision, int8_limit=int8_limit)
    except Exception as error:  # of an encoder of the user, whatever torch cannot trace
        if is_out_of_memory(error):
            raise
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"has no graph: {reason}", where=checkpoint, remedy=MODEL_ITSELF) from error
    if graph.ByteSize() > _MAX_FILE_BYTES:
        remedy = "Give `precision` float16 or int8" if precision == "float32" else MODEL_ITSELF
        raise InputError("the graph is larger than the 2 GB of an ONNX file", where=checkpoint, remedy=remedy)
    return graph


def _fill(
    directory: Path,
    loaded: ExternalModel,
    graph: onnx.ModelProto,
    precision: GraphPrecision,
    checks: tuple[ParityCheck, ...],
) -> ExportReport:
    """Write a graph, its tokenizer and its description into a directory."""
    model: Any = loaded.model
    (directory / GRAPH_FILE).write_bytes(data := graph.SerializeToString())
    loaded.save(directory, weights=False)
    names = tuple(value.name for value in graph.graph.output)
    report = ExportReport(type(model).__name__, precision, names, len(data), checks)
    encoder = {name: getattr(model.config, name) for name in ENCODER_FACTS}
    parameters = sum(weight.numel() for weight in model.parameters())
    table = {"opset": OPSET, "inputs": INPUTS, "parameters": parameters, "encoder": encoder}
    table |= dataclasses.asdict(report)
    (directory / GRAPH_FACTS_FILE).write_text(json.dumps(table, indent=2) + "\n", "utf-8")
    return report


def compare_with_torch(data: bytes, model: Any) -> tuple[ParityCheck, ...]:
    """Run a graph in ONNX Runtime and its model in torch on padded batches of several shapes."""
    session = import_package("onnxruntime").InferenceSession(data, providers=["CPUExecutionProvider"])
    longest = min(model.config.max_position_embeddings, _MAX_COMPARED_LENGTH)
    generator = torch.Generator().manual_seed(_SEED)
    checks = []
    for count, length in (
        (1, min(3, longest)),
        (4, max(longest // 4, 1)),
        (3, max(longest // 2, 1)),
        (2, longest),
    ):
        lengths = torch.randint(1, length + 1, (count, 1), generator=generator)
        lengths[0] = length
        is_real = torch.arange(length) < lengths
        sizes = (model.config.vocab_size, model.config.type_vocab_size)
        ids, types = (torch.randint(size, (count, length), generator=generator) for size in sizes)
        expected = padded_outputs(model, ids, is_real, types)
        inputs = zip(INPUTS, (ids, is_real.long(), types), strict=True)
        outputs = session.run(None, {name: values.numpy() for name, values in inputs})
        differences, largest, cosines = [], [], []
        for output, actual in zip(session.get_outputs(), outputs, strict=True):
            # at padding values have no meaning
            rows = is_real.numpy() if "length" in output.shape else slice(None)
            ours, theirs = (np.atleast_2d(values[rows]) for values in (actual, expected[output.name].numpy()))
            differences.append(np.abs(ours - theirs).max())
            largest.append(np.abs(theirs).max())
            norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
            cosines.append(((ours * theirs).sum(1) / np.maximum(norms, np.finfo(np.float32).tiny)).min())
        measured = (float(np.max(differences)), float(np.max(largest)), float(np.min(cosines)))
        checks.append(ParityCheck(count, length, *measured))
    return tuple(checks)


def _load(checkpoint: Path, *, of_encoder: bool = False) -> ExternalModel:
    """Load the model to export, with a tokenizer that has its maximum number of tokens."""
    external = load_external_model(checkpoint)
    encoder = get_encoder(external.model)
    if of_encoder:
        return dataclasses.replace(external, model=BertForFeatureExtraction(encoder).eval())
    if external.unexpected_keys:
        what = f"the weight {external.unexpected_keys[0]} belongs to a model without a graph"
        raise InputError(what, where=checkpoint)
    if (stored := load_sentence_encoder_config(checkpoint)) is not None:
        longest = encoder.config.max_position_embeddings
        max_length = min(stored.max_seq_length or longest, longest)
        tokenizer = dataclasses.replace(external.tokenizer, model_max_length=max_length)
        output = VectorOutput(stored.pooling, stored.normalize, stored.truncate_dim)
        return dataclasses.replace(
            external, model=SentenceEncoder(encoder, output).eval(), tokenizer=tokenizer
        )
    if external.model is encoder and external.missing_keys:
        return dataclasses.replace(external, model=BertForFeatureExtraction(encoder).eval())
    return external
