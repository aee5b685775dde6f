"""Labels for texts, or pairs of texts, by a fine-tuned classifier."""

import warnings
from collections.abc import Sequence

from cloze.errors import InputError
from cloze.inference.loading import refuse_one_text
from cloze.inference.predictor import Predictor
from cloze.tasks.sequence_classification import Prediction, SequenceClassification
from cloze.tasks.texts import LabelledText

__all__ = ["Prediction", "TextClassifier"]


class TextClassifier(Predictor):
    """Says which label a text has, and with what probability."""

    family = SequenceClassification
    unfit = "no classifier of texts"

    def __call__(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> list[Prediction]:
        """Return a prediction for each text, in their order; a warning tells how many were cut.

        Args:
            texts: any number.
            pairs: the second text of each, where the model was fine-tuned on pairs.

        Raises:
            InputError: there are not as many pairs as texts.
        """
        refuse_one_text(texts)
        if pairs is not None and len(pairs) != len(texts):
            raise InputError(f"{len(texts)} texts and {len(pairs)} pairs", where="pairs")
        seconds = [None] * len(texts) if pairs is None else pairs
        predictions, cut = self.predict(
            [LabelledText(text, pair) for text, pair in zip(texts, seconds, strict=True)]
        )
        if cut:
            what = f"{cut:,} of {len(texts):,} texts are longer than {self.max_seq_length} tokens: cut"
            warnings.warn(what, stacklevel=2)
        return predictions
