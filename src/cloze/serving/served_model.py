"""A served checkpoint: its name, its abilities, and one copy of the encoder for all its heads."""

import warnings
from array import array
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

from cloze.choices import InferencePrecision
from cloze.errors import InputError
from cloze.inference.answerer import open_model
from cloze.inference.embedder import Embedder, Vectors
from cloze.inference.explain import check_explainable
from cloze.inference.model import Model
from cloze.inference.predictor import Predictor, find_task_name
from cloze.inference.pretrained_heads import (
    FillMask,
    MaskedSequence,
    NextSentence,
    SentenceScorer,
    top_tokens,
)
from cloze.inference.search import PassageIndex
from cloze.models.config_file import load_labels
from cloze.models.engine import Engine
from cloze.models.sentence_transformers import SentenceEncoderConfig
from cloze.progress import Progress
from cloze.tasks.answers.choice import Choice
from cloze.tasks.answers.label_set import LabelSet
from cloze.tasks.answers.number import Number
from cloze.tasks.answers.one_label import OneLabel
from cloze.tasks.answers.relevance import Relevance
from cloze.tasks.answers.span import Span
from cloze.tasks.answers.tags import Tags
from cloze.tasks.config import load_task
from cloze.tasks.registry import find_task
from cloze.tokenization.tokenizer import Ids, Tokenizer, TruncationSide

_HEAD_CHARACTERS = 16  # for a token, far more than most have


@dataclass(frozen=True, slots=True)
class EmbeddingInput:
    """A text, or its token ids with or without [CLS] and [SEP]."""

    value: str | list[int]
    prompt: str = ""
    """Goes before the text."""
    truncation_side: TruncationSide = "right"
    truncates: bool = True
    """Whether a text beyond the limit is truncated, or refused."""


@dataclass(frozen=True, slots=True)
class TokenIds:
    """The token ids of a text and its prompt without [CLS] and [SEP], up to the model's limit."""

    ids: Ids
    is_truncated: bool

    @property
    def num_tokens(self) -> int:
        """Tokens, [CLS] and [SEP] included."""
        return len(self.ids) + 2


