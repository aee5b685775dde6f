"""BERT as a graph of ONNX operators over padded batches, with the weights of the packed model.

Shapes: B sequences, L columns, D hidden, N heads, H head size, I intermediate, V vocabulary, C classes.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from cloze.choices import GraphPrecision
from cloze.export.modern_bert_graph import encode_modern_bert, write_pooler
from cloze.export.padded_outputs import padded_outputs
from cloze.models.bert import BertConfig, BertEmbeddings, BertLayer, BertModel
from cloze.models.distilbert import DistilBertModel
from cloze.models.encoder import Encoder, get_encoder
from cloze.models.heads import (
    BertForFeatureExtraction,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    ModelWithHead,
    ModelWithOutputLayer,
)
from cloze.models.modern_bert import ModernBertModel
from cloze.models.pooling import Pooling
from cloze.models.roberta import RobertaModel
from cloze.models.sentence_encoder import SentenceEncoder

"""Of the weights; int8 applies to matrices and embeddings, whose products are summed in 32 bits."""

OPSET = 20
"""The first opset with Gelu."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Each [B, L] int64, as tokenizers return them; 1 in the mask is a real token."""

_IR_VERSION = 9
_MASKED_SCORE = -10_000.0  # Google's number; -inf would turn a row of padding into NaN
# 7 bits: two products of 8 bits overflow the 16 in which processors without VNNI add them
_MAX_INT8 = 63
_MIN_NORM = 1e-12  # torch's

Array: TypeAlias = npt.NDArray[Any]


