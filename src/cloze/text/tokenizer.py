"""The tokenizer: text to WordPiece ids with offsets, and the files that every BERT tool reads.

The work is done by the `tokenizers` library, set up exactly as the `tokenizer.json` that `save` writes, so
cloze, transformers and `tokenizers.Tokenizer.from_file` give the same ids. Google's own Python tokenizer,
which differs in corners of Unicode, is `cloze.text.reference`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from cloze.artifacts import MANIFEST, disk_errors, read_file, verify
from cloze.errors import InputError
from cloze.locate import resolve_checkpoint
from cloze.text.bulk import RunCache
from cloze.text.characters import replace_lone_surrogates
from cloze.text.pieces import CLS, CONTINUATION, MASK, PAD, SEP, SPECIAL_PIECES, UNK
from cloze.text.reference import ReferenceTokenizer
from cloze.text.vocabulary import MOST_BYTES, check_pieces, read_vocabulary

VOCAB_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
ADDED_TOKENS_FILE = "added_tokens.json"
"""What a tokenizer of transformers without a `tokenizer.json` knows beside `vocab.txt`."""
MAX_INPUT_CHARS_PER_WORD = 100
"""Longer words become [UNK]. Differs: Google's code has 200; BERT's tokenizer.json files all say 100."""

_LONGEST_WORD = 1_000_000
_DEFAULT_MODEL_MAX_LENGTH = 512
_LONGEST_MODEL_MAX_LENGTH = 1_000_000  # transformers writes 10**30 where it knows no limit


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text, or a pair of texts, as the model takes it.

    `offsets` are (start, end) in characters of the original text, or of the pair where `token_type_ids` is 1;
    [CLS] and [SEP] have (0, 0).
    """

    input_ids: list[int]
    token_type_ids: list[int]
    offsets: list[tuple[int, int]]
    tokens: list[str]

    def __len__(self) -> int:
        return len(self.input_ids)


