"""A tag for every word, from the vector of its first token; together the tags mark entities.

Shapes: T tokens in the packed batch, W words to tag, C classes.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from cloze.data.batch import collate
from cloze.data.reading.memory import Data
from cloze.data.reading.tag_schemes import (
    Scheme,
    SchemeDetector,
    Stray,
    convert_tags,
    is_tag,
    join_tag,
    mark_words,
)
from cloze.data.reading.tagged_text import Sentence, TaggedText
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE
from cloze.metrics.breakdown import Breakdown, class_breakdown, class_scores
from cloze.metrics.classification import sort_classes
from cloze.metrics.conll import entities, entity_scores
from cloze.models.config_file import load_labels
from cloze.results import Result
from cloze.tasks.answers.kind import AnswerKind
from cloze.tasks.arrays import softmax, split_rows
from cloze.tasks.features import Integers, TaggingFeature, tagging_features
from cloze.tasks.labels import check_unique, unknown_label
from cloze.tasks.prediction_files import are_columns, open_predictions, read_tag_columns
from cloze.tasks.task_batch import Array, Baseline, GoldAnswer, Outputs, Scores, SummedLoss, TaskBatch, Tensor
from cloze.tokenization.tokenizer import Tokenizer


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


TaggedTexts: TypeAlias = Sequence[TaggedText]
TagPredictions: TypeAlias = Sequence[TagPrediction]


@dataclass(frozen=True, kw_only=True)
class Tags(AnswerKind[TaggedText, TagPrediction]):
    """A softmax over the tags for every word (Devlin et al. 2019, 5.3).

    The model learns IOB2 whatever the scheme of the data, and predicts in the scheme of the data. A sentence over
    `max_seq_length` is cut into windows that overlap by half; each word is tagged in the window with the most
    context. A word that the tokenizer removes becomes [UNK]. Use a cased model, as the paper does.
    """

    metrics: ClassVar[tuple[str, ...]] = ("f1", "precision", "recall", "tag_accuracy")
    weight_settings: ClassVar[tuple[str, ...]] = ("labels",)
    head_name = "BertForTokenClassification"
    keys: ClassVar[tuple[str, ...]] = ("sentences",)

    labels: tuple[str, ...] = ()
    """In the order of the classes; by default O, and B and I of each type in the training data."""
    scheme: Scheme | None = None
    """Scheme of the predictions; by default that of the training data."""
    stray: Stray = "refuse"
    """Tags that the scheme does not allow are an error, or are read as conlleval does."""

    def __post_init__(self) -> None:
        check_unique(self.labels)
        invalid = [label for label in self.labels if not is_tag(label)]
        if invalid and self.scheme != "plain":
            raise ValueError(f"labels holds {invalid[0]!r}, which is not a tag such as B-PER")

    def scheme_detector(self) -> SchemeDetector:
        """Return a detector that accepts the tags that the settings allow."""
        return SchemeDetector(is_plain=self.scheme == "plain", stray=self.stray)

    def fit(self, examples: TaggedTexts) -> Self:
        sentences = list(_sentences(examples))
        schemes = self.scheme_detector()
        for sentence in sentences:
            schemes.add(sentence.tags or (), sentence.where)
        scheme = schemes.scheme()
        if scheme == "plain":
            labels = sort_classes({tag for sentence in sentences for tag in sentence.tags or ()})
        else:
            types = {entity.type for sentence in sentences for entity in entities(sentence.tags or ())}
            labels = ("O", *(join_tag(prefix, type_) for type_ in sorted(types) for prefix in ("B", "I")))
        if len(labels) < 2:
            where, remedy = sentences[0].file if sentences else None, "A tagger needs examples of entities"
            raise InputError("no word has a tag but O", where=where, remedy=remedy)
        return replace(
            self, labels=self.labels or labels, scheme="plain" if scheme == "plain" else self.scheme or scheme
        )

    def notes(self, train: TaggedTexts, dev: TaggedTexts, tokenizer: Tokenizer) -> Iterator[str]:
        if self.scheme == "plain":
            yield f"{len(self.labels)} plain tags, which mark no entities: {', '.join(self.labels)}"
            return
        types = sorted({label.partition("-")[2] for label in self.labels} - {""})
        yield f"tags in {self.scheme}, of {len(types)} types: {', '.join(types)}"
        if tokenizer.lowercase:
            yield "the model lower-cases its text, which hides the capitals of names: a cased one may find more"

    def for_external_checkpoint(self, directory: Path) -> Self:
        """Return the kind with a model's labels, tags of entities; only a tagger's may be plain tags."""
        names = load_labels(directory)
        if not names:
            raise InputError("no tagger: config.json names no labels")
        is_plain = not all(map(is_tag, names))
        architectures = read_json(directory / CONFIG_FILE).get("architectures") or ()
        is_tagger = any("TokenClassification" in str(name) for name in architectures)
        unnamed = [
            name for name in names if name.startswith("LABEL_") or (name == "B-O" and "O" not in names)
        ]
        if unnamed or (is_plain and not is_tagger):
            what = f"no tagger: its class {(*unnamed, *names)[0]!r} is not a tag such as B-PER"
            remedy = """Name the classes in config.json: "id2label": {"0": "O", "1": "B-PER", …}"""
            raise InputError(what, remedy=remedy)
        return replace(self, labels=names, scheme="plain" if is_plain else self.scheme or "IOB2")

    def features(
        self, example: TaggedText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[TaggingFeature]:
        targets = self._targets(example)
        return tagging_features(example.sentences, targets, tokenizer, max_seq_length=max_seq_length)

    @property
    def _learned_scheme(self) -> Scheme:
        return "plain" if self.scheme == "plain" else "IOB2"

    @cached_property
    def _class_indices(self) -> dict[str, int]:
        """The class of each tag."""
        index_of = {label: index for index, label in enumerate(self.labels)}
        # IOB1 data may hold no B of a type; there I begins an entity
        for label, index in [*index_of.items()]:
            prefix, _, type_ = label.partition("-")
            if prefix == "M":
                index_of.setdefault(join_tag("I", type_), index)
            if prefix in ("I", "M"):
                index_of.setdefault(join_tag("B", type_), index)
        return index_of

    def _targets(self, example: TaggedText) -> Integers | None:
        """Return the classes of all words of an example, where they are known."""
        index_of, targets = self._class_indices, []
        for sentence in example.sentences:
            if sentence.tags is None:
                return None
            for word, tag in enumerate(convert_tags(sentence.tags, self._learned_scheme)):
                if tag not in index_of:
                    raise unknown_label(sentence.tags[word], self.labels, sentence.where(word), kind="tag")
                targets.append(index_of[tag])
        return np.array(targets, np.int64)

    def gold(self, example: TaggedText) -> list[tuple[str, ...]]:
        for sentence in example.sentences:
            if sentence.tags is None:
                raise InputError("no tags: nothing says what is right", where=sentence.where(0))
        if self.labels:
            self._targets(example)
        return [sentence.tags or () for sentence in example.sentences]

    def batch(self, features: Sequence[TaggingFeature]) -> TaskBatch:
        batch = collate([feature.input_ids for feature in features])
        starts = batch.cu_seqlens[:-1].astype(np.int64)
        positions = [feature.positions + start for feature, start in zip(features, starts, strict=True)]
        targets = [np.zeros_like(f.positions) if f.targets is None else f.targets for f in features]
        return TaskBatch.extend(
            batch,
            targets=np.concatenate(targets),
            counts=tuple(len(feature.positions) for feature in features),
            positions=np.concatenate(positions),
        )

    def word_logits(self, logits: Tensor, batch: TaskBatch) -> Tensor:
        """Return the logits of the words, [W, C], from those of the tokens, [T, C]."""
        assert batch.positions is not None
        # not logits[...]: on a CPU, the gradient of indexing is summed in a different order each time
        return logits.index_select(0, batch.positions)

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the cross entropy of the words, and the accuracy of the tags."""
        from cloze.training.metric_sums import cross_entropy

        return cross_entropy(self.word_logits(logits, batch), batch.targets)

    def distance(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        from cloze.training.metric_sums import softmax_divergence

        return softmax_divergence(self.word_logits(logits, batch), batch.teacher, temperature)

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        """Return the logits of the words of each sequence, [W, C]."""
        return split_rows(logits[batch.positions], batch.counts)

    def decode(
        self, example: TaggedText, features: Sequence[TaggingFeature], outputs: Outputs
    ) -> TagPrediction:
        """Return the most probable tag of every word, in the scheme of the data.

        An entity that begins with I counts as an entity, and is written as the scheme requires.
        """
        logits_WC = np.concatenate([np.zeros((0, len(self.labels))), *outputs])
        probabilities_W = softmax(logits_WC).max(-1)
        best_W = logits_WC.argmax(-1)
        tags, probabilities = [], []
        start = 0
        for sentence in example.sentences:
            end = start + len(sentence.words)
            tags.append(convert_tags([self.labels[i] for i in best_W[start:end]], self.scheme or "IOB2"))
            probabilities.append(tuple(probabilities_W[start:end].tolist()))
            start = end
        return TagPrediction(tuple(tags), tuple(probabilities))

    def score(self, examples: TaggedTexts, answers: TagPredictions, metrics: Sequence[str]) -> Scores:
        """Return conlleval's metrics in percent: of all entities, of the tags, and F1 of each type.

        A plain tag counts as an entity of one word, so that F1 of all is the accuracy; with a tag O, words of one tag
        are one entity.
        """
        scores = entity_scores(*self._comparable_tags(examples, answers))
        total = class_scores(scores.all_types, scale=100).scores
        of_types = {f"f1_{name}": 100 * counts.f1 for name, counts in scores.by_type.items() if counts.gold}
        return {**{name: total.get(name, scores.accuracy) for name in metrics}, **of_types}

    def breakdown(self, examples: TaggedTexts, answers: TagPredictions) -> Breakdown:
        """Return conlleval's scores of each entity type or plain tag, in percent, and the confusion of words.

        The words of an entity count under its type, all others under O.
        """
        sides = self._comparable_tags(examples, answers)
        types = (
            ["O" if tag == "O" else tag.partition("-")[2] for tag in chain.from_iterable(tags)]
            for tags in sides
        )
        by_type = entity_scores(*sides).by_type
        parts = {name: class_scores(counts, scale=100) for name, counts in by_type.items()}
        part = "tag" if self._is_plain(examples) else "entity_type"
        return Breakdown(part, parts, class_breakdown(*types).confusion)

    def _is_plain(self, examples: TaggedTexts) -> bool:
        """Return whether the gold tags mark no entities."""
        if self.scheme is not None:
            return self.scheme == "plain"
        return not all(is_tag(tag) for sentence in _sentences(examples) for tag in sentence.tags or ())

    def _comparable_tags(self, examples: TaggedTexts, answers: TagPredictions) -> list[list[tuple[str, ...]]]:
        """Return the gold and the predicted tags of each sentence as tags of entities."""
        gold = [sentence.tags or () for sentence in _sentences(examples)]
        predicted = [tags for answer in answers for tags in answer.tags]
        if self._is_plain(examples):
            known_tags = self.labels or set(chain.from_iterable(gold))
            return [[mark_words(tags, known_tags) for tags in side] for side in (gold, predicted)]
        return [[convert_tags(tags, self.scheme or "plain") for tags in gold], predicted]

    def pairs(self, example: TaggedText, answer: TagPrediction) -> Iterator[GoldAnswer]:
        for number, (sentence, tags) in enumerate(zip(example.sentences, answer.tags, strict=True)):
            [gold], [answers] = self._comparable_tags([TaggedText((sentence,))], [TagPrediction((tags,))])
            known = answer.probabilities[number] if answer.probabilities else ()
            columns = (sentence.words, gold, answers, known or repeat(None), sentence.tags or (), tags)
            for word, true, predicted, probability, gold_tag, tag in zip(*columns, strict=False):
                yield GoldAnswer(true, predicted, probability, gold_tag, tag, {"word": word})

    def baselines(self, train: Sequence[Any]) -> Mapping[str, Baseline]:
        return {"majority": self._most_frequent}

    def _most_frequent(self, train: TaggedTexts, dev: TaggedTexts) -> list[TagPrediction]:
        """Tag every word with its most frequent tag; an unseen word is O, or has the most frequent plain tag."""
        assert self.scheme is not None
        counts = defaultdict[str, Counter[str]](Counter)
        for sentence in _sentences(train):
            tags = convert_tags(sentence.tags or (), self._learned_scheme)
            for word, tag in zip(sentence.words, tags, strict=True):
                counts[word][tag] += 1
        unseen = sum(counts.values(), Counter()).most_common(1)[0][0] if self.scheme == "plain" else "O"
        best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
        answers = []
        for example in dev:
            words = [sentence.words for sentence in example.sentences]
            tagged = tuple(convert_tags([best.get(word, unseen) for word in of], self.scheme) for of in words)
            answers.append(TagPrediction(tagged, tuple((1.0,) * len(of) for of in tagged)))
        return answers

    def collapse(self, examples: TaggedTexts, answers: TagPredictions, metrics: Sequence[str]) -> str | None:
        counts = entity_scores(*self._comparable_tags(examples, answers)).all_types
        if counts.correct or not counts.gold:
            return None
        return "no entity right" if counts.predicted else "no entity predicted"

    def entities(self, example: TaggedText, answer: TagPrediction) -> list[PredictedEntity]:
        """Return the entities that the tags mark, with their characters."""
        text, offsets = example.text_and_offsets()
        predicted = []
        for spans, tags, probabilities in zip(offsets, answer.tags, answer.probabilities, strict=True):
            marks = mark_words(tags, self.labels) if self.scheme == "plain" else tags
            for entity in entities(marks):
                start, end = spans[entity.start][0], spans[entity.end - 1][1]
                probability = math.prod(probabilities[entity.start : entity.end])
                predicted.append(PredictedEntity(entity.type, text[start:end], start, end, probability))
        return predicted

    def to_json(self, example: TaggedText, answer: TagPrediction) -> dict[str, Any]:
        """Return the text, the entities with their characters, and the tags of all words."""
        entities = [asdict(entity) for entity in self.entities(example, answer)]
        columns = ([s.words for s in example.sentences], answer.tags, answer.probabilities)
        sentences = [
            {"words": list(words), "tags": list(tags), "probabilities": list(probabilities)}
            for words, tags, probabilities in zip(*columns, strict=True)
        ]
        return {"text": example.text_and_offsets()[0], "entities": entities, "sentences": sentences}

    def from_json(self, values: Mapping[str, Any]) -> TagPrediction:
        sentences = values["sentences"]
        tags = tuple(tuple(str(tag) for tag in sentence["tags"]) for sentence in sentences)
        probabilities = tuple(tuple(sentence.get("probabilities", ())) for sentence in sentences)
        return TagPrediction(tags, probabilities)

    def read_answers(self, source: Data, examples: TaggedTexts) -> list[TagPrediction]:
        opened = open_predictions(source, self.keys)
        if are_columns(opened):
            tags = iter([*read_tag_columns(opened, _sentences(examples))])
            return [TagPrediction(tuple(islice(tags, len(example.sentences)))) for example in examples]
        answers = self.answers_of(opened, examples)
        for example, answer in zip(examples, answers, strict=True):
            words, tagged = [len(s.words) for s in example.sentences], list(map(len, answer.tags))
            if words != tagged:
                place = example.sentences[0].where(0) if words else "the text"
                what = f"tags for {tagged} words a sentence, {place} has {words}"
                remedy = "Give the same words; spans that cut one are scored with the model: cloze evaluate"
                raise InputError(what, where=source, remedy=remedy)
        return answers


def _sentences(examples: TaggedTexts) -> Iterator[Sentence]:
    return chain.from_iterable(example.sentences for example in examples)
