"""Baselines of each task family: predictions without an encoder, scored like those of a model.

The features of a text are its words and word bigrams, weighted by TF-IDF; those of a pair are the weights of both,
their absolute difference, their product and their cosine. scikit-learn's defaults are used (extra `tasks`).
"""

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from time import perf_counter
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.results import Result
from cloze.tasks import span_baselines
from cloze.tasks.bm25 import bm25_scores
from cloze.tasks.conll import TaggedText
from cloze.tasks.data import sample_examples
from cloze.tasks.families.multi_label import LabelSetPrediction, MultiLabel
from cloze.tasks.families.multiple_choice import ChoicePrediction, ChoiceQuestion, MultipleChoice
from cloze.tasks.families.passage_ranking import PassageRanking
from cloze.tasks.families.sentence_vectors import SentenceVectors
from cloze.tasks.families.sequence_classification import ClassPrediction, SequenceClassification
from cloze.tasks.families.span import SpanTask
from cloze.tasks.families.tagging import Tagging
from cloze.tasks.families.text_pairs import PairVectors, TextPairs
from cloze.tasks.families.text_regression import TextRegression
from cloze.tasks.tag_predictions import TagPrediction
from cloze.tasks.tag_schemes import convert_tags
from cloze.tasks.task import AnyTask
from cloze.tasks.text_labels import TextLabels
from cloze.tasks.texts import LabeledText

Baseline: TypeAlias = Callable[[Any, Sequence[Any], Sequence[Any]], list[Any]]
"""From a task, training examples and dev examples to predictions for the dev examples."""
Texts: TypeAlias = Sequence[LabeledText]

ALL = None
"""The size of the whole training data."""
_TOKEN_PATTERN = r"\w+|[^\w\s]"
_MAX_ITERATIONS = 1000


@dataclass(frozen=True, slots=True, repr=False)
class BaselineScores(Result):
    """The scores of a baseline trained on some examples."""

    baseline: str
    train_examples: int
    scores: dict[str, float]
    seconds: float


def score_baselines(
    task: AnyTask,
    train: Sequence[Any],
    dev: Sequence[Any],
    sizes: Sequence[int | None] = (ALL,),
    *,
    progress: Progress = SILENT,
) -> list[BaselineScores]:
    """Score every baseline of a task on dev data, trained on samples of each size.

    The samples are those that a fine-tuning run with `train_examples` uses. Sizes over the number of examples are left
    out with a note.

    Raises:
        InputError: the family has no baselines, or every size is too large.
    """
    if not any(size is None or size <= len(train) for size in sizes):
        raise InputError(f"there are {len(train):,} examples to learn from", where=task.name)
    baselines = baselines_of(task, train)
    results = []
    for size in sizes:
        if size is not None and size > len(train):
            progress.note(f"{size:,} examples are left out: there are {len(train):,}")
            continue
        sample = train if size is None else sample_examples(train, size, where=task.name)
        for name, baseline in baselines.items():
            start = perf_counter()
            scores = task.score(dev, baseline(task, sample, dev))
            results.append(BaselineScores(name, len(sample), scores, perf_counter() - start))
    return results


