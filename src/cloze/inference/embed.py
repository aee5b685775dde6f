"""Texts and their words to vectors, by any BERT encoder.

Shapes: T tokens in the packed batch, N texts, W words of a text, D width of a vector.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cloze.errors import InputError
from cloze.inference.loading import refuse_one_text
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertModel
from cloze.model.checkpoint import load_model
from cloze.model.heads import BertForFeatureExtraction
from cloze.model.packed import Packed
from cloze.model.pooling import Pooling, check_pooling, pool, pool_weighted
from cloze.model.sentence_transformers import VectorSettings, read_sentence_transformer
from cloze.tasks.batches import by_length
from cloze.text.characters import replace_lone_surrogates
from cloze.text.pieces import SPECIAL_PIECES
from cloze.text.tokenizer import Encoding, Tokenizer
from cloze.training.precision import autocast, resolve_device, resolve_dtype

Vectors: TypeAlias = npt.NDArray[np.float32]
Ids: TypeAlias = npt.NDArray[np.uint32]
EmbeddingPooling: TypeAlias = Pooling | Literal["idf_mean"]
"""How token vectors become one: `idf_mean` weighs each token by the logarithm of how rare it is."""
Combine: TypeAlias = Literal["sum", "concat"]

LOOKUP_TABLE = 0
"""The layer of word-embedding rows as they are stored."""
_MAX_TOKENS_ON_CPU = 4096
_MAX_TOKENS = 65_536  # of other devices, which want more to do at once
_TEXTS_AT_ONCE = 4096  # whose pieces are counted


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingConfig:
    """Which vectors are made of an encoder's. None is what the directory says, as sentence-transformers wrote it."""

    pooling: EmbeddingPooling | None = None
    """How the vectors of all tokens, [CLS] and [SEP] included, become one; the mean where nothing is said."""
    layers: tuple[int, ...] = (-1,)
    """Layers, 1 being the first and -1 the last; 0 is the rows of the table of word embeddings, which know nothing of
    the words around them, nor of the position."""
    combine: Combine = "sum"
    """What is done with several layers, token by token."""
    normalize: bool | None = None
    """Whether vectors are brought to length 1; not where nothing is said."""
    max_seq_length: int | None = None
    """Tokens of a text that are read; as many as the model has positions where nothing is said."""
    prompt: str | None = None
    """The name of a prompt of the directory, which is put before each text."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Number format of matrix products."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of some texts."""

    vectors: Vectors
    """[N, D]."""
    num_truncated: int
    """How many texts were longer than what is read of one."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: characters `start` to `end`."""

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
    """Whether the text was longer than what is read of one."""


