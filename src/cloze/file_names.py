"""The names of the files of a model, as transformers, sentence-transformers, Google and cloze write them."""

CONFIG_FILE = "config.json"
GOOGLE_CONFIG_FILE = "bert_config.json"
WEIGHTS_FILE = "model.safetensors"
WEIGHTS_INDEX_FILE = "model.safetensors.index.json"
TORCH_WEIGHTS_FILE = "pytorch_model.bin"

VOCAB_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
ADDED_TOKENS_FILE = "added_tokens.json"
"""Tokens beyond `vocab.txt`, in directories of transformers without a `tokenizer.json`."""

MODULES_FILE = "modules.json"
SENTENCE_SETTINGS_FILE = "config_sentence_transformers.json"
SENTENCE_LENGTH_FILE = "sentence_bert_config.json"

TASK_FILE = "task.toml"
"""The task for which a model was fine-tuned, with its settings."""
TRAINING_FOLDER = "training"
"""The state from which training resumes; models do not need it."""

GRAPH_FILE = "model.onnx"
GRAPH_FACTS_FILE = "export.json"
"""What `cloze export` measured, and what answers need to know of a graph."""

CARD_FILE = "README.md"
"""Users edit the card and no answer depends on it, so `artifacts.verify` skips it."""
MANIFEST = "manifest.json"
"""Size and SHA-256 of the files of a directory (`cloze.artifacts`)."""
