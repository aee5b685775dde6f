"""What a task's score stands beside: predictions that need no encoder, scored as those of a model are."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from time import perf_counter
from typing import Any, TypeAlias

from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.tasks.data import part_of
from cloze.tasks.multi_label import MultiLabel
from cloze.tasks.multiple_choice import Choice, MultipleChoice, Question
from cloze.tasks.passage_ranking import PassageRanking
from cloze.tasks.sentence_vectors import SentenceVectors
from cloze.tasks.sequence_classification import SequenceClassification
from cloze.tasks.span import SpanTask
from cloze.tasks.span_baselines import no_answer, sentence_of_overlap, span_of_overlap
from cloze.tasks.tag_schemes import convert
from cloze.tasks.tagged_text import TaggedText
from cloze.tasks.tagging import Tagging, Tags
from cloze.tasks.task import AnyTask
from cloze.tasks.text_baselines import (
    bm25_of_pairs,
    cosine_of_pair,
    cosine_of_vectors,
    fit_tfidf,
    logistic_regression,
    logistic_regressions,
    mean_score,
    most_frequent_label,
    most_frequent_set,
    ridge_regression,
    tfidf_vectors,
)
from cloze.tasks.text_pairs import TextPairs
from cloze.tasks.text_regression import TextRegression
from cloze.tasks.texts import TextTask

Baseline: TypeAlias = Callable[[Any, Sequence[Any], Sequence[Any]], list[Any]]
"""From a task, examples to learn from and examples to answer, to predictions of the task's own kind."""

ALL = None
"""The size of a part of the training data that is all of them."""


@dataclass(frozen=True, slots=True)
class BaselineScores:
    """How good a baseline is that has learned from so many examples."""

    baseline: str
    train_examples: int
    scores: dict[str, float]
    seconds: float


@singledispatch
def baselines_of(task: AnyTask, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    """Return the baselines of a task's family by name: register them here for a new one.

    Raises:
        InputError: it has none.
    """
    raise InputError("has no baseline", where=task.name)


@baselines_of.register
def _(task: SequenceClassification, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    return {"majority": most_frequent_label, "tfidf_logistic": logistic_regression}


@baselines_of.register
def _(task: MultiLabel, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    return {"majority": most_frequent_set, "tfidf_logistic": logistic_regressions}


@baselines_of.register
def _(task: TextRegression, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    cosine = {"tfidf_cosine": cosine_of_pair} if examples[0].pair is not None else {}
    return {"mean": mean_score, "tfidf_ridge": ridge_regression, **cosine}


@baselines_of.register
def _(task: PassageRanking, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    return {"bm25": bm25_of_pairs}


@baselines_of.register
def _(task: SentenceVectors, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    return {"tfidf_cosine": cosine_of_vectors}


@baselines_of.register
def _(task: TextPairs, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    return {"tfidf_cosine": tfidf_vectors}


@baselines_of.register
def _(task: MultipleChoice, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    return {"majority": most_frequent_choice, "tfidf_overlap": choice_of_overlap}


@baselines_of.register
def _(task: SpanTask, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    overlap = {"idf_sentence": sentence_of_overlap, "idf_span": span_of_overlap}
    return {"no_answer": no_answer, **overlap} if task.may_be_none else overlap


@baselines_of.register
def _(task: Tagging, examples: Sequence[Any]) -> Mapping[str, Baseline]:
    return {"all_o": no_entities, "majority": most_frequent_tags}


def measure(
    task: AnyTask,
    train: Sequence[Any],
    dev: Sequence[Any],
    sizes: Sequence[int | None] = (ALL,),
    *,
    progress: Progress = SILENT,
) -> list[BaselineScores]:
    """Score every baseline of a task on dev data, for parts of the training data of each size.

    Parts are drawn by `part_of`, as a fine-tuning run on some of the examples draws its own.

    Args:
        task: as `fitted` to all the training data.
        train: examples to learn from.
        dev: examples to be scored on.
        sizes: examples of a part; those that are more than there are left out, and that is told.
        progress: where to tell how far it is.

    Raises:
        InputError: the family has no baselines, every size is more than there are, or an example has a label that the
            task does not know.
    """
    if not any(size is None or size <= len(train) for size in sizes):
        raise InputError(f"there are {len(train):,} examples to learn from", where=task.name)
    if isinstance(task, TextTask):
        for example in dev:
            task.target(example)
    known = baselines_of(task, train)
    found = []
    for size in sizes:
        if size is not None and size > len(train):
            progress.note(f"{size:,} examples are left out: there are {len(train):,}")
            continue
        part = train if size is None else part_of(train, size, where=task.name)
        for name, baseline in known.items():
            start = perf_counter()
            scores = task.score(dev, baseline(task, part, dev))
            found.append(BaselineScores(name, len(part), scores, perf_counter() - start))
    return found


def most_frequent_choice(
    task: MultipleChoice, train: Sequence[Question], dev: Sequence[Question]
) -> list[Choice]:
    """Take the choice at the place that is right most often, the first of several."""
    counts = Counter(example.label for example in train)
    return [_certain(max(range(len(e.choices)), key=lambda number: counts[number]), e) for e in dev]


def choice_of_overlap(
    task: MultipleChoice, train: Sequence[Question], dev: Sequence[Question]
) -> list[Choice]:
    """Take the choice whose TF-IDF weights have the largest cosine with the beginning's, the first of several."""
    vectorizer = fit_tfidf([text for example in train for text in (example.prompt, *example.choices)])
    found = []
    for example in dev:
        cosines = (vectorizer.transform(example.choices) @ vectorizer.transform([example.prompt]).T).toarray()
        found.append(_certain(int(cosines.argmax()), example))
    return found


def _certain(number: int, example: Question) -> Choice:
    return Choice(number, 1.0, [float(i == number) for i in range(len(example.choices))])


def no_entities(task: Tagging, train: Sequence[TaggedText], dev: Sequence[TaggedText]) -> list[Tags]:
    """Tag every word O."""
    return [
        _certain_tags([("O",) * len(sentence.words) for sentence in example.sentences]) for example in dev
    ]


def most_frequent_tags(task: Tagging, train: Sequence[TaggedText], dev: Sequence[TaggedText]) -> list[Tags]:
    """Give every word the IOB2 tag that it has most often, the first of several; O where it was never seen."""
    assert task.scheme is not None
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for example in train:
        for sentence in example.sentences:
            for word, tag in zip(sentence.words, convert(sentence.tags or (), "IOB2"), strict=True):
                counts[word][tag] += 1
    likeliest = {word: own.most_common(1)[0][0] for word, own in counts.items()}
    return [
        _certain_tags(
            [
                convert([likeliest.get(word, "O") for word in sentence.words], task.scheme)
                for sentence in example.sentences
            ]
        )
        for example in dev
    ]


def _certain_tags(sentences: Sequence[tuple[str, ...]]) -> Tags:
    return Tags(tuple(sentences), tuple((1.0,) * len(tags) for tags in sentences))