def baselines_of(task: AnyTask, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    """Return the baselines of a task by name."""
    for family, baselines in BASELINES.items():
        if isinstance(task, family):
            excluded = set()
            if isinstance(task, SpanTask) and not task.allows_no_answer:
                excluded.add("no_answer")
            if isinstance(task, TextRegression) and examples[0].pair is None:
                excluded.add("tfidf_cosine")
            if isinstance(task, Tagging) and task.scheme == "plain":
                excluded.add("all_o")
            return {name: baseline for name, baseline in baselines.items() if name not in excluded}
    raise InputError("has no baseline", where=task.name)


def most_frequent_label(task: SequenceClassification, train: Texts, dev: Texts) -> list[ClassPrediction]:
    """Predict the most frequent label, the first of equals."""
    shares = _shares(task, train)
    label = max(shares, key=shares.__getitem__)
    return [ClassPrediction(label, shares[label], shares)] * len(dev)


def most_frequent_set(task: MultiLabel, train: Texts, dev: Texts) -> list[LabelSetPrediction]:
    """Predict the most frequent set of labels, the first of equals."""
    [(best, _)] = Counter(map(task.gold, train)).most_common(1)
    return [LabelSetPrediction(tuple(sorted(best)), _shares(task, train))] * len(dev)


def _shares(task: TextLabels[Any], train: Texts) -> dict[str, float]:
    counts = Counter(chain.from_iterable(map(task.classes_of, train)))
    return {label: counts[label] / len(train) for label in task.labels}


def logistic_regression(task: TextLabels[Any], train: Texts, dev: Texts) -> list[Any]:
    """Predict labels with a logistic regression, or with one for each label that a text may have."""
    train_features, dev_features = tfidf_features(train, dev)
    labels = list(map(task.classes_of, train))
    with np.errstate(divide="ignore"):
        if isinstance(task, MultiLabel):
            columns = []
            for label in task.labels:
                has_label = [int(label in of_text) for of_text in labels]
                columns.append(_predict_probabilities(train_features, has_label, dev_features, 2))
            probabilities_NC2 = np.stack(columns, axis=1)
            logits_NC = np.log(probabilities_NC2[..., 1]) - np.log(probabilities_NC2[..., 0])
        else:
            targets = [task.labels.index(label) for [label] in labels]
            logits_NC = np.log(
                _predict_probabilities(train_features, targets, dev_features, len(task.labels))
            )
    return [task.decode(example, [], [logits_C]) for example, logits_C in zip(dev, logits_NC, strict=True)]


def _predict_probabilities(
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
        warnings.simplefilter("ignore", ConvergenceWarning)  # more would change the scores little
        classifier = LogisticRegression(max_iter=_MAX_ITERATIONS).fit(train, targets)
    probabilities_NC[:, classifier.classes_] = classifier.predict_proba(dev)
    return probabilities_NC


def mean_score(task: TextRegression, train: Texts, dev: Texts) -> list[float]:
    """Predict the mean score."""
    return [fmean(map(task.gold, train))] * len(dev)


def ridge_regression(task: TextRegression, train: Texts, dev: Texts) -> list[float]:
    """Predict scores with a ridge regression."""
    from sklearn.linear_model import Ridge

    train_features, dev_features = tfidf_features(train, dev)
    ridge = Ridge().fit(train_features, list(map(task.gold, train)))
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


def most_frequent_choice(
    task: MultipleChoice, train: Sequence[ChoiceQuestion], dev: Sequence[ChoiceQuestion]
) -> list[ChoicePrediction]:
    """Choose the index that is right most often, the first of equals."""
    counts = Counter(map(task.gold, train))
    return [_choose(max(range(len(e.choices)), key=lambda index: counts[index]), e) for e in dev]


def choice_of_overlap(
    task: MultipleChoice, train: Sequence[ChoiceQuestion], dev: Sequence[ChoiceQuestion]
) -> list[ChoicePrediction]:
    """Choose by the cosine of TF-IDF weights with the prompt, the first of equals."""
    vectorizer = fit_tfidf([text for example in train for text in (example.prompt, *example.choices)])
    predictions = []
    for example in dev:
        cosines = (vectorizer.transform(example.choices) @ vectorizer.transform([example.prompt]).T).toarray()
        predictions.append(_choose(int(cosines.argmax()), example))
    return predictions


def _choose(index: int, example: ChoiceQuestion) -> ChoicePrediction:
    return ChoicePrediction(index, 1.0, [float(i == index) for i in range(len(example.choices))])


def all_outside(task: Tagging, train: Sequence[TaggedText], dev: Sequence[TaggedText]) -> list[TagPrediction]:
    """Tag every word O."""
    return [_certain_tags([("O",) * len(sentence.words) for sentence in text.sentences]) for text in dev]


def most_frequent_tags(
    task: Tagging, train: Sequence[TaggedText], dev: Sequence[TaggedText]
) -> list[TagPrediction]:
    """Tag every word with its most frequent tag; an unseen word is O, or has the most frequent plain tag."""
    assert task.scheme is not None
    is_plain = task.scheme == "plain"
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in train:
        for sentence in example.sentences:
            tags = convert_tags(sentence.tags or (), task.learned_scheme)
            for word, tag in zip(sentence.words, tags, strict=True):
                counts[word][tag] += 1
    unseen = sum(counts.values(), Counter()).most_common(1)[0][0] if is_plain else "O"
    most_frequent = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    return [
        _certain_tags(
            [
                convert_tags([most_frequent.get(word, unseen) for word in sentence.words], task.scheme)
                for sentence in example.sentences
            ]
        )
        for example in dev
    ]


def _certain_tags(sentences: Sequence[tuple[str, ...]]) -> TagPrediction:
    return TagPrediction(tuple(sentences), tuple((1.0,) * len(tags) for tags in sentences))


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


BASELINES: Mapping[Any, Mapping[str, Baseline]] = MappingProxyType(
    {
        SequenceClassification: {"majority": most_frequent_label, "tfidf_logistic": logistic_regression},
        MultiLabel: {"majority": most_frequent_set, "tfidf_logistic": logistic_regression},
        TextRegression: {"mean": mean_score, "tfidf_ridge": ridge_regression, "tfidf_cosine": scaled_cosines},
        PassageRanking: {"bm25": bm25_of_pairs},
        SentenceVectors: {"tfidf_cosine": tfidf_cosines},
        TextPairs: {"tfidf_cosine": tfidf_vectors},
        MultipleChoice: {"majority": most_frequent_choice, "tfidf_overlap": choice_of_overlap},
        SpanTask: span_baselines.BASELINES,
        Tagging: {"all_o": all_outside, "majority": most_frequent_tags},
    }
)
"""The baselines of each family by name; a new family adds its own here."""