class GraphBuilder:
    """A graph under construction: each method adds operators and returns the name of their result."""

    def __init__(self, precision: GraphPrecision) -> None:
        self.precision = precision
        self.dtype: npt.DTypeLike = np.float16 if precision == "float16" else np.float32
        self._nodes: list[onnx.NodeProto] = []
        self._tensors: dict[str, onnx.TensorProto] = {}
        self._outputs: list[onnx.ValueInfoProto] = []
        self.is_real_BL = self.add("Cast", "attention_mask", to=TensorProto.BOOL)

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add an operator; further outputs are named after the first with /1, /2."""
        name = f"{operator}_{len(self._nodes)}"
        names = [name, *(f"{name}/{number}" for number in range(1, outputs))]
        self._nodes.append(helper.make_node(operator, inputs, names, name=name, **attributes))
        return name

    def constant(self, values: Any, dtype: npt.DTypeLike = np.int64) -> str:
        """Add a constant."""
        array = np.asarray(values, dtype)
        return self._tensor(f"{array.dtype}{array.tolist()}".replace(" ", ""), array)

    def weight(self, name: str, values: Tensor) -> str:
        """Add a weight in the dtype of the arithmetic."""
        return self._tensor(name, values.detach().cpu().numpy().astype(self.dtype))

    def output(self, name: str, value: str, *shape: str | int) -> None:
        """Declare a value as an output, in float32."""
        self._nodes.append(helper.make_node("Cast", [value], [name], name=name, to=TensorProto.FLOAT))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def dense(self, name: str, values: str, layer: nn.Linear) -> str:
        """Add a dense layer."""
        product = self.matmul(f"{name}.weight", values, layer.weight)
        if layer.bias is None:
            return product
        return self.add("Add", product, self.weight(f"{name}.bias", layer.bias))

    def matmul(self, name: str, values: str, rows: Tensor) -> str:
        """Multiply by the transpose of a matrix [out, in], which may be a table that the graph already has."""
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

    def gather(self, name: str, table: Tensor, indices: str) -> str:
        """Look up rows of a table by their indices."""
        if self.precision != "int8":
            return self.add("Gather", self.weight(name, table), indices)
        quantized, scales = self._quantized(name, table)
        rows = self.add("Cast", self.add("Gather", quantized, indices), to=TensorProto.FLOAT)
        return self.add("Mul", rows, self.add("Gather", scales, indices))

    def layer_norm(self, name: str, values: str, layer: nn.LayerNorm) -> str:
        """Normalize the last axis."""
        inputs = [values, self.weight(f"{name}.weight", layer.weight)]
        if layer.bias is not None:
            inputs.append(self.weight(f"{name}.bias", layer.bias))
        return self.add("LayerNormalization", *inputs, axis=-1, epsilon=layer.eps)

    def to_model(self) -> onnx.ModelProto:
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
        """Add a matrix as int8 with a scale for each row, unless the graph already has it."""
        if name not in self._tensors:
            array = rows.detach().cpu().float().numpy()
            scales = np.maximum(np.abs(array).max(1, keepdims=True), np.finfo(np.float32).tiny) / _MAX_INT8
            self._tensor(name, np.rint(array / scales).astype(np.int8))
            self._tensor(f"{name}.scales", scales.astype(np.float32))
        return name, f"{name}.scales"

    def _tensor(self, name: str, array: Array) -> str:
        if name not in self._tensors:
            self._tensors[name] = numpy_helper.from_array(np.asarray(array, order="C"), name)
        return name


def build_graph(model: Encoder | ModelWithHead, *, precision: GraphPrecision = "float32") -> onnx.ModelProto:
    """Return a model as a graph with the outputs of `padded_outputs`; at padding they have no meaning.

    Args:
        model: an encoder, a head on one, or a `SentenceEncoder`.
        precision: of its weights; inputs and outputs are the same in each.

    Raises:
        ValueError: the encoder, the head or its pooling has no graph.
    """
    graph, encoder = GraphBuilder(precision), get_encoder(model)
    write_encoder = _ENCODERS.get(type(encoder))  # not of a subclass, which may compute something else
    if write_encoder is None:
        raise ValueError(f"no graph of a {type(encoder).__name__}")
    hidden_BLD = write_encoder(graph, encoder)
    write = next((write for kind, write in _HEADS.items() if isinstance(model, kind)), None)
    if write is None:
        raise ValueError(f"no graph of a {type(model).__name__}")
    one = torch.zeros(1, 1, dtype=torch.int64)
    shapes = {name: values.shape for name, values in padded_outputs(model, one, one == 0, one).items()}
    for name, value in write(graph, model, hidden_BLD).items():
        axes = ("batch", "length") if name in model.token_outputs else ("batch",)
        graph.output(name, value, *axes, *shapes[name][len(axes) :])
    return graph.to_model()


def _output_layer(graph: GraphBuilder, model: Any, hidden_BLD: str) -> dict[str, str]:
    if model.uses_pooler:
        hidden = _pooled(graph, model.bert, hidden_BLD)
    elif model.bert.tokens_use_pooler:
        hidden = write_pooler(graph, model.bert, hidden_BLD)
    else:
        hidden = hidden_BLD
    logits = graph.dense(model.layer_name, hidden, model.output_layer)
    if isinstance(model, BertForMultipleChoice):
        return {"logits": graph.add("Squeeze", logits, graph.constant([1]))}
    if isinstance(model, BertForQuestionAnswering):
        return {
            name: graph.add("Gather", logits, graph.constant(number), axis=-1)
            for number, name in enumerate(model.token_outputs)
        }
    return {"logits": logits}


_HEADS: Mapping[type[nn.Module], Callable[[GraphBuilder, Any, str], dict[str, str]]] = MappingProxyType(
    {
        Encoder: lambda graph, model, hidden: {
            "last_hidden_state": hidden,
            **({"pooler_output": _pooled(graph, model, hidden)} if model.has_published_pooler() else {}),
        },
        SentenceEncoder: lambda graph, model, hidden: {"sentence_embedding": _pool(graph, model, hidden)},
        BertForFeatureExtraction: lambda graph, model, hidden: {"last_hidden_state": hidden},
        BertForPreTraining: lambda graph, model, hidden: {
            "prediction_logits": _masked_lm(graph, model, hidden),
            "seq_relationship_logits": _next_sentence(graph, model, hidden),
        },
        BertForMaskedLM: lambda graph, model, hidden: {"logits": _masked_lm(graph, model, hidden)},
        BertForNextSentencePrediction: lambda graph, model, hidden: {
            "logits": _next_sentence(graph, model, hidden)
        },
        ModelWithOutputLayer: _output_layer,
    }
)
"""The functions from the last layer to the outputs of a model, by name."""


def _encode_bert(graph: GraphBuilder, encoder: BertModel) -> str:
    """Return the last layer, [B, L, D].

    Raises:
        ValueError: the tokens do not attend to all others.
    """
    if encoder.config.attends_to != "all":
        raise ValueError("a model whose tokens do not attend to all others has no graph")
    embeddings: BertEmbeddings = encoder.embeddings
    sum_BLD = graph.gather("word_embeddings", embeddings.word_embeddings.weight, "input_ids")
    if embeddings.has_token_types:
        types, rows = embeddings.token_type_embeddings.weight, "token_type_ids"
        if len(types) == 1:  # for both texts of a pair
            rows = graph.add("Mul", rows, graph.constant(0))
        sum_BLD = graph.add("Add", sum_BLD, graph.gather("token_type_embeddings", types, rows))
    if encoder.counts_padding:
        length = graph.add("Squeeze", graph.add("Shape", "input_ids", start=1, end=2))
        positions = graph.add("Range", graph.constant(0), length, graph.constant(1))
    else:  # -1, the last row, at padding before a text
        real_BL = graph.add("Cast", graph.is_real_BL, to=TensorProto.INT64)
        positions = graph.add("Sub", graph.add("CumSum", real_BL, graph.constant(1)), graph.constant(1))
    table = embeddings.position_embeddings.weight[embeddings.first_position :]
    sum_BLD = graph.add("Add", sum_BLD, graph.gather("position_embeddings", table, positions))
    hidden_BLD = graph.layer_norm("embeddings.layer_norm", sum_BLD, embeddings.layer_norm)
    is_real_B11L = graph.add("Unsqueeze", graph.is_real_BL, graph.constant([1, 2]))
    for number, layer in enumerate(encoder.layers):
        assert isinstance(layer, BertLayer)
        hidden_BLD = _layer(graph, f"layers.{number}", layer, hidden_BLD, is_real_B11L, encoder.config)
    return hidden_BLD


_ENCODERS: Mapping[type[Encoder], Callable[[GraphBuilder, Any], str]] = MappingProxyType(
    {
        BertModel: _encode_bert,
        DistilBertModel: _encode_bert,
        RobertaModel: _encode_bert,
        ModernBertModel: encode_modern_bert,
    }
)
"""The functions from the inputs to the last layer of an encoder."""


def _layer(
    graph: GraphBuilder, name: str, layer: BertLayer, hidden_BLD: str, is_real_B11L: str, config: BertConfig
) -> str:
    """Return the next [B, L, D], as `BertLayer` does for packed sequences."""
    head_size = config.hidden_size // config.num_attention_heads
    by_head = graph.constant([0, 0, config.num_attention_heads, head_size])  # 0: as it is
    qkv_BL3D = graph.dense(f"{name}.query_key_value", hidden_BLD, layer.query_key_value)
    query_BLD = graph.add("Split", qkv_BL3D, outputs=3, axis=-1, num_outputs=3)
    query_BLNH, key_BLNH, value_BLNH = (
        graph.add("Reshape", part, by_head) for part in (query_BLD, f"{query_BLD}/1", f"{query_BLD}/2")
    )
    scaled_BLNH = graph.add("Mul", query_BLNH, graph.constant(head_size**-0.5, graph.dtype))
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
    output_BLD = graph.dense(
        f"{name}.output", _gelu(graph, intermediate_BLI, config.hidden_act), layer.output
    )
    return graph.layer_norm(
        f"{name}.output_layer_norm", graph.add("Add", hidden_BLD, output_BLD), layer.output_layer_norm
    )


def _gelu(graph: GraphBuilder, values: str, form: str) -> str:
    return graph.add("Gelu", values, approximate="tanh" if form == "gelu_tanh" else "none")


def _first_real(graph: GraphBuilder, hidden_BLD: str) -> str:
    """Return the vector of the first real token of each row, [B, D]: padding may be before it."""
    is_real_BL = graph.add("Cast", graph.is_real_BL, to=TensorProto.INT32)
    column_B1 = graph.add("ArgMax", is_real_BL, axis=1, keepdims=1)
    return graph.add("GatherND", hidden_BLD, column_B1, batch_dims=1)


def _pooled(graph: GraphBuilder, encoder: Encoder, hidden_BLD: str) -> str:
    vectors_BD = _first_real(graph, hidden_BLD)
    if isinstance(encoder, ModernBertModel):
        if encoder.config.classifier_pooling == "mean":
            hidden_BLD = graph.add("Cast", hidden_BLD, to=TensorProto.FLOAT)
            mean_BD = _pool_tokens(graph, "mean", hidden_BLD)
            vectors_BD = graph.add("CastLike", mean_BD, graph.constant(1, graph.dtype))
        return write_pooler(graph, encoder, vectors_BD)
    layer: Any = encoder.pooler
    return graph.add(encoder.pooler_activation, graph.dense("pooler", vectors_BD, layer))


def _masked_lm(graph: GraphBuilder, model: Any, hidden_BLD: str) -> str:
    """Return the scores of the vocabulary at every token, [B, L, V]."""
    head = model.masked_lm
    dense_BLD = graph.dense("masked_lm.dense", hidden_BLD, head.dense)
    form = model.bert.masked_lm_activation or model.bert.config.hidden_act
    activated_BLD = _gelu(graph, dense_BLD, form)
    transformed_BLD = graph.layer_norm("masked_lm.layer_norm", activated_BLD, head.layer_norm)
    words_VD = model.bert.embeddings.word_embeddings.weight
    scores_BLV = graph.matmul("word_embeddings", transformed_BLD, words_VD)
    return graph.add("Add", scores_BLV, graph.weight("masked_lm.bias", head.bias))


def _next_sentence(graph: GraphBuilder, model: Any, hidden_BLD: str) -> str:
    return graph.dense("next_sentence", _pooled(graph, model.bert, hidden_BLD), model.next_sentence)


def _pool(graph: GraphBuilder, model: SentenceEncoder, hidden_BLD: str) -> str:
    """Return vectors [B, D], computed in float32, since float16 would overflow."""
    vectors_BD = _pool_tokens(graph, model.pooling, graph.add("Cast", hidden_BLD, to=TensorProto.FLOAT))
    if not model.normalize:
        return vectors_BD
    norm_B1 = graph.add("ReduceL2", vectors_BD, graph.constant([1]), keepdims=1)
    return graph.add("Div", vectors_BD, graph.add("Max", norm_B1, graph.constant(_MIN_NORM, np.float32)))


def _pool_tokens(graph: GraphBuilder, pooling: Pooling, hidden_BLD: str) -> str:
    """Return a vector for each sequence, [B, D], of float32 vectors of its tokens.

    Raises:
        ValueError: the pooling has no graph.
    """
    is_real_BL1 = graph.add("Unsqueeze", graph.is_real_BL, graph.constant([2]))
    columns = graph.constant([1])
    if pooling == "cls":
        vectors_BD = _first_real(graph, hidden_BLD)
    elif pooling == "max":
        masked_BLD = graph.add("Where", is_real_BL1, hidden_BLD, graph.constant(_MASKED_SCORE, np.float32))
        vectors_BD = graph.add("ReduceMax", masked_BLD, columns, keepdims=0)
    elif pooling in ("mean", "mean_sqrt_len"):
        shares_BL1 = graph.add("Cast", is_real_BL1, to=TensorProto.FLOAT)
        sum_BD = graph.add("ReduceSum", graph.add("Mul", hidden_BLD, shares_BL1), columns, keepdims=0)
        length_B1 = graph.add("ReduceSum", shares_BL1, columns, keepdims=0)
        length_B1 = graph.add("Max", length_B1, graph.constant(1, np.float32))
        divisor_B1 = length_B1 if pooling == "mean" else graph.add("Sqrt", length_B1)
        vectors_BD = graph.add("Div", sum_BD, divisor_B1)
    else:
        raise ValueError(f"no graph of the pooling {pooling}")
    return vectors_BD
