"""Features of texts for baselines: words and word bigrams, weighted by TF-IDF.

The features of a pair are the weights of both texts, their absolute difference, their product and their cosine.
scikit-learn's defaults are used (extra `tasks`).

Shapes: N texts, C classes.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cloze.errors import InputError
from cloze.tasks.texts import Texts


def fit_tfidf(texts: Sequence[str]) -> Any:
    """Return scikit-learn's vectorizer with the vocabulary and weights of texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(text.strip() for text in texts):
        raise InputError("the texts to learn from hold no word")
    pattern = r"\w+|[^\w\s]"
    return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=pattern).fit(texts)


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


def tfidf_cosines(train: Texts, dev: Texts) -> list[float]:
    """Return the cosine of each dev pair. Only the weights are learned, without scores."""
    _, dev_features = tfidf_features(train, dev)
    cosines: list[float] = dev_features[:, -1].toarray()[:, 0].tolist()
    return cosines


def tfidf_ridge(train: Texts, dev: Texts) -> list[float]:
    """Fit a ridge regression to the gold numbers, and return the numbers of dev examples."""
    from sklearn.linear_model import Ridge

    train_features, dev_features = tfidf_features(train, dev)
    ridge = Ridge().fit(train_features, [example.gold for example in train])
    numbers: list[float] = ridge.predict(dev_features).tolist()
    return numbers


def class_probabilities(
    train: Any, targets: Sequence[int], dev: Any, num_classes: int
) -> npt.NDArray[np.float64]:
    """Fit a logistic regression and return the probabilities of all classes, [N, C]."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    probabilities_NC = np.zeros((dev.shape[0], num_classes))
    if len(set(targets)) == 1:  # scikit-learn refuses a single class, which a small sample may have
        probabilities_NC[:, targets[0]] = 1
        return probabilities_NC
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # more steps would change the scores little
        classifier = LogisticRegression(max_iter=1000).fit(train, targets)
    probabilities_NC[:, classifier.classes_] = classifier.predict_proba(dev)
    return probabilities_NC
