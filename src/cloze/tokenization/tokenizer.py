"""The interface of tokenizers: text to token ids with offsets, and back.

`cloze.tokenization.loading` returns one of the two implementations: WordPiece, and any other `tokenizer.json`.
"""

import json
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import tokenizers

from cloze.arguments import check_integer, check_pairs, check_text, check_texts, iterate
from cloze.errors import InputError
from cloze.file_io import disk_errors
from cloze.file_names import TOKENIZER_CONFIG_FILE
from cloze.optional_dependencies import import_package
from cloze.signatures import checks_arguments
from cloze.tokenization.google_tokenizer import GoogleTokenizer
from cloze.tokenization.library_limits import LibraryPanics, tables
from cloze.tokenization.special_tokens import CONTINUATION, SPECIAL_TOKENS
from cloze.tokenization.tokenizer_files import DEFAULT_MODEL_MAX_LENGTH
from cloze.tokenization.unicode import replace_lone_surrogates

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Template:
    """The special tokens before the first text, and after each text, with their segments.

    >>> pair = Template(((101,), (102,), (102,)), ((0,), (0,), (1,)), (0, 1))
    >>> pair.join([[7, 8], [9]], lambda token_id: token_id)
    [101, 7, 8, 102, 9, 102]
    >>> pair.token_type_ids([2, 1])
    [0, 0, 0, 0, 1, 1]
    """

    special_ids: tuple[tuple[int, ...], ...]
    special_types: tuple[tuple[int, ...], ...]
    text_types: tuple[int, ...]
    """The segment of each text."""

    @classmethod
    def read(cls, encoding: tokenizers.Encoding, *, num_texts: int, feeds_segments: bool) -> Self:
        """Return the special tokens that the library `tokenizers` put around texts; without segments all are in 0."""
        ids: list[list[int]] = [[] for _ in range(num_texts + 1)]
        types: list[list[int]] = [[] for _ in range(num_texts + 1)]
        text_types = [0] * num_texts
        place = 0
        for token_id, type_id, text in zip(
            encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True
        ):
            segment = type_id if feeds_segments else 0
            if text is None:
                ids[place].append(token_id)
                types[place].append(segment)
            else:
                place, text_types[text] = text + 1, segment
        return cls(tuple(map(tuple, ids)), tuple(map(tuple, types)), tuple(text_types))

    @property
    def num_special(self) -> int:
        return sum(map(len, self.special_ids))

    def join(self, texts: Sequence[Sequence[Value]], special: Callable[[int], Value]) -> list[Value]:
        """Put special tokens around a value for each token of each text; `special` returns theirs by the id."""
        joined = list(map(special, self.special_ids[0]))
        for values, ids in zip(texts, self.special_ids[1:], strict=True):
            joined += [*values, *map(special, ids)]
        return joined

    def token_type_ids(self, lengths: Sequence[int]) -> list[int]:
        """Return the segment of every token, given the number of tokens of each text."""
        types = list(self.special_types[0])
        for length, text_type, after in zip(lengths, self.text_types, self.special_types[1:], strict=True):
            types += [*([text_type] * length), *after]
        return types


