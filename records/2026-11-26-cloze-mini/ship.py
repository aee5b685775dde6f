"""Make the model that comes with cloze of a run's newest weights, in bfloat16: python ship.py RUN CARD.md OUT."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import torch

from cloze import artifacts
from cloze.model_paths import resolve_checkpoint
from cloze.models.bert import BertModel
from cloze.models.checkpoint import CONFIG_FILE, KIND, load_model, save_model
from cloze.models.heads import BertForPreTraining
from cloze.tokenization.loading import load_tokenizer


def main(run: Path, card: Path, output: Path) -> None:
    """Write the model whole, or nothing."""
    checkpoint = resolve_checkpoint(run, "latest")
    model = load_model(checkpoint, BertForPreTraining)
    # it was pre-trained without dropout; tasks are learned with the paper's (A.3), which is what a config is read for
    config = replace(model.config, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    shipped = BertForPreTraining(BertModel(config))
    shipped.load_state_dict(model.state_dict())
    with artifacts.write_directory(output, kind=KIND, overwrite=True) as directory:
        save_model(directory, shipped.to(torch.bfloat16), load_tokenizer(checkpoint))
        # a program that reads the dtype computes in it: the weights are stored in 16 bits, and used in 32
        config_file = directory / CONFIG_FILE
        settings = json.loads(config_file.read_text("utf-8")) | {"dtype": "float32"}
        config_file.write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
        shutil.copy(card, directory / "README.md")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
