"""The files of a tokenizer, and the settings of a WordPiece tokenizer that they contain.

| file | has |
|---|---|
| `tokenizer.json` | everything, for the library `tokenizers` |
| `vocab.txt` | the vocabulary, in the order of ids |
| `tokenizer_config.json` | case, accents, Chinese characters and special tokens; of old models also added tokens |
| `special_tokens_map.json`, `added_tokens.json` | the same in files of their own |
"""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from cloze.errors import InputError
from cloze.file_io import check_values, read_json
from cloze.file_names import (
    ADDED_TOKENS_FILE,
    CONFIG_FILE,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    VOCAB_FILE,
)
from cloze.tokenization.library_limits import check_library_json
from cloze.tokenization.special_tokens import CLS, CONTINUATION, ROLES, SEP, SPECIAL_TOKENS, UNK
from cloze.tokenization.tokenizer_class import (
    BERT_CLASSES,
    GENERIC_CLASSES,
    GENERIC_REMEDY,
    MAX_INPUT_CHARS_PER_WORD,
    feeds_segments,
    read_class,
)
from cloze.tokenization.vocabulary import check_vocabulary, count_embeddings, keep_ids, read_vocabulary

ADDED_TOKENS_KEY = "added_tokens_decoder"
"""The key of added tokens in `tokenizer_config.json`, by id."""
MAX_WORD_LIMIT = 1_000_000
"""Largest limit of a word's characters."""
MAX_WORD_KEY = "max_input_chars_per_word"
DEFAULT_MODEL_MAX_LENGTH = 512
_MAX_MODEL_MAX_LENGTH = 1_000_000  # transformers writes 10**30 if there is no limit
DAMAGED_REMEDY = "Copy or write it again"
_NORMALIZER_KEYS = {
    "lowercase": "do_lower_case",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "tokenize_chinese_chars",
}
"""The settings in `tokenizer_config.json`, by the fields of the tokenizer."""


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
        content, special = str(table["content"]), bool(table["special"])
        flags = {flag: bool(table.get(flag, False)) for flag in ("single_word", "lstrip", "rstrip")}
        normalized = bool(table.get("normalized", not special))
        return cls(content, special, normalized, **flags, in_wordpiece=content in vocabulary)


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """The contents of the files of a tokenizer, but for `vocab.txt`."""

    directory: Path
    config: dict[str, Any]
    """`tokenizer_config.json`; empty without that file."""
    roles: dict[str, Any]
    """The same with the special tokens of another file."""
    library: dict[str, Any] | None
    """`tokenizer.json`."""
    tokenizer_class: str | None
    """The class that transformers chooses."""
    feeds_segments: bool
    """Whether the model gets the segments of the texts of a pair."""

    @classmethod
    def read(cls, directory: Path) -> "TokenizerFiles":
        """Read the files of a directory; refuse rules that may make a text grow without end."""
        config = _read_if_exists(directory / TOKENIZER_CONFIG_FILE) or {}
        library = _read_if_exists(directory / TOKENIZER_FILE)
        if library is None and not (directory / VOCAB_FILE).exists():
            what = f"no tokenizer: neither {TOKENIZER_FILE} nor {VOCAB_FILE}"
            remedy = f"Give the directory of a vocabulary, or of a model whose tokenizer is saved with {TOKENIZER_FILE}"
            raise InputError(what, where=directory, remedy=remedy)
        if library is not None:
            check_library_json(library, directory / TOKENIZER_FILE)
        model = read_json(directory / CONFIG_FILE) if (directory / CONFIG_FILE).is_file() else {}
        config_file, name = directory / TOKENIZER_CONFIG_FILE, read_class(directory, config, model)
        if library is None and name not in (None, *BERT_CLASSES, *GENERIC_CLASSES):
            what = f"tokenizer_class is {name}, which cloze reads from {TOKENIZER_FILE} alone"
            raise InputError(what, where=config_file, remedy=f"Save it with {TOKENIZER_FILE}")
        truncation = (library or {}).get("truncation")
        side = truncation.get("direction") if isinstance(truncation, dict) else None
        # as in transformers, tokenizer_config.json overrides tokenizer.json
        values = {"truncation_side": str(side or "right").lower(), **config}
        one_value = {"split_special_tokens": False, "truncation_side": "right"}
        file = directory / TOKENIZER_FILE if config.keys().isdisjoint(one_value) else config_file
        check_values(values, one_value, where=file)
        # with its own table of added tokens, transformers does not read the other file
        others = None if ADDED_TOKENS_KEY in config else _read_if_exists(directory / SPECIAL_TOKENS_FILE)
        segments = feeds_segments(directory, name, config, model)
        return cls(directory, config, config | (others or {}), library, name, segments)

    @property
    def model_max_length(self) -> int:
        """The maximum number of tokens, or a default if the files have no sensible one."""
        length = self.config.get("model_max_length")
        is_limit = isinstance(length, int) and 0 < length <= _MAX_MODEL_MAX_LENGTH
        return int(length) if is_limit else DEFAULT_MODEL_MAX_LENGTH  # type: ignore[arg-type]

    @property
    def is_wordpiece(self) -> bool:
        """Whether they describe BERT's tokenizer, with BERT's special tokens."""
        roles = self.roles
        other = next((key for key, token in ROLES.items() if _content(roles.get(key) or token) != token), "")
        if self.library is None:
            if other:
                what = f"{other} is {_content(roles[other])!r}, not {ROLES[other]!r}"
                raise InputError(what, where=self.directory, remedy=f"Save it with {TOKENIZER_FILE}")
            return True
        model = self.library.get("model")
        if other or (isinstance(model, dict) and model.get("type", "WordPiece") != "WordPiece"):
            return False
        if self.tokenizer_class in BERT_CLASSES:
            return True
        added = set(map(_content, self.library.get("added_tokens") or ()))
        return (
            self.tokenizer_class in (None, *GENERIC_CLASSES)
            and not _differences(self.library)
            and self._has_berts_template()
            and all(roles.get(key) or token in added for key, token in ROLES.items())
        )

    def _has_berts_template(self) -> bool:
        """Whether [CLS] and [SEP] come around texts as in BERT, read off texts of one token."""
        library = self.library or {}
        added = {str(entry.get("content")): entry.get("id") for entry in library.get("added_tokens") or ()}
        ids = {**((library.get("model") or {}).get("vocab") or {}), **added}
        model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}
        parts = {"version": "1.0", "model": model, "post_processor": library.get("post_processor")}
        backend = tokenizers.Tokenizer.from_str(json.dumps(parts))
        one, two = backend.encode("a"), backend.encode("a", "a")
        return (
            (one.ids, one.type_ids) == ([ids.get(CLS), 0, ids.get(SEP)], [0, 0, 0])
            and two.ids == [*one.ids, 0, ids.get(SEP)]
            and two.sequence_ids == [None, 0, None, 1, None]
            and two.type_ids in ([0, 0, 0, 1, 1], *([] if self.feeds_segments else [[0] * 5]))
        )

    def extra_tokens(self, known: Container[str]) -> list[str]:
        """Return the tokens that the settings make special besides those that BERT has; refuse unknown ones."""
        values = self.roles.get("extra_special_tokens") or self.roles.get("additional_special_tokens") or []
        tokens = list(map(_content, values.values() if isinstance(values, dict) else values))
        if unknown := [token for token in tokens if token not in known]:
            what = f"extra_special_tokens has {unknown[0]!r}, which is not in the vocabulary"
            raise InputError(what, where=self.directory / TOKENIZER_CONFIG_FILE, remedy=DAMAGED_REMEDY)
        ends = (_content(self.roles[key]) for key in ("bos_token", "eos_token") if self.roles.get(key))
        return list(dict.fromkeys([*tokens, *(token for token in ends if token in known)]))

    def check_added_tokens(self) -> None:
        """Raise an InputError if `tokenizer_config.json` and `tokenizer.json` add different tokens."""
        if self.library is None or ADDED_TOKENS_KEY not in self.config:
            return
        named = set(map(_content, self.config[ADDED_TOKENS_KEY].values()))
        added = set(map(_content, self.library.get("added_tokens") or ()))
        missing = named - added
        if self.tokenizer_class not in (None, *GENERIC_CLASSES):
            missing |= added - named - set(map(_content, self.roles.values()))
        if missing:
            what = f"{ADDED_TOKENS_KEY} and added_tokens of {TOKENIZER_FILE} differ: {min(missing)!r}"
            raise InputError(what, where=self.directory / TOKENIZER_CONFIG_FILE, remedy=DAMAGED_REMEDY)

    def wordpiece_settings(self) -> dict[str, Any]:
        file = self.directory / TOKENIZER_FILE
        if self.library is not None:
            model, normalizer = self.library.get("model") or {}, self.library.get("normalizer") or {}
            for what in _differences(self.library):
                raise InputError(f"not a BERT tokenizer: {what}", where=file, remedy=GENERIC_REMEDY)
            entries = self.library.get("added_tokens") or []
            settings = {
                **_add_tokens(dict(model.get("vocab") or {}), entries, file),
                "lowercase": bool(normalizer.get("lowercase", True)),
                "strip_accents": normalizer.get("strip_accents"),
                "tokenize_chinese_chars": bool(normalizer.get("handle_chinese_chars", True)),
                MAX_WORD_KEY: _max_word_chars(model, file),
            }
        else:
            has_added = ADDED_TOKENS_KEY in self.config
            file = self.directory / (TOKENIZER_CONFIG_FILE if has_added else ADDED_TOKENS_FILE)
            settings = _read_vocabulary_settings(self.directory, self.config, file)
        self.check_added_tokens()
        special = {*SPECIAL_TOKENS, *(token.content for token in settings["added_tokens"])}
        extra = [token for token in self.extra_tokens(settings["tokens"]) if token not in special]
        settings["added_tokens"] += tuple(map(AddedToken, extra))
        is_of_config = self.library is None or self.tokenizer_class in BERT_CLASSES
        for name, key in _NORMALIZER_KEYS.items():
            values = [settings[name], *([self.config[key]] if is_of_config and key in self.config else [])]
            for settings[name] in values:
                if not isinstance(settings[name], bool | None):
                    what = f"{key} is {settings[name]!r}, not true, false or null"
                    raise InputError(what, where=self.directory)
        if self.tokenizer_class in BERT_CLASSES:
            self._check_bert_class(settings)
        return settings

    def _check_bert_class(self, settings: dict[str, Any]) -> None:
        """Raise if the class reads the files otherwise than other programs do."""
        defaults = {"lowercase": True, "tokenize_chinese_chars": True, "strip_accents": settings["lowercase"]}
        for name, key in _NORMALIZER_KEYS.items():
            if key not in self.config and settings[name] not in (None, defaults[name]):
                source = VOCAB_FILE if self.library is None else TOKENIZER_FILE
                values = f"{json.dumps(settings[name])} by {source}, not {json.dumps(defaults[name])}"
                what = f"no {key}: it is {values} as in {self.tokenizer_class}"
                where = self.directory / TOKENIZER_CONFIG_FILE
                raise InputError(what, where=where, remedy=f"Write {key} as in training")
        where = self.directory / TOKENIZER_FILE
        if (limit := settings[MAX_WORD_KEY]) != MAX_INPUT_CHARS_PER_WORD:
            what = f"{MAX_WORD_KEY} is {limit}, where {self.tokenizer_class} has {MAX_INPUT_CHARS_PER_WORD}"
            raise InputError(what, where=where, remedy=GENERIC_REMEDY)
        if self.library is not None and not self._has_berts_template():
            what = f"post_processor is not that of {self.tokenizer_class}"
            raise InputError(what, where=where, remedy=GENERIC_REMEDY)


