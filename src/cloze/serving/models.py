"""What is served: checkpoints by name, each with all that it can answer, on one copy of its encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from cloze.errors import InputError
from cloze.inference.embed import Embedder, EmbeddingConfig, Vectors
from cloze.inference.explain import check_explainable
from cloze.inference.fill import Candidate, FillMask
from cloze.inference.next_sentence import NextSentence
from cloze.inference.predictor import Predictor
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import CONFIG_FILE, load_labels, read_json, read_weight_headers
from cloze.serving.computations import Entities, Predictions, ScoresOfPieces
from cloze.tasks.config import load_task
from cloze.tasks.multi_label import MultiLabel
from cloze.tasks.multiple_choice import MultipleChoice
from cloze.tasks.passage_ranking import PassageRanking
from cloze.tasks.registry import find_task
from cloze.tasks.sequence_classification import SequenceClassification
from cloze.tasks.span import SpanTask
from cloze.tasks.tagging import Tagging
from cloze.tasks.text_regression import TextRegression
from cloze.tasks.texts import LabelledText
from cloze.text.tokenizer import Tokenizer

_TASK_OF_ARCHITECTURE = {
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "squad_v1",
    "BertForMultipleChoice": "multiple-choice",
}
"""What a model that another program fine-tuned is taken to be for."""


@dataclass(frozen=True, slots=True)
class TextVector:
    """The vector of a text, [D], and the tokens that were read of it."""

    vector: Vectors
    num_tokens: int


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded checkpoint, and what it can do: whatever is None it cannot."""

    name: str
    """As requests call it."""
    directory: Path
    tokenizer: Tokenizer
    embedder: Embedder
    fill_mask: FillMask | None
    next_sentence: NextSentence | None
    predictor: Predictor | None
    """Of the task that it was fine-tuned for."""

    @classmethod
    def load(cls, name: str, directory: Path, *, device: str = "auto") -> "ServedModel":
        """Read a checkpoint, or a run: its best, else its newest one.

        Raises:
            InputError: there is no such model, or it is damaged.
        """
        checkpoint = resolve_checkpoint(directory, "best")
        as_they_come = EmbeddingConfig(normalize=False)  # requests say whether their length shall be 1
        embedder = Embedder.load(checkpoint, as_they_come, device=device)
        weights, _ = read_weight_headers(checkpoint)
        fill_mask = next_sentence = None
        looks_both_ways = embedder.model.config.attends_to == "all"  # else its head names neighbours
        if looks_both_ways and any(weight.startswith("cls.predictions.") for weight in weights):
            fill_mask = FillMask.load(checkpoint, device=device)
        if any(weight.startswith("cls.seq_relationship.") for weight in weights):
            next_sentence = NextSentence.load(checkpoint, device=device)
        served = cls(
            name=name,
            directory=directory,
            tokenizer=embedder.tokenizer,
            embedder=embedder,
            fill_mask=fill_mask,
            next_sentence=next_sentence,
            predictor=_load_predictor(checkpoint, device=device),
        )
        for head in (fill_mask, next_sentence, served.predictor):
            if head is not None and isinstance(getattr(head.model, "bert", None), BertModel):
                head.model.bert = embedder.model  # the same weights: one copy of them is enough
        return served

    @property
    def encoder(self) -> BertModel:
        """The encoder that all its heads stand on."""
        return self.embedder.model

    @property
    def config(self) -> BertConfig:
        """The architecture of the encoder."""
        return self.encoder.config

    @property
    def task(self) -> Any:
        """What it was fine-tuned for, or None."""
        return None if self.predictor is None else self.predictor.task

    @cached_property
    def abilities(self) -> tuple[str, ...]:
        """The routes that it answers, without their slash; `encode` where one can look into it."""
        has_layers = hasattr(self.encoder, "layers")  # two encoders side by side have none of their own
        able = {
            "encode": has_layers,
            "embed": has_layers,
            "fill": self.fill_mask is not None,
            "next-sentence": self.next_sentence is not None,
            "predict": isinstance(self.task, SequenceClassification | MultiLabel | TextRegression),
            "rerank": isinstance(self.task, PassageRanking | TextRegression),
            "tag": isinstance(self.task, Tagging),
            "answer": isinstance(self.task, SpanTask),
            "choose": isinstance(self.task, MultipleChoice),
            "explain": has_layers and self.predictor is not None and _is_explainable(self.predictor),
        }
        return tuple(name for name, is_able in able.items() if is_able)

    @property
    def predictions(self) -> Predictions:
        """What it says of examples of its task."""
        assert self.predictor is not None
        return Predictions(self.predictor)

    @property
    def entities(self) -> Entities:
        """What it finds in texts, where it tags words."""
        assert self.predictor is not None
        return Entities(self.predictor)

    @property
    def scores_of_pieces(self) -> ScoresOfPieces:
        """How well each piece begins and ends an answer, where it answers questions."""
        assert self.predictor is not None
        return ScoresOfPieces(self.predictor)

    def embed(self, inputs: list[str | list[int]]) -> list[TextVector]:
        """Return the vector of each text, or of each list of ids, with or without [CLS] and [SEP].

        Raises:
            InputError: an id is none of the vocabulary.
        """
        texts = iter(self.embedder.pieces([each for each in inputs if isinstance(each, str)]))
        pieces = [next(texts) if isinstance(each, str) else self._inner(each) for each in inputs]
        vectors = self.embedder.embed_pieces(pieces).vectors
        most = self.embedder.max_seq_length
        return [
            TextVector(vector, min(len(own) + 2, most)) for vector, own in zip(vectors, pieces, strict=True)
        ]

    def _inner(self, ids: list[int]) -> list[int]:
        """Return ids without [CLS] and [SEP] around them."""
        for each in ids:
            if each >= self.tokenizer.vocab_size:
                what = f"there is no piece {each}: the vocabulary has {self.tokenizer.vocab_size:,}"
                raise InputError(what, where="input")
        start = 1 if ids[0] == self.tokenizer.cls_id else 0
        end = len(ids) - (1 if ids[-1] == self.tokenizer.sep_id and len(ids) > start else 0)
        return ids[start:end]

    def fill(self, inputs: list[tuple[str, int]]) -> list[list[list[Candidate]]]:
        """Return, for each text, candidates for each [MASK]: as many as are asked for."""
        assert self.fill_mask is not None
        return [self.fill_mask(text, top_k=top_k) for text, top_k in inputs]

    def follows(self, pairs: list[tuple[str, str]]) -> list[float]:
        """Return how likely the second sentence of each pair is to follow the first."""
        assert self.next_sentence is not None
        return [self.next_sentence(*pair) for pair in pairs]

    def refuse_cut_texts(self, texts: Sequence[str]) -> None:
        """Refuse texts that would be cut before they become vectors.

        Raises:
            InputError: one is too long.
        """
        most = self.embedder.max_seq_length
        for text in texts:
            if (length := len(self.tokenizer.encode(self.embedder.prompt + text))) > most:
                raise self._too_long(length, most)

    def refuse_cut_examples(self, examples: Sequence[LabelledText]) -> None:
        """Refuse texts and pairs that would be cut before they are predicted; those read in windows never are.

        Raises:
            InputError: one is too long.
        """
        assert self.predictor is not None
        for example in examples:
            if any(feature.is_truncated for feature in self.predictor.features(example)):
                length = len(self.tokenizer.encode(example.text, example.pair))
                raise self._too_long(length, self.predictor.max_seq_length)

    def _too_long(self, length: int, most: int) -> InputError:
        what = f"{length} tokens, {self.name!r} reads {most}"
        return InputError(what, where="inputs", remedy="Give a shorter text, or truncate: true")


