"""Baselines for questions on paragraphs: the sentence or the words that overlap with the question.

Words are weighted by inverse document frequency (IDF) over the paragraphs of the training data.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from cloze.tasks.paragraphs import Paragraph, Questions, SpanQuestion
from cloze.tasks.running_text import split_text
from cloze.tasks.span_decoding import Answer, SpanPrediction
from cloze.tasks.tagged_text import Sentence

_MAX_RARE_SHARE = 0.1
"""A word in a larger share of the paragraphs is too frequent to be part of an answer."""


def no_answer(train: Questions, dev: Questions) -> list[SpanPrediction]:
    """Predict "no answer"."""
    return [SpanPrediction(candidates=(Answer(),))] * len(dev)


def sentence_of_overlap(train: Questions, dev: Questions) -> list[SpanPrediction]:
    """Predict the sentence whose words shared with the question weigh most, the first of equals."""
    weights = _word_weights(train)
    return [
        _prediction(example.paragraph, 0, len(sentence.words) - 1, sentence)
        for example, sentence in _best_sentences(dev, weights)
    ]


def span_of_overlap(train: Questions, dev: Questions) -> list[SpanPrediction]:
    """Predict, in that sentence, the run of rare words not in the question that weighs most, the first of equals.

    Without such a run the sentence is predicted.
    """
    weights = _word_weights(train)
    predictions = []
    for example, sentence in _best_sentences(dev, weights):
        words = [word.lower() for word in sentence.words]
        question = {word.lower() for word in _words(example.question)}
        is_new = [
            any(map(str.isalnum, word)) and word not in question and weights.is_rare(word) for word in words
        ]
        runs = [list(run) for new, run in groupby(range(len(words)), is_new.__getitem__) if new]
        run = max(runs, key=lambda run: sum(weights.of(words[i]) for i in run), default=range(len(words)))
        predictions.append(_prediction(example.paragraph, run[0], run[-1], sentence))
    return predictions


class _WordWeights(NamedTuple):
    paragraphs: int
    num_paragraphs: Mapping[str, int]
    """Number of paragraphs with a word."""

    def of(self, word: str) -> float:
        return 1 + math.log((1 + self.paragraphs) / (1 + self.num_paragraphs.get(word, 0)))

    def is_rare(self, word: str) -> bool:
        return self.num_paragraphs.get(word, 0) <= _MAX_RARE_SHARE * self.paragraphs


def _word_weights(train: Questions) -> _WordWeights:
    texts = {example.paragraph.text for example in train}
    counts = Counter(word for text in texts for word in {word.lower() for word in _words(text)})
    return _WordWeights(len(texts), counts)


def _words(text: str) -> Iterator[str]:
    for sentence in split_text(text):
        yield from sentence.words


def _best_sentences(dev: Questions, weights: _WordWeights) -> Iterator[tuple[SpanQuestion, Sentence]]:
    for text, questions in groupby(dev, lambda example: example.paragraph.text):
        sentences = split_text(text) or (Sentence(("",), offsets=((0, 0),)),)
        words = [{word.lower() for word in sentence.words} for sentence in sentences]
        for example in questions:
            question = {word.lower() for word in _words(example.question)}
            overlaps = [
                math.fsum(weights.of(word) for word in question & of_sentence) for of_sentence in words
            ]
            yield example, sentences[overlaps.index(max(overlaps))]


def _prediction(paragraph: Paragraph, first: int, last: int, sentence: Sentence) -> SpanPrediction:
    assert sentence.offsets is not None
    start, end = sentence.offsets[first][0], sentence.offsets[last][1]
    answer = Answer(paragraph.text[start:end], start, end)
    return SpanPrediction.choose(answer, [answer])
