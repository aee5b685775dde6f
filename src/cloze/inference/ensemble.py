"""Several models of one task that answer as one: the mean of their logits, of a text that is tokenized once.

Source: Devlin et al. 2019, table 2 ("BERT-Large (Ensemble)"), which does not say how its systems were joined.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.inference.predictor import Predictor
from cloze.locate import resolve_checkpoint
from cloze.model.packed import Packed
from cloze.tasks.config import load_task


class MeanOfModels(nn.Module):
    """Says the mean of what several models say: of a classifier's logits, of SQuAD's scores of start and end."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)

    def forward(self, packed: Packed) -> Tensor:
        """Return logits of the shape that each of the models gives, in float32."""
        return torch.stack([model(packed).float() for model in self.models]).mean(0)


def load_ensemble(directories: Sequence[Path], task: str | None = None, *, device: str = "auto") -> Predictor:
    """Read models that were fine-tuned for one task, such as runs with different seeds; of one, that one.

    Args:
        directories: checkpoints or runs.
        task: the name of what they were fine-tuned for; None takes the first one's word for it.
        device: cpu, cuda, mps or auto. All models are in its memory at once.

    Raises:
        InputError: a directory holds no such model, stands twice, or its logits do not mean what the first one's
            do: other classes, another order of them, another tokenizer, other settings of the task.
    """
    refuse_twice(directories)
    first, *others = [Predictor.load(directory, task, device=device) for directory in directories]
    if not others:
        return first
    if first.task.answered_by_any_encoder:
        what = f"vectors of {first.task.name} of several models have no mean"
        raise InputError(what, where=directories[1], remedy="Give one model")
    for directory, other in zip(directories[1:], others, strict=True):
        _check_reads_the_same(first, other, directory, directories[0])
    models = MeanOfModels([first.model, *(other.model for other in others)])
    return replace(first, model=models, task=first.task.averaged([other.task for other in others]))


def models_by_task(directories: Sequence[Path], *, ensemble: bool) -> dict[str, list[Path]]:
    """Return which of the models were fine-tuned for which task, as their task.toml says.

    Args:
        directories: checkpoints or runs, of the latter the best is asked.
        ensemble: whether several may be for one task.

    Raises:
        InputError: one does not say what it is for, stands twice, or two are for one task.
    """
    refuse_twice(directories)
    found: dict[str, list[Path]] = {}
    for directory in directories:
        checkpoint = resolve_checkpoint(directory, "best")
        if not checkpoint.is_dir():
            raise InputError("no such directory", where=directory)
        stored = load_task(checkpoint)
        if stored is None:
            remedy = "Give a model of cloze finetune"
            raise InputError("has no task.toml: nothing says what it is for", where=directory, remedy=remedy)
        task, _ = stored
        own = found.setdefault(task.name, [])
        own.append(directory)
        if len(own) > 1 and not ensemble:
            remedy = "Give one of them, or say --ensemble to take their mean"
            raise InputError(f"is for {task.name}, as {own[0]} is", where=directory, remedy=remedy)
    return found


def refuse_twice(directories: Sequence[Path]) -> None:
    """Refuse the same model twice, which would count it twice.

    Raises:
        InputError: a directory stands twice.
    """
    seen: set[Path] = set()
    for directory in directories:
        checkpoint = resolve_checkpoint(directory, "best").resolve()
        if checkpoint in seen:
            raise InputError("is given twice", where=directory, remedy="Name each model once")
        seen.add(checkpoint)


def _check_reads_the_same(first: Predictor, other: Predictor, directory: Path, beside: Path) -> None:
    """Refuse a model that reads other pieces than the first: their outputs would be of different things."""
    tokenizer = replace(other.tokenizer, model_max_length=first.tokenizer.model_max_length)
    if tokenizer != first.tokenizer:
        remedy = "Only models with one tokenizer can answer together"
        raise InputError(f"its tokenizer is not that of {beside}", where=directory, remedy=remedy)
    if other.max_seq_length != first.max_seq_length:
        what = f"reads {other.max_seq_length} tokens at once, {beside} reads {first.max_seq_length}"
        raise InputError(what, where=directory, remedy="Fine-tune both with the same max_seq_length")
    try:
        first.task.averaged([other.task])
    except InputError as error:
        raise InputError(f"{error.what}, unlike {beside}", where=directory, remedy=error.remedy) from error
