"""Embed texts and their words with any BERT encoder.

Shapes: T tokens in the packed batch, N texts, L tokens of a text, W words of a text, B sequences, D width of a vector.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Self, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt

from cloze.arguments import check_integer, check_one_or_many, check_texts, iterate, parse_layers
from cloze.choices import LongTexts
from cloze.data.batch import Indices, PackedBatch, collate
from cloze.errors import InputError
from cloze.inference.answerer import Answerer, open_model
from cloze.inference.model import Model
from cloze.models.engine import Batches, Engine, VectorOutput, run_batches
from cloze.models.pooling import check_pooling
from cloze.models.sentence_transformers import (
    SentenceEncoderConfig,
    load_sentence_encoder_config,
    save_sentence_encoder_config,
)
from cloze.options import Device, ModelPrecision, VectorOptions
from cloze.signatures import checks_arguments
from cloze.tasks.arrays import normalize, split_rows
from cloze.tasks.features import half_overlapping, max_context_windows
from cloze.tokenization.tokenizer import Ids
from cloze.tokenization.unknown import NONE_UNKNOWN, UnknownWords, count_unknown

Vectors: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: characters `start` to `end` (exclusive)."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WordVectors:
    """The words of a text with their vectors."""

    words: tuple[Word, ...]
    vectors: Vectors
    """[W, D]."""
    is_truncated: bool
    """Whether the text is longer than `max_seq_length`."""


@dataclass(frozen=True, slots=True)
class EmbeddingResult:
    """The vectors of texts."""

    vectors: Vectors
    """[N, D]."""
    num_truncated: int
    """Number of texts longer than `max_seq_length`."""
    unknown: UnknownWords = NONE_UNKNOWN
    """Texts with words that the vocabulary does not know."""


@dataclass(frozen=True, repr=False)
class Embedder(Answerer):
    """An encoder, and how its token vectors become vectors of texts and words.

    >>> import cloze
    >>> embedder = cloze.Embedder.load("model")  # doctest: +SKIP
    >>> embedder(["A dog runs.", "Stocks fell."]).shape  # doctest: +SKIP
    (2, 384)
    """

    _: KW_ONLY
    output: VectorOutput
    """The pooling, normalization, dimensions and layers of the vectors."""
    max_seq_length: int
    prompt: str
    """Prepended to each text."""
    long_texts: LongTexts = "truncate"
    """Whether texts of more than `max_seq_length` tokens are truncated or read in windows."""
    stored: SentenceEncoderConfig = field(default_factory=SentenceEncoderConfig)
    """The settings of sentence-transformers in the checkpoint, with its prompts."""

    @classmethod
    @checks_arguments()
    def load(
        cls,
        model: Path | str | Model,
        *,
        device: Device = "auto",
        precision: ModelPrecision = None,
        **options: Unpack[VectorOptions],
    ) -> Self:
        """Load the encoder of a checkpoint, with or without a head. None is as the files of sentence-transformers say.

        Args:
            model: a checkpoint, a run (its best checkpoint), "cloze-mini-sentences", or hf://org/name.
        """
        pooling, normalize, length = options["pooling"], options["normalize"], options["max_seq_length"]
        opened = open_model(model, device=device, precision=precision)
        path, config = opened.directory, opened.config
        stored = load_sentence_encoder_config(path) or SentenceEncoderConfig()
        pooling = pooling or stored.pooling
        check_pooling(pooling, config)
        num_layers, positions = config.num_hidden_layers, config.max_position_embeddings
        if length is not None and not 3 <= check_integer(length, "max_seq_length") <= positions:
            what = f"{length} is not in 3..{positions}, the positions of the model"
            raise InputError(what, where="max_seq_length")
        layers = _resolve_layers(options["layers"], num_layers)
        normalize = stored.normalize if normalize is None else normalize
        truncate_dim = stored.truncate_dim if layers == (num_layers,) else None
        return cls(
            opened,
            output=VectorOutput(pooling, normalize, truncate_dim, layers, options["combine"]),
            max_seq_length=min(length or stored.max_seq_length or positions, positions),
            prompt=stored.prompt(options["prompt"], where=path),
            long_texts=options["long_texts"],
            stored=stored,
        )

    @property
    def width(self) -> int:
        """Width of the vector of a text, D."""
        count = len(self.output.layers or ()) if self.output.combine == "concat" else 1
        width = self.model.config.hidden_size * count
        return width if self.output.truncate_dim is None else min(self.output.truncate_dim, width)

    @checks_arguments()
    def __call__(self, texts: str | Sequence[str]) -> Vectors:
        """Return a vector for each text, [N, D], or for one text, [D]; `long_texts` says what is done with long ones.

        >>> import cloze
        >>> embedder = cloze.Embedder.load("cloze-mini")
        >>> embedder("A man plays the guitar.").shape, embedder(["A man plays.", "Snow fell."]).shape
        ((256,), (2, 256))
        """
        checked, is_one = check_one_or_many(texts)
        result = self.embed(checked)
        result.unknown.warn("texts")
        vectors: Vectors = result.vectors[0] if is_one else result.vectors
        return vectors

    def embed(self, texts: Sequence[str]) -> EmbeddingResult:
        """Return a vector for each text, and what was lost of the texts."""
        texts = check_texts(texts)
        token_ids = self.token_ids(texts)
        unknown = count_unknown(self.tokenizer, texts, token_ids)
        return self.embed_token_ids(token_ids, unknown=unknown)

    def embed_token_ids(
        self, token_ids: Sequence[Ids], *, unknown: UnknownWords = NONE_UNKNOWN
    ) -> EmbeddingResult:
        """Return a vector for each text, given its token ids, and what was lost."""
        num_long = sum(map(self._is_long, token_ids))
        if self.long_texts == "truncate" or not num_long:
            return EmbeddingResult(self._embed_windows(token_ids), num_long, unknown)
        of_text = list(map(self._cut, token_ids))
        vectors = self._embed_windows(list(chain.from_iterable(of_text)))
        groups = split_rows(vectors, list(map(len, of_text)))
        means = [group[0] if len(group) == 1 else self._normalize(group.mean(0)) for group in groups]
        return EmbeddingResult(np.stack(means), 0, unknown)

    def _embed_windows(self, token_ids: Sequence[Ids]) -> Vectors:
        """Return a vector for each window, which is truncated if it is too long."""
        vectors = np.empty((len(token_ids), self.width), np.float32)
        # all batches run before the first vector is read, so that the device does not wait after each
        for indices, _, outputs in list(self._run(self.engine, token_ids)):
            vectors[indices] = outputs["sentence_embedding"]
        return vectors

    def _cut(self, ids: Ids) -> list[Ids]:
        """Return the windows of a text, each after the prompt."""
        [prompt] = self.tokenizer.text_ids([self.prompt])
        if prompt != ids[: len(prompt)]:
            prompt = prompt[:0]  # its last token is joined with the text
        size = self.max_seq_length - 2 - len(prompt)
        if size < 1:
            what = f"the prompt has {len(prompt)} tokens, max_seq_length is {self.max_seq_length}"
            raise InputError(what, where="prompt", remedy="Raise max_seq_length")
        text = ids[len(prompt) :]
        return [prompt + text[window] for window in half_overlapping(len(text), size)]

    def words(self, texts: Sequence[str]) -> list[WordVectors]:
        """Return the words of each text with their vectors: the mean over the tokens of a word.

        A word is what the tokenizer splits into tokens: "it's" is three words, a Chinese character is one. Words of
        the prompt and those beyond `max_seq_length` are omitted.
        """
        texts = check_texts(texts)
        encodings = [self.tokenizer.encode(self.prompt + text) for text in texts]
        ids = [array("I", encoding.input_ids[1:-1]) for encoding in encodings]
        vectors_of_text = self.embed_tokens_of_ids(ids)
        results = []
        for text, encoding, own_ids, vectors in zip(texts, encodings, ids, vectors_of_text, strict=True):
            hidden_LD = vectors[1:-1]
            count = len(hidden_LD)
            starts_word_L = ~self.tokenizer.is_continuation[own_ids[:count]]
            starts_word_L[:1] = True  # byte-level tokenizers mark the space before a word alone
            first_W = np.flatnonzero(starts_word_L)
            offsets_L2 = np.array(encoding.offsets[1 : count + 1]).reshape(-1, 2) - len(self.prompt)
            starts, ends = offsets_L2[first_W, 0], offsets_L2[np.append(first_W, count)[1:] - 1, 1]
            in_text = np.flatnonzero(starts >= 0)
            places = zip(starts[in_text].tolist(), ends[in_text].tolist(), strict=True)
            words = tuple(Word(text[start:end], start, end) for start, end in places)
            lengths_W = np.diff(first_W, append=count).astype(np.float32)
            sums_WD: Vectors = np.add.reduceat(hidden_LD, first_W) if count else hidden_LD
            means_WD = (sums_WD / lengths_W[:, None])[in_text]
            is_truncated = self.long_texts == "truncate" and self._is_long(own_ids)
            results.append(WordVectors(words, self._normalize(means_WD), is_truncated))
        return results

    def token_ids(self, texts: Sequence[str]) -> list[Ids]:
        """Return the token ids of each text and its prompt, without [CLS] and [SEP]. Not thread-safe."""
        return self.tokenizer.text_ids([self.prompt + text for text in check_texts(texts)])

    def _facts(self) -> list[str]:
        return [f"width {self.width}"]

    def _write(self, directory: Path) -> None:
        config = self.model.config
        assert self.output.pooling is not None
        if self.output.layers != (config.num_hidden_layers,):
            remedy = "Save one that was loaded with these settings"
            raise InputError("only the last layer can be saved", where="embedder", remedy=remedy)
        from cloze.models.checkpoint import save_model  # imports torch

        save_model(directory, self.module, self.tokenizer, max_length=self.max_seq_length)
        stored = SentenceEncoderConfig(
            pooling=self.output.pooling,
            normalize=self.output.normalize,
            max_seq_length=self.max_seq_length,
            prompts={"default": self.prompt} if self.prompt else {},
            default_prompt_name="default" if self.prompt else None,
            truncate_dim=self.output.truncate_dim,
            other=self.stored.other,
        )
        save_sentence_encoder_config(directory, stored, hidden_size=config.hidden_size)

    def _is_long(self, ids: Ids) -> bool:
        return len(ids) > self.max_seq_length - 2

    def _run(
        self, engine: Engine, token_ids: Sequence[Ids]
    ) -> Iterator[tuple[Indices, PackedBatch, Mapping[str, Vectors]]]:
        """Run [CLS] ids [SEP] of each text, truncated, in batches of similar lengths."""
        keep, cls, sep = self.max_seq_length - 2, self.tokenizer.cls_id, self.tokenizer.sep_id

        def batch(indices: Indices) -> PackedBatch:
            return collate([[cls, *token_ids[i][:keep], sep] for i in indices])

        return run_batches(engine, Batches([min(len(ids), keep) + 2 for ids in token_ids], batch))

    def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        """Return the vectors of all tokens of each text, [CLS], prompt and [SEP] included, [L, D], not normalized.

        In windows, a token has the vector of the one with the most context around it.
        """
        return self.embed_tokens_of_ids(self.token_ids(texts))

    def embed_tokens_of_ids(self, token_ids: Sequence[Ids]) -> list[Vectors]:
        """Return what `embed_tokens` returns, given the token ids of each text."""
        size = self.max_seq_length - 2
        windows_of_text = [
            [slice(size)] if self.long_texts == "truncate" else half_overlapping(len(ids), size)
            for ids in token_ids
        ]
        flat = [
            ids[window] for ids, windows in zip(token_ids, windows_of_text, strict=True) for window in windows
        ]
        hidden_of_window: dict[int, Vectors] = {}
        engine = self.model.engine(replace(self.output, pooling=None))
        for indices, batch, outputs in self._run(engine, flat):
            hidden = split_rows(outputs["token_embeddings"], np.diff(batch.cu_seqlens))
            hidden_of_window.update(zip(indices, hidden, strict=True))
        numbers, vectors = iter(range(len(flat))), []
        for windows in windows_of_text:
            first, *more = hidden = [hidden_of_window[next(numbers)] for _ in windows]
            if more:
                best = enumerate(max_context_windows(windows))
                inner = [hidden[number][1 + place - windows[number].start] for place, number in best]
                first = np.stack([first[0], *inner, hidden[-1][-1]])
            vectors.append(first)
        return vectors

    def _normalize(self, vectors: Vectors) -> Vectors:
        return normalize(vectors) if self.output.normalize else vectors


def _resolve_layers(layers: str | Sequence[int], num_layers: int) -> tuple[int, ...]:
    """Return non-negative numbers of layers; refuse an empty list, repeated and nonexistent layers."""
    if isinstance(layers, str):
        layers = parse_layers(layers)
    resolved = []
    for number, value in enumerate(iterate(layers, "layers", "number")):
        layer = check_integer(value, f"layers[{number}]", minimum=None)
        if not -num_layers <= layer <= num_layers:
            what = f"no layer {layer}: there are 1 to {num_layers}, and -1 to -{num_layers} from the last"
            raise InputError(what, where="layers", remedy="0 is the table of word embeddings")
        resolved.append(layer if layer >= 0 else num_layers + 1 + layer)
    if not resolved or len(set(resolved)) < len(resolved):
        what = "a layer is repeated" if resolved else "no layer is given"
        raise InputError(what, where="layers")
    return tuple(resolved)
