"""Estimators of scikit-learn: vectors of texts, and a fine-tuned classifier.

Texts are a list or column of strings; a pair of texts is a tuple.

    from cloze.sklearn import FinetunedClassifier, TextEmbedder
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    make_pipeline(TextEmbedder(), LogisticRegression()).fit(texts, labels)
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cloze.api.finetuning import finetune
from cloze.arguments import check_texts, is_missing, iterate
from cloze.choices import Pooling
from cloze.config import flatten, merge
from cloze.errors import InputError
from cloze.inference.embedder import Embedder
from cloze.inference.load import load
from cloze.optional_dependencies import require

require(["sklearn"], extra="sklearn", where="cloze.sklearn")
from sklearn.base import (  # noqa: E402
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import check_consistent_length, check_is_fitted  # noqa: E402

_FIXED = ("model", "train", "epochs", "batch_size", "optimizer.learning_rate", "seed", "device")
"""Settings that arguments of FinetunedClassifier have."""


class _TextInput:
    """Mixin: the input is a list of texts, not a table of numbers."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


@dataclass(eq=False, repr=False)
class TextEmbedder(_TextInput, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Vectors of texts from an encoder, which `fit` does not train.

    Args:
        model: "cloze-mini-sentences", a checkpoint, a run, or a directory of transformers or sentence-transformers.
        pooling: how token vectors become one; None takes the model's, else the mean.
        layers: encoder layers; 0 is the word embeddings, -1 the last.
        normalize: scale vectors to length 1; None does as the model's directory says.
        max_seq_length: maximum number of tokens of a text; None takes the model's.
        device: cpu, cuda, mps or auto.
    """

    model: str | Path = "cloze-mini-sentences"
    _: KW_ONLY
    pooling: Pooling | None = None
    layers: Sequence[int] = (-1,)
    normalize: bool | None = None
    max_seq_length: int | None = None
    device: str = "auto"

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Load the encoder and check the texts."""
        check_texts(X, "X")
        self.embedder_ = Embedder.load(**self.get_params(deep=False))
        self._n_features_out = self.embedder_.width
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:  # noqa: N803
        """Return a vector for each text, [N, D]."""
        check_is_fitted(self)
        return self.embedder_(check_texts(X, "X"))


@dataclass(eq=False, repr=False)
class FinetunedClassifier(_TextInput, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of texts or pairs, fine-tuned from an encoder. A tenth of the data chooses the best epoch.

    Args:
        model: "cloze-mini", or the checkpoint or run to start from.
        epochs: passes over the training data.
        batch_size: sequences per optimizer step.
        learning_rate: the peak of the schedule; small models such as cloze-mini need about 3e-4.
        max_seq_length: maximum number of tokens of a text; None is 128, or the model's if it is smaller.
        balanced: weight each class by its inverse frequency.
        random_state: seed of head, dropout and the order of the data.
        settings: other settings of `cloze.finetune`, such as {"dev_fraction": 0.2}.
        device: cpu, cuda, mps or auto.
    """

    model: str | Path = "cloze-mini"
    _: KW_ONLY
    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 5e-5
    max_seq_length: int | None = None
    balanced: bool = False
    random_state: int = 12345
    settings: Mapping[str, Any] | None = None
    device: str = "auto"

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Fine-tune on texts X and their classes y, in a temporary run."""
        for number, label in enumerate(iterate(y, "y", "label")):
            if is_missing(label):
                raise InputError("is missing", where=f"y[{number}]", remedy="Give each text a label")
        texts, labels = list(iterate(X, "X", "text")), np.asarray(y)
        check_consistent_length(texts, labels)
        check_classification_targets(labels)
        self.classes_, indices = np.unique(labels, return_inverse=True)
        names = [str(value).strip() for value in self.classes_.tolist()]
        if not all(names) or len(set(names)) < len(names):  # blank or equal as text
            names = [f"class {number}" for number in range(len(names))]
        of_task: dict[str, Any] = {"classification.labels": names}
        defaults = {field.name: field.default for field in fields(self)}  # as in `cloze.finetune`
        arguments = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name == "model" or value != defaults[name]
        }
        if arguments.pop("balanced", False):
            of_task["classification.class_weights"] = "balanced"
        if "random_state" in arguments:
            arguments["seed"] = arguments.pop("random_state")
        settings = arguments.pop("settings", {})
        if not isinstance(settings, Mapping):
            raise InputError(f"{settings!r} is not a mapping of settings", where="settings")
        fixed = {*of_task, *arguments, *_FIXED}
        for key, _ in flatten(merge(settings)):
            if any(f"{key}.".startswith(f"{name}.") for name in fixed):
                what = f"{key} is set by an argument of FinetunedClassifier, or by the classes"
                raise InputError(what, where="settings", remedy="Leave it out")
        arguments["settings"] = merge(settings, of_task)
        rows = [(text, names[index]) for text, index in zip(texts, indices, strict=True)]
        with tempfile.TemporaryDirectory(prefix="cloze-") as directory:
            run = finetune("classification", train=rows, output=Path(directory) / "run", **arguments)
            self.classifier_ = load(run.path, device=self.device)
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class, in the order of `classes_`, [N, C]."""
        check_is_fitted(self)
        classifier: Any = self.classifier_
        answers = classifier(list(iterate(X, "X", "text")))
        rows = [list(answer.probabilities.values()) for answer in answers]
        return np.array(rows).reshape(-1, len(self.classes_))

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Return the most probable class of each text."""
        best = self.predict_proba(X).argmax(1)  # first: without a fit there are no classes either
        predicted: npt.NDArray[Any] = self.classes_[best]
        return predicted
