"""Load a model as the class that answers with it."""

from pathlib import Path
from typing import Any

from cloze.choices import InferencePrecision
from cloze.inference.embedder import Embedder
from cloze.inference.fill_mask import FillMask
from cloze.inference.loading import open_model
from cloze.inference.model_files import ModelFiles
from cloze.inference.next_sentence import NextSentence
from cloze.inference.predictor import find_task_name
from cloze.inference.text_predictors import (
    ChoiceAnswerer,
    EntityTagger,
    MultiLabelClassifier,
    QuestionAnswerer,
    TextClassifier,
    TextRanker,
    TextRegressor,
)
from cloze.models.sentence_transformers import load_sentence_encoder_config
from cloze.suggestions import suggests_keywords
from cloze.tasks.registry import find_task

_OF_TASK = (
    TextClassifier,
    MultiLabelClassifier,
    TextRegressor,
    TextRanker,
    EntityTagger,
    QuestionAnswerer,
    ChoiceAnswerer,
)


@suggests_keywords()
def load(model: Path | str, *, device: str = "auto", precision: InferencePrecision | None = None) -> Any:
    """Load a model as the class that answers with it, whatever wrote it.

    A fine-tuned model is a `TextClassifier` or another class for its task; a pre-trained one is a `FillMask`, or a
    `NextSentence` if it has that head alone. Sentence encoders and encoders without a head are an `Embedder`.

    >>> import cloze
    >>> cloze.load("cloze-mini")("She closed the [MASK].")[0][0].token
    'door'

    Args:
        model: a checkpoint, a run (its best checkpoint), "cloze-mini", or hf://org/name.
        device: cpu, cuda, mps or auto.
        precision: number format of matrix products: float32, bfloat16, int8 or auto; None is float32, or int8 for the
            directory of an int8 model.

    Raises:
        InputError: there is no such model, or it is damaged.
    """
    files = open_model(model, precision=precision)
    return _find_class(files).load(files, device=device)


def _find_class(files: ModelFiles) -> Any:
    """Return the class for the head of a model."""
    name = find_task_name(files.directory)
    if name is not None:
        answer = find_task(name).answer
        return next((kind for kind in _OF_TASK if isinstance(answer, kind.answers)), Embedder)
    if load_sentence_encoder_config(files.directory) is not None:
        return Embedder
    if files.has("masked-word"):
        return FillMask
    return NextSentence if files.has("next-sentence") else Embedder