def _differences(library: dict[str, Any]) -> list[str]:
    """Return how the parts of a WordPiece tokenizer differ from BERT's."""
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
    return [
        f"{name} is {value!r}, not {expected!r}" for name, value, expected in required if value != expected
    ]


def _content(token: Any) -> str:
    return str(token.get("content") if isinstance(token, dict) else token)


def _read_if_exists(path: Path) -> dict[str, Any] | None:
    return read_json(path, remedy=DAMAGED_REMEDY) if path.exists() else None


def _read_vocabulary_settings(directory: Path, config: dict[str, Any], added_file: Path) -> dict[str, Any]:
    """Return the settings of a tokenizer that consists of `vocab.txt` and of the tokens added in another file."""
    tokens = read_vocabulary(directory / VOCAB_FILE)
    if added_file.name == TOKENIZER_CONFIG_FILE:
        added = [{"id": int(number), **token} for number, token in config[ADDED_TOKENS_KEY].items()]
    else:
        numbers = (_read_if_exists(added_file) or {}).items()
        added = [{"id": id_, "content": token, "special": token in SPECIAL_TOKENS} for token, id_ in numbers]
    whole = {"tokens": tuple(tokens), "added_tokens": ()}
    # The capitals of [CLS], [unused7] or <S> do not count.
    words = (token for token in tokens if token[0] + token[-1] not in ("[]", "<>"))
    return {
        **(_add_tokens(dict(zip(tokens, count(), strict=False)), added, added_file) if added else whole),
        "lowercase": _NORMALIZER_KEYS["lowercase"] in config or all(word == word.lower() for word in words),
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        MAX_WORD_KEY: _max_word_chars(config, directory / TOKENIZER_CONFIG_FILE),
    }


