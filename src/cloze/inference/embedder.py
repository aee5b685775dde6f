"""Embed texts and their words with any BERT encoder.

Shapes: T tokens in the packed batch, N texts, L tokens of a text, W words of a text, B sequences, D width of a vector.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cloze.arguments import check_texts, check_type, iterate, iterate_texts
from cloze.config import check_types
from cloze.data.batch import PackedBatch, collate
from cloze.errors import InputError
from cloze.inference.loading import Checkpoint, LoadedModel
from cloze.inference.long_texts import half_overlapping, join_tokens
from cloze.models.batch import to_device
from cloze.models.checkpoint import save_model
from cloze.models.encoder import Encoder, EncoderOutput
from cloze.models.heads import BertForFeatureExtraction
from cloze.models.pooling import POOLINGS, Pooling, check_pooling, pool, pool_weighted
from cloze.models.sentence_transformers import (
    SentenceEncoderConfig,
    load_sentence_encoder_config,
    save_sentence_encoder_config,
)
from cloze.tasks.batches import batch_by_length, inference_batch_tokens
from cloze.tasks.features import LongTexts
from cloze.tokenization.tokenizer import Encoding, Tokenizer
from cloze.tokenization.unicode import replace_lone_surrogates
from cloze.training.precision import InferencePrecision

Vectors: TypeAlias = npt.NDArray[np.float32]
Ids: TypeAlias = npt.NDArray[np.uint32]
EmbeddingPooling: TypeAlias = Pooling | Literal["idf_mean"]
"""How token vectors become one; `idf_mean` weights each token by its inverse document frequency."""
Combine: TypeAlias = Literal["sum", "concat"]

_TEXTS_PER_COUNT = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddingConfig:
    """Which vectors an `Embedder` returns. None follows the files of sentence-transformers in the checkpoint."""

    pooling: EmbeddingPooling | None = None
    """How the vectors of all tokens, [CLS] and [SEP] included, become one; by default the mean."""
    layers: tuple[int, ...] = (-1,)
    """Layers, 1 being the first and -1 the last; 0 is the rows of the word-embedding table, without position or
    context."""
    combine: Combine = "sum"
    """How several layers are combined, token by token."""
    normalize: bool | None = None
    """Whether vectors are scaled to length 1; by default they are not."""
    max_seq_length: int | None = None
    """Maximum number of tokens of a text; by default the positions of the model."""
    long_texts: LongTexts = "truncate"
    """Truncate a longer text, or read it in windows that overlap by half and take the mean of their vectors."""
    prompt: str | None = None
    """Name of a prompt of the checkpoint that is prepended to each text."""
    precision: InferencePrecision | None = None
    """Number format of matrix products; by default float32, or int8 for the directory of an int8 model."""

    def __post_init__(self) -> None:
        choices = (*POOLINGS, "idf_mean")
        if isinstance(self.pooling, str) and self.pooling not in choices:
            remedy = f"Choose from {', '.join(choices)}"
            raise InputError(f"no pooling {self.pooling!r}", where="pooling", remedy=remedy)
        check_types(self)


@dataclass(frozen=True, slots=True)
class EmbeddingResult:
    """The vectors of texts."""

    vectors: Vectors
    """[N, D]."""
    num_truncated: int
    """Number of texts longer than `max_seq_length`."""


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


@dataclass(frozen=True, repr=False)
class Embedder(LoadedModel):
    """An encoder, and how its token vectors become vectors of texts and words.

    >>> import cloze
    >>> embedder = cloze.Embedder.load("model")  # doctest: +SKIP
    >>> embedder(["A dog runs.", "Stocks fell."]).shape  # doctest: +SKIP
    (2, 384)
    """

    model: Encoder
    tokenizer: Tokenizer
    pooling: EmbeddingPooling
    layers: tuple[int, ...]
    """From 0, the word-embedding table, to the last."""
    combine: Combine
    normalize: bool
    max_seq_length: int
    prompt: str
    """Prepended to each text."""
    idf: Vectors | None = None
    """The weight of each token for `idf_mean`; `with_idf` computes it."""
    long_texts: LongTexts = "truncate"
    """Whether texts of more than `max_seq_length` tokens are truncated or read in windows."""
    truncate_dim: int | None = None
    """Number of dimensions kept of the vector of a text, after it is normalized; None keeps all."""
    stored: SentenceEncoderConfig | None = None
    """The settings of sentence-transformers in the checkpoint."""
    directory: Path | None = None

    @classmethod
    def load(
        cls,
        directory: Path | str | Checkpoint,
        config: EmbeddingConfig | None = None,
        *,
        device: str = "auto",
    ) -> "Embedder":
        """Load the encoder of a checkpoint, or of the best checkpoint of a run.

        Args:
            directory: a checkpoint of cloze, Hugging Face or sentence-transformers, with or without a head.
            config: which vectors to return; by default those that the checkpoint defines.
            device: cpu, cuda, mps or auto.

        Raises:
            InputError: there is no such model, layer or prompt.
        """
        config = EmbeddingConfig() if config is None else config
        check_type(config, EmbeddingConfig, "config", remedy="Give a cloze.EmbeddingConfig")
        checkpoint = Checkpoint.open(directory, precision=config.precision)
        path = checkpoint.directory
        stored = load_sentence_encoder_config(path) or SentenceEncoderConfig(
            pooling="mean", normalize=False, max_seq_length=None
        )
        # this head does not use the pooler, which many checkpoints lack
        model: Encoder = checkpoint.load_model(BertForFeatureExtraction, device=device).bert
        tokenizer = checkpoint.tokenizer
        if tokenizer.vocab_size > model.config.vocab_size:
            what = f"{tokenizer.vocab_size:,} tokens, the model has {model.config.vocab_size:,} embeddings"
            raise InputError(what, where=path, remedy="The files belong to different models")
        pooling = config.pooling or stored.pooling
        check_pooling(pooling, model)
        return cls(
            model=model,
            tokenizer=tokenizer,
            pooling=pooling,
            layers=_resolve_layers(config.layers, model.config.num_hidden_layers),
            combine=config.combine,
            normalize=stored.normalize if config.normalize is None else config.normalize,
            max_seq_length=_resolve_length(config, stored, model.config.max_position_embeddings),
            prompt=stored.prompt(config.prompt, where=path),
            long_texts=config.long_texts,
            truncate_dim=stored.truncate_dim if config.layers == (-1,) else None,
            stored=stored,
            directory=path,
        )

    def with_idf(self, texts: Iterable[str]) -> "Embedder":
        """Return an embedder with token weights for `idf_mean`: ln((1 + texts) / (1 + texts with the token)).

        [CLS] and [SEP] get weight 0.

        Source:
            Zhang et al. 2020 (BERTScore), 3.

        Differs:
            The logarithm is of the whole quotient, so that a token of all texts, or of the prompt, has weight 0.
        """
        vocab_size, count = self.tokenizer.vocab_size, 0
        num_texts_V = np.zeros(vocab_size, np.int64)
        remaining = iterate_texts(texts)
        while part := list(islice(remaining, _TEXTS_PER_COUNT)):
            distinct_ids = np.concatenate([np.unique(ids) for ids in self.token_ids(part)])
            num_texts_V += np.bincount(distinct_ids, minlength=vocab_size)
            count += len(part)
        idf = np.log((1 + count) / (1 + num_texts_V)).astype(np.float32)
        idf[[self.tokenizer.cls_id, self.tokenizer.sep_id]] = 0
        return replace(self, idf=idf)

    @property
    def width(self) -> int:
        """Width of the vector of a text, D."""
        width = self.model.config.hidden_size * (len(self.layers) if self.combine == "concat" else 1)
        return width if self.truncate_dim is None else min(self.truncate_dim, width)

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def __call__(self, texts: str | Sequence[str]) -> Vectors:
        """Return a vector for each text, [N, D], or for one text, [D]; `long_texts` says what is done with long ones.

        >>> import cloze
        >>> embedder = cloze.Embedder.load("cloze-mini")
        >>> embedder("A man plays the guitar.").shape, embedder(["A man plays.", "Snow fell."]).shape
        ((256,), (2, 256))
        """
        if isinstance(texts, str):
            vector: Vectors = self.embed([texts]).vectors[0]
            return vector
        return self.embed(texts).vectors

    def embed(self, texts: Sequence[str]) -> EmbeddingResult:
        """Return a vector for each text, and the number of truncated texts.

        Raises:
            InputError: `texts` is a str, or the pooling is idf_mean and `with_idf` was not called.
        """
        return self.embed_token_ids(self.token_ids(texts))

    @torch.inference_mode()
    def embed_token_ids(self, token_ids: Sequence[npt.ArrayLike]) -> EmbeddingResult:
        """Return a vector for each text, given its token ids without [CLS] and [SEP]; raises as `embed`."""
        token_ids = [
            self._check_ids(ids, f"token_ids[{number}]")
            for number, ids in enumerate(iterate(token_ids, "token_ids", "list of token id"))
        ]
        num_long = sum(map(self._is_long, token_ids))
        if self.long_texts == "truncate" or not num_long:
            return EmbeddingResult(self._embed_windows(token_ids), num_long)
        of_text = [self._cut(np.asarray(ids, np.uint32)) for ids in token_ids]
        vectors = torch.from_numpy(self._embed_windows(list(chain.from_iterable(of_text))))
        groups = torch.split(vectors, list(map(len, of_text)))
        means = [group[0] if len(group) == 1 else self._normalize(group.mean(0)) for group in groups]
        return EmbeddingResult(torch.stack(means).numpy(), 0)

    def _embed_windows(self, token_ids: Sequence[npt.ArrayLike]) -> Vectors:
        """Return a vector for each window, which is truncated if it is too long."""
        pooled = [(indices, self._pool(batch)) for indices, batch in self._batches(token_ids)]
        vectors = np.empty((len(token_ids), self.width), np.float32)
        # copy at the end, so that the device does not wait after each batch
        for indices, vectors_BD in pooled:
            vectors[indices] = vectors_BD[:, : self.width].cpu().numpy()
        return vectors

    def _cut(self, ids: Ids) -> list[Ids]:
        """Return the windows of a text, each after the prompt."""
        prompt = self.tokenizer.ids([self.prompt])[0] if self.prompt else np.zeros(0, np.uint32)
        if not np.array_equal(prompt, ids[: len(prompt)]):
            prompt = prompt[:0]  # its last token is joined with the text
        size = self.max_seq_length - 2 - len(prompt)
        if size < 1:
            what = f"the prompt has {len(prompt)} tokens, max_seq_length is {self.max_seq_length}"
            raise InputError(what, where="prompt", remedy="Raise max_seq_length")
        text = ids[len(prompt) :]
        return [np.concatenate([prompt, text[window]]) for window in half_overlapping(len(text), size)]

    def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        """Return the vectors of all tokens of each text, [CLS], prompt and [SEP] included, [L, D].

        They are not normalized, unlike those of texts and words.
        """
        return self.embed_tokens_of_ids(self.token_ids(texts))

    def embed_tokens_of_ids(self, token_ids: Sequence[npt.ArrayLike]) -> list[Vectors]:
        """Return the same, given the token ids of each text without [CLS] and [SEP]."""
        return [hidden_LD.numpy() for hidden_LD in self._hidden_states(token_ids)]

    @torch.inference_mode()
    def words(self, texts: Sequence[str]) -> list[WordVectors]:
        """Return the words of each text with their vectors: the mean over the tokens of a word.

        A word is what the tokenizer splits into tokens: "it's" is three words, a Chinese character is one. Words of
        the prompt and those beyond `max_seq_length` are omitted.

        Raises:
            InputError: `texts` is a str.
        """
        texts = check_texts(texts)
        encodings = [self.tokenizer.encode(self.prompt + text) for text in texts]
        ids = [encoding.input_ids[1:-1] for encoding in encodings]
        results = []
        for text, encoding, own_ids, hidden_LD in zip(
            texts, encodings, ids, self._hidden_states(ids), strict=True
        ):
            words, vectors = self._pool_words(encoding, hidden_LD[1:-1], text)
            is_truncated = self.long_texts == "truncate" and self._is_long(own_ids)
            results.append(WordVectors(words, vectors, is_truncated))
        return results

    def token_ids(self, texts: Sequence[str]) -> list[Ids]:
        """Return the token ids of each text and its prompt, without [CLS] and [SEP]. Not thread-safe."""
        texts = [replace_lone_surrogates(self.prompt + text) for text in check_texts(texts)]
        flat_ids, lengths = self.tokenizer.ids(texts)
        ends = np.cumsum(lengths)
        token_ids = [flat_ids[end - length : end] for length, end in zip(lengths, ends, strict=True)]
        for i, text in enumerate(texts):
            # `ids` takes special tokens as plain text
            if self.tokenizer.may_have_special_tokens(text):
                token_ids[i] = np.array(self.tokenizer.encode(text).input_ids[1:-1], np.uint32)
        return token_ids

    def _check_ids(self, ids: npt.ArrayLike, name: str) -> Ids:
        try:
            ids_L = np.asarray(ids)
        except (TypeError, ValueError):
            ids_L = np.empty(())
        limit = self.tokenizer.vocab_size
        if ids_L.ndim == 1 and not ids_L.size:
            return ids_L.astype(np.uint32)
        if ids_L.ndim != 1 or ids_L.dtype.kind not in "iu" or not 0 <= ids_L.min() <= ids_L.max() < limit:
            remedy = "Give those of tokenizer.encode(text).input_ids[1:-1]"
            raise InputError(f"{name} is no list of token ids from 0 to {limit - 1}", remedy=remedy)
        return ids_L.astype(np.uint32)

    def _facts(self) -> list[str]:
        return [f"width {self.width}"]

    def _write(self, directory: Path) -> None:
        is_last_layer = self.layers == (self.model.config.num_hidden_layers,)
        if not is_last_layer or self.pooling == "idf_mean" or self.model.autocast_dtype:
            what = "only the last layer, other poolings than idf_mean, and float32 can be saved"
            raise InputError(what, where="embedder", remedy="Save one that was loaded with these settings")
        save_model(directory, BertForFeatureExtraction(self.model), self.tokenizer)
        config = SentenceEncoderConfig(
            pooling=self.pooling,
            normalize=self.normalize,
            max_seq_length=self.max_seq_length,
            prompts={"default": self.prompt} if self.prompt else {},
            default_prompt_name="default" if self.prompt else None,
            truncate_dim=self.truncate_dim,
            other={} if self.stored is None else self.stored.other,
        )
        save_sentence_encoder_config(directory, config, hidden_size=self.model.config.hidden_size)

    def _is_long(self, ids: npt.ArrayLike) -> bool:
        return len(np.asarray(ids)) > self.max_seq_length - 2

    def _batches(
        self, token_ids: Sequence[npt.ArrayLike]
    ) -> Iterator[tuple[npt.NDArray[np.int64], PackedBatch]]:
        """Yield [CLS] ids [SEP] of each text, truncated, in batches of like lengths, after the numbers of the texts."""
        keep = self.max_seq_length - 2
        cls, sep = [self.tokenizer.cls_id], [self.tokenizer.sep_id]
        sequences = [
            np.concatenate([cls, np.asarray(ids, np.uint32)[:keep], sep]).astype(np.uint32)
            for ids in token_ids
        ]
        max_tokens = inference_batch_tokens(self.device)
        for indices in batch_by_length(list(map(len, sequences)), max_tokens):
            yield indices, to_device(collate([sequences[i] for i in indices]), self.device)

    @torch.inference_mode()
    def _hidden_states(self, token_ids: Sequence[npt.ArrayLike]) -> list[Tensor]:
        """Return the vectors of all tokens of each text, [L, D] in float32 on the CPU."""
        if self.long_texts == "windows" and any(map(self._is_long, token_ids)):
            size = self.max_seq_length - 2
            windows = [half_overlapping(len(np.asarray(ids)), size) for ids in token_ids]
            flat = [
                np.asarray(ids)[window]
                for ids, of_text in zip(token_ids, windows, strict=True)
                for window in of_text
            ]
            remaining = iter(replace(self, long_texts="truncate")._hidden_states(flat))
            return [join_tokens(list(islice(remaining, len(of_text))), of_text) for of_text in windows]
        hidden_of_text: dict[int, Tensor] = {}
        for indices, batch in self._batches(token_ids):
            hidden = torch.split(self._encode(batch).cpu(), batch.cu_seqlens.diff().tolist())
            hidden_of_text.update(zip(indices.tolist(), hidden, strict=True))
        return [hidden_of_text[i] for i in range(len(token_ids))]

    def _pool(self, batch: PackedBatch) -> Tensor:
        """Return the vectors of a batch's sequences, [B, D]."""
        hidden_TD = self._encode(batch)
        if self.pooling != "idf_mean":
            return self._normalize(pool(hidden_TD, batch, self.pooling))
        if self.idf is None:
            remedy = "Call embedder.with_idf(texts) first"
            raise InputError("the token weights are not computed", where="idf_mean", remedy=remedy)
        idf_V = torch.from_numpy(self.idf).to(self.device)
        return self._normalize(pool_weighted(hidden_TD, idf_V[batch.input_ids], batch))

    def _pool_words(self, encoding: Encoding, hidden: Tensor, text: str) -> tuple[tuple[Word, ...], Vectors]:
        """Return the words of a text with their vectors, from those of its tokens without [CLS] and [SEP], [L, D]."""
        count = len(hidden)
        starts_word_L = ~self.tokenizer.is_continuation[encoding.input_ids[1 : count + 1]]
        starts_word_L[:1] = True  # byte-level tokenizers mark the space before a word alone
        first_W = np.flatnonzero(starts_word_L)
        offsets_L2 = np.array(encoding.offsets[1 : count + 1]).reshape(-1, 2) - len(self.prompt)
        starts, ends = offsets_L2[first_W, 0], offsets_L2[np.append(first_W, count)[1:] - 1, 1]
        in_text = np.flatnonzero(starts >= 0)
        word_of_token_L = torch.from_numpy(starts_word_L.cumsum() - 1)
        sums_WD = torch.zeros(len(first_W), hidden.shape[1]).index_add_(0, word_of_token_L, hidden)
        means_WD = sums_WD / torch.bincount(word_of_token_L, minlength=len(first_W)).unsqueeze(1)
        spans = zip(starts[in_text].tolist(), ends[in_text].tolist(), strict=True)
        words = tuple(Word(text[start:end], start, end) for start, end in spans)
        return words, self._normalize(means_WD[in_text]).numpy()

    def _encode(self, batch: PackedBatch) -> Tensor:
        """Return the requested layers, combined, [T, D] in float32."""
        if self.layers == (0,):
            return self._look_up(batch)
        all_layers = self.layers != (self.model.config.num_hidden_layers,)
        output: EncoderOutput = self.model(batch, output_hidden_states=all_layers)
        if not all_layers:
            return output.sequence_output
        hidden = [output.hidden_states[layer] if layer else self._look_up(batch) for layer in self.layers]
        return torch.cat(hidden, -1) if self.combine == "concat" else torch.stack(hidden).sum(0)

    def _look_up(self, batch: PackedBatch) -> Tensor:
        rows_TD: Tensor = self.model.embeddings.word_embeddings(batch.input_ids)
        return rows_TD.float()

    def _normalize(self, vectors: Tensor) -> Tensor:
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors


def _resolve_layers(layers: tuple[int, ...], num_layers: int) -> tuple[int, ...]:
    """Return non-negative numbers of layers.

    Raises:
        InputError: a layer does not exist or is repeated, or `layers` is empty.
    """
    for layer in layers:
        if not -num_layers <= layer <= num_layers:
            what = f"no layer {layer}: there are 1 to {num_layers}, and -1 to -{num_layers} from the last"
            raise InputError(what, where="layers", remedy="0 is the table of word embeddings")
    resolved = tuple(layer if layer >= 0 else num_layers + 1 + layer for layer in layers)
    if not resolved or len(set(resolved)) < len(resolved):
        what = "a layer is repeated" if resolved else "no layer is given"
        raise InputError(what, where="layers")
    return resolved


def _resolve_length(config: EmbeddingConfig, stored: SentenceEncoderConfig, positions: int) -> int:
    length = config.max_seq_length or stored.max_seq_length or positions
    if config.max_seq_length is not None and not 3 <= config.max_seq_length <= positions:
        what = f"{config.max_seq_length} is not in 3..{positions}, the positions of the model"
        raise InputError(what, where="max_seq_length")
    return min(length, positions)
