"""Make a checkpoint of 256 positions of one that knows 128, which then stand there twice: python longer.py RUN OUT."""

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

# The first run's last fifteenth, with sequences of 512, taught the other positions next to nothing.
KNOWN = 128
POSITIONS = "bert.embeddings.position_embeddings.weight"


def main(run: Path, output: Path) -> None:
    """Write the checkpoint whole, or nothing."""
    checkpoint = resolve_checkpoint(run)
    model = load_model(checkpoint, BertForPreTraining)
    weights = model.state_dict()
    known = weights[POSITIONS][:KNOWN]
    longer = BertForPreTraining(BertModel(replace(model.config, max_position_embeddings=2 * KNOWN)))
    longer.load_state_dict(weights | {POSITIONS: torch.cat([known, known])})
    with artifacts.write_directory(output, kind=KIND) as directory:
        write_model_files(directory, longer, Tokenizer.load(checkpoint))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