@dataclass(frozen=True, slots=True)
class FillWindow(MaskedSequence):
    """A window of a text with [MASK] tokens, and how they are filled."""

    top_k: int
    targets: tuple[int, ...] | None
    """The ids of tokens to choose from; None is all."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded checkpoint or graph and its heads; one that it lacks is None, and no route that reads it is answered."""

    name: str
    """The name in requests."""
    model: Model
    embedder: Any
    """An `Embedder`."""
    fill_mask: Any
    """A `FillMask`."""
    next_sentence: Any
    """A `NextSentence`."""
    predictor: Any
    """A `Predictor`, the fine-tuned model with its task."""
    labels: tuple[str, ...] = ()
    """The classes of the fine-tuned model as config.json names them, in the order of its logits."""
    index: PassageIndex | None = None
    """The documents of /search."""
    ranker: "ServedModel | None" = None
    """The model that orders passages of /search."""

    @classmethod
    def load(
        cls,
        name: str,
        directory: Path,
        *,
        device: str = "auto",
        precision: InferencePrecision | None = None,
    ) -> "ServedModel":
        """Load a checkpoint, the best checkpoint of a run, or an exported graph."""
        model = open_model(directory, device=device, precision=precision)
        # each request says whether to normalize, unless a graph does it
        normalize = None if model.is_graph else False
        embedder = Embedder.load(model, normalize=normalize) if model.has_vectors else None
        fill_mask, next_sentence = (
            kind(model) if model.has(kind.output) else None for kind in (FillMask, NextSentence)
        )
        predictor = _load_predictor(model)
        if not any((embedder, fill_mask, next_sentence, predictor)):
            remedy = "Give the model that it was exported from"
            raise InputError("a graph whose outputs nothing reads", where=model.directory, remedy=remedy)
        labels = () if predictor is None else load_labels(model.directory) or predictor.labels
        return cls(name, model, embedder, fill_mask, next_sentence, predictor, labels)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.tokenizer

    @property
    def task(self) -> Any:
        """The task that the model was fine-tuned for, or None."""
        return None if self.predictor is None else self.predictor.task

    @cached_property
    def abilities(self) -> tuple[str, ...]:
        """The keys of `ABILITIES` that the model has."""
        return tuple(name for name, (is_met_by, _) in ABILITIES.items() if is_met_by(self))

    @property
    def is_sentence_encoder(self) -> bool:
        """Whether it was trained for the vectors of sentences."""
        return self.embedder is not None and self.embedder.stored != SentenceEncoderConfig()

    @property
    def engine(self) -> Engine:
        """The engine of one of the heads."""
        engine: Engine = (self.embedder or self.fill_mask or self.next_sentence or self.predictor).engine
        return engine

    def prompt(self, name: str | None) -> str:
        """Return the prompt of a name, or the default prompt; refuse one that the model lacks."""
        if self.embedder is None:
            remedy = "Leave it out"
            raise InputError(f"{self.name!r} has no vectors", where="prompt_name", remedy=remedy)
        embedder: Embedder = self.embedder
        return embedder.prompt if name is None else embedder.stored.prompt(name, where="prompt_name")

    def token_ids(self, inputs: list[EmbeddingInput]) -> list[list[TokenIds]]:
        """Tokenize texts, each to one window; refuse unknown ids, and long texts that must not be truncated.

        Of a text that is truncated at the end, a beginning up to a space is read, and the rest only if it is too short.
        """
        embedder = replace(self.embedder, prompt="")
        texts = [text.prompt + (text.value if isinstance(text.value, str) else "") for text in inputs]
        limit, windows = embedder.max_seq_length - 2, []
        size = _HEAD_CHARACTERS * limit
        heads = [
            whole[:size] + whole[size:].partition(" ")[0]
            if text.truncates and text.truncation_side == "right"
            else whole
            for text, whole in zip(inputs, texts, strict=True)
        ]
        for text, whole, head, head_ids in zip(inputs, texts, heads, embedder.token_ids(heads), strict=True):
            has_rest = len(head) < len(whole) and len(head_ids) <= limit
            ids = embedder.token_ids([whole])[0] if has_rest else head_ids
            if not isinstance(sent := text.value, str):
                if (highest := max(sent)) >= self.tokenizer.vocab_size:
                    what = f"token id {highest} is not in the vocabulary of {self.tokenizer.vocab_size:,}"
                    raise InputError(what, where="inputs")
                sent = sent[1:] if sent[0] == self.tokenizer.cls_id else sent
                sent = sent[:-1] if sent and sent[-1] == self.tokenizer.sep_id else sent
                ids = array("I", [*ids, *sent])
            if (excess := len(ids) - limit) > 0:
                if not text.truncates:
                    raise self.too_long(len(ids) + 2, limit + 2)
                ids = ids[:limit] if text.truncation_side == "right" else ids[excess:]
            windows.append([TokenIds(ids, excess > 0)])
        return windows

    def embed(self, windows: list[TokenIds]) -> list[tuple[Vectors, int]]:
        """Return the vector of each text and the number of its tokens."""
        vectors = self.embedder.embed_token_ids([window.ids for window in windows]).vectors
        return [(vector, window.num_tokens) for vector, window in zip(vectors, windows, strict=True)]

    def embed_tokens(self, windows: list[TokenIds]) -> Any:
        """Return the vectors of the tokens of each text, [CLS] and [SEP] included."""
        return self.embedder.embed_tokens_of_ids([window.ids for window in windows])

    def fill(self, windows: list[FillWindow]) -> list[list[list[tuple[int, float]]]]:
        """Return the ids and the probabilities of the best tokens for each [MASK] of each window."""
        best = {
            i: top_tokens(logits, windows[i].top_k, among=windows[i].targets)
            for i, logits in self.fill_mask.logits(windows)
        }
        return [best[i] for i in range(len(windows))]

    @cached_property
    def sentence_scorer(self) -> SentenceScorer:
        """The masked-word head as a scorer of sentences."""
        return SentenceScorer(self.model)

    def too_long(self, length: int, limit: int) -> InputError:
        """Return the error of a text that must not be truncated."""
        what = f"{length} tokens, {self.name!r} reads {limit}"
        return InputError(what, where="inputs", remedy="Give a shorter text, or truncate: true")


def _is_finetuned_for(*kinds: type) -> Callable[[ServedModel], bool]:
    return lambda served: served.task is not None and isinstance(served.task.answer, kinds)


def _ranks_pairs(served: ServedModel) -> bool:
    return _is_finetuned_for(Relevance, Number)(served) and served.predictor.reads_pairs is not False


def _has_layers(served: ServedModel) -> bool:
    # a graph has no modules, a pair of encoders no layers of its own
    return not served.model.is_graph and hasattr(served.model.encoder, "layers")


