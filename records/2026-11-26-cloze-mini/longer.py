"""Make a checkpoint of 512 positions of one that knows 256, which then occur twice: python longer.py CHECKPOINT OUT."""

import sys
from dataclasses import replace
from pathlib import Path

import torch

from cloze import artifacts
from cloze.models.bert import BertModel
from cloze.models.checkpoint import KIND, load_model, save_model
from cloze.models.heads import BertForPreTraining
from cloze.tokenization.loading import load_tokenizer

KNOWN = 256
POSITIONS = "bert.embeddings.position_embeddings.weight"


def main(checkpoint: Path, output: Path) -> None:
    """Write the checkpoint whole, or nothing."""
    model = load_model(checkpoint, BertForPreTraining)
    weights = {name: value.float() for name, value in model.state_dict().items()}
    known = weights[POSITIONS][:KNOWN]
    longer = BertForPreTraining(BertModel(replace(model.bert.config, max_position_embeddings=2 * KNOWN)))
    longer.load_state_dict(weights | {POSITIONS: torch.cat([known, known])})
    with artifacts.write_directory(output, kind=KIND) as directory:
        save_model(directory, longer, load_tokenizer(checkpoint))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
