"""Write a fine-tuned sentence encoder that shares the embeddings of cloze-mini: python share.py RUN OUT

Its own weights are written in bfloat16. The index takes those that training left alone from the file of cloze-mini.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from cloze import artifacts
from cloze.model_paths import find_model_directory, resolve_checkpoint
from cloze.models.checkpoint import KIND
from cloze.models.weight_files import WEIGHTS_FILE, WEIGHTS_INDEX_FILE

BASE = "cloze-mini"
LAYERS_FILE = "layers.safetensors"
COPIED = ("config.json", "modules.json", "sentence_bert_config.json", "tokenizer_config.json", "vocab.txt")

run, output = map(Path, sys.argv[1:])
checkpoint = resolve_checkpoint(run)
base = load_file(find_model_directory(BASE) / WEIGHTS_FILE)
weights = load_file(checkpoint / WEIGHTS_FILE)
weights = {name if name.startswith("bert.") else f"bert.{name}": weight.bfloat16() for name, weight in weights.items()}
weights = {name: weight for name, weight in weights.items() if ".pooler." not in name}
shared = {name for name, weight in weights.items() if name in base and torch.equal(base[name], weight)}
assert "bert.embeddings.word_embeddings.weight" in shared

with artifacts.write_directory(output, kind=KIND) as directory:
    own = {name: weight.contiguous() for name, weight in weights.items() if name not in shared}
    save_file(own, directory / LAYERS_FILE, metadata={"format": "pt"})
    files = {name: f"../{BASE}/{WEIGHTS_FILE}" if name in shared else LAYERS_FILE for name in sorted(weights)}
    index = {"metadata": {"total_size": sum(w.nbytes for w in weights.values())}, "weight_map": files}
    (directory / WEIGHTS_INDEX_FILE).write_text(json.dumps(index, indent=1) + "\n")
    for name in COPIED:
        if (checkpoint / name).exists():
            shutil.copyfile(checkpoint / name, directory / name)
    shutil.copytree(checkpoint / "1_Pooling", directory / "1_Pooling")
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}, indent=2) + "\n")
    if len(sys.argv) > 3:
        shutil.copyfile(sys.argv[3], directory / artifacts.CARD_FILE)