def _max_word_chars(table: dict[str, Any], path: Path) -> int:
    limit = int(table.get(MAX_WORD_KEY, MAX_INPUT_CHARS_PER_WORD))
    if not 0 < limit <= MAX_WORD_LIMIT:
        raise InputError(f"{MAX_WORD_KEY} is {limit}, not in 1..{MAX_WORD_LIMIT:,}", where=path)
    return limit


def tokens_by_id(ids: Mapping[str, int], path: Path) -> list[str]:
    """Return the tokens in the order of their ids, and "" for embeddings of the model without a token."""
    by_id = {number: token for token, number in ids.items()}
    size = max(by_id, default=-1) + 1
    if len(by_id) < len(ids) or size > max(len(by_id), count_embeddings(path.parent) or 0):
        raise InputError("the ids of the vocabulary have gaps or repeat", where=path, remedy=DAMAGED_REMEDY)
    return [by_id.get(number, "") for number in range(size)]


def _add_tokens(vocabulary: dict[str, int], entries: Sequence[dict[str, Any]], path: Path) -> dict[str, Any]:
    """Return `tokens` and `added_tokens` for the vocabulary of WordPiece and the entries of added tokens."""
    entries = sorted(entries, key=lambda entry: int(entry["id"]))
    added = [AddedToken.parse(entry, vocabulary) for entry in entries]
    tokens = tokens_by_id(vocabulary | {str(entry["content"]): entry["id"] for entry in entries}, path)
    tokens = keep_ids(tokens, path)
    check_vocabulary(tokens, where=path)
    if plain := [token.content for token in added if token.content in SPECIAL_TOKENS and not token.special]:
        remedy = 'Set its "special" to true'
        raise InputError(f"{plain[0]} is not marked as special", where=path, remedy=remedy)
    defaults = set(map(AddedToken, SPECIAL_TOKENS))
    return {"tokens": tuple(tokens), "added_tokens": tuple(token for token in added if token not in defaults)}