@dataclass(frozen=True)
class Tokenizer:
    """WordPiece tokenizer of BERT: cased or uncased, Chinese or multilingual.

    >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "token", "##ization", "is", "fun", "!"]
    >>> tokenizer = Tokenizer.from_pieces(pieces)
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
        pieces: the vocabulary; a piece's id is its index.
        lowercase: lower-case the text.
        strip_accents: remove accents; None does so where the text is lower-cased, as Google's code does.
        tokenize_chinese_chars: make every Chinese character a word.
        model_max_length: positions of the model, written to `tokenizer_config.json`.
        added_pieces: pieces beyond the usual five that are recognised whole in the text, as [MASK] is.
        max_input_chars_per_word: longer words become [UNK].
    """

    pieces: tuple[str, ...] = field(repr=False)
    lowercase: bool = True
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    model_max_length: int = _DEFAULT_MODEL_MAX_LENGTH
    added_pieces: tuple[str, ...] = ()
    max_input_chars_per_word: int = MAX_INPUT_CHARS_PER_WORD

    @classmethod
    def from_pieces(
        cls,
        pieces: Sequence[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        model_max_length: int = _DEFAULT_MODEL_MAX_LENGTH,
    ) -> "Tokenizer":
        """Make a tokenizer of a vocabulary in memory.

        Raises:
            InputError: a piece stands twice or a special piece is missing.
        """
        check_pieces(pieces, where="vocabulary")
        return cls(tuple(pieces), lowercase, strip_accents, tokenize_chinese_chars, model_max_length)

    @classmethod
    def load(cls, directory: Path | str) -> "Tokenizer":
        """Read a tokenizer from a directory of cloze or of any BERT tool, or that of a model by its name.

        `tokenizer.json` is read where there is one; else `vocab.txt`. What `tokenizer_config.json` says of case,
        accents and Chinese characters goes before, as transformers has it. Where nothing says whether the text is
        lower-cased, it is if no piece holds a capital letter.

        Raises:
            InputError: no such files, or not as cloze wrote them; a vocabulary that BERT cannot use, or a tokenizer
                that is not BERT's.
        """
        directory = resolve_checkpoint(Path(directory))
        if directory.is_file():
            raise InputError("is a file", where=directory, remedy="Give the directory that it is in")
        if (directory / MANIFEST).exists():
            verify(directory, names=(VOCAB_FILE, TOKENIZER_FILE, TOKENIZER_CONFIG_FILE))
        config = _read_json(directory / TOKENIZER_CONFIG_FILE) or {}
        model_max_length = config.get("model_max_length")
        if not isinstance(model_max_length, int) or not 0 < model_max_length <= _LONGEST_MODEL_MAX_LENGTH:
            model_max_length = _DEFAULT_MODEL_MAX_LENGTH
        library_json = _read_json(directory / TOKENIZER_FILE)
        if library_json is not None:
            file = directory / TOKENIZER_FILE
            try:
                read = _from_library_json(library_json, file, model_max_length)
            except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
                raise InputError(
                    f"damaged ({error!r})", where=file, remedy="Copy or write it anew"
                ) from error
            return replace(
                read,
                lowercase=bool(config.get("do_lower_case", read.lowercase)),
                strip_accents=_strip_accents(
                    {"strip_accents": read.strip_accents, **config}, directory / TOKENIZER_CONFIG_FILE
                ),
                tokenize_chinese_chars=bool(
                    config.get("tokenize_chinese_chars", read.tokenize_chinese_chars)
                ),
            )
        if not (directory / VOCAB_FILE).exists():
            what = f"no tokenizer here: neither {TOKENIZER_FILE} nor {VOCAB_FILE}"
            raise InputError(what, where=directory, remedy="Give the directory of a vocabulary or of a model")
        pieces = read_vocabulary(directory / VOCAB_FILE)
        added = directory / ADDED_TOKENS_FILE
        known = frozenset(pieces)
        _refuse_added_words([word for word in _read_json(added) or {} if word not in known], added)
        return cls(
            pieces=tuple(pieces),
            lowercase=bool(config.get("do_lower_case", _looks_uncased(pieces))),
            strip_accents=_strip_accents(config, directory / TOKENIZER_CONFIG_FILE),
            tokenize_chinese_chars=bool(config.get("tokenize_chinese_chars", True)),
            model_max_length=model_max_length,
        )

    def save(self, directory: Path | str) -> None:
        """Write `vocab.txt`, `tokenizer.json` and `tokenizer_config.json` into an existing directory.

        Raises:
            RunError: the disk is full or cannot be written.
        """
        directory = Path(directory)
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
        files = {
            VOCAB_FILE: "".join(f"{piece}\n" for piece in self.pieces),
            TOKENIZER_FILE: self._library.to_str(pretty=True) + "\n",
            TOKENIZER_CONFIG_FILE: json.dumps(config, indent=2) + "\n",
        }
        with disk_errors(directory):
            for name, text in files.items():
                (directory / name).write_text(text, encoding="utf-8", newline="\n")

    @property
    def vocab_size(self) -> int:
        """Number of pieces."""
        return len(self.pieces)

    @cached_property
    def pad_id(self) -> int:
        """Id of [PAD]."""
        return self.pieces.index(PAD)

    @cached_property
    def unk_id(self) -> int:
        """Id of [UNK]."""
        return self.pieces.index(UNK)

    @cached_property
    def cls_id(self) -> int:
        """Id of [CLS]."""
        return self.pieces.index(CLS)

    @cached_property
    def sep_id(self) -> int:
        """Id of [SEP]."""
        return self.pieces.index(SEP)

    @cached_property
    def mask_id(self) -> int:
        """Id of [MASK]."""
        return self.pieces.index(MASK)

    @cached_property
    def is_continuation(self) -> npt.NDArray[np.bool_]:
        """For every id: whether the piece goes on with a word ("##").

        Shapes: [vocab_size].
        """
        return np.array([piece.startswith(CONTINUATION) for piece in self.pieces])

    def encode(self, text: str, pair: str | None = None, *, max_length: int | None = None) -> Encoding:
        """Tokenize a text or a pair and put [CLS] and [SEP] around it.

        [MASK] and the other special pieces are recognised in the text. A lone surrogate, which is no
        character, is skipped as control characters are.

        Args:
            text: the first text.
            pair: the second text; None for a single one.
            max_length: tokens in all, [CLS] and [SEP] included. Longer inputs lose tokens at the end of the
                longer text first (of the pair where both are as long). None keeps everything.

        Raises:
            InputError: `max_length` has no room for [CLS] and [SEP].
        """
        segments = [self._library.encode(replace_lone_surrogates(text), add_special_tokens=False)]
        if pair is not None:
            segments.append(self._library.encode(replace_lone_surrogates(pair), add_special_tokens=False))
        keep = [len(segment) for segment in segments]
        if max_length is not None:
            specials = len(segments) + 1
            if max_length < specials:
                what = f"max_length {max_length} has no room for the {specials} special pieces"
                raise InputError(what, where="max_length")
            keep = _truncate_longest_first(keep, max_length - specials)
        encoding = Encoding([self.cls_id], [0], [(0, 0)], [CLS])
        for index, (segment, length) in enumerate(zip(segments, keep, strict=True)):
            encoding.input_ids.extend([*segment.ids[:length], self.sep_id])
            encoding.token_type_ids.extend([index] * (length + 1))
            encoding.offsets.extend([*segment.offsets[:length], (0, 0)])
            encoding.tokens.extend([*segment.tokens[:length], SEP])
        return encoding

    def ids(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Tokenize many texts at once, without [CLS] and [SEP]: the way of a corpus.

        The ids are those of `tokenizer.json`, but special pieces in the text ("[MASK]") are plain text here:
        a corpus cannot forge them. What was seen before is looked up, in later calls too. Not for threads.

        Shapes: pieces [T] of all texts end to end; lengths [number of texts], which sum to T.
        """
        return self._runs.ids(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """Join pieces to text: "##" pieces to the word before them, no space before a full stop."""
        text: str = self._library.decoder.decode([self.pieces[i] for i in ids])
        return text

    @cached_property
    def reference(self) -> ReferenceTokenizer:
        """Google's own tokenizer with the same vocabulary: slow, and right in every corner."""
        return ReferenceTokenizer(self.pieces, lowercase=self.lowercase)

    @cached_property
    def _library(self) -> tokenizers.Tokenizer:
        """The tokenizer of the library that `tokenizer.json` describes."""
        library = self._plain_library()
        library.add_special_tokens(
            [
                AddedToken(piece, special=True, normalized=False)
                for piece in (*SPECIAL_PIECES, *self.added_pieces)
            ]
        )
        library.post_processor = processors.TemplateProcessing(
            single=f"{CLS}:0 $A:0 {SEP}:0",
            pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
            special_tokens=[(CLS, self.cls_id), (SEP, self.sep_id)],
        )
        library.decoder = decoders.WordPiece(prefix=CONTINUATION)
        return library

    @cached_property
    def _runs(self) -> RunCache:
        return RunCache(self._plain_library())

    def _plain_library(self) -> tokenizers.Tokenizer:
        """The same tokenizer without special pieces: to it "[MASK]" is three words."""
        model = models.WordPiece(
            {piece: index for index, piece in enumerate(self.pieces)},
            unk_token=UNK,
            max_input_chars_per_word=self.max_input_chars_per_word,
        )
        library = tokenizers.Tokenizer(model)
        library.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.tokenize_chinese_chars,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )
        library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return library

    def __getstate__(self) -> dict[str, object]:
        """Only the fields travel to other processes, not what was derived from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


def _truncate_longest_first(lengths: list[int], budget: int) -> list[int]:
    """Return how much of one or two texts to keep: the longer loses first, the second where both are as long.

    Source: google-research/bert run_classifier.py `_truncate_seq_pair` @eedf571, without its loop.
    """
    if sum(lengths) <= budget:
        return lengths
    if len(lengths) == 1:
        return [budget]
    first, second = lengths
    kept_of_first = min(first, max((budget + 1) // 2, budget - second))
    return [kept_of_first, budget - kept_of_first]


def _looks_uncased(pieces: Sequence[str]) -> bool:
    return all(piece == piece.lower() for piece in pieces if not _is_bracketed(piece))


def _is_bracketed(piece: str) -> bool:
    """Whether a piece is a mark like [CLS], [unused7] or <S>, whose capitals say nothing of the text."""
    return piece[0] + piece[-1] in ("[]", "<>")


def _read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None where there is no such file."""
    try:
        value = json.loads(read_file(path, most_bytes=MOST_BYTES))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})", where=path, remedy="Copy or write it anew") from None
    if not isinstance(value, dict):
        raise InputError("not a JSON object", where=path, remedy="Copy or write it anew")
    return value


