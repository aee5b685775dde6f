"""WordPiece tokenizer: text to token ids with offsets, and the files that every BERT tool reads.

The library `tokenizers` does the work, configured exactly as the `tokenizer.json` that `save` writes, so cloze,
transformers and `tokenizers.Tokenizer.from_file` return the same ids. Google's own Python tokenizer, which differs for
rare Unicode, is `cloze.tokenization.google_tokenizer`.
"""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from cloze.arguments import check_integer, check_integers, check_path, check_text, check_texts
from cloze.artifacts import MANIFEST, verify
from cloze.errors import InputError
from cloze.file_io import disk_errors, read_json
from cloze.model_paths import resolve_checkpoint
from cloze.tokenization.google_tokenizer import GoogleTokenizer
from cloze.tokenization.special_tokens import CLS, CONTINUATION, MASK, PAD, SEP, SPECIAL_TOKENS, UNK
from cloze.tokenization.template import Template
from cloze.tokenization.unicode import replace_lone_surrogates
from cloze.tokenization.vocabulary import (
    check_vocabulary,
    count_embeddings,
    keep_ids,
    read_vocabulary,
    warn_of_missing_tokens,
)
from cloze.tokenization.word_cache import WordCache

VOCAB_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
ADDED_TOKENS_FILE = "added_tokens.json"
"""Tokens beyond `vocab.txt`, in directories of transformers without a `tokenizer.json`."""
_ADDED_TOKENS_KEY = "added_tokens_decoder"
"""The same in `tokenizer_config.json`, by id."""
MAX_INPUT_CHARS_PER_WORD = 100
"""Longer words become [UNK]. Differs: 200 in Google's code; BERT's published tokenizer.json files all have 100."""

TruncationSide: TypeAlias = Literal["left", "right"]
"""Where a long text loses tokens, in the words of transformers."""

MAX_WORD_LIMIT = 1_000_000
"""Largest limit of a word's characters."""
_MAX_WORD_KEY = "max_input_chars_per_word"
_DEFAULT_MODEL_MAX_LENGTH = 512
_MAX_MODEL_MAX_LENGTH = 1_000_000  # transformers writes 10**30 if there is no limit
_REMEDY = "Copy or write it again"


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


class AddedToken(NamedTuple):
    """A token that is matched as a whole, before the text is split into words, with the flags of transformers."""

    content: str
    special: bool = True
    """Whether it is like [MASK]; special tokens are not matched in a corpus."""
    normalized: bool = False
    """Match it in the normalized text, where an uncased tokenizer finds it in capitals, too."""
    single_word: bool = False
    """Match it only between characters that are not of a word."""
    lstrip: bool = False
    """Take the white space before it, too."""
    rstrip: bool = False
    in_wordpiece: bool = True
    """Whether WordPiece has the token, too, and finds it at the start of a longer word."""

    @classmethod
    def parse(cls, table: dict[str, Any], vocabulary: Container[str]) -> "AddedToken":
        """Read an entry of `tokenizer.json` or `tokenizer_config.json`."""
        content, special = str(table["content"]), bool(table["special"])
        flags = {flag: bool(table.get(flag, False)) for flag in ("single_word", "lstrip", "rstrip")}
        normalized = bool(table.get("normalized", not special))
        return cls(content, special, normalized, **flags, in_wordpiece=content in vocabulary)

    def to_library(self) -> tokenizers.AddedToken:
        """Return the same token for the library `tokenizers`."""
        flags = self._asdict()
        del flags["in_wordpiece"]
        return tokenizers.AddedToken(**flags)


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
    model_max_length: int = _DEFAULT_MODEL_MAX_LENGTH
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
        if (directory / MANIFEST).exists():
            verify(directory, names=(VOCAB_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE))
        config = _read_if_exists(directory / TOKENIZER_CONFIG_FILE) or {}
        model_max_length = config.get("model_max_length")
        if not isinstance(model_max_length, int) or not 0 < model_max_length <= _MAX_MODEL_MAX_LENGTH:
            model_max_length = _DEFAULT_MODEL_MAX_LENGTH
        file = directory / TOKENIZER_FILE
        library_json = _read_if_exists(file)
        if library_json is None and not (directory / VOCAB_FILE).exists():
            what = f"no tokenizer: neither {TOKENIZER_FILE} nor {VOCAB_FILE}"
            raise InputError(what, where=directory, remedy="Give the directory of a vocabulary or of a model")
        if library_json is not None and not _is_bert(library_json):
            from cloze.tokenization.library_tokenizer import LibraryTokenizer  # a subclass of this

            roles = _read_if_exists(directory / SPECIAL_TOKENS_FILE) or {}
            parse = LibraryTokenizer.parse
            return parse(library_json, roles | config, directory, model_max_length=model_max_length)
        try:
            if library_json is not None:
                settings = _parse_library_json(library_json, file)
            else:
                file = directory / (
                    TOKENIZER_CONFIG_FILE if _ADDED_TOKENS_KEY in config else ADDED_TOKENS_FILE
                )
                settings = _read_vocabulary_settings(directory, config, file)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"damaged ({error!r})", where=file, remedy=_REMEDY) from error
        for name, key in (("lowercase", "do_lower_case"), ("tokenize_chinese_chars",) * 2):
            settings[name] = bool(config.get(key, settings[name]))
        settings["strip_accents"] = _strip_accents(settings | config, directory / TOKENIZER_CONFIG_FILE)
        if not (directory / MANIFEST).exists():
            warn_of_missing_tokens(len(settings["tokens"]), directory)
        return cls(**settings, model_max_length=model_max_length)

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
            config[_MAX_WORD_KEY] = self.max_input_chars_per_word
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
                f"{ADDED_TOKENS_FILE}, and remove {_ADDED_TOKENS_KEY} from {TOKENIZER_CONFIG_FILE}"
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


