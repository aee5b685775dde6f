"""What can be said of a text, or two, without a network: the most frequent answer, and linear models of word counts.

A text is its words and pairs of neighbouring words, weighed by TF-IDF; a pair of texts the weights of both, their
absolute difference, their product, and their cosine. All of it is scikit-learn's with its defaults (extra `tasks`).
"""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from cloze.errors import InputError
from cloze.tasks.bm25 import bm25_scores
from cloze.tasks.multi_label import LabelSet, MultiLabel
from cloze.tasks.passage_ranking import PassageRanking
from cloze.tasks.sentence_vectors import SentenceVectors
from cloze.tasks.sequence_classification import Prediction, SequenceClassification
from cloze.tasks.text_pairs import PairVectors, TextPairs
from cloze.tasks.text_regression import TextRegression
from cloze.tasks.texts import LabelledText

Values = npt.NDArray[np.float64]

_WORDS = r"\w+|[^\w\s]"
_MAX_ITERATIONS = 1000


def most_frequent_label(
    task: SequenceClassification, train: Sequence[LabelledText], dev: Sequence[LabelledText]
) -> list[Prediction]:
    """Give every text the most frequent label, the first in the task's order of several."""
    counts = Counter(example.label for example in train)
    shares = {label: counts[label] / len(train) for label in task.labels}
    label = max(task.labels, key=lambda label: shares[label])
    return [Prediction(label, shares[label], shares)] * len(dev)


def logistic_regression(
    task: SequenceClassification, train: Sequence[LabelledText], dev: Sequence[LabelledText]
) -> list[Prediction]:
    """Learn the labels with a logistic regression on TF-IDF weights."""
    train_features, dev_features = tfidf_features(train, dev)
    labels = [task.labels[task.target(example)] for example in train]
    found = []
    for given in _probabilities(train_features, labels, dev_features):
        own = {label: given.get(label, 0.0) for label in task.labels}
        label = max(own, key=own.__getitem__)
        found.append(Prediction(label, own[label], own))
    return found


def most_frequent_set(
    task: MultiLabel, train: Sequence[LabelledText], dev: Sequence[LabelledText]
) -> list[LabelSet]:
    """Give every text the most frequent set of labels, the first of several."""
    targets = [task.target(example) for example in train]
    [(best, _)] = Counter(map(tuple, targets)).most_common(1)
    counts = Counter(number for own in targets for number in own)
    shares = {label: counts[number] / len(train) for number, label in enumerate(task.labels)}
    return [LabelSet(tuple(task.labels[number] for number in best), shares)] * len(dev)


def logistic_regressions(
    task: MultiLabel, train: Sequence[LabelledText], dev: Sequence[LabelledText]
) -> list[LabelSet]:
    """Learn each label by itself with a logistic regression on TF-IDF weights."""
    train_features, dev_features = tfidf_features(train, dev)
    targets = [frozenset(task.target(example)) for example in train]
    of_label = {}
    for number, label in enumerate(task.labels):
        found_here = _probabilities(train_features, [str(number in own) for own in targets], dev_features)
        of_label[label] = [own.get("True", 0.0) for own in found_here]
    found = []
    for i in range(len(dev)):
        own = {label: values[i] for label, values in of_label.items()}
        found.append(LabelSet(tuple(label for label in own if own[label] > task.threshold), own))
    return found


def mean_score(
    task: TextRegression, train: Sequence[LabelledText], dev: Sequence[LabelledText]
) -> list[float]:
    """Give every text the mean score."""
    return [fmean(float(example.label or "nan") for example in train)] * len(dev)


def ridge_regression(
    task: TextRegression, train: Sequence[LabelledText], dev: Sequence[LabelledText]
) -> list[float]:
    """Learn the scores with a ridge regression on TF-IDF weights."""
    from sklearn.linear_model import Ridge

    train_features, dev_features = tfidf_features(train, dev)
    ridge = Ridge().fit(train_features, [float(example.label or "nan") for example in train])
    found: list[float] = ridge.predict(dev_features).tolist()
    return found


