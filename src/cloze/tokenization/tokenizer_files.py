"""The files of a tokenizer, and the settings of a WordPiece tokenizer that they contain.

| file | has |
|---|---|
| `tokenizer.json` | everything, for the library `tokenizers` |
| `vocab.txt` | the vocabulary, in the order of ids |
| `tokenizer_config.json` | case, accents, Chinese characters and special tokens; of old models also added tokens |
| `special_tokens_map.json`, `added_tokens.json` | the same in files of their own |
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers

from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import (
    ADDED_TOKENS_FILE,
    SPECIAL_TOKENS_FILE,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    VOCAB_FILE,
)
from cloze.tokenization.special_tokens import CLS, CONTINUATION, SPECIAL_TOKENS, UNK
from cloze.tokenization.vocabulary import check_vocabulary, count_embeddings, keep_ids, read_vocabulary

ADDED_TOKENS_KEY = "added_tokens_decoder"
"""The key of added tokens in `tokenizer_config.json`, by id."""
MAX_INPUT_CHARS_PER_WORD = 100
"""Longer words become [UNK]. Differs: 200 in Google's code; BERT's published tokenizer.json files all have 100."""
MAX_WORD_LIMIT = 1_000_000
"""Largest limit of a word's characters."""
MAX_WORD_KEY = "max_input_chars_per_word"
DEFAULT_MODEL_MAX_LENGTH = 512
_MAX_MODEL_MAX_LENGTH = 1_000_000  # transformers writes 10**30 if there is no limit
DAMAGED_REMEDY = "Copy or write it again"


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


@dataclass(frozen=True, slots=True)
class TokenizerFiles:
    """The contents of the files of a tokenizer, but for `vocab.txt`."""

    directory: Path
    config: dict[str, Any]
    """`tokenizer_config.json`; empty without that file."""
    library: dict[str, Any] | None
    """`tokenizer.json`."""

    @classmethod
    def read(cls, directory: Path) -> "TokenizerFiles":
        """Read the files of a directory.

        Raises:
            InputError: neither `tokenizer.json` nor `vocab.txt` exists, or a file is damaged.
        """
        config = _read_if_exists(directory / TOKENIZER_CONFIG_FILE) or {}
        library = _read_if_exists(directory / TOKENIZER_FILE)
        if library is None and not (directory / VOCAB_FILE).exists():
            what = f"no tokenizer: neither {TOKENIZER_FILE} nor {VOCAB_FILE}"
            raise InputError(what, where=directory, remedy="Give the directory of a vocabulary or of a model")
        return cls(directory, config, library)

    @property
    def model_max_length(self) -> int:
        """The maximum number of tokens, or a default if the files have no sensible one."""
        length = self.config.get("model_max_length")
        is_limit = isinstance(length, int) and 0 < length <= _MAX_MODEL_MAX_LENGTH
        return int(length) if is_limit else DEFAULT_MODEL_MAX_LENGTH  # type: ignore[arg-type]

    @property
    def is_wordpiece(self) -> bool:
        """Whether they describe BERT's kind of tokenizer, with BERT's special tokens."""
        library, cls_token = self.library or {}, self.read_roles().get("cls_token") or CLS
        if (cls_token.get("content") if isinstance(cls_token, dict) else cls_token) != CLS:
            return False
        parts = (
            ("model", "WordPiece"),
            ("normalizer", "BertNormalizer"),
            ("pre_tokenizer", "BertPreTokenizer"),
        )
        tables = ((library.get(name) or {}, kind) for name, kind in parts)
        return all(
            not isinstance(table, dict) or table.get("type", "WordPiece") == kind for table, kind in tables
        )

    def read_roles(self) -> dict[str, Any]:
        """Return the settings that name special tokens."""
        return (_read_if_exists(self.directory / SPECIAL_TOKENS_FILE) or {}) | self.config

    def wordpiece_settings(self) -> dict[str, Any]:
        """Return the arguments of `Tokenizer`, but for its maximum length.

        Raises:
            InputError: a file is damaged, or the vocabulary lacks special tokens.
        """
        file = self.directory / TOKENIZER_FILE
        try:
            if self.library is not None:
                settings = _parse_library_json(self.library, file)
            else:
                has_added = ADDED_TOKENS_KEY in self.config
                file = self.directory / (TOKENIZER_CONFIG_FILE if has_added else ADDED_TOKENS_FILE)
                settings = _read_vocabulary_settings(self.directory, self.config, file)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"damaged ({error!r})", where=file, remedy=DAMAGED_REMEDY) from error
        for name, key in (("lowercase", "do_lower_case"), ("tokenize_chinese_chars",) * 2):
            settings[name] = bool(self.config.get(key, settings[name]))
        config_file = self.directory / TOKENIZER_CONFIG_FILE
        settings["strip_accents"] = _strip_accents(settings | self.config, config_file)
        return settings


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
    # The capitals of [CLS], [unused7] or <S> do not count.
    words = (token for token in tokens if token[0] + token[-1] not in ("[]", "<>"))
    return {
        **_add_tokens({token: number for number, token in enumerate(tokens)}, added, added_file),
        "lowercase": all(word == word.lower() for word in words),
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        MAX_WORD_KEY: _max_word_chars(config, directory / TOKENIZER_CONFIG_FILE),
    }


def _max_word_chars(table: dict[str, Any], path: Path) -> int:
    limit = int(table.get(MAX_WORD_KEY, MAX_INPUT_CHARS_PER_WORD))
    if not 0 < limit <= MAX_WORD_LIMIT:
        raise InputError(f"{MAX_WORD_KEY} is {limit}, not in 1..{MAX_WORD_LIMIT:,}", where=path)
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
        MAX_WORD_KEY: _max_word_chars(model, path),
    }


def _add_tokens(vocabulary: dict[str, int], entries: Sequence[dict[str, Any]], path: Path) -> dict[str, Any]:
    """Return `tokens` and `added_tokens` for the vocabulary of WordPiece and the entries of added tokens."""
    entries = sorted(entries, key=lambda entry: int(entry["id"]))
    added = [AddedToken.parse(entry, vocabulary) for entry in entries]
    all_ids = vocabulary | {str(entry["content"]): entry["id"] for entry in entries}
    by_id = {number: token for token, number in all_ids.items()}
    size = max(by_id, default=-1) + 1
    if len(by_id) < len(all_ids) or size > max(len(by_id), count_embeddings(path.parent) or 0):
        raise InputError("the ids of the vocabulary have gaps or repeat", where=path, remedy=DAMAGED_REMEDY)
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
