"""The family of tasks that give every word of a text a tag, which together mark entities.

Shapes: T tokens in the packed batch, W words of it that are predicted, C classes.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from cloze.corpus.streams import STDIN
from cloze.errors import InputError
from cloze.metrics.conll import entities, entity_scores
from cloze.model.bert import BertModel
from cloze.model.heads import BertForTokenClassification
from cloze.stores import Place
from cloze.tasks.conll import ConllColumns, Sentence, read_documents, read_sentences
from cloze.tasks.probabilities import softmax
from cloze.tasks.running_text import read_text
from cloze.tasks.tables import read_lines
from cloze.tasks.tag_schemes import Scheme, SchemeFinder, convert, is_tag, tag_name
from cloze.tasks.tagged_text import TaggedText
from cloze.tasks.tagging_features import Integers, TaggingBatch, TaggingFeature, pack, tagging_features
from cloze.tasks.task import Array, Task, check_labels
from cloze.text.tokenizer import Tokenizer
from cloze.training.measures import Measures

Context: TypeAlias = Literal["sentence", "document"]


@dataclass(frozen=True, slots=True)
class Tags:
    """A prediction: of each sentence, the likeliest tag of every word and what the model gives it."""

    tags: tuple[tuple[str, ...], ...]
    probabilities: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class FoundEntity:
    """An entity in a text: its characters from `start` to before `end`."""

    type: str
    text: str
    start: int
    end: int
    probability: float
    """The product of what the model gives the tags of its words."""


@dataclass(frozen=True, kw_only=True)
class Tagging(Task[TaggedText, TaggingFeature, TaggingBatch, Tags]):
    """A softmax over the tags for every word, from the vector of its first piece (Devlin et al. 2019, 5.3).

    Case tells names from other words: take a cased model where there is one, as the paper does.

    The model learns IOB2 whatever scheme the data are in, and answers in theirs. A text that is longer than the
    model reads at once is cut into windows that overlap by half; each word is learned and predicted in the one that
    shows most of what is around it. A word that the tokenizer makes nothing of stands as [UNK].
    """

    main_metric: ClassVar[str] = "f1"
    metrics: ClassVar[tuple[str, ...]] = ("f1", "precision", "recall", "tag_accuracy")
    learned_settings: ClassVar[tuple[str, ...]] = ("labels",)
    data_format: ClassVar[str] = "CoNLL's columns: a word and its tag a line, an empty line between sentences"

    labels: tuple[str, ...] = ()
    """In the order of the classes; none given, they are B and I of the types that the training data have, and O."""
    scheme: Scheme | None = None
    """Of the answers; not given, it is that of the training data."""
    word_column: int = 0
    """Counted from 0, or from -1 backwards."""
    tag_column: int = -1
    context: Context = "sentence"
    """What the model sees of a sentence's document: nothing, or as much as fits, on both sides."""
    running_text: bool = False
    """What has no tags is plain text, not columns: each line an example."""
    language: str = "en"
    """Of plain text: its sentences are found by it."""
    columns: int | None = None
    """Of the training data: what has no tags has no more of them. None: it was not said."""

    def __post_init__(self) -> None:
        check_labels(self.labels)
        if wrong := [label for label in self.labels if not is_tag(label)]:
            raise ValueError(f"labels holds {wrong[0]!r}, which is no tag as B-PER is")

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[TaggedText]:
        """Read sentences or documents from a file of columns; or plain text, where that has no tags."""
        if self.running_text and not labelled:
            for line, _ in read_lines(path):
                yield self.example(line)
            return
        columns = ConllColumns(self.word_column, self.tag_column if labelled else None)
        if not labelled:
            columns = replace(columns, most=self.columns)
        sees_documents = self.context == "document"
        for document in read_documents(path, columns, must_be_marked=sees_documents):
            if sees_documents:
                yield TaggedText(document)
            else:
                origin = document[0].where(0)
                yield from (TaggedText((sentence,), document=origin) for sentence in document)

    def example(self, text: str) -> TaggedText:
        """Return a running text of any length, cut into sentences and words."""
        return TaggedText(read_text(text, language=self.language), text)

    def fitted(self, examples: Sequence[TaggedText]) -> Self:
        """Return the task with the labels and the scheme of the examples.

        Raises:
            InputError: no word has a tag but O.
        """
        schemes = SchemeFinder()
        types = set()
        for sentence in chain.from_iterable(example.sentences for example in examples):
            tags = sentence.tags or ()
            schemes.add(tags, sentence.where)
            types |= {entity.type for entity in entities(tags)}
        if not types:
            what, remedy = "no word has a tag but O", "A tagger needs examples of entities"
            raise InputError(what, where=examples[0].sentences[0].file, remedy=remedy)
        found = ("O", *(tag_name(mark, type_) for type_ in sorted(types) for mark in ("B", "I")))
        return replace(
            self,
            labels=self.labels or found,
            scheme=self.scheme or schemes.found(),
            columns=max(sentence.columns for example in examples for sentence in example.sentences),
        )

    def notes(self, tokenizer: Tokenizer) -> list[str]:
        """Name the scheme and the types that were found, and a model that cannot tell names by their capitals."""
        types = sorted({label.partition("-")[2] for label in self.labels} - {""})
        notes = [f"tags in {self.scheme}, of {len(types)} types: {', '.join(types)}"]
        if tokenizer.lowercase:
            notes.append(
                "the model lower-cases its text, which hides the capitals of names: a cased one may find more"
            )
        return notes

    def origin(self, example: TaggedText) -> str | None:
        """Return file and line of a sentence's document."""
        return example.document

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    def with_classes(self, names: tuple[str, ...]) -> Self:
        """Return the task with the labels that a model names; what are no tags are refused."""
        if wrong := [name for name in names if not is_tag(name)]:
            raise InputError(f"no tagger: its class {wrong[0]!r} is no tag as B-PER is")
        if not names:
            raise InputError("no tagger: config.json names no labels")
        return replace(self, labels=names, scheme=self.scheme or "IOB2")

    def features(
        self, example: TaggedText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[TaggingFeature]:
        """Tokenize each sentence with as much of its neighbours as fits; a long one is cut into windows.

        Raises:
            InputError: a tag is none of the task's.
        """
        return tagging_features(
            example.sentences, self._targets(example), tokenizer, max_seq_length=max_seq_length
        )

    def _targets(self, example: TaggedText) -> Integers | None:
        """Return the classes of all words of an example, where they are known."""
        number_of = {label: number for number, label in enumerate(self.labels)}
        # a tagger that learned IOB1 may have met no B of a type: there I begins an entity
        for label, number in [*number_of.items()]:
            mark, _, type_ = label.partition("-")
            if mark == "I":
                number_of.setdefault(tag_name("B", type_), number)
        numbers = []
        for sentence in example.sentences:
            if sentence.tags is None:
                return None
            for word, tag in enumerate(convert(sentence.tags, "IOB2")):
                if tag not in number_of:
                    what = f"tag {sentence.tags[word]!r} is none of the task's"
                    some = ", ".join(self.labels[:10]) + (", …" if len(self.labels) > 10 else "")
                    raise InputError(what, where=sentence.where(word), remedy=f"It knows {some}")
                numbers.append(number_of[tag])
        return np.array(numbers, np.int64)

    def check_scored(self, examples: Sequence[TaggedText]) -> None:
        """Refuse examples without tags, or with one that is none of the task's, where it names its own."""
        for example in examples:
            for sentence in example.sentences:
                if sentence.tags is None:
                    raise InputError("no tags: nothing says what is right", where=sentence.where(0))
            if self.labels:
                self._targets(example)

    def batch(self, features: Sequence[TaggingFeature]) -> TaggingBatch:
        """Pack sequences in the order given."""
        return pack(features)

    def head(self, bert: BertModel, *, generator: torch.Generator | None = None) -> nn.Module:
        """Return the encoder with a dense layer on the vector of each token."""
        return BertForTokenClassification(bert, num_labels=len(self.labels), generator=generator)

    def word_logits(self, logits: Tensor, batch: TaggingBatch) -> Tensor:
        """Return the logits of the words, [W, C], out of those of the tokens, [T, C]."""
        # not logits[...]: on a CPU the gradient of indexing adds up in another order each time
        return logits.index_select(0, batch.positions)

    def loss(self, logits: Tensor, batch: TaggingBatch) -> tuple[Tensor, Measures]:
        """Return the summed cross entropy of the words; also measured: the share of right tags."""
        logits_WC = self.word_logits(logits, batch)
        loss = nn.functional.cross_entropy(logits_WC, batch.targets, reduction="sum")
        correct = (logits_WC.detach().argmax(-1) == batch.targets).sum()
        count = batch.num_targets
        return loss, {"loss": (loss.detach(), count), "accuracy": (correct, count)}

    def outputs(self, logits: Tensor, batch: TaggingBatch) -> list[Array]:
        """Return the logits of the words of each sequence, [its words, C]."""
        return [
            own.numpy() for own in torch.split(self.word_logits(logits, batch).cpu(), list(batch.num_words))
        ]

    def decode(
        self, example: TaggedText, features: Sequence[TaggingFeature], outputs: Sequence[Array]
    ) -> Tags:
        """Return the likeliest tag of every word; they come in the order of the windows, which is theirs.

        An entity that begins with I is one to the scores; it is written as its scheme has it.
        """
        logits_WC = np.concatenate([np.zeros((0, len(self.labels))), *outputs])
        probabilities_W = softmax(logits_WC).max(-1)
        best_W = logits_WC.argmax(-1)
        tags, probabilities = [], []
        start = 0
        for sentence in example.sentences:
            end = start + len(sentence.words)
            raw = [self.labels[number] for number in best_W[start:end]]
            tags.append(convert(raw, self.scheme or "IOB2"))
            probabilities.append(tuple(probabilities_W[start:end].tolist()))
            start = end
        return Tags(tuple(tags), tuple(probabilities))

    def score(self, examples: Sequence[TaggedText], predictions: Sequence[Tags]) -> dict[str, float]:
        """Return what conlleval says, in percent: of all entities, of the tags, and F1 of each type."""
        gold = [
            (sentence.tags or ()) if self.scheme is None else convert(sentence.tags or (), self.scheme)
            for example in examples
            for sentence in example.sentences
        ]
        scores = entity_scores(gold, [tags for prediction in predictions for tags in prediction.tags])
        total = scores.all_types
        return {
            "f1": total.f1,
            "precision": total.precision,
            "recall": total.recall,
            "tag_accuracy": scores.accuracy,
            **{f"f1_{name}": counts.f1 for name, counts in scores.by_type.items() if counts.gold},
        }

    def collapse(self, examples: Sequence[TaggedText], predictions: Sequence[Tags]) -> str | None:
        """Name a tagger that finds nothing, where there is something."""
        if not any(entities(s.tags or ()) for example in examples for s in example.sentences):
            return None
        found_some = any(entities(tags) for prediction in predictions for tags in prediction.tags)
        if not found_some:
            return "no entity predicted"
        return "no entity right" if self.score(examples, predictions)["f1"] == 0 else None

    def entities(self, example: TaggedText, prediction: Tags) -> list[FoundEntity]:
        """Return the entities that the tags mark, with their place in the text."""
        text, offsets = example.placed()
        found = []
        for own, tags, probabilities in zip(offsets, prediction.tags, prediction.probabilities, strict=True):
            for entity in entities(tags):
                start, end = own[entity.start][0], own[entity.end - 1][1]
                probability = math.prod(probabilities[entity.start : entity.end])
                found.append(FoundEntity(entity.type, text[start:end], start, end, probability))
        return found

    def to_json(self, example: TaggedText, prediction: Tags) -> dict[str, Any]:
        """Return the entities with their place in the text, in characters, and the tags of all words.

        A text that was read as words has one space between them, and a line for each sentence.
        """
        text, _ = example.placed()
        sentences = [
            {"words": list(sentence.words), "tags": list(tags), "probabilities": list(probabilities)}
            for sentence, tags, probabilities in zip(
                example.sentences, prediction.tags, prediction.probabilities, strict=True
            )
        ]
        found = [asdict(entity) for entity in self.entities(example, prediction)]
        return {"text": text, "entities": found, "sentences": sentences}

    def from_json(self, values: Mapping[str, Any]) -> Tags:
        """Read the tags."""
        sentences = values["sentences"]
        tags = tuple(tuple(str(tag) for tag in sentence["tags"]) for sentence in sentences)
        return Tags(tags, tuple(tuple(sentence.get("probabilities", ())) for sentence in sentences))

    def predictions(self, path: Place, examples: Sequence[TaggedText]) -> list[Tags]:
        """Read predictions, as `cloze predict` prints them or in columns: those of a file whose last is the tag.

        Raises:
            InputError: a line is wrong, or they are not those of the examples.
        """
        if _is_json_lines(path):
            found = super().predictions(path, examples)
            for example, prediction in zip(examples, found, strict=True):
                _check_lengths(example, prediction, path)
            return found
        columns = ConllColumns(self.word_column, -1)
        given = (s for s in read_sentences(path, columns, check_tags=False) if s.words)
        found = [
            Tags(tuple(_matching(next(given, None), sentence, path) for sentence in example.sentences))
            for example in examples
        ]
        if (more := next(given, None)) is not None:
            raise InputError("more sentences than there are to score", where=more.where(0))
        return found


def _is_json_lines(path: Place) -> bool:
    """Whether a file's first line is a JSON object; of stdin it is taken to be."""
    if str(path) == STDIN:
        return True
    try:
        return isinstance(json.loads(next(read_lines(path), ("", ""))[0]), dict)
    except (ValueError, RecursionError):
        return False


def _check_lengths(example: TaggedText, prediction: Tags, path: Place) -> None:
    first = example.sentences[0].where(0)
    if len(prediction.tags) != len(example.sentences):
        what = f"{len(prediction.tags)} sentences, the text of {first} has {len(example.sentences)}"
        raise InputError(what, where=path)
    for sentence, tags in zip(example.sentences, prediction.tags, strict=True):
        if len(tags) != len(sentence.words):
            what = f"{len(tags)} tags for the {len(sentence.words)} words of {sentence.where(0)}"
            raise InputError(what, where=path)


def _matching(given: Sentence | None, sentence: Sentence, path: Place) -> tuple[str, ...]:
    """Return the tags that were given to a sentence, which must be this one."""
    if given is None:
        raise InputError(f"no prediction for {sentence.where(0)} and what follows it", where=path)
    for word, (theirs, own) in enumerate(zip(given.words, sentence.words, strict=False)):
        if theirs != own:
            what = f"{theirs!r}, where {sentence.where(word)} has {own!r}"
            raise InputError(what, where=given.where(word), remedy="Give the same words in the same order")
    if len(given.words) != len(sentence.words):
        what = (
            f"a sentence of {len(given.words)} words, that of {sentence.where(0)} has {len(sentence.words)}"
        )
        raise InputError(what, where=given.where(0), remedy="Give the same words in the same order")
    assert given.tags is not None
    return given.tags
