"""Build the ONNX graph of a model over padded batches.

Shapes: B sequences, L columns.
"""

from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from cloze.choices import GraphPrecision
from cloze.models.batch import pack_padded
from cloze.models.encoder import Encoder, get_encoder
from cloze.models.graph import INPUTS, Graph, Node
from cloze.models.heads import ModelWithHead

OPSET = 20
"""The first opset with Gelu."""

_IR_VERSION = 9


def build_graph(model: Encoder | ModelWithHead, *, precision: GraphPrecision = "float32") -> onnx.ModelProto:
    """Return a model as a graph with the outputs of `padded_outputs`, in float32; at padding they have no meaning.

    `precision` is of its weights alone. A ValueError if the encoder, the head or its pooling has no graph.
    """
    graph = Graph(precision)
    values = model.write_outputs(graph)
    one = torch.zeros(1, 1, dtype=torch.int64)
    shapes = {name: output.shape for name, output in padded_outputs(model, one, one == 0, one).items()}
    nodes = [_to_proto(node) for node in graph.nodes]
    outputs = []
    for name, value in values.items():
        axes = ("batch", "length") if name in model.token_outputs else ("batch",)
        nodes.append(helper.make_node("Cast", [value], [name], name=name, to=TensorProto.FLOAT))
        shape = (*axes, *shapes[name][len(axes) :])
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ("batch", "length")) for name in INPUTS]
    tensors = [numpy_helper.from_array(array, name) for name, array in graph.tensors.items()]
    return helper.make_model(
        helper.make_graph(nodes, "bert", inputs, outputs, tensors),
        producer_name="cloze",
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )


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


def _to_proto(node: Node) -> onnx.NodeProto:
    attributes: dict[str, Any] = dict(node.attributes)
    if "to" in attributes:
        attributes["to"] = helper.np_dtype_to_tensor_dtype(np.dtype(attributes["to"]))
    return helper.make_node(node.operator, node.inputs, node.outputs, name=node.outputs[0], **attributes)
