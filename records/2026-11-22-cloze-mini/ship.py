"""Make the model that comes with cloze of a run's newest weights, in bfloat16: python ship.py RUN CARD.md OUT."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import torch

from cloze import artifacts
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertModel
from cloze.model.checkpoint import KIND, load_model, write_model_files
from cloze.model.heads import BertForPreTraining
from cloze.text.tokenizer import Tokenizer


def main(run: Path, card: Path, output: Path) -> None:
    """Write the model whole, or nothing."""
    checkpoint = resolve_checkpoint(run)
    model = load_model(checkpoint, BertForPreTraining)
    # it was pre-trained without dropout; tasks are learned with the paper's (A.3), which is what a config is read for
    config = replace(model.config, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
    shipped = BertForPreTraining(BertModel(config))
    shipped.load_state_dict(model.state_dict())
    with artifacts.write_directory(output, kind=KIND, overwrite=True) as directory:
        write_model_files(directory, shipped.to(torch.bfloat16), Tokenizer.load(checkpoint))
        shutil.copy(card, directory / "README.md")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