Ids: TypeAlias = "array[int]"
"""The ids of a text's tokens without [CLS] and [SEP], in four bytes each."""
TruncationSide: TypeAlias = Literal["left", "right"]
"""Where a long text loses tokens, in the words of transformers."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """Model input for a text or a pair of texts.

    `offsets` are (start, end) in characters of the token's text; [CLS] and [SEP] have (0, 0).
    """

    input_ids: list[int]
    token_type_ids: list[int]
    offsets: list[tuple[int, int]]
    tokens: list[str]
    sequence_ids: list[int | None]
    """The text of each token: 0, or 1 for the second of a pair; None for [CLS] and [SEP]."""

    def __len__(self) -> int:
        return len(self.input_ids)


SpecialRole: TypeAlias = Literal["pad", "unk", "cls", "sep", "mask"]
"""The purpose of a special token."""
BERT_ROLES: dict[SpecialRole, str] = dict(zip(get_args(SpecialRole), SPECIAL_TOKENS, strict=True))
_SPACE_MARKERS = {"ByteLevel": "Ġ", "Metaspace": "▁"}
"""The first character of tokens that begin a word, by the pre-tokenizer."""


def _id_of(role: SpecialRole) -> "cached_property[int]":
    return cached_property(lambda tokenizer: tokenizer.tokens.index(tokenizer.special_token(role)))


@dataclass(frozen=True)
class Tokenizer(ABC):
    """Text to token ids and back, with the special tokens of an encoder.

    Args:
        tokens: the vocabulary; the id of a token is its index.
        model_max_length: positions of the model, written to `tokenizer_config.json`.
        feeds_segments: give the tokens of a second text segment 1 if the template does, else 0.
    """

    tokens: tuple[str, ...] = field(repr=False)
    lowercase: bool = True
    model_max_length: int = DEFAULT_MODEL_MAX_LENGTH
    feeds_segments: bool = True
    roles: Mapping[SpecialRole, str] = field(default_factory=BERT_ROLES.copy, hash=False, repr=False)
    """The special tokens."""

    pad_id, unk_id, cls_id, sep_id, mask_id = map(_id_of, get_args(SpecialRole))
    """Ids of the special tokens; InputError without such a token."""

    @abstractmethod
    def text_of(self, token_id: int) -> str:
        """Return the text of a token, for people to read."""

    @checks_arguments()
    def save(self, directory: Path | str) -> None:
        """Write the files of the tokenizer into an existing directory."""
        with disk_errors(Path(directory)):
            for name, text in self._files().items():
                (Path(directory) / name).write_text(text, encoding="utf-8", newline="\n")

    @abstractmethod
    def _files(self) -> dict[str, str]:
        """Return the content of each file."""

    @property
    @abstractmethod
    def _backend(self) -> tokenizers.Tokenizer:
        """The tokenizer that `tokenizer.json` describes."""

    def special_token(self, role: SpecialRole) -> str:
        """Return a special token, such as [MASK]."""
        if role not in self.roles:
            remedy = f"Name it as {role}_token in {TOKENIZER_CONFIG_FILE}"
            raise InputError(f"the tokenizer has no {role} token", where="tokenizer", remedy=remedy)
        return self.roles[role]

    @property
    def unknown_id(self) -> int | None:
        """The id of the token for unknown words; None without one, as where bytes are tokens."""
        return self.unk_id if "unk" in self.roles else None

    @cached_property
    def is_continuation(self) -> npt.NDArray[np.bool_]:
        """Whether each token continues a word; [vocab_size]."""
        marker = self._space_marker
        if marker is None:
            prefix = getattr(self._backend.model, "continuing_subword_prefix", None) or CONTINUATION
            return np.array([token.startswith(prefix) for token in self.tokens])
        special = self.special_ids
        return np.array(
            [not token.startswith(marker) and i not in special for i, token in enumerate(self.tokens)]
        )

    @cached_property
    def _space_marker(self) -> str | None:
        pre_tokenizer = self._backend.pre_tokenizer
        steps = tables(None if pre_tokenizer is None else json.loads(pre_tokenizer.__getstate__()))
        types = {str(step.get("type")) for step in steps}
        return next((marker for kind, marker in _SPACE_MARKERS.items() if kind in types), None)

    @property
    def google_tokenizer(self) -> GoogleTokenizer:
        """Google's own tokenizer with the same vocabulary: slow, and exact for every text."""
        what = f"a tokenizer of the kind {self.kind}, not Google's"
        raise InputError(what, where="tokenizer", remedy="Leave out the setting `original`")

    @property
    def kind(self) -> str:
        """The model of the library `tokenizers`: WordPiece, BPE, Unigram or WordLevel."""
        return type(self._backend.model).__name__

    @property
    def vocab_size(self) -> int:
        return len(self.tokens)

    @cached_property
    def _special_tokens(self) -> dict[int, tokenizers.AddedToken]:
        added = self._backend.get_added_tokens_decoder()
        return {token_id: token for token_id, token in added.items() if token.special}

    @cached_property
    def special_ids(self) -> frozenset[int]:
        return frozenset(self._special_tokens)

    @cached_property
    def _templates(self) -> tuple[Template, Template]:
        """The templates of one text and of two, read off encodings."""
        with LibraryPanics():
            one, two = self._backend.encode("a"), self._backend.encode("a", "a")
        return (
            Template.read(one, num_texts=1, feeds_segments=self.feeds_segments),
            Template.read(two, num_texts=2, feeds_segments=self.feeds_segments),
        )

    def template(self, *, is_pair: bool) -> Template:
        return self._templates[is_pair]

    def join(self, ids: Sequence[int], pair_ids: Sequence[int] | None = None) -> tuple[list[int], list[int]]:
        """Put special tokens around the token ids of a text or a pair; return `input_ids` and `token_type_ids`."""
        template = self.template(is_pair=pair_ids is not None)
        texts = [ids] if pair_ids is None else [ids, pair_ids]
        return template.join(texts, int), template.token_type_ids(list(map(len, texts)))

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
            pair: the second text; None for a single text.
            max_length: maximum number of tokens including [CLS] and [SEP]. Longer inputs lose tokens of the longer
                text first (of the pair if both are equally long). None keeps all tokens.
            truncation_side: whether texts lose tokens at their end or at their start.
        """
        texts = [check_text(text)] if pair is None else [check_text(text), check_text(pair, "pair")]
        return self._encode(texts, max_length, truncation_side, _truncate_longest_first)

    def _encode(
        self,
        texts: list[str],
        max_length: int | None,
        truncation_side: TruncationSide,
        truncate: Callable[[list[int], int], list[int]],
    ) -> Encoding:
        with LibraryPanics():
            segments = [
                self._backend.encode(replace_lone_surrogates(text), add_special_tokens=False)
                for text in texts
            ]
        lengths = [len(segment) for segment in segments]
        template = self.template(is_pair=len(texts) == 2)
        if max_length is not None:
            max_length = check_integer(max_length, "max_length", minimum=0)
            num_special = template.num_special
            if max_length < num_special:
                what = f"max_length {max_length} has no room for the {num_special} special tokens"
                raise InputError(what, where="max_length")
            lengths = truncate(lengths, max_length - num_special)
            for segment, length in zip(segments, lengths, strict=True):
                segment.truncate(length, direction=truncation_side)
        return Encoding(
            template.join([segment.ids for segment in segments], int),
            template.token_type_ids(lengths),
            template.join(list(map(self._offsets, texts, segments)), lambda _: (0, 0)),
            template.join([segment.tokens for segment in segments], self.tokens.__getitem__),
            template.join([[number] * length for number, length in enumerate(lengths)], lambda _: None),
        )

    @checks_arguments()
    def __call__(
        self,
        texts: str | tuple[str, str] | Sequence[str] | Sequence[tuple[str, str]],
        pairs: str | Sequence[str] | None = None,
        *,
        padding: bool | Literal["longest", "max_length"] = False,
        truncation: bool = False,
        max_length: int | None = None,
        return_tensors: Literal["pt", "np"] | None = None,
    ) -> dict[str, Any]:
        """Return `input_ids`, `token_type_ids` and `attention_mask`, as the tokenizers of transformers do.

        A tokenizer whose pairs have one type has no `token_type_ids`.

        >>> import cloze
        >>> inputs = cloze.load_tokenizer("cloze-mini")(["A door.", "The old door."], padding=True)
        >>> inputs["attention_mask"]
        [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]

        Shapes: [B, L] each as tensors or arrays; lists of numbers for each text, or for the one text.

        Args:
            texts: one text or pair, or a list of either.
            pairs: the second text of each.
            padding: pad to the longest text (True), or to `max_length`.
            truncation: cut texts over `max_length` tokens; of an odd number of tokens for a pair whose texts are both
                too long, the longer text keeps one more, with `encode` the first.
            max_length: maximum number of tokens; by default the positions of the model.
            return_tensors: pt for tensors of PyTorch, np for arrays; None for lists.
        """
        checked, is_one = check_pairs(texts, pairs)
        limit = check_integer(self.model_max_length if max_length is None else max_length, "max_length")
        encodings = [
            self._encode(
                [text] if pair is None else [text, pair],
                limit if truncation else None,
                "right",
                _truncate_as_transformers,
            )
            for text, pair in checked
        ]
        longest = max(map(len, encodings), default=0)
        total = limit if padding == "max_length" else longest if padding else 0
        lengths = {max(total, len(encoding)) for encoding in encodings}
        if return_tensors and len(lengths) > 1:
            remedy = "Say `truncation=True`" if padding else "Say `padding=True`"
            raise InputError("texts of different lengths are no tensor", where="texts", remedy=remedy)
        rows: dict[str, list[list[int]]] = {"input_ids": [], "token_type_ids": [], "attention_mask": []}
        for encoding in encodings:
            more = max(total - len(encoding), 0)
            rows["input_ids"].append(encoding.input_ids + [self.pad_id] * more)
            rows["token_type_ids"].append(encoding.token_type_ids + [0] * more)
            rows["attention_mask"].append([1] * len(encoding) + [0] * more)
        if not any(self.template(is_pair=True).token_type_ids([1, 1])):
            del rows["token_type_ids"]
        if return_tensors is None:
            return {name: values[0] if is_one else values for name, values in rows.items()}
        arrays = {
            name: np.array(values, np.int64).reshape(len(values), max(lengths, default=0))
            for name, values in rows.items()
        }
        if return_tensors == "np":
            return arrays
        torch = import_package("torch")  # which tokenizing needs for nothing else
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def ids(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Tokenize many texts at once, without [CLS] and [SEP], as for a corpus.

        The ids are those of `tokenizer.json`, except that special tokens in the text ("[MASK]") are plain text, so
        that a corpus cannot contain them. Not thread-safe.

        Shapes: ids [T] of all texts end to end; lengths [number of texts], which sum to T.
        """
        texts = [replace_lone_surrogates(text) for text in check_texts(texts)]
        with LibraryPanics():
            encodings = self._corpus_backend.encode_batch_fast(texts, add_special_tokens=False)
        ids = [encoding.ids for encoding in encodings]
        lengths = np.array([len(text_ids) for text_ids in ids], np.int64)
        return np.fromiter(chain.from_iterable(ids), np.uint32, int(lengths.sum())), lengths

    def text_ids(self, texts: Sequence[str]) -> list[Ids]:
        """Return the token ids of each text without [CLS] and [SEP]; special tokens are recognized, unlike by `ids`.

        Not thread-safe.
        """
        with LibraryPanics():
            encodings = self._backend.encode_batch_fast(
                list(map(replace_lone_surrogates, texts)), add_special_tokens=False
            )
        return [array("I", encoding.ids) for encoding in encodings]

    def word_ids(self, words: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """Tokenize the words of a text, each as after a space; returns as `ids`."""
        is_byte_level = self._space_marker == _SPACE_MARKERS["ByteLevel"]
        return self.ids([f" {word}" for word in words] if is_byte_level else words)

    def starts(self, text: str) -> list[int]:
        """Return the first character of each token that `ids` returns for a text."""
        with LibraryPanics():
            encoding = self._corpus_backend.encode(replace_lone_surrogates(text), add_special_tokens=False)
        return [start for start, _ in encoding.offsets]

    def decode(self, ids: Sequence[int]) -> str:
        """Join tokens to text: those that continue a word to the word before them, no space before a period."""
        numbers = [
            check_integer(number, f"ids[{place}]", minimum=0, maximum=self.vocab_size - 1)
            for place, number in enumerate(iterate(ids, "ids", "number"))
        ]
        with LibraryPanics():
            text: str = self._backend.decode(numbers, skip_special_tokens=False)
        return text

    def _offsets(self, text: str, encoding: tokenizers.Encoding) -> list[tuple[int, int]]:
        offsets: list[tuple[int, int]] = encoding.offsets
        return offsets

    @cached_property
    def _corpus_backend(self) -> tokenizers.Tokenizer:
        backend = tokenizers.Tokenizer.from_str(self._backend.to_str())
        backend.encode_special_tokens = True
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


def _truncate_as_transformers(lengths: list[int], budget: int) -> list[int]:
    """Return the lengths of one or two texts after truncation.

    Source: truncate_encodings in tokenizers/src/utils/truncation.rs, the strategy LongestFirst.
    """
    if len(lengths) == 1 or sum(lengths) <= budget:
        return [min(length, budget) for length in lengths]
    short = min(*lengths, budget // 2)
    cut = [short, budget - short]
    return cut if lengths[0] <= lengths[1] else cut[::-1]
