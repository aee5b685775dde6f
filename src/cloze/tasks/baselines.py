"""Baselines of each task family: predictions without an encoder, scored like those of a model."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType
from typing import Any, TypeAlias

from cloze.errors import InputError
from cloze.progress import SILENT, Progress
from cloze.tasks import span_baselines, text_baselines
from cloze.tasks.conll import TaggedText
from cloze.tasks.data import sample_examples
from cloze.tasks.multiple_choice import ChoicePrediction, ChoiceQuestion, MultipleChoice
from cloze.tasks.span import SpanTask
from cloze.tasks.tag_predictions import TagPrediction
from cloze.tasks.tag_schemes import convert_tags
from cloze.tasks.tagging import Tagging
from cloze.tasks.task import AnyTask
from cloze.tasks.text_regression import TextRegression
from cloze.tasks.texts import TextTask

Baseline: TypeAlias = Callable[[Any, Sequence[Any], Sequence[Any]], list[Any]]
"""From a task, training examples and dev examples to predictions for the dev examples."""

ALL = None
"""The size of the whole training data."""


@dataclass(frozen=True, slots=True)
class BaselineScores:
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
        InputError: the family has no baselines, every size is too large, or a label is unknown.
    """
    if not any(size is None or size <= len(train) for size in sizes):
        raise InputError(f"there are {len(train):,} examples to learn from", where=task.name)
    if isinstance(task, TextTask):
        for example in dev:
            task.target(example)
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


def most_frequent_choice(
    task: MultipleChoice, train: Sequence[ChoiceQuestion], dev: Sequence[ChoiceQuestion]
) -> list[ChoicePrediction]:
    """Choose the index that is right most often, the first of equals."""
    counts = Counter(example.label for example in train)
    return [_choose(max(range(len(e.choices)), key=lambda index: counts[index]), e) for e in dev]


def choice_of_overlap(
    task: MultipleChoice, train: Sequence[ChoiceQuestion], dev: Sequence[ChoiceQuestion]
) -> list[ChoicePrediction]:
    """Choose by the cosine of TF-IDF weights with the prompt, the first of equals."""
    vectorizer = text_baselines.fit_tfidf(
        [text for example in train for text in (example.prompt, *example.choices)]
    )
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


BASELINES: Mapping[Any, Mapping[str, Baseline]] = MappingProxyType(
    {
        **text_baselines.BASELINES,
        MultipleChoice: {"majority": most_frequent_choice, "tfidf_overlap": choice_of_overlap},
        SpanTask: span_baselines.BASELINES,
        Tagging: {"all_o": all_outside, "majority": most_frequent_tags},
    }
)
"""The baselines of each family by name; a new family adds its own here."""
