"""Predicted tags of words, entities of texts, and files of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from cloze.data.reading.conll import ConllColumns, read_sentences
from cloze.data.reading.files import STDIN
from cloze.data.reading.formats import FORMATS, is_json
from cloze.data.reading.memory import Data, MemoryRows
from cloze.data.reading.source import Source
from cloze.data.reading.tag_schemes import Scheme, join_tag
from cloze.data.reading.tagged_text import Sentence, TaggedText
from cloze.errors import InputError
from cloze.results import Result


@dataclass(frozen=True, slots=True)
class TagPrediction:
    """The most probable tag of every word of each sentence, and its probability."""

    tags: tuple[tuple[str, ...], ...]
    probabilities: tuple[tuple[float, ...], ...] = ()
    spans: tuple[tuple[int, int, str], ...] = ()
    """Characters and types of the entities in a file of predictions, whose words may be split otherwise."""


@dataclass(frozen=True, slots=True, repr=False)
class PredictedEntity(Result):
    """An entity of a text, from character `start` to before `end`."""

    type: str
    """Its type, such as PER."""
    text: str
    """Its characters."""
    start: int
    """Its first character."""
    end: int
    """The character after its last."""
    probability: float
    """Product of the probabilities of its words' tags."""


def read_columns(source: Source, examples: Sequence[TaggedText]) -> list[TagPrediction]:
    """Read predictions in columns, the word first and the predicted tag last."""
    sentences = (s for s in read_sentences(source, ConllColumns(0, -1), source.lines) if s.words)
    predictions = []
    for example in examples:
        tags = (_matching_tags(next(sentences, None), gold, source) for gold in example.sentences)
        predictions.append(TagPrediction(tuple(tags)))
    if (more := next(sentences, None)) is not None:
        raise InputError("more sentences than there are to score", where=more.where(0))
    return predictions


def fit_to_words(
    example: TaggedText, prediction: TagPrediction, scheme: Scheme | None, path: Data
) -> TagPrediction:
    """Return a prediction with a tag for each word of an example.

    If its words are split otherwise, words that overlap the entities of the prediction are tagged.
    """
    lengths = [len(sentence.words) for sentence in example.sentences]
    if example.text is not None and list(map(len, prediction.tags)) != lengths:
        by_sentence, before = [], None
        for sentence in example.sentences:
            by_sentence.append(["O"] * len(sentence.words))
            for word, (start, end) in enumerate(sentence.offsets or ()):
                span = next((span for span in prediction.spans if span[0] < end and start < span[1]), None)
                if span is not None:
                    prefix = "I" if span == before else "B"
                    by_sentence[-1][word] = span[2] if scheme == "plain" else join_tag(prefix, span[2])
                before = span
        prediction = TagPrediction(tuple(map(tuple, by_sentence)))
    if len(prediction.tags) != len(lengths):
        text = f"the text of {example.sentences[0].where(0)}" if lengths else "a text without words"
        what = f"{len(prediction.tags)} sentences, {text} has {len(lengths)}"
        raise InputError(what, where=path)
    for sentence, tags in zip(example.sentences, prediction.tags, strict=True):
        if len(tags) != len(sentence.words):
            what = f"{len(tags)} tags for the {len(sentence.words)} words of {sentence.where(0)}"
            raise InputError(what, where=path)
    return prediction


def are_columns(source: Source) -> bool:
    """Return whether predictions are in columns without names, not as `cloze predict` writes them."""
    is_text = source.format.is_json or source.format is FORMATS["table"]
    if str(source) == STDIN or isinstance(source.data, MemoryRows) or not is_text:
        return False
    first = next(iter(source.sample), "")
    return not (is_json(first) or '"sentences"' in first)


def _matching_tags(predicted: Sentence | None, gold: Sentence, source: Source) -> tuple[str, ...]:
    """Return the tags of a predicted sentence, which must have the words of the gold one."""
    if predicted is None:
        raise InputError(f"no prediction for {gold.where(0)} and what follows it", where=source)
    remedy = "Give the same words in the same order"
    for word, (theirs, ours) in enumerate(zip(predicted.words, gold.words, strict=False)):
        if theirs != ours:
            what = f"{theirs!r}, where {gold.where(word)} has {ours!r}"
            raise InputError(what, where=predicted.where(word), remedy=remedy)
    if len(predicted.words) != len(gold.words):
        what = f"a sentence of {len(predicted.words)} words, that of {gold.where(0)} has {len(gold.words)}"
        raise InputError(what, where=predicted.where(0), remedy=remedy)
    assert predicted.tags is not None
    return predicted.tags