@dataclass(frozen=True)
class Embedder:
    """An encoder, and how vectors are made of its layers.

    >>> import cloze
    >>> embedder = cloze.Embedder.load("model")  # doctest: +SKIP
    >>> embedder(["A dog runs.", "Stocks fell."]).shape  # doctest: +SKIP
    (2, 384)
    """

    model: BertModel
    tokenizer: Tokenizer
    pooling: EmbeddingPooling
    layers: tuple[int, ...]
    """From 0, the table of word embeddings, to the last."""
    combine: Combine
    normalize: bool
    max_seq_length: int
    prompt: str
    """Put before each text."""
    dtype: torch.dtype
    """Of matrix products."""
    idf: Vectors | None = None
    """The weight of each piece, for `idf_mean`; `with_idf` counts it."""

    @classmethod
    def load(
        cls, directory: Path | str, config: EmbeddingConfig | None = None, *, device: str = "auto"
    ) -> "Embedder":
        """Read an encoder from a checkpoint with or without a head, or from a run: its best, else its newest one.

        Args:
            directory: ours, Hugging Face's, or of sentence-transformers, whose pooling, normalisation, length and
                default prompt are then taken where `config` says nothing.
            config: which vectors are made; None is those that the directory says.
            device: cpu, cuda, mps or auto.

        Raises:
            InputError: there is no such model, layer or prompt.
        """
        config = EmbeddingConfig() if config is None else config
        checkpoint = resolve_checkpoint(Path(directory), "best")
        stored = read_sentence_transformer(checkpoint)
        if stored is None:
            stored = VectorSettings(pooling="mean", normalize=False, max_seq_length=None)
        model = load_model(
            checkpoint, BertForFeatureExtraction
        ).bert  # its pooler, which many lack, is not read
        tokenizer = Tokenizer.load(checkpoint)
        if tokenizer.vocab_size > model.config.vocab_size:
            what = f"{tokenizer.vocab_size:,} pieces, the model has {model.config.vocab_size:,} embeddings"
            raise InputError(what, where=checkpoint, remedy="The files belong to different models")
        pooling = config.pooling or stored.pooling
        check_pooling(pooling, model)
        place = resolve_device(device)
        dtype = resolve_dtype(config.precision, place)
        return cls(
            model=_in_precision(model.to(place), dtype),
            tokenizer=tokenizer,
            pooling=pooling,
            layers=_resolve_layers(config.layers, model.config.num_hidden_layers),
            combine=config.combine,
            normalize=stored.normalize if config.normalize is None else config.normalize,
            max_seq_length=_resolve_length(config, stored, model.config.max_position_embeddings),
            prompt=stored.prompt(config.prompt, where=checkpoint),
            dtype=dtype,
        )

    def with_idf(self, texts: Iterable[str]) -> "Embedder":
        """Return the same with weights for `idf_mean`: ln((1 + texts) / (1 + texts with the piece)); [CLS], [SEP] 0.

        Source:
            Zhang et al. 2020 (BERTScore), 3; the logarithm of the whole quotient, so that a piece of all texts is 0, as
            are those of the prompt.
        """
        vocab_size, count = self.tokenizer.vocab_size, 0
        num_texts_V = np.zeros(vocab_size, np.int64)
        rest = iter(texts)
        while some := list(islice(rest, _TEXTS_AT_ONCE)):
            once = np.concatenate([np.unique(own) for own in self.pieces(some)])
            num_texts_V += np.bincount(once, minlength=vocab_size)
            count += len(some)
        idf = np.log((1 + count) / (1 + num_texts_V)).astype(np.float32)
        idf[[self.tokenizer.cls_id, self.tokenizer.sep_id]] = 0
        return replace(self, idf=idf)

    @property
    def width(self) -> int:
        """D."""
        return self.model.config.hidden_size * (len(self.layers) if self.combine == "concat" else 1)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return a vector for each text, [N, D], in their order; a text too long is read up to `max_seq_length`."""
        return self.embed(texts).vectors

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> Embedded:
        """Return a vector for each text, and how many texts were cut; all of them are in memory at once.

        Raises:
            InputError: the pooling is idf_mean, and no pieces were counted.
        """
        return self.embed_pieces(self.pieces(texts))

    @torch.inference_mode()
    def embed_pieces(self, pieces: Sequence[npt.ArrayLike]) -> Embedded:
        """Return a vector for each text of which the ids are given, without [CLS] and [SEP]; else as `embed`."""
        keep = self.max_seq_length - 2
        given = [np.asarray(own, np.uint32) for own in pieces]
        sequences = [self._sequence(own[:keep]) for own in given]
        batches = list(by_length([len(ids) for ids in sequences], self._max_tokens))
        pooled = [self._pool([sequences[i] for i in indices]) for indices in batches]
        vectors = np.empty((len(pieces), self.width), np.float32)
        # copied at the end, not to wait for each batch
        for indices, vectors_BD in zip(batches, pooled, strict=True):
            vectors[indices] = vectors_BD.cpu().numpy()
        return Embedded(vectors, sum(len(own) > keep for own in given))

    @torch.inference_mode()
    def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        """Return the vectors of all tokens of each text that are read, [CLS], prompt and [SEP] included, [L, D].

        They are as the layers say: those of texts and words alone are brought to length 1.
        """
        keep = self.max_seq_length - 2
        sequences = [self._sequence(own[:keep]) for own in self.pieces(texts)]
        found: dict[int, Vectors] = {}
        for indices in by_length([len(ids) for ids in sequences], self._max_tokens):
            packed = _packed([sequences[i] for i in indices]).to(self.device)
            ends = packed.cu_seqlens[1:-1].tolist()
            own_LD = np.split(self._hidden(packed).cpu().numpy(), ends)
            found.update(zip(indices.tolist(), own_LD, strict=True))
        return [found[i] for i in range(len(texts))]

    @torch.inference_mode()
    def words(self, texts: Sequence[str]) -> list[WordVectors]:
        """Return the words of each text, and of each the mean of its pieces' vectors.

        A word is what the tokenizer cuts into pieces: "it's" is three, a Chinese character is one. Words of the
        prompt and those beyond `max_seq_length` are left out.
        """
        refuse_one_text(texts)
        encodings = [self.tokenizer.encode(self.prompt + text) for text in texts]
        keep = self.max_seq_length - 2
        sequences = [self._sequence(encoding.input_ids[1:-1][:keep]) for encoding in encodings]
        found: dict[int, WordVectors] = {}
        for indices in by_length([len(ids) for ids in sequences], self._max_tokens):
            packed = _packed([sequences[i] for i in indices]).to(self.device)
            hidden_TD = self._hidden(packed).cpu()
            for i, (start, end) in zip(
                indices.tolist(), pairwise(packed.cu_seqlens.cpu().tolist()), strict=True
            ):
                words, vectors = self._words_of(encodings[i], hidden_TD[start + 1 : end - 1], texts[i])
                found[i] = WordVectors(words, vectors, len(encodings[i]) - 2 > keep)
        return [found[i] for i in range(len(texts))]

    def _words_of(self, encoding: Encoding, hidden: Tensor, text: str) -> tuple[tuple[Word, ...], Vectors]:
        """Join the vectors of pieces, [CLS] and [SEP] left out, to those of words."""
        count = len(hidden)
        starts_word = ~self.tokenizer.is_continuation[encoding.input_ids[1 : count + 1]]
        firsts = np.flatnonzero(starts_word)
        offsets = np.array(encoding.offsets[1 : count + 1]).reshape(-1, 2) - len(self.prompt)
        starts, ends = offsets[firsts, 0], offsets[np.append(firsts, count)[1:] - 1, 1]
        own = np.flatnonzero(starts >= 0)
        number_of_word = torch.from_numpy(starts_word.cumsum() - 1)
        sums_WD = torch.zeros(len(firsts), self.width).index_add_(0, number_of_word, hidden)
        means_WD = sums_WD / torch.bincount(number_of_word, minlength=len(firsts)).unsqueeze(1)
        spans = zip(starts[own].tolist(), ends[own].tolist(), strict=True)
        words = tuple(Word(text[start:end], start, end) for start, end in spans)
        return words, self._normalized(means_WD[own]).numpy()

    def pieces(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of each text and its prompt, without [CLS] and [SEP]. Not for threads."""
        refuse_one_text(texts)
        texts = [replace_lone_surrogates(self.prompt + text) for text in texts]
        ids, lengths = self.tokenizer.ids(texts)
        ends = np.cumsum(lengths)
        pieces = [ids[end - length : end] for length, end in zip(lengths, ends, strict=True)]
        specials = (*SPECIAL_PIECES, *self.tokenizer.added_pieces)
        for i, text in enumerate(texts):
            if any(special in text for special in specials):  # plain text to `ids`, which is for corpora
                pieces[i] = np.array(self.tokenizer.encode(text).input_ids[1:-1], np.uint32)
        return pieces

    def _sequence(self, pieces: npt.ArrayLike) -> Ids:
        return np.concatenate([[self.tokenizer.cls_id], pieces, [self.tokenizer.sep_id]]).astype(np.uint32)

    @property
    def _max_tokens(self) -> int:
        return _MAX_TOKENS_ON_CPU if self.device.type == "cpu" else _MAX_TOKENS

    def _pool(self, sequences: Sequence[Ids]) -> Tensor:
        """Return the vectors of sequences, [B, D]."""
        packed = _packed(sequences).to(self.device)
        hidden_TD = self._hidden(packed)
        if self.pooling != "idf_mean":
            return self._normalized(pool(hidden_TD, packed, self.pooling))
        if self.idf is None:
            remedy = "Say embedder.with_idf(texts) first"
            raise InputError("how rare is each piece? None were counted", where="idf_mean", remedy=remedy)
        idf_V = torch.from_numpy(self.idf).to(self.device)
        return self._normalized(pool_weighted(hidden_TD, idf_V[packed.input_ids], packed))

    def _hidden(self, packed: Packed) -> Tensor:
        """Return the layers asked for, together, [T, D] in float32."""
        if self.layers == (LOOKUP_TABLE,):
            return self._rows(packed)
        keep = self.layers != (self.model.config.num_hidden_layers,)
        with autocast(self.device, self.dtype):
            output = self.model.forward_packed(packed, keep_hidden_states=keep)
        if not keep:
            return output.sequence_output.float()
        hidden = [
            output.hidden_states[layer].float() if layer else self._rows(packed) for layer in self.layers
        ]
        return torch.cat(hidden, -1) if self.combine == "concat" else torch.stack(hidden).sum(0)

    def _rows(self, packed: Packed) -> Tensor:
        """Return the rows of the lookup table, [T, D] in float32."""
        rows_TD: Tensor = self.model.embeddings.word_embeddings(packed.input_ids)
        return rows_TD.float()

    def _normalized(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors


def _packed(sequences: Sequence[Ids]) -> Packed:
    lengths = np.array([len(ids) for ids in sequences])
    cu_seqlens = np.concatenate([[0], lengths.cumsum()])
    positions_T = np.arange(cu_seqlens[-1]) - np.repeat(cu_seqlens[:-1], lengths)
    ids_T = np.concatenate(sequences).astype(np.int64)
    return Packed.from_arrays(ids_T, np.zeros_like(ids_T), positions_T, cu_seqlens)


def _in_precision(model: BertModel, dtype: torch.dtype) -> BertModel:
    """Convert the weights of matrix products once, which autocast would do in each of them."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.to(dtype)
    return model


def _resolve_layers(layers: tuple[int, ...], num_layers: int) -> tuple[int, ...]:
    """Count layers from the first.

    Raises:
        InputError: the model has no such layer, one is named twice or none at all.
    """
    for layer in layers:
        if not -num_layers <= layer <= num_layers:
            what = f"no layer {layer}: there are 1 to {num_layers}, and -1 to -{num_layers} from the last"
            raise InputError(what, where="layers", remedy="0 is the table of word embeddings")
    resolved = tuple(layer if layer >= 0 else num_layers + 1 + layer for layer in layers)
    if not resolved or len(set(resolved)) < len(resolved):
        what = "a layer is named twice" if resolved else "no layer is named"
        raise InputError(what, where="layers")
    return resolved


def _resolve_length(config: EmbeddingConfig, stored: VectorSettings, positions: int) -> int:
    length = config.max_seq_length or stored.max_seq_length or positions
    if config.max_seq_length is not None and not 3 <= config.max_seq_length <= positions:
        what = f"{config.max_seq_length} is not in 3..{positions}, the positions of the model"
        raise InputError(what, where="max_seq_length")
    return min(length, positions)
