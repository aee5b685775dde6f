"""Small random models, one for each view of the explorer."""

import re
import string
from pathlib import Path

import torch
from torch import nn

import cloze
from cloze.models.heads import BertForPreTraining, BertForQuestionAnswering, BertForTokenClassification
from helpers import task_of
from tiny_models import tiny_config, write_checkpoint

TEXT = Path(__file__).with_name("explorer_text.txt").read_text("utf-8")
# every word of the page's examples is a piece, so that what it shows is as short as with a real vocabulary
PIECES = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", ",", "?"),
    *string.ascii_lowercase,
    *string.digits,
    *(f"##{character}" for character in string.ascii_lowercase + string.digits),
    *sorted(set(re.findall("[a-z]{2,}", TEXT.lower()))),
)
CONFIG = tiny_config(
    PIECES,
    hidden_size=24,
    num_hidden_layers=2,
    intermediate_size=32,
    max_position_embeddings=256,
    initializer_range=0.3,
)
BLAME_OR_PRAISE = task_of("classification", labels=("blame", "praise"))


def make_models(directory: Path) -> dict[str, Path]:
    """Write a model for each view; return where they are by their names."""
    generator = torch.Generator().manual_seed(5)

    def encoder() -> cloze.BertModel:
        return cloze.BertModel(CONFIG, generator=generator)

    tags = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    made: dict[str, tuple[nn.Module, cloze.Task | None]] = {
        "pretrained": (BertForPreTraining(encoder(), generator=generator), None),
        "answers": (
            BertForQuestionAnswering(encoder(), generator=generator),
            task_of("squad_v2", null_threshold=0.5),
        ),
        "tagger": (
            BertForTokenClassification(encoder(), num_labels=len(tags), generator=generator),
            task_of("tagging", labels=tags),
        ),
    }
    paths = {
        name: write_checkpoint(directory / name, model, PIECES, task, max_seq_length=128)
        for name, (model, task) in made.items()
    }
    return paths | {"classifier": make_classifier(directory / "classifier", BLAME_OR_PRAISE)}


def make_classifier(directory: Path, task: cloze.Task, *, bias: float = 0.0) -> Path:
    """Write a classifier, a regression or a ranker; `bias` is added to the logit of its first label."""
    generator = torch.Generator().manual_seed(6)
    model = task.answer.head(cloze.BertModel(CONFIG, generator=generator), generator=generator)
    with torch.no_grad():
        model.output_layer.bias[0] += bias
    return write_checkpoint(
        directory, model, PIECES, task, max_seq_length=128, problem_type=task.answer.problem_type
    )
