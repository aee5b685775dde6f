"""Predicted tags of words, entities of texts, and files of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from cloze.data.reading.conll import ConllColumns, read_sentences
from cloze.data.reading.files import STDIN
from cloze.data.reading.formats import FORMATS, is_json
from cloze.data.reading.memory import MemoryRows
from cloze.data.reading.source import Source
from cloze.data.reading.tagged_text import Sentence, TaggedText
from cloze.errors import InputError
from cloze.results import Result


@dataclass(frozen=True, slots=True)
class TagPrediction:
    """The most probable tag of every word of each sentence, and its probability."""

    tags: tuple[tuple[str, ...], ...]
    probabilities: tuple[tuple[float, ...], ...] = ()


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
    if predicted.words != gold.words:
        remedy = "Give the same words in the same order"
        raise InputError(f"not the words of {gold.where(0)}", where=predicted.where(0), remedy=remedy)
    assert predicted.tags is not None
    return predicted.tags
