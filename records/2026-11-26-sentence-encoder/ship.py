"""Write the trained layers as a bundled model beside cloze-mini: python ship.py TRAINED CARD OUT.

OUT lies beside the directory of cloze-mini, whose embeddings and first layer the index names.
"""

import json
import sys
from pathlib import Path
from shutil import copyfile

import torch
from safetensors.torch import save_file

from cloze import artifacts
from cloze.inference.checkpoint import Checkpoint
from cloze.models.sentence_transformers import SentenceEncoderConfig, save_sentence_encoder_config

trained, card, out = map(Path, sys.argv[1:])
base = Checkpoint.open("cloze-mini")
model = base.load_model(lambda encoder: encoder, device="cpu")
model.load_state_dict(torch.load(trained, weights_only=True))
weights = model.names.mapping.to_external(
    {f"bert.{name}": weight for name, weight in model.state_dict().items()}
)
weights = {
    f"bert.{name.removeprefix('bert.')}": weight.to(torch.bfloat16) for name, weight in weights.items()
}
own = {name: weight for name, weight in weights.items() if not torch.equal(weight, base.weights[name])}
shared = f"../{base.directory.name}/model.safetensors"
with artifacts.write_directory(out, kind="checkpoint", overwrite=True) as directory:
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        copyfile(base.directory / name, directory / name)
    copyfile(card, directory / artifacts.CARD_FILE)
    config = json.loads((base.directory / "config.json").read_text()) | {"architectures": ["BertModel"]}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(own, directory / "layers.safetensors", metadata={"format": "pt"})
    files = {name: "layers.safetensors" if name in own else shared for name in sorted(weights)}
    total = sum(weight.nbytes for weight in weights.values())
    index = {"metadata": {"total_size": total}, "weight_map": files}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    settings = SentenceEncoderConfig(pooling="mean", normalize=True, max_seq_length=512)
    save_sentence_encoder_config(directory, settings, hidden_size=model.config.hidden_size)
print(*sorted(own), sep="\n")
