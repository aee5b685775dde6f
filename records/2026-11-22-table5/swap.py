"""What makes left to right better on SQuAD? Run as python swap.py RUN ATTENDS_TO OUT [untrained].

Writes a checkpoint with the weights of a run, or those that seed 1 begins with, that attends to `all` or to the `left`,
whatever it was pre-trained with. Fine-tuned as table 5 is, it tells what was learned from what is seen.
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch

from cloze import artifacts
from cloze.model_paths import resolve_checkpoint
from cloze.models.bert import BertModel
from cloze.models.checkpoint import KIND, load_model, save_model
from cloze.tokenization.loading import load_tokenizer

if __name__ == "__main__":
    source, attends_to, output = resolve_checkpoint(sys.argv[1], "latest"), sys.argv[2], Path(sys.argv[3])
    bert = load_model(source)
    swapped = BertModel(
        replace(bert.config, attends_to=attends_to), generator=torch.Generator().manual_seed(1)
    )
    if sys.argv[4:] != ["untrained"]:
        swapped.load_state_dict(bert.state_dict())
    with artifacts.write_directory(output, kind=KIND) as directory:
        save_model(directory, swapped, load_tokenizer(source))
