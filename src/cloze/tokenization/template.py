"""The special tokens around one text or two."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import tokenizers

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
    def read(cls, encoding: tokenizers.Encoding, *, num_texts: int) -> Self:
        """Return the special tokens that the library `tokenizers` put around texts."""
        ids: list[list[int]] = [[] for _ in range(num_texts + 1)]
        types: list[list[int]] = [[] for _ in range(num_texts + 1)]
        text_types = [0] * num_texts
        place = 0
        for token_id, type_id, text in zip(
            encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True
        ):
            if text is None:
                ids[place].append(token_id)
                types[place].append(type_id)
            else:
                place, text_types[text] = text + 1, type_id
        return cls(tuple(map(tuple, ids)), tuple(map(tuple, types)), tuple(text_types))

    def in_segment_0(self) -> Self:
        """Return the template of a model that gets no segments."""
        zeros = tuple((0,) * len(ids) for ids in self.special_ids)
        return replace(self, special_types=zeros, text_types=(0,) * len(self.text_types))

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
