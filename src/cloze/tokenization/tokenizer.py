"""WordPiece tokenizer: text to token ids with offsets, and the files that every BERT tool reads.

The library `tokenizers` does the work, configured exactly as the `tokenizer.json` that `save` writes, so cloze,
transformers and `tokenizers.Tokenizer.from_file` return the same ids. Google's own Python tokenizer, which differs for
rare Unicode, is `cloze.tokenization.google_tokenizer`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from cloze.arguments import check_integer, check_integers, check_path, check_text, check_texts
from cloze.artifacts import MANIFEST, verify
from cloze.errors import InputError
from cloze.file_io import disk_errors
from cloze.model_paths import resolve_checkpoint
from cloze.tokenization.google_tokenizer import GoogleTokenizer
from cloze.tokenization.special_tokens import CLS, CONTINUATION, MASK, PAD, SEP, SPECIAL_TOKENS, UNK
from cloze.tokenization.template import Template
from cloze.tokenization.tokenizer_files import (
    ADDED_TOKENS_FILE,
    ADDED_TOKENS_KEY,
    DEFAULT_MODEL_MAX_LENGTH,
    MAX_INPUT_CHARS_PER_WORD,
    MAX_WORD_KEY,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    VOCAB_FILE,
    AddedToken,
    TokenizerFiles,
)
from cloze.tokenization.unicode import replace_lone_surrogates
from cloze.tokenization.vocabulary import check_vocabulary, warn_of_missing_tokens
from cloze.tokenization.word_cache import WordCache

TruncationSide: TypeAlias = Literal["left", "right"]
"""Where a long text loses tokens, in the words of transformers."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """Model input for a text or a pair of texts.

    `offsets` are (start, end) in characters of the original text, or of the pair where `token_type_ids` is 1;
    [CLS] and [SEP] have (0, 0).
    """

    input_ids: list[int]
    token_type_ids: list[int]
    offsets: list[tuple[int, int]]
    tokens: list[str]
    pair_start: int | None = None
    """The first token of the second text of a pair."""

    def __len__(self) -> int:
        return len(self.input_ids)


SpecialRole: TypeAlias = Literal["pad", "unk", "cls", "sep", "mask"]
"""The purpose of a special token."""
_SPECIAL: Mapping[SpecialRole, str] = MappingProxyType(
    {"pad": PAD, "unk": UNK, "cls": CLS, "sep": SEP, "mask": MASK}
)


def _id_of(role: SpecialRole) -> "cached_property[int]":
    return cached_property(lambda tokenizer: tokenizer.tokens.index(tokenizer.special_token(role)))


@dataclass(frozen=True)
class Tokenizer:
    """WordPiece tokenizer of BERT: cased or uncased, Chinese or multilingual.

    >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "token", "##ization", "is", "fun", "!"]
    >>> tokenizer = Tokenizer.from_tokens(vocabulary)
    >>> encoding = tokenizer.encode("Tokenization is [MASK]!")
    >>> encoding.tokens
    ['[CLS]', 'token', '##ization', 'is', '[MASK]', '!', '[SEP]']
    >>> encoding.input_ids
    [2, 5, 6, 7, 4, 9, 3]
    >>> encoding.offsets[1:3]
    [(0, 5), (5, 12)]
    >>> tokenizer.decode(encoding.input_ids[1:-1])
    'tokenization is [MASK]!'

    Args:
        tokens: the vocabulary; the id of a token is its index.
        lowercase: lower-case the text.
        strip_accents: remove accents; None removes them if the text is lower-cased, as Google's code does.
        tokenize_chinese_chars: make every Chinese character a word.
        model_max_length: positions of the model, written to `tokenizer_config.json`.
        added_tokens: tokens besides the five special ones that are matched as a whole in the text; a str is a special
            token, like [MASK].
        max_input_chars_per_word: longer words become [UNK].
    """

    tokens: tuple[str, ...] = field(repr=False)
    lowercase: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    model_max_length: int = DEFAULT_MODEL_MAX_LENGTH
    added_tokens: tuple[AddedToken, ...] = ()
    max_input_chars_per_word: int = MAX_INPUT_CHARS_PER_WORD

    def __post_init__(self) -> None:
        added: Iterable[AddedToken | str] = self.added_tokens
        tokens = tuple(AddedToken(token) if isinstance(token, str) else token for token in added)
        object.__setattr__(self, "added_tokens", tokens)

    @classmethod
    def from_tokens(cls, tokens: Sequence[str], **settings: Any) -> "Tokenizer":
        """Build a tokenizer from a vocabulary in memory, with other fields as keyword arguments.

        Raises:
            InputError: a token is repeated or a special token is missing.
        """
        tokens = check_texts(tokens, "tokens")
        check_vocabulary(tokens, where="vocabulary")
        return cls(tuple(tokens), **settings)

    @classmethod
    def load(cls, directory: Path | str) -> "Tokenizer":
        """Load a tokenizer from a directory of cloze or of any BERT tool, or that of a bundled model by its name.

        Reads `tokenizer.json` if it exists, else `vocab.txt`; one of another kind than BERT's is a `LibraryTokenizer`.
        As in transformers, case, accents and Chinese characters in `tokenizer_config.json` take precedence. With
        `vocab.txt` alone, text is lower-cased if no token has a capital letter.

        Raises:
            InputError: the files are missing or damaged, or the vocabulary lacks special tokens.
        """
        directory = resolve_checkpoint(check_path(directory, "directory"), files="tokenizer")
        if directory.is_file():
            raise InputError("is a file", where=directory, remedy="Give its directory")
        has_manifest = (directory / MANIFEST).exists()
        if has_manifest:
            verify(directory, names=(VOCAB_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE))
        files = TokenizerFiles.read(directory)
        if files.library is not None and not files.is_wordpiece:
            from cloze.tokenization.library_tokenizer import LibraryTokenizer  # a subclass of this

            return LibraryTokenizer.parse(
                files.library, files.read_roles(), directory, model_max_length=files.model_max_length
            )
        settings = files.wordpiece_settings()
        if not has_manifest:
            warn_of_missing_tokens(len(settings["tokens"]), directory)
        return cls(**settings, model_max_length=files.model_max_length)

    @classmethod
    def load_wordpiece(cls, directory: Path | str) -> "Tokenizer":
        """Load a tokenizer for building a vocabulary or a data set.

        Raises:
            InputError: as `load`, and for a tokenizer of another kind than BERT's.
        """
        tokenizer = cls.load(directory)
        if type(tokenizer) is not Tokenizer:
            what = (
                f"a tokenizer of the kind {tokenizer.kind}: vocabularies and data sets are BERT's WordPiece"
            )
            remedy = "Give the vocabulary of a BERT, or one that cloze vocab learned"
            raise InputError(what, where=directory, remedy=remedy)
        return tokenizer

    def save(self, directory: Path | str) -> None:
        """Write `vocab.txt`, `tokenizer.json` and `tokenizer_config.json` into an existing directory."""
        directory = check_path(directory, "directory")
        config = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": self.lowercase,
            "strip_accents": self.strip_accents,
            "tokenize_chinese_chars": self.tokenize_chinese_chars,
            "model_max_length": self.model_max_length,
            "pad_token": PAD,
            "unk_token": UNK,
            "cls_token": CLS,
            "sep_token": SEP,
            "mask_token": MASK,
        }
        if self.max_input_chars_per_word != MAX_INPUT_CHARS_PER_WORD:
            config[MAX_WORD_KEY] = self.max_input_chars_per_word
        files = {
            VOCAB_FILE: "".join(f"{token}\n" for token in self.tokens),
            TOKENIZER_FILE: self._backend.to_str(pretty=True) + "\n",
            TOKENIZER_CONFIG_FILE: json.dumps(config, indent=2) + "\n",
        }
        with disk_errors(directory):
            for name, text in files.items():
                (directory / name).write_text(text, encoding="utf-8", newline="\n")

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    pad_id, unk_id, cls_id, sep_id, mask_id = map(_id_of, _SPECIAL)
    """Ids of the special tokens."""

    @property
    def unknown_id(self) -> int | None:
        """The id of the token for unknown words; None without one, as where bytes are tokens."""
        return self.unk_id

    @property
    def kind(self) -> str:
        """WordPiece; another one is of `LibraryTokenizer`."""
        return "WordPiece"

    def special_token(self, role: SpecialRole) -> str:
        """Return a special token, such as [MASK]."""
        return _SPECIAL[role]

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of [PAD], [UNK], [CLS], [SEP] and [MASK]."""
        return frozenset((self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id))

    def may_have_special_tokens(self, text: str) -> bool:
        """Whether `encode` may find special or added tokens in a text, which `ids` takes as plain text."""
        return bool(self.added_tokens) or any(token in text for token in SPECIAL_TOKENS)

    def template(self, *, is_pair: bool) -> Template:
        """Return the special tokens around a text or around a pair."""
        return self._templates[is_pair]

    def join(self, ids: Sequence[int], pair_ids: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """Put special tokens around the token ids of a text or a pair; return `input_ids` and `token_type_ids`."""
        template = self.template(is_pair=pair_ids is not None)
        texts = [ids] if pair_ids is None else [ids, pair_ids]
        return template.join(texts, int), template.token_type_ids(list(map(len, texts)))

    @property
    def added_words(self) -> list[str]:
        """The added tokens that are not special."""
        return [token.content for token in self.added_tokens if not token.special]

    @cached_property
    def is_continuation(self) -> npt.NDArray[np.bool_]:
        """Whether each token continues a word ("##"); [vocab_size]."""
        return np.array([token.startswith(CONTINUATION) for token in self.tokens])

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        max_length: int | None = None,
        truncation_side: TruncationSide = "right",
    ) -> Encoding:
        """Tokenize a text or a pair, and add [CLS] and [SEP].

        [MASK] and the other special tokens are recognized in the text. Lone surrogates are skipped, like control
        characters.

        Args:
            text: the first text.
            pair: the second text; None for a single text.
            max_length: maximum number of tokens including [CLS] and [SEP]. Longer inputs lose tokens of the longer
                text first (of the pair if both are equally long). None keeps all tokens.
            truncation_side: whether texts lose tokens at their end or at their start.

        Raises:
            InputError: a text is no str, or `max_length` is too small for [CLS] and [SEP].
        """
        texts = [check_text(text)] if pair is None else [check_text(text), check_text(pair, "pair")]
        segments = [
            self._backend.encode(replace_lone_surrogates(text), add_special_tokens=False) for text in texts
        ]
        lengths = [len(segment) for segment in segments]
        template = self.template(is_pair=pair is not None)
        if max_length is not None:
            max_length = check_integer(max_length, "max_length", minimum=0)
            num_special = template.num_special
            if max_length < num_special:
                what = f"max_length {max_length} has no room for the {num_special} special tokens"
                raise InputError(what, where="max_length")
            lengths = _truncate_longest_first(lengths, max_length - num_special)
        kept = [
            slice(n) if truncation_side == "right" else slice(len(segment) - n, None)
            for segment, n in zip(segments, lengths, strict=True)
        ]
        offsets = map(self._offsets, texts, segments)
        return Encoding(
            template.join([segment.ids[part] for segment, part in zip(segments, kept, strict=True)], int),
            template.token_type_ids(lengths),
            template.join([spans[part] for spans, part in zip(offsets, kept, strict=True)], lambda _: (0, 0)),
            template.join(
                [segment.tokens[part] for segment, part in zip(segments, kept, strict=True)],
                self.tokens.__getitem__,
            ),
            None if pair is None else len(template.special_ids[0] + template.special_ids[1]) + lengths[0],
        )

    def ids(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Tokenize many texts at once, without [CLS] and [SEP], as for a corpus.

        The ids are those of `tokenizer.json`, except that special tokens in the text ("[MASK]") are plain text, so
        that a corpus cannot contain them. Words are cached between calls, if no words are added to the vocabulary.
        Not thread-safe.

        Shapes: ids [T] of all texts end to end; lengths [number of texts], which sum to T.
        """
        texts = check_texts(texts)
        if self._caches_words:
            return self._word_cache.ids(texts)
        texts = [replace_lone_surrogates(text) for text in texts]
        ids = [text.ids for text in self._corpus_backend.encode_batch(texts, add_special_tokens=False)]
        lengths = np.array([len(text_ids) for text_ids in ids], np.int64)
        return np.fromiter(chain.from_iterable(ids), np.uint32, int(lengths.sum())), lengths

    def word_ids(self, words: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Tokenize the words of a text; returns as `ids`."""
        return self.ids(words)

    def text_of(self, token_id: int) -> str:
        """Return the text of a token, for people to read."""
        return self.tokens[token_id]

    def starts(self, text: str) -> list[int]:
        """Return the first character of each token that `ids` returns for a text."""
        encoding = self._corpus_backend.encode(replace_lone_surrogates(text), add_special_tokens=False)
        return [start for start, _ in encoding.offsets]

    def decode(self, ids: Sequence[int]) -> str:
        """Join tokens to text: "##" tokens to the word before them, no space before a period.

        Raises:
            InputError: an id is no integer, or not in the vocabulary.
        """
        numbers = check_integers(ids, "ids", minimum=0, maximum=self.vocab_size - 1)
        text: str = self._backend.decoder.decode([self.tokens[number] for number in numbers])
        return text

    @cached_property
    def google_tokenizer(self) -> GoogleTokenizer:
        """Google's own tokenizer with the same vocabulary: slow, and exact for every text.

        Raises:
            InputError: words are added to the vocabulary, which it does not know.
        """
        if self.added_words:
            what = (
                f"adds the words {', '.join(self.added_words[:5])}, which question answering does not match"
            )
            remedy = (
                f"Write all tokens to {VOCAB_FILE}, in order of their ids, delete {TOKENIZER_FILE} and "
                f"{ADDED_TOKENS_FILE}, and remove {ADDED_TOKENS_KEY} from {TOKENIZER_CONFIG_FILE}"
            )
            raise InputError(what, where="tokenizer", remedy=remedy)
        return GoogleTokenizer(
            self.tokens, lowercase=self.lowercase, strip_accents=self.strip_accents is not False
        )

    @cached_property
    def _backend(self) -> tokenizers.Tokenizer:
        """The tokenizer that `tokenizer.json` describes."""
        backend = self.build_backend()
        added = {token: AddedToken(token) for token in SPECIAL_TOKENS}
        added |= {token.content: token for token in self.added_tokens}
        # in the order of their ids, which the library counts up
        for token in sorted(added.values(), key=lambda token: self.tokens.index(token.content)):
            add = backend.add_special_tokens if token.special else backend.add_tokens
            add([token.to_library()])
        backend.post_processor = processors.TemplateProcessing(
            single=f"{CLS}:0 $A:0 {SEP}:0",
            pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
            special_tokens=[(CLS, self.cls_id), (SEP, self.sep_id)],
        )
        backend.decoder = decoders.WordPiece(prefix=CONTINUATION)
        return backend

    @cached_property
    def _templates(self) -> tuple[Template, Template]:
        """The templates of one text and of two."""
        cls, sep = (self.cls_id,), (self.sep_id,)
        pair = Template((cls, sep, sep), ((0,), (0,), (1,)), (0, 1))
        return Template((cls, sep), ((0,), (0,)), (0,)), pair

    def _offsets(self, text: str, encoding: tokenizers.Encoding) -> list[tuple[int, int]]:
        """Return the characters of each token of a text."""
        offsets: list[tuple[int, int]] = encoding.offsets
        return offsets

    @property
    def _caches_words(self) -> bool:
        """Whether `ids` caches words, which a tokenizer with added words cannot."""
        return not self.added_words

    @cached_property
    def _corpus_backend(self) -> tokenizers.Tokenizer:
        """The same, but special tokens are plain text."""
        backend = tokenizers.Tokenizer.from_str(self._backend.to_str())
        backend.encode_special_tokens = True
        return backend

    @cached_property
    def _word_cache(self) -> WordCache:
        return WordCache(self.build_backend())

    def build_backend(self) -> tokenizers.Tokenizer:
        """Return the same tokenizer of the library `tokenizers`, but without special and added tokens."""
        only_added = {token.content for token in self.added_tokens if not token.in_wordpiece}
        num_wordpiece_tokens = len(self.tokens)  # the library numbers other tokens after them
        while num_wordpiece_tokens and self.tokens[num_wordpiece_tokens - 1] in only_added:
            num_wordpiece_tokens -= 1
        model = models.WordPiece(
            {token: index for index, token in enumerate(self.tokens[:num_wordpiece_tokens])},
            unk_token=UNK,
            max_input_chars_per_word=self.max_input_chars_per_word,
        )
        backend = tokenizers.Tokenizer(model)
        backend.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.tokenize_chinese_chars,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return backend

    def __getstate__(self) -> dict[str, object]:
        """Pickle the fields only, without what is derived from them."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def _truncate_longest_first(lengths: list[int], budget: int) -> list[int]:
    """Return the lengths of one or two texts after truncation; of equally long texts, the second is cut.

    Source: google-research/bert run_classifier.py `_truncate_seq_pair` @eedf571, without its loop.
    """
    if sum(lengths) <= budget:
        return lengths
    if len(lengths) == 1:
        return [budget]
    first, second = lengths
    first_kept = min(first, max((budget + 1) // 2, budget - second))
    return [first_kept, budget - first_kept]
