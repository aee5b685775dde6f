"""Baselines for texts and pairs: the most frequent answer, BM25, and linear models of TF-IDF weights.

The features of a text are its words and word bigrams, weighted by TF-IDF; those of a pair are the weights of both,
their absolute difference, their product and their cosine. scikit-learn's defaults are used (extra `tasks`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from cloze.errors import InputError
from cloze.tasks.bm25 import bm25_scores
from cloze.tasks.multi_label import LabelSetPrediction, MultiLabel
from cloze.tasks.passage_ranking import PassageRanking
from cloze.tasks.sentence_vectors import SentenceVectors
from cloze.tasks.sequence_classification import ClassPrediction, SequenceClassification
from cloze.tasks.text_pairs import PairVectors, TextPairs
from cloze.tasks.text_regression import TextRegression
from cloze.tasks.texts import LabeledText

Texts = Sequence[LabeledText]

_TOKEN_PATTERN = r"\w+|[^\w\s]"
_MAX_ITERATIONS = 1000


def most_frequent_label(task: SequenceClassification, train: Texts, dev: Texts) -> list[ClassPrediction]:
    """Predict the most frequent label, the first of equals."""
    counts = Counter(map(task.gold, train))
    shares = {label: counts[label] / len(train) for label in task.labels}
    label = max(task.labels, key=lambda label: shares[label])
    return [ClassPrediction(label, shares[label], shares)] * len(dev)


def logistic_regression(task: SequenceClassification, train: Texts, dev: Texts) -> list[ClassPrediction]:
    """Predict labels with a logistic regression."""
    train_features, dev_features = tfidf_features(train, dev)
    labels = list(map(task.gold, train))
    predictions = []
    for by_label in _predict_probabilities(train_features, labels, dev_features):
        probabilities = {label: by_label.get(label, 0.0) for label in task.labels}
        label = max(probabilities, key=probabilities.__getitem__)
        predictions.append(ClassPrediction(label, probabilities[label], probabilities))
    return predictions


def most_frequent_set(task: MultiLabel, train: Texts, dev: Texts) -> list[LabelSetPrediction]:
    """Predict the most frequent set of labels, the first of equals."""
    targets = [task.target(example) for example in train]
    [(best, _)] = Counter(map(tuple, targets)).most_common(1)
    counts = Counter(index for indices in targets for index in indices)
    shares = {label: counts[index] / len(train) for index, label in enumerate(task.labels)}
    return [LabelSetPrediction(tuple(task.labels[index] for index in best), shares)] * len(dev)


def logistic_regressions(task: MultiLabel, train: Texts, dev: Texts) -> list[LabelSetPrediction]:
    """Predict each label with its own logistic regression."""
    train_features, dev_features = tfidf_features(train, dev)
    targets = [frozenset(task.target(example)) for example in train]
    columns = []
    for index in range(len(task.labels)):
        has_label = [str(index in target) for target in targets]
        predicted = _predict_probabilities(train_features, has_label, dev_features)
        columns.append([by_label.get("True", 0.0) for by_label in predicted])
    predictions = []
    for row in zip(*columns, strict=True):
        probabilities = dict(zip(task.labels, row, strict=True))
        labels = tuple(label for label in task.labels if probabilities[label] > task.threshold)
        predictions.append(LabelSetPrediction(labels, probabilities))
    return predictions


def mean_score(task: TextRegression, train: Texts, dev: Texts) -> list[float]:
    """Predict the mean score."""
    return [fmean(float(example.label or "nan") for example in train)] * len(dev)


def ridge_regression(task: TextRegression, train: Texts, dev: Texts) -> list[float]:
    """Predict scores with a ridge regression."""
    from sklearn.linear_model import Ridge

    train_features, dev_features = tfidf_features(train, dev)
    ridge = Ridge().fit(train_features, [float(example.label or "nan") for example in train])
    scores: list[float] = ridge.predict(dev_features).tolist()
    return scores


def scaled_cosines(task: TextRegression, train: Texts, dev: Texts) -> list[float]:
    """Predict the cosine of a pair on the task's scale. Only the TF-IDF weights are learned, without scores."""
    minimum, maximum = task.scale
    return [minimum + (maximum - minimum) * cosine for cosine in tfidf_cosines(task, train, dev)]