def _makes_vectors(served: ServedModel) -> bool:
    return served.embedder is not None and (served.model.is_graph or _has_layers(served))


def _is_explainable(served: ServedModel) -> bool:
    with suppress(InputError):
        if served.predictor is not None and _has_layers(served):
            check_explainable(served.predictor)
            return True
    return False


_CLASSIFIER = "Serve a classifier or a regression of texts: cloze finetune classification"
_NO_GRADIENTS = "(neither int8 nor an exported graph: they have no gradients)"
ABILITIES: Mapping[str, tuple[Callable[[ServedModel], object], str]] = {
    "encode": (_has_layers, "Serve any encoder that is not an exported graph"),
    "embed": (_makes_vectors, "Serve any encoder, or its exported graph"),
    "search": (attrgetter("index"), "Serve documents: --search DOCS"),
    "tokenize": (lambda served: True, "Serve any model"),
    "fill": (attrgetter("fill_mask"), "Serve a pre-trained model, with its masked-word head"),
    "next-sentence": (attrgetter("next_sentence"), "Serve a pre-trained model, with its next-sentence head"),
    "predict": (_is_finetuned_for(OneLabel, LabelSet, Number, Relevance), _CLASSIFIER),
    "rerank": (_ranks_pairs, "Serve a ranker: cloze finetune ranking"),
    "tag": (_is_finetuned_for(Tags), "Serve a tagger: cloze finetune tagging"),
    "answer": (_is_finetuned_for(Span), "Serve a model that answers questions: cloze finetune squad_v2"),
    "choose": (_is_finetuned_for(Choice), "Serve a multiple-choice model: cloze finetune multiple-choice"),
    "explain": (_is_explainable, f"{_CLASSIFIER} {_NO_GRADIENTS}"),
}
"""What routes require of a model, by the names in /info: whether a model has it, and which model to serve to get it.

`encode` is access to the encoder's internals.
"""


class UnknownModelError(InputError):
    """A request names a model that is not served."""

    def __init__(self, name: str, models: Iterable[str]) -> None:
        what, remedy = f"no model {name!r} is served", f"Choose from {', '.join(models)}"
        super().__init__(what, where="model", remedy=remedy)


ANY_MODEL = "text-embeddings-inference"
"""The model that clients of this server name, which serves one model and reads no name."""


def load_models(
    directories: Mapping[str, Path],
    *,
    device: str = "auto",
    precision: InferencePrecision | None = None,
) -> dict[str, ServedModel]:
    """Load models by the names that requests use, the default first."""
    return {
        name: ServedModel.load(name, path, device=device, precision=precision)
        for name, path in directories.items()
    }


def index_documents(
    models: Mapping[str, ServedModel], documents: str | Path, progress: Progress
) -> dict[str, ServedModel]:
    """Give an index and the first ranker to the first sentence encoder, or else to the first model that embeds."""
    best_first = dict(sorted(models.items(), key=lambda item: not item[1].is_sentence_encoder))
    served = find_model(best_first, None, "embed", route="--search")
    ranker = next((model for model in models.values() if "rerank" in model.abilities), None)
    index = PassageIndex.open(served.embedder, documents, progress=progress)
    return {**models, served.name: replace(served, index=index, ranker=ranker)}


def find_model(
    models: Mapping[str, ServedModel], name: str | None, ability: str, *, route: str
) -> ServedModel:
    """Return the model of a name, or by default the first one, with the ability that a route requires."""
    if name == ANY_MODEL and len(models) == 1:
        name = None
    if name is not None and name not in models:
        raise UnknownModelError(name, models)
    able = {key: model for key, model in models.items() if ability in model.abilities}
    if name in able or (name is None and able):
        return able[name or next(iter(able))]
    what = f"no served model answers {route}" if name is None else f"{name!r} does not answer {route}"
    remedy = f"Use {', '.join(able)}" if able else ABILITIES[ability][1]
    raise InputError(what, where="model", remedy=remedy)


def _load_predictor(model: Model) -> Predictor | None:
    directory = model.directory
    if (task := find_task_name(directory)) is None:
        return None
    try:
        if load_task(directory) is None:
            find_task(task).for_external_checkpoint(directory)
    except InputError as error:  # no task reads such a head
        warnings.warn(f"{directory}: served without its head: {error.what}", stacklevel=2)
        return None
    return Predictor.load(model, task=task)