def _read_if_exists(path: Path) -> dict[str, Any] | None:
    return read_json(path, remedy=_REMEDY) if path.exists() else None


def _read_vocabulary_settings(directory: Path, config: dict[str, Any], added_file: Path) -> dict[str, Any]:
    """Return the settings of a tokenizer that consists of `vocab.txt` and of the tokens added in another file."""
    tokens = read_vocabulary(directory / VOCAB_FILE)
    if added_file.name == TOKENIZER_CONFIG_FILE:
        added = [{"id": int(number), **token} for number, token in config[_ADDED_TOKENS_KEY].items()]
    else:
        numbers = (_read_if_exists(added_file) or {}).items()
        added = [{"id": id_, "content": token, "special": token in SPECIAL_TOKENS} for token, id_ in numbers]
    # The capitals of [CLS], [unused7] or <S> do not count.
    words = (token for token in tokens if token[0] + token[-1] not in ("[]", "<>"))
    return {
        **_add_tokens({token: number for number, token in enumerate(tokens)}, added, added_file),
        "lowercase": all(word == word.lower() for word in words),
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        _MAX_WORD_KEY: _max_word_chars(config, directory / TOKENIZER_CONFIG_FILE),
    }


def _is_bert(library: dict[str, Any]) -> bool:
    """Whether a `tokenizer.json` describes BERT's kind of tokenizer."""
    parts = (("model", "WordPiece"), ("normalizer", "BertNormalizer"), ("pre_tokenizer", "BertPreTokenizer"))
    tables = ((library.get(name) or {}, kind) for name, kind in parts)
    return all(
        not isinstance(table, dict) or table.get("type", "WordPiece") == kind for table, kind in tables
    )


def _max_word_chars(table: dict[str, Any], path: Path) -> int:
    limit = int(table.get(_MAX_WORD_KEY, MAX_INPUT_CHARS_PER_WORD))
    if not 0 < limit <= MAX_WORD_LIMIT:
        raise InputError(f"{_MAX_WORD_KEY} is {limit}, not in 1..{MAX_WORD_LIMIT:,}", where=path)
    return limit


def _parse_library_json(library: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the settings in a `tokenizer.json`, which must describe BERT's tokenizer and nothing else."""
    model, normalizer = library.get("model") or {}, library.get("normalizer") or {}
    pre_tokenizer = library.get("pre_tokenizer") or {}
    required = [
        ("model", model.get("type", "WordPiece"), "WordPiece"),
        ("unk_token", model.get("unk_token"), UNK),
        ("continuing_subword_prefix", model.get("continuing_subword_prefix"), CONTINUATION),
        ("normalizer", normalizer.get("type"), "BertNormalizer"),
        ("clean_text", normalizer.get("clean_text"), True),
        ("pre_tokenizer", pre_tokenizer.get("type"), "BertPreTokenizer"),
    ]
    for name, value, expected in required:
        if value != expected:
            what = f"not a BERT tokenizer: {name} is {value!r}, not {expected!r}"
            raise InputError(what, where=path, remedy="Use a model of BERT's family")
    return {
        **_add_tokens(dict(model.get("vocab") or {}), library.get("added_tokens") or [], path),
        "lowercase": bool(normalizer.get("lowercase", True)),
        "strip_accents": _strip_accents(normalizer, path),
        "tokenize_chinese_chars": bool(normalizer.get("handle_chinese_chars", True)),
        _MAX_WORD_KEY: _max_word_chars(model, path),
    }


def _add_tokens(vocabulary: dict[str, int], entries: Sequence[dict[str, Any]], path: Path) -> dict[str, Any]:
    """Return `tokens` and `added_tokens` for the vocabulary of WordPiece and the entries of added tokens."""
    entries = sorted(entries, key=lambda entry: int(entry["id"]))
    added = [AddedToken.parse(entry, vocabulary) for entry in entries]
    all_ids = vocabulary | {str(entry["content"]): entry["id"] for entry in entries}
    by_id = {number: token for token, number in all_ids.items()}
    size = max(by_id, default=-1) + 1
    if len(by_id) < len(all_ids) or size > max(len(by_id), count_embeddings(path.parent) or 0):
        raise InputError("the ids of the vocabulary have gaps or repeat", where=path, remedy=_REMEDY)
    tokens = keep_ids([by_id.get(number, "") for number in range(size)], path)
    check_vocabulary(tokens, where=path)
    if plain := [token.content for token in added if token.content in SPECIAL_TOKENS and not token.special]:
        remedy = 'Set its "special" to true'
        raise InputError(f"{plain[0]} is not marked as special", where=path, remedy=remedy)
    defaults = set(map(AddedToken, SPECIAL_TOKENS))
    return {"tokens": tuple(tokens), "added_tokens": tuple(token for token in added if token not in defaults)}


def _strip_accents(settings: dict[str, Any], path: Path) -> bool | None:
    value = settings.get("strip_accents")
    if value is not None and not isinstance(value, bool):
        raise InputError(f"strip_accents is {value!r}, not true, false or null", where=path)
    return value
