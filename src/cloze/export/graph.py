"""BERT as a graph of ONNX operators over padded batches, of the same weights as the packed model.

Written operator by operator, as it is short: the graph is the same each time and holds nothing but the model.

Shapes: B sequences, L columns, D hidden, N heads, H head size, I intermediate, V vocabulary, C classes.
"""

from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from cloze.export.reference import SentenceEncoder
from cloze.model.bert import BertConfig, BertLayer, BertModel
from cloze.model.heads import (
    BertForFeatureExtraction,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    MaskedLMHead,
)

Precision: TypeAlias = Literal["float32", "float16", "int8"]
"""Of the weights; int8 is that of matrices and embeddings, whose products are summed in 32 bits."""

OPSET = 20
"""The first with Gelu."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Each [B, L] int64, as tokenizers give them; in the mask 1 is real."""

_IR_VERSION = 9
_MASKED_SCORE = -10_000.0  # Google's number; -inf would make NaN of a row that is all padding
# 7 bits: two products of 8 bits overflow the 16 in which processors without VNNI add them
_LARGEST_INT8 = 63
_LEAST_NORM = 1e-12  # torch's

Array: TypeAlias = npt.NDArray[Any]


class Graph:
    """A graph that is being written: every method adds operators and returns the name of what they give."""

    def __init__(self, precision: Precision) -> None:
        self.precision = precision
        self.dtype: npt.DTypeLike = np.float16 if precision == "float16" else np.float32
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: dict[str, onnx.TensorProto] = {}
        self._outputs: list[onnx.ValueInfoProto] = []

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add an operator; where it has several outputs, they are called as the first and /1, /2."""
        name = f"{operator}_{len(self._nodes)}"
        names = [name, *(f"{name}/{number}" for number in range(1, outputs))]
        self._nodes.append(helper.make_node(operator, inputs, names, name=name, **attributes))
        return name

    def constant(self, values: Any, dtype: npt.DTypeLike = np.int64) -> str:
        """Add numbers that are no weights."""
        array = np.asarray(values, dtype)
        return self._tensor(f"{array.dtype}{array.tolist()}".replace(" ", ""), array)

    def weight(self, name: str, values: Tensor) -> str:
        """Add a weight in the precision of the arithmetic."""
        return self._tensor(name, values.detach().cpu().numpy().astype(self.dtype))

    def output(self, name: str, value: str, *shape: str | int) -> None:
        """Call a value an output, in float32."""
        self._nodes.append(helper.make_node("Cast", [value], [name], name=name, to=TensorProto.FLOAT))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def dense(self, name: str, values: str, layer: nn.Linear) -> str:
        """Multiply by a matrix and add a bias."""
        bias = self.weight(f"{name}.bias", layer.bias)
        return self.add("Add", self.product(f"{name}.weight", values, layer.weight), bias)

    def product(self, name: str, values: str, rows: Tensor) -> str:
        """Multiply by the transpose of a matrix [out, in]; a table that is there already is not added again."""
        if self.precision != "int8" and name in self._tensors:
            return self.add("MatMul", values, self.add("Transpose", name, perm=[1, 0]))
        if self.precision != "int8":
            return self.add("MatMul", values, self.weight(name, rows.T))
        table, scales = self._quantized(name, rows)
        matrix = self.add("Transpose", table, perm=[1, 0])
        quantized = self.add("DynamicQuantizeLinear", values, outputs=3)
        scale, zero_point = f"{quantized}/1", f"{quantized}/2"
        sums = self.add(
            "Cast", self.add("MatMulInteger", quantized, matrix, zero_point), to=TensorProto.FLOAT
        )
        return self.add("Mul", sums, self.add("Mul", scale, self.add("Squeeze", scales, self.constant([1]))))

    def rows(self, name: str, table: Tensor, numbers: str) -> str:
        """Look up rows of a table by their numbers."""
        if self.precision != "int8":
            return self.add("Gather", self.weight(name, table), numbers)
        quantized, scales = self._quantized(name, table)
        found = self.add("Cast", self.add("Gather", quantized, numbers), to=TensorProto.FLOAT)
        return self.add("Mul", found, self.add("Gather", scales, numbers))

    def layer_norm(self, name: str, values: str, layer: nn.LayerNorm) -> str:
        """Normalise the last axis."""
        gain, bias = self.weight(f"{name}.weight", layer.weight), self.weight(f"{name}.bias", layer.bias)
        return self.add("LayerNormalization", values, gain, bias, axis=-1, epsilon=layer.eps)

    def first(self, hidden_BLD: str) -> str:
        """Return what stands at [CLS], [B, D]."""
        return self.add("Gather", hidden_BLD, self.constant(0), axis=1)

    def finished(self) -> onnx.ModelProto:
        """Return the graph as a model."""
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ("batch", "length")) for name in INPUTS
        ]
        graph = helper.make_graph(self._nodes, "bert", inputs, self._outputs, list(self._tensors.values()))
        return helper.make_model(
            graph,
            producer_name="cloze",
            ir_version=_IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
        )

    def _quantized(self, name: str, rows: Tensor) -> tuple[str, str]:
        """Add a matrix as int8 with a scale a row; one that is there already is not added again."""
        if name not in self._tensors:
            array = rows.detach().cpu().float().numpy()
            scales = (
                np.maximum(np.abs(array).max(1, keepdims=True), np.finfo(np.float32).tiny) / _LARGEST_INT8
            )
            self._tensor(name, np.rint(array / scales).astype(np.int8))
            self._tensor(f"{name}.scales", scales.astype(np.float32))
        return name, f"{name}.scales"

    def _tensor(self, name: str, array: Array) -> str:
        if name not in self._tensors:
            self._tensors[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name


def build(model: nn.Module, *, precision: Precision = "float32") -> onnx.ModelProto:
    """Write a model of ours as a graph with the outputs of `reference.padded_outputs`; at padding they mean nothing.

    Args:
        model: an encoder, a head on one, or a `SentenceEncoder`.
        precision: of its weights; inputs and outputs are the same in each.
    """
    graph = Graph(precision)
    bert = model if isinstance(model, BertModel) else model.bert
    assert isinstance(bert, BertModel)
    is_real_BL = graph.add("Cast", "attention_mask", to=TensorProto.BOOL)
    hidden_BLD = _encode(graph, bert, is_real_BL)
    match model:
        case SentenceEncoder():
            vectors_BD = _pool(graph, model, hidden_BLD, is_real_BL)
            graph.output("sentence_embedding", vectors_BD, "batch", bert.config.hidden_size)
        case BertForFeatureExtraction():
            graph.output("last_hidden_state", hidden_BLD, "batch", "length", bert.config.hidden_size)
        case BertModel():
            graph.output("last_hidden_state", hidden_BLD, "batch", "length", bert.config.hidden_size)
            graph.output("pooler_output", _pooled(graph, bert, hidden_BLD), "batch", bert.config.hidden_size)
        case _:
            _head(graph, model, bert, hidden_BLD)
    return graph.finished()


def _head(graph: Graph, model: nn.Module, bert: BertModel, hidden_BLD: str) -> None:
    match model:
        case BertForPreTraining():
            words_BLV = _masked_lm(graph, model.masked_lm, bert, hidden_BLD)
            graph.output("prediction_logits", words_BLV, "batch", "length", bert.config.vocab_size)
            next_B2 = graph.dense("next_sentence", _pooled(graph, bert, hidden_BLD), model.next_sentence)
            graph.output("seq_relationship_logits", next_B2, "batch", 2)
        case BertForMaskedLM():
            words_BLV = _masked_lm(graph, model.masked_lm, bert, hidden_BLD)
            graph.output("logits", words_BLV, "batch", "length", bert.config.vocab_size)
        case BertForNextSentencePrediction():
            next_B2 = graph.dense("next_sentence", _pooled(graph, bert, hidden_BLD), model.next_sentence)
            graph.output("logits", next_B2, "batch", 2)
        case BertForSequenceClassification():
            logits_BC = graph.dense("classifier", _pooled(graph, bert, hidden_BLD), model.classifier)
            graph.output("logits", logits_BC, "batch", model.num_labels)
        case BertForMultipleChoice():
            logits_B1 = graph.dense("classifier", _pooled(graph, bert, hidden_BLD), model.classifier)
            graph.output("logits", graph.add("Squeeze", logits_B1, graph.constant([1])), "batch")
        case BertForTokenClassification():
            logits_BLC = graph.dense("classifier", hidden_BLD, model.classifier)
            graph.output("logits", logits_BLC, "batch", "length", model.num_labels)
        case BertForQuestionAnswering():
            logits_BL2 = graph.dense("qa_outputs", hidden_BLD, model.qa_outputs)
            for number, name in enumerate(("start_logits", "end_logits")):
                logits_BL = graph.add("Gather", logits_BL2, graph.constant(number), axis=-1)
                graph.output(name, logits_BL, "batch", "length")
        case _:
            raise ValueError(f"no graph of a {type(model).__name__}")


def _encode(graph: Graph, bert: BertModel, is_real_BL: str) -> str:
    """Return the last layer, [B, L, D]."""
    tables = bert.embeddings
    length = graph.add("Squeeze", graph.add("Shape", "input_ids", start=1, end=2))
    positions_L = graph.add("Range", graph.constant(0), length, graph.constant(1))
    words_BLD = graph.rows("word_embeddings", tables.word_embeddings.weight, "input_ids")
    types_BLD = graph.rows("token_type_embeddings", tables.token_type_embeddings.weight, "token_type_ids")
    positions_LD = graph.rows("position_embeddings", tables.position_embeddings.weight, positions_L)
    sum_BLD = graph.add("Add", graph.add("Add", words_BLD, types_BLD), positions_LD)
    hidden_BLD = graph.layer_norm("embeddings.layer_norm", sum_BLD, tables.layer_norm)
    is_real_B11L = graph.add("Unsqueeze", is_real_BL, graph.constant([1, 2]))
    for number, layer in enumerate(bert.layers):
        assert isinstance(layer, BertLayer)
        hidden_BLD = _layer(graph, f"layers.{number}", layer, hidden_BLD, is_real_B11L, bert.config)
    return hidden_BLD


def _layer(
    graph: Graph, name: str, layer: BertLayer, hidden_BLD: str, is_real_B11L: str, config: BertConfig
) -> str:
    """Return the next [B, L, D]: as `BertLayer`, with a mask in the place of sequences that lie end to end."""
    by_head = graph.constant([0, 0, config.num_attention_heads, config.head_size])  # 0: as it is
    qkv_BL3D = graph.dense(f"{name}.query_key_value", hidden_BLD, layer.query_key_value)
    query_BLD = graph.add("Split", qkv_BL3D, outputs=3, axis=-1, num_outputs=3)
    query_BLNH, key_BLNH, value_BLNH = (
        graph.add("Reshape", part, by_head) for part in (query_BLD, f"{query_BLD}/1", f"{query_BLD}/2")
    )
    scaled_BLNH = graph.add("Mul", query_BLNH, graph.constant(config.head_size**-0.5, graph.dtype))
    scores_BNLL = graph.add(
        "MatMul",
        graph.add("Transpose", scaled_BLNH, perm=[0, 2, 1, 3]),
        graph.add("Transpose", key_BLNH, perm=[0, 2, 3, 1]),
    )
    masked_BNLL = graph.add("Where", is_real_B11L, scores_BNLL, graph.constant(_MASKED_SCORE, graph.dtype))
    context_BNLH = graph.add(
        "MatMul",
        graph.add("Softmax", masked_BNLL, axis=-1),
        graph.add("Transpose", value_BLNH, perm=[0, 2, 1, 3]),
    )
    context_BLNH = graph.add("Transpose", context_BNLH, perm=[0, 2, 1, 3])
    context_BLD = graph.add("Reshape", context_BLNH, graph.constant([0, 0, config.hidden_size]))
    attended_BLD = graph.dense(f"{name}.attention_output", context_BLD, layer.attention_output)
    hidden_BLD = graph.layer_norm(
        f"{name}.attention_layer_norm", graph.add("Add", hidden_BLD, attended_BLD), layer.attention_layer_norm
    )
    intermediate_BLI = graph.dense(f"{name}.intermediate", hidden_BLD, layer.intermediate)
    output_BLD = graph.dense(f"{name}.output", _activation(graph, intermediate_BLI, config), layer.output)
    return graph.layer_norm(
        f"{name}.output_layer_norm", graph.add("Add", hidden_BLD, output_BLD), layer.output_layer_norm
    )


def _activation(graph: Graph, values: str, config: BertConfig) -> str:
    return graph.add("Gelu", values, approximate="tanh" if config.hidden_act == "gelu_tanh" else "none")


def _pooled(graph: Graph, bert: BertModel, hidden_BLD: str) -> str:
    return graph.add("Tanh", graph.dense("pooler", graph.first(hidden_BLD), bert.pooler))


def _masked_lm(graph: Graph, head: MaskedLMHead, bert: BertModel, hidden_BLD: str) -> str:
    """Return scores over the vocabulary at every token, [B, L, V]."""
    dense_BLD = graph.dense("masked_lm.dense", hidden_BLD, head.dense)
    transformed_BLD = graph.layer_norm(
        "masked_lm.layer_norm", _activation(graph, dense_BLD, bert.config), head.layer_norm
    )
    words_VD = bert.embeddings.word_embeddings.weight
    scores_BLV = graph.product("word_embeddings", transformed_BLD, words_VD)
    return graph.add("Add", scores_BLV, graph.weight("masked_lm.bias", head.bias))


def _pool(graph: Graph, model: SentenceEncoder, hidden_BLD: str, is_real_BL: str) -> str:
    """Return vectors [B, D], computed in float32: sums of many do not fit into float16."""
    hidden_BLD = graph.add("Cast", hidden_BLD, to=TensorProto.FLOAT)
    is_real_BL1, columns = graph.add("Unsqueeze", is_real_BL, graph.constant([2])), graph.constant([1])
    if model.pooling == "cls":
        vectors_BD = graph.first(hidden_BLD)
    elif model.pooling == "max":
        masked_BLD = graph.add("Where", is_real_BL1, hidden_BLD, graph.constant(_MASKED_SCORE, np.float32))
        vectors_BD = graph.add("ReduceMax", masked_BLD, columns, keepdims=0)
    else:
        shares_BL1 = graph.add("Cast", is_real_BL1, to=TensorProto.FLOAT)
        sum_BD = graph.add("ReduceSum", graph.add("Mul", hidden_BLD, shares_BL1), columns, keepdims=0)
        length_B1 = graph.add("ReduceSum", shares_BL1, columns, keepdims=0)
        length_B1 = graph.add("Max", length_B1, graph.constant(1, np.float32))
        divisor_B1 = length_B1 if model.pooling == "mean" else graph.add("Sqrt", length_B1)
        vectors_BD = graph.add("Div", sum_BD, divisor_B1)
    if not model.normalize:
        return vectors_BD
    norm_B1 = graph.add("ReduceL2", vectors_BD, columns, keepdims=1)
    return graph.add("Div", vectors_BD, graph.add("Max", norm_B1, graph.constant(_LEAST_NORM, np.float32)))
