"""Answers to questions on a text by words that they have in common: what a model has to be better than.

A word weighs the more the fewer paragraphs of the training data it stands in (IDF).
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from cloze.tasks.answers import Answer
from cloze.tasks.conll import Sentence
from cloze.tasks.contexts import Excerpt, Paragraph
from cloze.tasks.running_text import read_text
from cloze.tasks.span import SpanPrediction, SpanQuestion, SpanTask

_COMMON = 0.1  # a word in more of the paragraphs than this share says little: it is no part of an answer


def no_answer(
    task: SpanTask, train: Sequence[SpanQuestion], dev: Sequence[SpanQuestion]
) -> list[SpanPrediction]:
    """Say of every text that it holds no answer."""
    none = Answer(None)
    return [SpanPrediction(none, (none,))] * len(dev)


def sentence_of_overlap(
    task: SpanTask, train: Sequence[SpanQuestion], dev: Sequence[SpanQuestion]
) -> list[SpanPrediction]:
    """Answer with the sentence whose words weigh most among those of the question, the first of several."""
    weights = _word_weights(train)
    return [
        _prediction(example.paragraph, 0, len(sentence.words) - 1, sentence)
        for example, sentence in _best_sentences(dev, weights)
    ]


def span_of_overlap(
    task: SpanTask, train: Sequence[SpanQuestion], dev: Sequence[SpanQuestion]
) -> list[SpanPrediction]:
    """Answer with the part of that sentence that is new: its words that are rare and not in the question.

    Of the runs of such words the one that weighs most is taken, the first of several; the sentence where there is none.
    """
    weights = _word_weights(train)
    found = []
    for example, sentence in _best_sentences(dev, weights):
        asked = {word.lower() for word in _words(example.question)}

        def is_new(number: int, sentence: Sentence = sentence, asked: set[str] = asked) -> bool:
            word = sentence.words[number].lower()
            return any(map(str.isalnum, word)) and word not in asked and weights.is_rare(word)

        runs = [list(run) for new, run in groupby(range(len(sentence.words)), is_new) if new]
        run = max(
            runs,
            key=lambda run: sum(weights.of(sentence.words[number].lower()) for number in run),
            default=range(len(sentence.words)),
        )
        found.append(_prediction(example.paragraph, run[0], run[-1], sentence))
    return found


@dataclass(frozen=True, slots=True)
class _WordWeights:
    paragraphs: int
    counts: Mapping[str, int]
    """Paragraphs that a word stands in."""

    def of(self, word: str) -> float:
        return 1 + math.log((1 + self.paragraphs) / (1 + self.counts.get(word, 0)))

    def is_rare(self, word: str) -> bool:
        return self.counts.get(word, 0) <= _COMMON * self.paragraphs


def _word_weights(train: Sequence[SpanQuestion]) -> _WordWeights:
    texts = {example.paragraph.text for example in train}
    counts = Counter(word for text in texts for word in {word.lower() for word in _words(text)})
    return _WordWeights(len(texts), counts)


def _words(text: str) -> Iterator[str]:
    for sentence in read_text(text):
        yield from sentence.words


def _best_sentences(
    dev: Sequence[SpanQuestion], weights: _WordWeights
) -> Iterator[tuple[SpanQuestion, Sentence]]:
    for _, questions in groupby(dev, lambda example: example.paragraph.text):
        own = list(questions)
        sentences = read_text(own[0].paragraph.text) or (Sentence(("",), offsets=((0, 0),)),)
        words = [{word.lower() for word in sentence.words} for sentence in sentences]
        for example in own:
            asked = {word.lower() for word in _words(example.question)}
            overlaps = [math.fsum(weights.of(word) for word in asked & found) for found in words]
            yield example, sentences[overlaps.index(max(overlaps))]


def _prediction(paragraph: Paragraph, first: int, last: int, sentence: Sentence) -> SpanPrediction:
    assert sentence.offsets is not None
    start, end = sentence.offsets[first][0], sentence.offsets[last][1]
    answer = Answer(Excerpt(paragraph.text[start:end], start, end))
    return SpanPrediction(answer, (answer,))