def load_models(directories: Mapping[str, Path], *, device: str = "auto") -> dict[str, ServedModel]:
    """Read models by the names that requests give them, the default one first.

    Raises:
        InputError: one is missing or damaged.
    """
    return {name: ServedModel.load(name, path, device=device) for name, path in directories.items()}


def find_model(models: Mapping[str, ServedModel], name: str | None, ability: str) -> ServedModel:
    """Return the model that a request names, or the first one that can answer it.

    Raises:
        InputError: there is none of that name, or it cannot.
    """
    able = [model for model in models.values() if ability in model.abilities]
    if name is not None and name not in models:
        raise InputError(
            f"no model {name!r} is served", where="model", remedy=f"There is {', '.join(models)}"
        )
    found = next(iter(able), None) if name is None else models[name]
    if found is None or ability not in found.abilities:
        what = f"no model here answers /{ability}" if name is None else f"{name!r} does not answer /{ability}"
        can = ", ".join(each.name for each in able)
        raise InputError(
            what, where="model", remedy=f"Of those served {can} does" if can else _WANTED[ability]
        )
    return found


_WANTED = {
    "embed": "Serve any encoder",
    "encode": "Serve any encoder",
    "fill": "Serve a pre-trained model, with its masked-word head",
    "next-sentence": "Serve a pre-trained model, with its next-sentence head",
    "predict": "Serve a classifier or a regression of texts: cloze finetune classification",
    "rerank": "Serve a ranker: cloze finetune ranking",
    "tag": "Serve a tagger: cloze finetune tagging",
    "answer": "Serve a model that answers questions: cloze finetune squad_v2",
    "choose": "Serve a model that chooses: cloze finetune multiple-choice",
    "explain": "Serve a classifier or a regression of texts: cloze finetune classification",
}
"""What would have to be served."""


def _load_predictor(checkpoint: Path, *, device: str) -> Predictor | None:
    if load_task(checkpoint) is not None:
        return Predictor.load(checkpoint, device=device)
    task = _foreign_task(checkpoint)
    if task is None:
        return None
    try:
        find_task(task)().of_checkpoint(checkpoint)
    except InputError:  # nothing here is for such a head: its encoder serves without it
        return None
    return Predictor.load(checkpoint, task, device=device)


def _foreign_task(checkpoint: Path) -> str | None:
    """Return what a model of another program is taken to be for."""
    config = read_json(checkpoint / CONFIG_FILE)
    architecture = str((config.get("architectures") or [""])[0])
    if architecture == "BertForSequenceClassification":
        if len(load_labels(checkpoint)) == 1:
            return "regression"
        if config.get("problem_type") == "multi_label_classification":
            return "multi-label"
    return _TASK_OF_ARCHITECTURE.get(architecture)


def _is_explainable(predictor: Predictor) -> bool:
    try:
        check_explainable(predictor)
    except InputError:
        return False
    return True
