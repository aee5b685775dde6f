"""A graph of ONNX operators over padded batches, which encoders and heads write; it does not need the package `onnx`.

Shapes: B sequences, L columns, D hidden, N heads, H head size.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.choices import GraphPrecision
from cloze.models.encoder_config import EncoderConfig

if TYPE_CHECKING:  # a graph answers without torch
    from torch import Tensor, nn

    from cloze.models.activations import ActivationName

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Each [B, L] int64, as tokenizers return them; 1 in the mask is a real token."""
ENCODER_FACTS = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "type_vocab_size",
)
"""What answers need to know of the encoder, by the names of `EncoderConfig`."""
GRAPH_KIND = "graph"
"""The kind of a directory with a graph, in its manifest."""
MASKED_SCORE = -10_000.0  # Google's number; -inf would turn a row of padding into NaN

# 7 bits: two products of 8 bits overflow the 16 in which processors without VNNI add them
_MAX_INT8 = 63

Array: TypeAlias = npt.NDArray[Any]


class Node(NamedTuple):
    """An operator of ONNX; the attribute `to` is the name of a NumPy dtype."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


class Graph:
    """A graph under construction: each method adds operators and returns the name of their result."""

    def __init__(self, precision: GraphPrecision) -> None:
        self.precision = precision
        self.dtype: npt.DTypeLike = np.float16 if precision == "float16" else np.float32
        self.nodes: list[Node] = []
        self.tensors: dict[str, Array] = {}
        self.is_real_BL = self.cast("attention_mask", "bool")

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add an operator; further outputs are named after the first with /1, /2."""
        name = f"{operator}_{len(self.nodes)}"
        names = (name, *(f"{name}/{number}" for number in range(1, outputs)))
        self.nodes.append(Node(operator, inputs, names, attributes))
        return name

    def cast(self, values: str, dtype: str) -> str:
        """Convert to a NumPy dtype."""
        return self.add("Cast", values, to=dtype)

    def constant(self, values: Any, dtype: npt.DTypeLike = np.int64) -> str:
        array = np.asarray(values, dtype)
        return self._tensor(f"{array.dtype}{array.tolist()}".replace(" ", ""), array)

    def weight(self, name: str, values: "Tensor") -> str:
        """Add a weight in the dtype of the arithmetic."""
        return self._tensor(name, values.detach().cpu().numpy().astype(self.dtype))

    def activate(self, values: str, activation: "ActivationName") -> str:
        from cloze.models.activations import ACTIVATIONS

        entry = ACTIVATIONS[activation]
        attributes: dict[str, Any] = dict(entry.attributes)
        return self.add(entry.operator, values, **attributes)

    def dense(self, name: str, values: str, layer: "nn.Linear") -> str:
        product = self.matmul(f"{name}.weight", values, layer.weight)
        if layer.bias is None:
            return product
        return self.add("Add", product, self.weight(f"{name}.bias", layer.bias))

    def scores(self, name: str, values_BLD: str, table_VD: "Tensor", bias_V: str) -> str:
        """Return the product of vectors with each row of a table, plus a bias, [B, L, V].

        Where the graph has the table already, a transposed one would be a copy in memory, which a Gemm does without.
        """
        if self.precision == "int8" or name not in self.tensors:
            return self.add("Add", self.matmul(name, values_BLD, table_VD), bias_V)
        size = list(table_VD.shape)
        rows_TD = self.add("Reshape", values_BLD, self.constant([-1, size[1]]))
        scores_TV = self.add("Gemm", rows_TD, name, bias_V, transB=1)
        shape = self.add(
            "Concat", self.add("Shape", values_BLD, start=0, end=2), self.constant(size[:1]), axis=0
        )
        return self.add("Reshape", scores_TV, shape)

    def matmul(self, name: str, values: str, rows: "Tensor") -> str:
        """Multiply by the transpose of a matrix [out, in]."""
        if self.precision != "int8":
            return self.add("MatMul", values, self.weight(name, rows.T))
        table, scales = self._quantized(name, rows)
        matrix = self.add("Transpose", table, perm=[1, 0])
        quantized = self.add("DynamicQuantizeLinear", values, outputs=3)
        scale, zero_point = f"{quantized}/1", f"{quantized}/2"
        sums = self.cast(self.add("MatMulInteger", quantized, matrix, zero_point), "float32")
        return self.add("Mul", sums, self.add("Mul", scale, self.add("Squeeze", scales, self.constant([1]))))

    def gather(self, name: str, table: "Tensor", indices: str) -> str:
        """Look up rows of a table by their indices."""
        if self.precision != "int8":
            return self.add("Gather", self.weight(name, table), indices)
        quantized, scales = self._quantized(name, table)
        rows = self.cast(self.add("Gather", quantized, indices), "float32")
        return self.add("Mul", rows, self.add("Gather", scales, indices))

    def layer_norm(self, name: str, values: str, layer: "nn.LayerNorm") -> str:
        """Normalize the last axis."""
        inputs = [values, self.weight(f"{name}.weight", layer.weight)]
        if layer.bias is not None:
            inputs.append(self.weight(f"{name}.bias", layer.bias))
        return self.add("LayerNormalization", *inputs, axis=-1, epsilon=layer.eps)

    def columns(self) -> str:
        """Return the numbers of the columns, [L]."""
        length = self.add("Squeeze", self.add("Shape", "input_ids", start=1, end=2))
        return self.add("Range", self.constant(0), length, self.constant(1))

    def is_real_key(self) -> str:
        """Return whether the keys of attention scores are real tokens, [B, 1, 1, L]."""
        return self.add("Unsqueeze", self.is_real_BL, self.constant([1, 2]))

    def first_real(self, hidden_BLD: str) -> str:
        """Return the vector of the first real token of each row, [B, D]: padding may be before it."""
        column_B1 = self.add("ArgMax", self.cast(self.is_real_BL, "int32"), axis=1, keepdims=1)
        return self.add("GatherND", hidden_BLD, column_B1, batch_dims=1)

    def split_heads(self, qkv_BLD: str, config: EncoderConfig) -> tuple[str, str, str]:
        """Return query, key and value, each [B, L, N, H], from their vectors side by side."""
        query_BLD = self.add("Split", qkv_BLD, outputs=3, axis=-1, num_outputs=3)
        by_head = self.constant([0, 0, config.num_attention_heads, config.head_size])  # 0: as it is
        query_BLNH, key_BLNH, value_BLNH = (
            self.add("Reshape", part, by_head) for part in (query_BLD, f"{query_BLD}/1", f"{query_BLD}/2")
        )
        return query_BLNH, key_BLNH, value_BLNH

    def attend(
        self,
        query_BLNH: str,
        key_BLNH: str,
        value_BLNH: str,
        config: EncoderConfig,
        *,
        is_seen: str,
        bias: str | None = None,
    ) -> str:
        """Return the context, [B, L, D].

        Args:
            is_seen: the keys that each query attends to, of a shape that expands to [B, N, L, L].
            bias: is added to the scores, [1, N, L, L].
        """
        scaled_BLNH = self.add("Mul", query_BLNH, self.constant(config.head_size**-0.5, self.dtype))
        scores_BNLL = self.add(
            "MatMul",
            self.add("Transpose", scaled_BLNH, perm=[0, 2, 1, 3]),
            self.add("Transpose", key_BLNH, perm=[0, 2, 3, 1]),
        )
        if bias is not None:
            scores_BNLL = self.add("Add", scores_BNLL, bias)
        masked_BNLL = self.add("Where", is_seen, scores_BNLL, self.constant(MASKED_SCORE, self.dtype))
        context_BNLH = self.add(
            "MatMul",
            self.add("Softmax", masked_BNLL, axis=-1),
            self.add("Transpose", value_BLNH, perm=[0, 2, 1, 3]),
        )
        context_BLNH = self.add("Transpose", context_BNLH, perm=[0, 2, 1, 3])
        return self.add("Reshape", context_BLNH, self.constant([0, 0, config.hidden_size]))

    def _quantized(self, name: str, rows: "Tensor") -> tuple[str, str]:
        """Add a matrix as int8 with a scale for each row, unless the graph already has it."""
        if name not in self.tensors:
            array = rows.detach().cpu().float().numpy()
            scales = np.maximum(np.abs(array).max(1, keepdims=True), np.finfo(np.float32).tiny) / _MAX_INT8
            self._tensor(name, np.rint(array / scales).astype(np.int8))
            self._tensor(f"{name}.scales", scales.astype(np.float32))
        return name, f"{name}.scales"

    def _tensor(self, name: str, array: Array) -> str:
        self.tensors.setdefault(name, np.asarray(array, order="C"))
        return name
