"""From a directory of a model to a directory of a graph, checked in ONNX Runtime before it is there."""

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn

from cloze import artifacts
from cloze.errors import InputError, RunError
from cloze.export.graph import INPUTS, OPSET, Precision, build
from cloze.export.reference import SentenceEncoder, padded_outputs
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import write_config
from cloze.model.foreign import ForeignModel
from cloze.model.heads import BertForFeatureExtraction
from cloze.model.hugging_face import load_hugging_face
from cloze.model.sentence_transformers import read_sentence_transformer

KIND = "onnx"
MODEL_FILE = "model.onnx"
REPORT_FILE = "export.json"
TOLERANCE = 1e-4
"""Of a float32 graph, the largest difference to torch."""

_LARGEST_FILE = 2**31 - 2**20  # protocol buffers end at 2 GB
_SEED = 12345


@dataclass(frozen=True, slots=True)
class Check:
    """How a graph and torch agree on one padded batch."""

    batch: int
    length: int
    largest_difference: float
    largest_value: float
    """Of torch's outputs, in absolute terms: what the difference is to be compared with."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    model: str
    precision: Precision
    outputs: tuple[str, ...]
    bytes: int
    checks: tuple[Check, ...]
    """A float32 graph has passed them; those of others say what the smaller file costs."""


def export_onnx(
    source: Path, output: Path, *, precision: Precision = "float32", overwrite: bool = False
) -> Exported:
    """Write a model as an ONNX graph with its tokenizer, which ONNX Runtime runs without cloze or torch.

    Args:
        source: a checkpoint, or a run, of which the best is taken, or the newest; ours or transformers'.
        output: the directory that is written, whole or not at all.
        precision: of the weights.
        overwrite: replace the output where it exists.

    Raises:
        InputError: the source is damaged, no model that has a graph, or too large for one file; the output exists.
        RunError: a float32 graph differs from torch by more than `TOLERANCE`, or another gives values that are not
            finite; the disk is full.
    """
    artifacts.refuse_existing(Path(output), overwrite=overwrite, inputs=[source])
    checkpoint = resolve_checkpoint(Path(source), "best")
    found, model, max_length = _load(checkpoint)
    graph = build(model, precision=precision)
    if graph.ByteSize() > _LARGEST_FILE:
        remedy = "Say --fp16 or --int8" if precision == "float32" else None
        raise InputError("the graph is larger than the 2 GB of an ONNX file", where=checkpoint, remedy=remedy)
    data = graph.SerializeToString()
    checks = check(data, model)
    _refuse(checks, precision, checkpoint)
    names = tuple(each.name for each in graph.graph.output)
    exported = Exported(type(model).__name__, precision, names, len(data), checks)
    with artifacts.write_directory(Path(output), kind=KIND, overwrite=overwrite) as directory:
        (directory / MODEL_FILE).write_bytes(data)
        write_config(
            directory, found.model, found.tokenizer, labels=found.labels, problem_type=found.problem_type
        )
        dataclasses.replace(found.tokenizer, model_max_length=max_length).save(directory)
        report = {"opset": OPSET, "inputs": INPUTS, **dataclasses.asdict(exported)}
        (directory / REPORT_FILE).write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    return exported


def check(data: bytes, model: nn.Module) -> tuple[Check, ...]:
    """Run a graph in ONNX Runtime and its model in torch on padded batches of several shapes.

    Args:
        data: the graph.
        model: what it was made of.
    """
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    config = _encoder_of(model).config
    longest = config.max_position_embeddings
    lengths = {1: min(3, longest), 4: max(longest // 4, 1), 3: max(longest // 2, 1), 2: longest}
    generator = torch.Generator().manual_seed(_SEED)
    return tuple(_check(session, model, config, shape, generator) for shape in lengths.items())


def _check(
    session: onnxruntime.InferenceSession,
    model: nn.Module,
    config: BertConfig,
    shape: tuple[int, int],
    generator: torch.Generator,
) -> Check:
    batch, length = shape
    lengths = torch.randint(1, length + 1, (batch, 1), generator=generator)
    lengths[0] = length
    is_real = torch.arange(length) < lengths
    input_ids = torch.randint(config.vocab_size, shape, generator=generator)
    token_type_ids = torch.randint(config.type_vocab_size, shape, generator=generator)
    expected = padded_outputs(model, input_ids, is_real, token_type_ids)
    inputs = zip(INPUTS, (input_ids, is_real.long(), token_type_ids), strict=True)
    found = session.run(None, {name: values.numpy() for name, values in inputs})
    differences, largest = [], []
    for output, theirs in zip(session.get_outputs(), found, strict=True):
        ours = expected[output.name].numpy()
        rows = is_real.numpy() if "length" in output.shape else slice(None)  # at padding there is no value
        differences.append(np.abs(theirs - ours)[rows].max())
        largest.append(np.abs(ours).max())
    return Check(batch, length, float(np.max(differences)), float(np.max(largest)))


def _load(checkpoint: Path) -> tuple[ForeignModel, nn.Module, int]:
    """Return what a directory holds, the model of it that becomes a graph, and how many tokens that reads."""
    found = load_hugging_face(checkpoint)
    config = _encoder_of(found.model).config
    if type(config) is not BertConfig or config.attends_to != "all":
        raise InputError(
            "not an encoder whose tokens see all others: there is no graph for it", where=checkpoint
        )
    if found.left_out:
        what = f"the weight {found.left_out[0]} is of a model that has no graph here"
        raise InputError(what, where=checkpoint)
    bert = _encoder_of(found.model)
    vectors = read_sentence_transformer(checkpoint)
    if vectors is not None:
        encoder = SentenceEncoder(bert, pooling=vectors.pooling, normalize=vectors.normalize).eval()
        longest = bert.config.max_position_embeddings
        return found, encoder, min(vectors.max_seq_length or longest, longest)
    is_without_pooler = found.model is bert and found.new
    model = BertForFeatureExtraction(bert).eval() if is_without_pooler else found.model
    return found, model, bert.config.max_position_embeddings


def _refuse(checks: Sequence[Check], precision: Precision, checkpoint: Path) -> None:
    difference = float(np.max([check.largest_difference for check in checks]))  # NaN, where one is
    if not math.isfinite(difference) or (precision == "float32" and difference > TOLERANCE):
        limit = f", the limit is {TOLERANCE:g}" if precision == "float32" else ""
        raise RunError(f"the graph differs from torch by {difference:.2g}{limit}", where=checkpoint)


def _encoder_of(model: nn.Module) -> BertModel:
    bert = model if isinstance(model, BertModel) else model.bert
    assert isinstance(bert, BertModel)
    return bert
