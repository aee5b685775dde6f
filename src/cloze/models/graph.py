"""The facts of an exported graph."""

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
GRAPH_PACKAGES = ("onnx", "onnxruntime", "onnxscript")
"""The packages of the extra "onnx", with which graphs are traced."""
MODEL_ITSELF = "Use the model itself in float32 or bfloat16"
"""The remedy where a graph cannot answer."""
