"""Labels for texts, or pairs of texts, by a fine-tuned classifier."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from cloze.errors import InputError
from cloze.model.checkpoint import load_labels, load_model
from cloze.model.heads import BertForSequenceClassification
from cloze.progress import SILENT, Progress
from cloze.tasks.classification import Classification
from cloze.tasks.config import load_task
from cloze.tasks.features import count_truncated, featurize
from cloze.tasks.predict import predict
from cloze.tasks.sequence_classification import LabelledText, Prediction, SequenceClassification
from cloze.tasks.tables import is_table, read_lines, read_rows
from cloze.tasks.task import AnyTask
from cloze.text.tokenizer import Tokenizer
from cloze.training.checkpoints import resolve_checkpoint
from cloze.training.precision import resolve_device

__all__ = ["Prediction", "TextClassifier", "classify_file"]

_MAX_TOKENS = 8192
_TEXTS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class TextClassifier:
    """Says which label a text has, and with what probability.

    `task` knows the labels; texts longer than `max_seq_length` tokens are cut.
    """

    model: BertForSequenceClassification
    tokenizer: Tokenizer
    task: SequenceClassification
    max_seq_length: int

    @classmethod
    def load(cls, directory: Path | str, *, device: str = "auto") -> "TextClassifier":
        """Read a fine-tuned checkpoint, or the newest one of a run; also one that transformers wrote.

        Raises:
            InputError: it is no classifier of texts, or damaged.
        """
        checkpoint = resolve_checkpoint(Path(directory))
        labels = load_labels(checkpoint)
        if not labels:
            remedy = "Fine-tune one: cloze finetune classification"
            raise InputError("no classifier: config.json names no labels", where=checkpoint, remedy=remedy)
        model = load_model(checkpoint, partial(BertForSequenceClassification, num_labels=len(labels)))
        task: AnyTask = Classification()
        max_seq_length = model.config.max_position_embeddings
        stored = load_task(checkpoint)
        if stored is not None:
            task, max_seq_length = stored[0], stored[1].max_seq_length
        if not isinstance(task, SequenceClassification):
            raise InputError(f"a model for the task {task.name!r}, no classifier of texts", where=checkpoint)
        tokenizer = Tokenizer.load(checkpoint)
        return cls(model.to(resolve_device(device)), tokenizer, replace(task, labels=labels), max_seq_length)

    def __call__(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[Prediction]:
        """Return a prediction for each text, in their order; a warning tells how many were cut.

        Args:
            texts: any number.
            pairs: the second text of each, where the model was fine-tuned on pairs.

        Raises:
            InputError: there are not as many pairs as texts.
        """
        if pairs is not None and len(pairs) != len(texts):
            raise InputError(f"{len(texts)} texts and {len(pairs)} pairs", where="pairs")
        seconds = [None] * len(texts) if pairs is None else pairs
        examples = [LabelledText(text, pair) for text, pair in zip(texts, seconds, strict=True)]
        predictions, cut = self.predict(examples)
        if cut:
            what = f"{cut:,} of {len(texts):,} texts are longer than {self.max_seq_length} tokens: cut"
            warnings.warn(what, stacklevel=2)
        return predictions

    def predict(self, examples: Sequence[LabelledText]) -> tuple[list[Prediction], int]:
        """Return a prediction for each example, and how many examples were cut."""
        features = featurize(self.task, examples, self.tokenizer, max_seq_length=self.max_seq_length)
        predictions = predict(self.task, self.model, examples, features, max_tokens=_MAX_TOKENS)
        return predictions, count_truncated(features)


def classify_file(
    classifier: TextClassifier,
    source: str,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    progress: Progress = SILENT,
) -> Iterator[Prediction]:
    """Yield a prediction for each row of a table, or each line of a plain text; memory does not grow with either.

    Args:
        classifier: a fine-tuned model.
        source: a .tsv, .csv or .jsonl file, else plain text; - is plain text from stdin.
        text_column: the column of the text; None takes that of the training data.
        pair_column: the column of the second text; likewise.
        progress: where to tell how far it is.

    Raises:
        InputError: a line is wrong; those before it may have been answered.
    """
    examples = _examples(classifier.task, source, text_column, pair_column)
    cut = 0
    with progress.bar("predicting", total=None, unit="texts") as bar:
        while part := list(islice(examples, _TEXTS_AT_ONCE)):
            predictions, cut_here = classifier.predict(part)
            yield from predictions
            cut += cut_here
            bar.advance(len(part))
    if cut:
        progress.note(f"{cut:,} texts are longer than {classifier.max_seq_length} tokens: cut")


def _examples(
    task: SequenceClassification, source: str, text_column: str | None, pair_column: str | None
) -> Iterator[LabelledText]:
    if is_table(Path(source)):
        text = str(text_column or getattr(task, "text_column", "text"))
        pair: str | None = pair_column or getattr(task, "pair_column", None)
        for row in read_rows(Path(source), [text] if pair is None else [text, pair]):
            yield LabelledText(row.cells[text], None if pair is None else row.cells[pair], where=row.where)
    else:
        for line, where in read_lines(Path(source)):
            yield LabelledText(line, where=where)