def _from_library_json(library: dict[str, Any], path: Path, model_max_length: int) -> Tokenizer:
    """Read the settings out of a `tokenizer.json`, which must describe BERT's tokenizer and nothing else."""
    model, normalizer = library.get("model") or {}, library.get("normalizer") or {}
    pre_tokenizer = library.get("pre_tokenizer") or {}
    expected = [
        ("model", model.get("type", "WordPiece"), "WordPiece"),
        ("unk_token", model.get("unk_token"), UNK),
        ("continuing_subword_prefix", model.get("continuing_subword_prefix"), CONTINUATION),
        ("normalizer", normalizer.get("type"), "BertNormalizer"),
        ("clean_text", normalizer.get("clean_text"), True),
        ("pre_tokenizer", pre_tokenizer.get("type"), "BertPreTokenizer"),
    ]
    for name, found, needed in expected:
        if found != needed:
            what = f"not a BERT tokenizer: {name} is {found!r}, not {needed!r}"
            raise InputError(what, where=path, remedy="Use a model of BERT's family")
    vocabulary: dict[str, int] = dict(model.get("vocab") or {})
    added = library.get("added_tokens") or []
    vocabulary.update({token["content"]: token["id"] for token in added})
    pieces = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[piece] for piece in pieces] != list(range(len(pieces))):
        raise InputError("the ids of the vocabulary have gaps or repeat", where=path)
    check_pieces(pieces, where=path)
    plain = [token["content"] for token in added if not token["special"]]
    _refuse_added_words(plain, path)
    longest = int(model.get("max_input_chars_per_word", MAX_INPUT_CHARS_PER_WORD))
    if not 0 < longest <= _LONGEST_WORD:
        raise InputError(f"max_input_chars_per_word is {longest}, not in 1..{_LONGEST_WORD:,}", where=path)
    return Tokenizer(
        pieces=tuple(pieces),
        lowercase=bool(normalizer.get("lowercase", True)),
        strip_accents=_strip_accents(normalizer, path),
        tokenize_chinese_chars=bool(normalizer.get("handle_chinese_chars", True)),
        model_max_length=model_max_length,
        added_pieces=tuple(t["content"] for t in added if t["content"] not in SPECIAL_PIECES),
        max_input_chars_per_word=longest,
    )


def _refuse_added_words(words: Sequence[str], path: Path) -> None:
    if words:
        what = f"adds the words {', '.join(words[:5])} beside its WordPiece vocabulary"
        raise InputError(what, where=path, remedy="Only special pieces can be added to a BERT tokenizer")


def _strip_accents(settings: dict[str, Any], path: Path) -> bool | None:
    value = settings.get("strip_accents")
    if value is not None and not isinstance(value, bool):
        raise InputError(f"strip_accents is {value!r}, not true, false or null", where=path)
    return value