def tfidf_cosines(task: TextRegression | SentenceVectors, train: Texts, dev: Texts) -> list[float]:
    """Predict the cosine of a pair."""
    _, dev_features = tfidf_features(train, dev)
    cosines: list[float] = dev_features[:, -1].toarray()[:, 0].tolist()
    return cosines


def bm25_of_pairs(task: PassageRanking, train: Texts, dev: Texts) -> list[float]:
    """Score a query and a passage by BM25 over all dev passages, without training."""
    passages = {text: i for i, text in enumerate(dict.fromkeys(example.pair or "" for example in dev))}
    candidates: dict[str, list[int]] = {}
    for i, example in enumerate(dev):
        candidates.setdefault(example.text, []).append(i)
    predictions = [0.0] * len(dev)
    for indices, scores in zip(candidates.values(), bm25_scores(candidates, list(passages)), strict=True):
        for i in indices:
            predictions[i] = float(scores[passages[dev[i].pair or ""]])
    return predictions


def tfidf_vectors(task: TextPairs, train: Texts, dev: Texts) -> list[PairVectors]:
    """Return TF-IDF weights as vectors, of the words that occur in first and in second texts."""
    vectorizer = fit_tfidf([text for example in train for text in (example.text, example.pair or "")])
    first = vectorizer.transform([example.text for example in dev])
    second = vectorizer.transform([example.pair or "" for example in dev])
    is_in_both = (first.getnnz(0) > 0) & (second.getnnz(0) > 0)
    vectors = (weights[:, is_in_both].toarray().astype(np.float32) for weights in (first, second))
    return [PairVectors(*pair) for pair in zip(*vectors, strict=True)]


def fit_tfidf(texts: Sequence[str]) -> Any:
    """Return scikit-learn's vectorizer with the vocabulary and weights of texts.

    Raises:
        InputError: the texts have no words.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(text.strip() for text in texts):
        raise InputError("the texts to learn from hold no word")
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=_TOKEN_PATTERN).fit(texts)


def tfidf_features(train: Texts, dev: Texts) -> tuple[Any, Any]:
    """Return the features of texts or pairs as sparse matrices, one row each; a pair's cosine is the last column."""
    texts = [text for example in train for text in (example.text, example.pair) if text is not None]
    vectorizer = fit_tfidf(texts)
    return _features(vectorizer, train), _features(vectorizer, dev)


def _features(vectorizer: Any, examples: Texts) -> Any:
    from scipy.sparse import csr_matrix, hstack

    a = vectorizer.transform([example.text for example in examples])
    if all(example.pair is None for example in examples):
        return a
    b = vectorizer.transform([example.pair or "" for example in examples])
    product = a.multiply(b)
    return hstack([a, b, abs(a - b), product, csr_matrix(product.sum(1))], format="csr")


def _predict_probabilities(train: Any, labels: Sequence[str], dev: Any) -> list[dict[str, float]]:
    """Fit a logistic regression and return the probabilities of the labels that have examples."""
    from sklearn.linear_model import LogisticRegression

    if len(set(labels)) == 1:  # scikit-learn refuses a single class, which a small sample may have
        return [{labels[0]: 1.0}] * dev.shape[0]
    classifier = LogisticRegression(max_iter=_MAX_ITERATIONS).fit(train, labels)
    rows: npt.NDArray[np.float64] = classifier.predict_proba(dev)
    return [dict(zip(classifier.classes_.tolist(), row, strict=True)) for row in rows.tolist()]


BASELINES: Mapping[Any, Mapping[str, Any]] = MappingProxyType(
    {
        SequenceClassification: {"majority": most_frequent_label, "tfidf_logistic": logistic_regression},
        MultiLabel: {"majority": most_frequent_set, "tfidf_logistic": logistic_regressions},
        TextRegression: {"mean": mean_score, "tfidf_ridge": ridge_regression, "tfidf_cosine": scaled_cosines},
        PassageRanking: {"bm25": bm25_of_pairs},
        SentenceVectors: {"tfidf_cosine": tfidf_cosines},
        TextPairs: {"tfidf_cosine": tfidf_vectors},
    }
)
"""The baselines of each family by name."""
