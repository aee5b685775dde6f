"""Trace the ONNX graph of a model over padded batches.

Shapes: B sequences, L columns.
"""

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from onnxscript.ir.passes.common import ClearMetadataAndDocStringPass
from torch import Tensor, nn

from cloze.choices import GraphPrecision
from cloze.models.batch import PaddedBatch, pack_padded
from cloze.models.encoder import Encoder, get_encoder
from cloze.models.engine import INPUTS
from cloze.models.heads import ModelWithHead

OPSET = 20
"""The first opset with Gelu."""

MAX_INT8, INT8_LIMIT = 127, 63
"""The largest weight, and for any processor: without VNNI, sums of two products of 8 bits overflow 16."""
_FEED_FORWARD_RATIO = 4  # of the widths of its products, in all published encoders but ModernBERT


class _Padded(nn.Module):
    def __init__(self, model: Encoder | ModelWithHead) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, ...]:
        outputs = _run_padded(self.model, input_ids, attention_mask, token_type_ids)
        return tuple(output.float() for output in outputs.values())


@torch.no_grad()
def _run_padded(
    model: Encoder | ModelWithHead, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
) -> dict[str, Tensor]:
    counts_padding = get_encoder(model).config.counts_padding
    batch = PaddedBatch.of(input_ids, attention_mask, token_type_ids, counts_padding=counts_padding)
    return model.named_outputs(batch)


def build_graph(
    model: Encoder | ModelWithHead, *, precision: GraphPrecision = "float32", int8_limit: int = INT8_LIMIT
) -> onnx.ModelProto:
    """Return a model as a graph with the outputs of `padded_outputs`, in float32; at padding they have no meaning.

    `precision` is of its weights alone. A ValueError if the encoder or its pooling has no graph.
    """
    if get_encoder(model).config.attends_to != "all":
        raise ValueError("its tokens do not attend to all others")
    zero = torch.zeros(1, 1, dtype=torch.int64)
    names = list(_run_padded(model, zero, zero + 1, zero))
    traced = copy.deepcopy(model).half() if precision == "float16" else model
    sizes = {0: "batch", 1: "length"}
    with _without_warnings():
        program = torch.onnx.export(
            _Padded(traced).eval(),
            # not one tensor three times, which would be one input
            tuple(torch.ones(2, 3, dtype=torch.int64) for _ in INPUTS),
            input_names=INPUTS,
            output_names=names,
            dynamic_shapes=(sizes,) * len(INPUTS),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    ClearMetadataAndDocStringPass()(program.model)  # paths of this machine
    graph: onnx.ModelProto = program.model_proto
    # where ONNX Runtime knows all shapes it fuses Add and LayerNormalization, and takes four times as long for both
    del graph.graph.value_info[:]
    if precision == "int8":
        quantize_graph(graph.graph, int8_limit)
    return graph


@torch.inference_mode()
def padded_outputs(
    model: Encoder | ModelWithHead, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
) -> dict[str, Tensor]:
    """Return the outputs of a model by their names in transformers, which its graph must reproduce, 0 at the padding.

    Shapes: input_ids, attention_mask, token_type_ids [B, L]; outputs [B, …] or [B, L, …].
    """
    counts_padding = get_encoder(model).config.counts_padding
    batch, padding = pack_padded(input_ids, attention_mask, token_type_ids, counts_padding=counts_padding)
    return {
        name: padding.unpack_tokens(values)
        if name in model.token_outputs
        else padding.unpack_sequences(values)
        for name, values in model.named_outputs(batch).items()
    }


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence the exporter, which warns of its own deprecations and of packages that it does not need."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def quantize_graph(graph: onnx.GraphProto, limit: int = INT8_LIMIT) -> None:
    """Round the tables and the matrices of a graph to int8, with a scale for each row of a table or each output.

    Activations are rounded to 8 bits at run time with one scale for the batch; those of the feed-forward layers, which
    differ most, are divided by the largest of their token before. Products of a few vectors, which are of the operator
    Gemm, stay as they are.

    Args:
        limit: the largest weight of a product.
    """
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    matrices = {name for name, array in arrays.items() if array.ndim == 2 and array.dtype == np.float32}
    tables = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Transpose"}
    nodes: list[onnx.NodeProto] = []

    def add(operator: str, *inputs: str, outputs: tuple[str, ...] = (), **attributes: Any) -> str:
        outputs = outputs or (f"{operator}_int8_{len(nodes)}",)
        nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs[0]

    def quantize(name: str, axis: int) -> tuple[str, str]:
        is_multiplied = not axis or name in tables.values()
        scales = np.abs(arrays[name]).max(axis, keepdims=True)
        scales = np.maximum(scales, np.finfo(np.float32).tiny)
        scales /= np.float32(limit if is_multiplied else MAX_INT8)
        arrays[f"{name}.int8"] = np.rint(arrays[name] / scales).astype(np.int8)
        arrays[f"{name}.scales"] = scales if axis else scales[0]
        return f"{name}.int8", f"{name}.scales"

    arrays |= {"last_axis": np.array([-1]), "least_activation": np.float32(1e-12)}
    for node in graph.node:
        values, weight = (*node.input, "", "")[:2]
        if node.op_type == "Gather" and values in matrices:
            table, scales = quantize(values, 1)
            rows = add("Cast", add("Gather", table, weight), to=onnx.TensorProto.FLOAT)
            add("Mul", rows, add("Gather", scales, weight), outputs=tuple(node.output))
        elif node.op_type == "MatMul" and (weight in matrices or tables.get(weight) in matrices):
            largest = ""
            if weight in matrices:
                matrix, scales = quantize(weight, 0)
                narrow, wide = sorted(arrays[weight].shape)
                if wide >= _FEED_FORWARD_RATIO * narrow:
                    least = add("Neg", add("ReduceMin", values, "last_axis"))
                    largest = add("Max", add("ReduceMax", values, "last_axis"), least, "least_activation")
                    values = add("Div", values, largest)
            else:  # of the vocabulary, which shares the table of the embeddings
                table, scales = quantize(tables[weight], 1)
                matrix, scales = add("Transpose", table), add("Transpose", scales)
            scale, zero_point = f"scale_{len(nodes)}", f"zero_point_{len(nodes)}"
            quantized = add(
                "DynamicQuantizeLinear", values, outputs=(f"int8_{len(nodes)}", scale, zero_point)
            )
            sums = add("Cast", add("MatMulInteger", quantized, matrix, zero_point), to=onnx.TensorProto.FLOAT)
            # ONNX Runtime fuses the product, the cast and this multiplication
            products = add(
                "Mul", sums, add("Mul", scale, scales), outputs=() if largest else tuple(node.output)
            )
            if largest:
                add("Mul", products, largest, outputs=tuple(node.output))
        elif tables.get((*node.output, "")[0]) not in matrices:
            nodes.append(node)
    used = {name for node in nodes for name in node.input}
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in arrays.items() if name in used
    )