def cosine_of_pair(
    task: TextRegression, train: Sequence[LabelledText], dev: Sequence[LabelledText]
) -> list[float]:
    """Score a pair by the cosine of its TF-IDF weights, from the lowest to the highest score there is.

    Only the weights are learned: no score is looked at.
    """
    assert task.minimum is not None
    assert task.maximum is not None
    scale = task.maximum - task.minimum
    return [task.minimum + scale * cosine for cosine in _tfidf_cosines(train, dev)]


def cosine_of_vectors(
    task: SentenceVectors, train: Sequence[LabelledText], dev: Sequence[LabelledText]
) -> list[float]:
    """Take the cosine of a pair's TF-IDF weights for that of its vectors."""
    return _tfidf_cosines(train, dev)


def _tfidf_cosines(train: Sequence[LabelledText], dev: Sequence[LabelledText]) -> list[float]:
    _, dev_features = tfidf_features(train, dev)
    found: list[float] = dev_features[:, -1].toarray()[:, 0].tolist()
    return found


def bm25_of_pairs(
    task: PassageRanking, train: Sequence[LabelledText], dev: Sequence[LabelledText]
) -> list[float]:
    """Score a query and a passage by BM25 among all passages to be put in order; nothing is learned."""
    passages = {
        text: number for number, text in enumerate(dict.fromkeys(example.pair or "" for example in dev))
    }
    candidates: dict[str, list[int]] = {}
    for number, example in enumerate(dev):
        candidates.setdefault(example.text, []).append(number)
    found = [0.0] * len(dev)
    for own, scores in zip(candidates.values(), bm25_scores(candidates, list(passages)), strict=True):
        for number in own:
            found[number] = float(scores[passages[dev[number].pair or ""]])
    return found


def tfidf_vectors(
    task: TextPairs, train: Sequence[LabelledText], dev: Sequence[LabelledText]
) -> list[PairVectors]:
    """Take TF-IDF weights for the vectors: those of words that are in first and in second texts, as no other counts."""
    vectorizer = fit_tfidf([text for example in train for text in (example.text, example.pair or "")])
    first = vectorizer.transform([example.text for example in dev])
    second = vectorizer.transform([example.pair or "" for example in dev])
    is_in_both = (first.getnnz(0) > 0) & (second.getnnz(0) > 0)
    vectors = (each[:, is_in_both].toarray().astype(np.float32) for each in (first, second))
    return [PairVectors(*both) for both in zip(*vectors, strict=True)]


def fit_tfidf(texts: Sequence[str]) -> Any:
    """Return scikit-learn's vectorizer, its vocabulary and weights learned from texts.

    Raises:
        InputError: they hold no word.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(text.strip() for text in texts):
        raise InputError("the texts to learn from hold no word")
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=_WORDS).fit(texts)


def tfidf_features(train: Sequence[LabelledText], dev: Sequence[LabelledText]) -> tuple[Any, Any]:
    """Return what a linear model sees of texts or pairs: sparse matrices, a row each; a pair's cosine is the last.

    Raises:
        InputError: the texts to learn from hold no word.
    """
    texts = [text for example in train for text in (example.text, example.pair) if text is not None]
    vectorizer = fit_tfidf(texts)
    return _features(vectorizer, train), _features(vectorizer, dev)


def _features(vectorizer: Any, examples: Sequence[LabelledText]) -> Any:
    from scipy.sparse import csr_matrix, hstack

    a = vectorizer.transform([example.text for example in examples])
    if all(example.pair is None for example in examples):
        return a
    b = vectorizer.transform([example.pair or "" for example in examples])
    product = a.multiply(b)
    return hstack([a, b, abs(a - b), product, csr_matrix(product.sum(1))], format="csr")


def _probabilities(train: Any, labels: Sequence[str], dev: Any) -> list[dict[str, float]]:
    """Return how likely each label is; one that has no examples is not among them."""
    from sklearn.linear_model import LogisticRegression

    if len(set(labels)) == 1:  # a small part of the data may hold one label, which nothing can be told from
        return [{labels[0]: 1.0}] * dev.shape[0]
    classifier = LogisticRegression(max_iter=_MAX_ITERATIONS).fit(train, labels)
    rows: Values = classifier.predict_proba(dev)
    return [dict(zip(classifier.classes_.tolist(), row, strict=True)) for row in rows.tolist()]
