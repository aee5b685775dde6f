"""ModernBERT as ONNX operators. Local layers compute the scores of all pairs, and mask those out of their windows.

Shapes: B sequences, L columns, D hidden, N heads, H head size, I intermediate.
"""

from typing import TYPE_CHECKING, Any

from onnx import TensorProto
from torch import nn

from cloze.models.modern_bert import ModernBertConfig, ModernBertModel
from cloze.models.rotary import rotation_rates

if TYPE_CHECKING:
    from cloze.export.graph import GraphBuilder

_MASKED_SCORE = -10_000.0


def encode_modern_bert(graph: "GraphBuilder", encoder: ModernBertModel) -> str:
    """Return the last layer, [B, L, D]."""
    config = encoder.config
    words = encoder.embeddings.word_embeddings.weight
    hidden_BLD = graph.layer_norm(
        "embeddings.layer_norm",
        graph.gather("word_embeddings", words, "input_ids"),
        encoder.embeddings.layer_norm,
    )
    length = graph.add("Squeeze", graph.add("Shape", "input_ids", start=1, end=2))
    positions_L = graph.add("Range", graph.constant(0), length, graph.constant(1))
    row_L1 = graph.add("Unsqueeze", positions_L, graph.constant([1]))
    distance_LL = graph.add("Abs", graph.add("Sub", row_L1, positions_L))
    is_near_LL = graph.add("LessOrEqual", distance_LL, graph.constant(config.local_attention // 2))
    is_real_B11L = graph.add("Unsqueeze", graph.is_real_BL, graph.constant([1, 2]))
    places = {
        True: (_rotation(graph, config, row_L1, config.global_rope_theta), is_real_B11L),
        False: (
            _rotation(graph, config, row_L1, config.local_rope_theta),
            graph.add("And", is_real_B11L, is_near_LL),
        ),
    }
    for number, layer in enumerate(encoder.layers):
        rotation, is_seen = places[config.is_global(number)]
        hidden_BLD = _layer(graph, f"layers.{number}", layer, hidden_BLD, rotation, is_seen)
    return graph.layer_norm("layer_norm", hidden_BLD, encoder.layer_norm)


def write_pooler(graph: "GraphBuilder", encoder: ModernBertModel, vectors: str) -> str:
    """Return what classifiers read, for vectors of any shape [..., D]."""
    dense = graph.dense("pooler", vectors, encoder.pooler.dense)
    return graph.layer_norm(
        "pooler.layer_norm", _activate(graph, dense, encoder.pooler), encoder.pooler.layer_norm
    )


def _rotation(graph: "GraphBuilder", config: ModernBertConfig, row_L1: str, theta: float) -> tuple[str, str]:
    """Return cosine and sine of each position times each rate, [L, 1, H / 2]."""
    rates_H = rotation_rates(theta, config.hidden_size // config.num_attention_heads).numpy()
    row_L1 = graph.add("Cast", row_L1, to=TensorProto.FLOAT)
    angles_LH = graph.add("Mul", row_L1, graph.constant(rates_H, rates_H.dtype))
    angles_L1H = graph.add("Unsqueeze", angles_LH, graph.constant([1]))
    cosine, sine = (
        graph.add("CastLike", graph.add(name, angles_L1H), _one(graph)) for name in ("Cos", "Sin")
    )
    return cosine, sine


def _one(graph: "GraphBuilder") -> str:
    return graph.constant(1, graph.dtype)


def _rotate(graph: "GraphBuilder", values_BLNH: str, rotation: tuple[str, str]) -> str:
    cosine, sine = rotation
    first = graph.add("Split", values_BLNH, outputs=2, axis=-1, num_outputs=2)
    second = f"{first}/1"
    turned_first = graph.add("Sub", graph.add("Mul", first, cosine), graph.add("Mul", second, sine))
    turned_second = graph.add("Add", graph.add("Mul", second, cosine), graph.add("Mul", first, sine))
    return graph.add("Concat", turned_first, turned_second, axis=-1)


def _layer(
    graph: "GraphBuilder",
    name: str,
    layer: Any,
    hidden_BLD: str,
    rotation: tuple[str, str],
    is_seen: str,
) -> str:
    """Return the next [B, L, D], as `ModernBertLayer` does for packed sequences."""
    size = layer.attention_output.in_features
    head_size = size // layer.num_heads
    normalized_BLD = hidden_BLD
    if isinstance(layer.attention_layer_norm, nn.LayerNorm):
        normalized_BLD = graph.layer_norm(
            f"{name}.attention_layer_norm", hidden_BLD, layer.attention_layer_norm
        )
    qkv = graph.dense(f"{name}.query_key_value", normalized_BLD, layer.query_key_value)
    query_BLD = graph.add("Split", qkv, outputs=3, axis=-1, num_outputs=3)
    by_head = graph.constant([0, 0, layer.num_heads, head_size])  # 0: as it is
    query_BLNH, key_BLNH, value_BLNH = (
        graph.add("Reshape", part, by_head) for part in (query_BLD, f"{query_BLD}/1", f"{query_BLD}/2")
    )
    scaled_BLNH = graph.add(
        "Mul", _rotate(graph, query_BLNH, rotation), graph.constant(head_size**-0.5, graph.dtype)
    )
    scores_BNLL = graph.add(
        "MatMul",
        graph.add("Transpose", scaled_BLNH, perm=[0, 2, 1, 3]),
        graph.add("Transpose", _rotate(graph, key_BLNH, rotation), perm=[0, 2, 3, 1]),
    )
    masked_BNLL = graph.add("Where", is_seen, scores_BNLL, graph.constant(_MASKED_SCORE, graph.dtype))
    context_BNLH = graph.add(
        "MatMul",
        graph.add("Softmax", masked_BNLL, axis=-1),
        graph.add("Transpose", value_BLNH, perm=[0, 2, 1, 3]),
    )
    context_BLNH = graph.add("Transpose", context_BNLH, perm=[0, 2, 1, 3])
    context_BLD = graph.add("Reshape", context_BLNH, graph.constant([0, 0, size]))
    attended_BLD = graph.dense(f"{name}.attention_output", context_BLD, layer.attention_output)
    hidden_BLD = graph.add("Add", hidden_BLD, attended_BLD)

    normalized_BLD = graph.layer_norm(f"{name}.output_layer_norm", hidden_BLD, layer.output_layer_norm)
    input_BLI = graph.add(
        "Split",
        graph.dense(f"{name}.intermediate", normalized_BLD, layer.intermediate),
        outputs=2,
        axis=-1,
        num_outputs=2,
    )
    gated_BLI = graph.add("Mul", _activate(graph, input_BLI, layer), f"{input_BLI}/1")
    return graph.add("Add", hidden_BLD, graph.dense(f"{name}.output", gated_BLI, layer.output))


def _activate(graph: "GraphBuilder", values: str, module: Any) -> str:
    return graph.add("Gelu", values, approximate="tanh" if module.hidden_act == "gelu_tanh" else "none")
