"""The family of tagging tasks: a tag for every word; together the tags mark entities.

Shapes: T tokens in the packed batch, W words to tag, C classes.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, repeat
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from cloze.config import check_positive
from cloze.data.reading.columns import Column
from cloze.data.reading.memory import MemoryRows, Source
from cloze.data.reading.tables import TableConfig
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CONFIG_FILE
from cloze.metrics.breakdown import Breakdown, class_breakdown, class_scores
from cloze.metrics.classification import sort_classes
from cloze.metrics.conll import entities, entity_scores
from cloze.tasks.arrays import softmax
from cloze.tasks.labels import check_unique, unknown_label
from cloze.tasks.tag_predictions import (
    PredictedEntity,
    TagPrediction,
    fit_to_words,
    is_written_by_predict,
    read_columns,
)
from cloze.tasks.tag_schemes import Scheme, convert_tags, is_tag, join_tag, mark_words, usual_tags
from cloze.tasks.tagged_text import TaggedText
from cloze.tasks.tagging_features import Integers, TaggingFeature, pack, tagging_features
from cloze.tasks.tagging_formats.formats import read_tagged
from cloze.tasks.tagging_formats.settings import TaggingSettings
from cloze.tasks.task import Task
from cloze.tasks.task_batch import Array, Baseline, GoldAnswer, Outputs, Scores, SummedLoss, TaskBatch, Tensor
from cloze.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Tagging(TaggingSettings, Task[TaggedText, TaggingFeature, TagPrediction]):
    """A softmax over the tags for every word, from the vector of its first token (Devlin et al. 2019, 5.3).

    The model learns IOB2 whatever the scheme of the data, and predicts in the scheme of the data. A sentence over
    `max_seq_length` is cut into windows that overlap by half; each word is tagged in the window with the most
    context. A word that the tokenizer removes becomes [UNK]. Use a cased model, as the paper does.
    """

    metrics: ClassVar[tuple[str, ...]] = ("f1", "precision", "recall", "tag_accuracy")
    model_settings: ClassVar[tuple[str, ...]] = ("labels",)
    head_name = "BertForTokenClassification"
    answer_keys = ("sentences", "entities")
    data_format: ClassVar[str] = (
        "words and tags in columns, CoNLL-U, tables, JSON or Parquet; or texts with spans in JSON"
    )

    def __post_init__(self) -> None:
        check_unique(self.labels)
        check_positive(self, "num_columns")
        invalid = [label for label in self.labels if not is_tag(label)]
        if invalid and self.scheme != "plain":
            raise ValueError(f"labels holds {invalid[0]!r}, which is not a tag such as B-PER")

    def examples(self, source: Source, *, labeled: bool = True) -> Iterator[TaggedText]:
        """Read sentences or documents in columns, JSON, tables or Parquet, or plain text if there are no tags."""
        return read_tagged(source, self, labeled=labeled)

    def table(self, *, labeled: bool) -> TableConfig:
        tags = [Column("tags", "label", (self.tags_field or "tags",))] if labeled else []
        return TableConfig(columns=(Column("text"), *tags), keeps_numbers=self.keeps_numbers)

    @property
    def learned_scheme(self) -> Scheme:
        """The scheme of the model's classes."""
        return "plain" if self.scheme == "plain" else "IOB2"

    def fit_labels(self, examples: Sequence[TaggedText]) -> Self:
        schemes = self.scheme_detector()
        sentences = [sentence for example in examples for sentence in example.sentences]
        for sentence in sentences:
            schemes.add(sentence.tags or (), sentence.where)
        scheme = schemes.scheme()
        if scheme == "plain":
            labels = sort_classes({tag for sentence in sentences for tag in sentence.tags or ()})
        else:
            types = {entity.type for sentence in sentences for entity in entities(sentence.tags or ())}
            labels = ("O", *(join_tag(prefix, type_) for type_ in sorted(types) for prefix in ("B", "I")))
        if len(labels) < 2:
            what, remedy = "no word has a tag but O", "A tagger needs examples of entities"
            raise InputError(what, where=sentences[0].file if sentences else None, remedy=remedy)
        return replace(
            self,
            labels=self.labels or labels,
            scheme="plain" if scheme == "plain" else self.scheme or scheme,
            num_columns=max(sentence.columns for sentence in sentences) or None,
        )

    def notes(self, examples: Sequence[TaggedText], tokenizer: Tokenizer) -> list[str]:
        """Name the scheme and the entity types or tags, count stray tags, and warn of an uncased model."""
        if self.scheme == "plain":
            return [f"{len(self.labels)} plain tags, which mark no entities: {', '.join(self.labels)}"]
        types = sorted({label.partition("-")[2] for label in self.labels} - {""})
        notes = [f"tags in {self.scheme}, of {len(types)} types: {', '.join(types)}"]
        if self.stray == "as-conlleval":
            schemes = self.scheme_detector()
            for sentence in chain.from_iterable(example.sentences for example in examples):
                schemes.add(sentence.tags or (), sentence.where)
            notes.append(
                f"{schemes.num_stray:,} tags that the scheme does not allow are read as conlleval does"
            )
        if tokenizer.lowercase:
            notes.append(
                "the model lower-cases its text, which hides the capitals of names: a cased one may find more"
            )
        return notes

    def split_group(self, example: TaggedText) -> str | None:
        """Return file and line of a sentence's document."""
        return example.document

    def with_class_names(self, names: tuple[str, ...]) -> Self:
        if unnamed := [name for name in names if name.startswith("LABEL_")]:
            what = f"no tagger: its class {unnamed[0]!r} is not a tag such as B-PER"
            remedy = """Name the classes in config.json: "id2label": {"0": "O", "1": "B-PER", …}"""
            raise InputError(what, remedy=remedy)
        if not names:
            raise InputError("no tagger: config.json names no labels")
        usual = usual_tags(names)
        if "O" not in usual.values():  # several classes may mean O
            names = tuple(usual.get(name, name) for name in names)
        scheme = "plain" if not all(map(is_tag, names)) else self.scheme or "IOB2"
        return replace(self, labels=names, scheme=scheme)

    def for_external_checkpoint(self, directory: Path) -> Self:
        """Return the task for a checkpoint of another program; only a tagger's may have plain tags."""
        task = super().for_external_checkpoint(directory)
        architectures = read_json(directory / CONFIG_FILE).get("architectures") or ()
        if task.scheme == "plain" and not any("TokenClassification" in str(name) for name in architectures):
            raise InputError(f"no tagger: its class {task.labels[0]!r} is not a tag such as B-PER")
        return task

    def features(
        self, example: TaggedText, tokenizer: Tokenizer, *, max_seq_length: int
    ) -> list[TaggingFeature]:
        """Tokenize each sentence with as much of the others as fits; a long one is cut into windows."""
        targets = self._targets(example)
        return tagging_features(example.sentences, targets, tokenizer, max_seq_length=max_seq_length)

    @cached_property
    def _class_indices(self) -> dict[str, int]:
        """The class of each tag."""
        index_of = {label: index for index, label in enumerate(self.labels)}
        if "O" in (usual := usual_tags(self.labels)).values() and self.scheme != "plain":
            index_of["O"] = self.labels.index(next(tag for tag, name in usual.items() if name == "O"))
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
        index_of = self._class_indices
        targets = []
        for sentence in example.sentences:
            if sentence.tags is None:
                return None
            for word, tag in enumerate(convert_tags(sentence.tags, self.learned_scheme)):
                if tag not in index_of:
                    raise unknown_label(sentence.tags[word], self.labels, sentence.where(word), kind="tag")
                targets.append(index_of[tag])
        return np.array(targets, np.int64)

    def gold(self, example: TaggedText) -> list[tuple[str, ...]]:
        """Return the tags of each sentence, which must be known if the task has labels."""
        tags = []
        for sentence in example.sentences:
            if sentence.tags is None:
                raise InputError("no tags: nothing says what is right", where=sentence.where(0))
            tags.append(sentence.tags)
        if self.labels:
            self._targets(example)
        return tags

    def batch(self, features: Sequence[TaggingFeature]) -> TaskBatch:
        return pack(features)

    def word_logits(self, logits: Tensor, batch: TaskBatch) -> Tensor:
        """Select the logits of the words, [W, C], from those of the tokens, [T, C]."""
        assert batch.positions is not None
        # not logits[...]: on a CPU, the gradient of indexing is summed in a different order each time
        return logits.index_select(0, batch.positions)

    def loss(self, logits: Tensor, batch: TaskBatch) -> SummedLoss:
        """Return the summed cross entropy of the words, and the accuracy of the tags."""
        from cloze.training.losses import cross_entropy

        return cross_entropy(self.word_logits(logits, batch), batch.targets)

    def soft_loss(self, logits: Tensor, batch: TaskBatch, temperature: float) -> Tensor:
        from cloze.training.losses import softmax_divergence

        return softmax_divergence(self.word_logits(logits, batch), batch.teacher, temperature)

    def outputs(self, logits: Array, batch: TaskBatch) -> list[Array]:
        """Return the logits of the words of each sequence, [W, C]."""
        return super().outputs(logits[batch.positions], batch)

    def decode(
        self, example: TaggedText, features: Sequence[TaggingFeature], outputs: Outputs
    ) -> TagPrediction:
        """Return the most probable tag of every word, in the task's scheme.

        An entity that begins with I counts as an entity, and is written as the scheme requires.
        """
        logits_WC = np.concatenate([np.zeros((0, len(self.labels))), *outputs])
        probabilities_W = softmax(logits_WC).max(-1)
        best_W = logits_WC.argmax(-1)
        usual = {} if self.scheme == "plain" else usual_tags(self.labels)
        tags, probabilities = [], []
        start = 0
        for sentence in example.sentences:
            end = start + len(sentence.words)
            predicted = [usual.get(self.labels[index], self.labels[index]) for index in best_W[start:end]]
            tags.append(convert_tags(predicted, self.scheme or "IOB2"))
            probabilities.append(tuple(probabilities_W[start:end].tolist()))
            start = end
        return TagPrediction(tuple(tags), tuple(probabilities))

    def score(self, examples: Sequence[TaggedText], predictions: Sequence[TagPrediction]) -> Scores:
        """Return conlleval's metrics in percent: of all entities, of the tags, and F1 of each type.

        A plain tag counts as an entity of one word, so that F1 of all is the accuracy; with a tag O, words of one tag
        are one entity.
        """
        scores = entity_scores(*self._comparable_tags(examples, predictions))
        total = class_scores(scores.all_types, scale=100).scores
        of_types = {f"f1_{name}": 100 * counts.f1 for name, counts in scores.by_type.items() if counts.gold}
        return {**{name: total.get(name, scores.accuracy) for name in self.metrics}, **of_types}

    def breakdown(self, examples: Sequence[TaggedText], predictions: Sequence[TagPrediction]) -> Breakdown:
        """Return conlleval's scores of each entity type or plain tag, in percent, and the confusion of words.

        The words of an entity count under its type, all others under O.
        """
        sides = self._comparable_tags(examples, predictions)
        types = [
            ["O" if tag == "O" else tag.partition("-")[2] for tag in chain.from_iterable(tags)]
            for tags in sides
        ]
        by_type = entity_scores(*sides).by_type
        parts = {name: class_scores(counts, scale=100) for name, counts in by_type.items()}
        part = "tag" if self._is_plain(examples) else "entity_type"
        return Breakdown(part, parts, class_breakdown(*types).confusion)

    def _is_plain(self, examples: Sequence[TaggedText]) -> bool:
        """Return whether the gold tags mark no entities."""
        if self.scheme is not None:
            return self.scheme == "plain"
        return not all(is_tag(tag) for example in examples for s in example.sentences for tag in s.tags or ())

    def _comparable_tags(
        self, examples: Sequence[TaggedText], predictions: Sequence[TagPrediction]
    ) -> list[list[tuple[str, ...]]]:
        """Return the gold and the predicted tags of each sentence as tags of entities."""
        gold = [sentence.tags or () for example in examples for sentence in example.sentences]
        predicted = [tags for prediction in predictions for tags in prediction.tags]
        if self._is_plain(examples):
            known_tags = self.labels or set(chain.from_iterable(gold))
            return [[mark_words(tags, known_tags) for tags in side] for side in (gold, predicted)]
        return [[convert_tags(tags, self.scheme or "plain") for tags in gold], predicted]

    def pairs(self, example: TaggedText, prediction: TagPrediction) -> Iterator[GoldAnswer]:
        for number, (sentence, tags) in enumerate(zip(example.sentences, prediction.tags, strict=True)):
            [gold], [answers] = self._comparable_tags([TaggedText((sentence,))], [TagPrediction((tags,))])
            known = prediction.probabilities[number] if prediction.probabilities else ()
            columns = (sentence.words, gold, answers, known or repeat(None), sentence.tags or (), tags)
            for word, true, answer, probability, gold_tag, tag in zip(*columns, strict=False):
                yield GoldAnswer(true, answer, probability, gold_tag, tag, {"word": word})

    def baselines(self) -> Mapping[str, Baseline]:
        return {"majority": self._most_frequent_tags}

    def _most_frequent_tags(
        self, train: Sequence[TaggedText], dev: Sequence[TaggedText]
    ) -> list[TagPrediction]:
        """Tag every word with its most frequent tag; an unseen word is O, or has the most frequent plain tag."""
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for sentence in chain.from_iterable(example.sentences for example in train):
            tags = convert_tags(sentence.tags or (), self.learned_scheme)
            for word, tag in zip(sentence.words, tags, strict=True):
                counts[word][tag] += 1
        unseen = sum(counts.values(), Counter()).most_common(1)[0][0] if self.scheme == "plain" else "O"
        best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
        predictions = []
        for example in dev:
            known = [[best.get(word, unseen) for word in sentence.words] for sentence in example.sentences]
            answers = tuple(convert_tags(of_sentence, self.scheme or "IOB2") for of_sentence in known)
            predictions.append(TagPrediction(answers, tuple((1.0,) * len(answer) for answer in answers)))
        return predictions

    def collapse(self, examples: Sequence[TaggedText], predictions: Sequence[TagPrediction]) -> str | None:
        """Detect predictions without any entity, or without a right one, unless the examples have none."""
        counts = entity_scores(*self._comparable_tags(examples, predictions)).all_types
        if not counts.gold:
            return None
        wrong = None if counts.correct else "no entity right"
        return wrong if counts.predicted else "no entity predicted"

    def entities(self, example: TaggedText, prediction: TagPrediction) -> list[PredictedEntity]:
        """Return the entities that the tags mark, with their characters."""
        text, offsets = example.text_and_offsets()
        predicted = []
        for spans, tags, probabilities in zip(
            offsets, prediction.tags, prediction.probabilities, strict=True
        ):
            marks = mark_words(tags, self.labels) if self.scheme == "plain" else tags
            for entity in entities(marks):
                start, end = spans[entity.start][0], spans[entity.end - 1][1]
                probability = math.prod(probabilities[entity.start : entity.end])
                predicted.append(PredictedEntity(entity.type, text[start:end], start, end, probability))
        return predicted

    def to_json(self, example: TaggedText, prediction: TagPrediction) -> dict[str, Any]:
        """Return the text, the entities with their characters, and the tags of all words.

        The text of words in columns has a space between words and a line per sentence.
        """
        text, _ = example.text_and_offsets()
        sentences = [
            {"words": list(sentence.words), "tags": list(tags), "probabilities": list(probabilities)}
            for sentence, tags, probabilities in zip(
                example.sentences, prediction.tags, prediction.probabilities, strict=True
            )
        ]
        predicted = [asdict(entity) for entity in self.entities(example, prediction)]
        return {"text": text, "entities": predicted, "sentences": sentences}

    def from_json(self, values: Mapping[str, Any]) -> TagPrediction:
        """Read the tags; probabilities and entities are optional."""
        sentences = values["sentences"]
        tags = tuple(tuple(str(tag) for tag in sentence["tags"]) for sentence in sentences)
        probabilities = tuple(tuple(sentence.get("probabilities", ())) for sentence in sentences)
        spans = []
        for entity in values.get("entities", ()):
            start, end, type_ = entity["start"], entity["end"], entity["type"]
            if not (type(start) is type(end) is int and isinstance(type_, str)):
                raise TypeError(f"start and end of an entity are integers, its type a text: {entity}")
            spans.append((start, end, type_))
        return TagPrediction(tags, probabilities, tuple(spans))

    def read_predictions(self, source: Source, examples: Sequence[TaggedText]) -> list[TagPrediction]:
        """Read predictions as `cloze predict` prints them, or in columns whose last is the predicted tag."""
        if isinstance(source, MemoryRows) or is_written_by_predict(source):
            read = super().read_predictions(source, examples)
            pairs = zip(examples, read, strict=True)
            predictions = [fit_to_words(example, answer, self.scheme, source) for example, answer in pairs]
        else:
            predictions = read_columns(source, self.word_column, examples)
        tags = {tag for prediction in predictions for sentence in prediction.tags for tag in sentence}
        usual = {} if self.scheme == "plain" else usual_tags(tags)
        return [
            replace(p, tags=tuple(tuple(usual.get(tag, tag) for tag in tags) for tags in p.tags))
            for p in predictions
        ]
