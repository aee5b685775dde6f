"""Text cut into runs, and every distinct run numbered once: what makes a corpus cheap to tokenize.

A run is what the tokenizer is sure to treat by itself: an ASCII punctuation mark, a Chinese character, or what stands
between two of these or spaces. BERT's cleaning keeps spaces as boundaries, and no later step looks across any of them.
Text repeats itself, so there are few distinct runs; all work on a run is done once, and the rest is numpy on the bytes.

Shapes: N bytes, R runs; W words of a table's keys, I runs that are its.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cloze.text.characters import replace_lone_surrogates

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

# Of text cut at a time, or one text if that is longer: bounds the memory of a call, and fits the caches.
_CHARACTERS_A_SLICE = 1 << 20

_IS_SPACE = np.isin(np.arange(256), list(b" \t\n\r"))
_IS_MARK = np.isin(np.arange(256), list(b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))
_IS_INNER = ~(_IS_SPACE | _IS_MARK)

_WORDS_OF_A_KEY = (1, 2, 4)
"""A run of up to 8, 16 or 32 bytes is its own key, as so many 64-bit words: no two runs share one."""
_WORD_BYTES = 8
_PADDING = bytes(_WORD_BYTES * _WORDS_OF_A_KEY[-1])
_MASKS = np.array([2 ** (8 * length) - 1 for length in range(_WORD_BYTES + 1)], np.uint64)
"""By the number of bytes that are the run's, what keeps them and clears those after it."""

_FIRST_SLOT_BITS = 12
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def slices(texts: Iterable[str]) -> Iterator[list[str]]:
    """Gather texts into lists of about a million characters each."""
    some: list[str] = []
    characters = 0
    for text in texts:
        some.append(text)
        characters += len(text)
        if characters >= _CHARACTERS_A_SLICE:
            yield some
            some, characters = [], 0
    if some:
        yield some


class RunIndex:
    """Numbers distinct runs in the order in which they are met, from 0.

    Args:
        cut_chinese: whether every Chinese character is a run, as where the tokenizer makes it a word.
    """

    def __init__(self, *, cut_chinese: bool) -> None:
        self._cut_chinese = cut_chinese
        self._tables = [_Table(words) for words in _WORDS_OF_A_KEY]
        self._long: dict[bytes, int] = {}
        self.runs: list[str] = []
        """By number. A NUL, which BERT's cleaning deletes, may be missing at the end of one."""

    def number(self, texts: Sequence[str]) -> tuple[Integers, Integers]:
        """Return the number of every run [R], and where the runs of each text end among them.

        Args:
            texts: a slice. Lone surrogates count as U+FFFD.
        """
        try:
            encoded = [text.encode() for text in texts]
        except UnicodeEncodeError:
            encoded = [replace_lone_surrogates(text).encode() for text in texts]
        raw = b"\n".join(encoded)
        buffer = np.frombuffer(raw + _PADDING, np.uint8)
        starts, lengths = _cut(buffer[: len(raw)], cut_chinese=self._cut_chinese)
        numbers = np.empty(len(starts), np.int64)
        at_least = 0
        for table in self._tables:
            of_table = np.flatnonzero((lengths > at_least) & (lengths <= table.max_bytes))
            at_least = table.max_bytes
            keys = table.read_keys(buffer, starts[of_table], lengths[of_table])
            numbers[of_table] = table.number(keys, self.runs)
        for index in np.flatnonzero(lengths > at_least).tolist():
            run = raw[starts[index] : starts[index] + lengths[index]]
            if run not in self._long:
                self._long[run] = len(self.runs)
                self.runs.append(run.decode())
            numbers[index] = self._long[run]
        text_ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)) + 1) - 1
        return numbers, np.searchsorted(starts, text_ends)


def _cut(text: Bytes, *, cut_chinese: bool) -> tuple[Integers, Integers]:
    """Return the first byte and the length of every run."""
    is_first, is_last = _IS_MARK[text], _IS_MARK[text]
    is_inner = _IS_INNER[text]
    is_first[:1] |= is_inner[:1]
    is_first[1:] |= is_inner[1:] & ~is_inner[:-1]
    is_last[-1:] |= is_inner[-1:]
    is_last[:-1] |= is_inner[:-1] & ~is_inner[1:]
    if cut_chinese:
        chinese = _chinese(text)
        is_first[chinese] = True
        is_last[chinese + 2] = True
        before, after = chinese[chinese > 0] - 1, chinese[chinese < len(text) - 3] + 3
        is_last[before] |= is_inner[before]
        is_first[after] |= is_inner[after]
    starts = np.flatnonzero(is_first)
    return starts, np.flatnonzero(is_last) - starts + 1


def _chinese(text: Bytes) -> Integers:
    """Return where Chinese characters begin, of the two blocks that every version of the tokenizer knows.

    U+3400 to U+4DBF and U+4E00 to U+9FFF are three bytes in UTF-8, of which the first is E3 to E9.
    """
    leads = np.flatnonzero((text >= 0xE3) & (text <= 0xE9))
    second, third = text[leads + 1].astype(np.int64), text[leads + 2].astype(np.int64)
    character = (text[leads] & 0x0F).astype(np.int64) << 12 | (second & 0x3F) << 6 | third & 0x3F
    is_chinese = (
        (character >= 0x3400) & (character <= 0x9FFF) & ~((character > 0x4DBF) & (character < 0x4E00))
    )
    return leads[is_chinese]


class _Table:
    """A hash table with open addressing, in which many keys are looked up at a time."""

    def __init__(self, words: int) -> None:
        self.max_bytes = words * _WORD_BYTES
        self._known = 0
        self._make_slots(words, _FIRST_SLOT_BITS)

    def _make_slots(self, words: int, slot_bits: int) -> None:
        self._shift = np.uint64(64 - slot_bits)
        self._keys = np.zeros((words, 1 << slot_bits), np.uint64)
        self._numbers = np.full(1 << slot_bits, -1, np.int64)
        """-1 where the slot is free."""
        self._claims = np.zeros(1 << slot_bits, np.int64)

    def read_keys(self, buffer: Bytes, starts: Integers, lengths: Integers) -> Keys:
        """Return the runs out of the padded bytes, 0 after the end of each. [W, I]."""
        # A 64-bit word from each byte on, wherever in memory it lies.
        words = np.ndarray(len(buffer) - _WORD_BYTES + 1, "<u8", buffer, strides=(1,))
        keys = np.empty((len(self._keys), len(starts)), np.uint64)
        for index, word in enumerate(keys):
            at = index * _WORD_BYTES
            word[:] = words[starts + at] & _MASKS[np.clip(lengths - at, 0, _WORD_BYTES)]
        return keys

    def number(self, keys: Keys, runs: list[str]) -> Integers:
        """Return the number of each key; those not met before get the next ones and join `runs`."""
        slots = self._slots_of(keys)
        numbers = self._numbers[slots]
        is_known = (self._keys[:, slots] == keys).all(axis=0) & (numbers >= 0)
        looking = np.flatnonzero(~is_known)
        if 2 * (self._known + len(looking)) > len(self._numbers):
            self._grow(self._known + len(looking))
            slots = self._slots_of(keys)
        while len(looking):
            wanted = slots[looking]
            # Of those that want the same free slot, one gets it: the last to claim it.
            claiming = looking[self._numbers[wanted] < 0]
            self._claims[slots[claiming]] = claiming
            new = claiming[self._claims[slots[claiming]] == claiming]
            self._numbers[slots[new]] = np.arange(len(runs), len(runs) + len(new))
            self._keys[:, slots[new]] = keys[:, new]
            self._known += len(new)
            runs.extend(key.tobytes().rstrip(b"\0").decode() for key in keys[:, new].T)
            is_there = (self._keys[:, wanted] == keys[:, looking]).all(axis=0)
            numbers[looking[is_there]] = self._numbers[wanted[is_there]]
            looking = looking[~is_there]
            slots[looking] = (slots[looking] + 1) % len(self._numbers)
        return numbers

    def _grow(self, count: int) -> None:
        """Make room for so many keys, in a table at most half full, where most are found at once."""
        is_taken = self._numbers >= 0
        keys, numbers = self._keys[:, is_taken], self._numbers[is_taken]
        self._make_slots(len(keys), (2 * count - 1).bit_length())
        slots, waiting = self._slots_of(keys), np.arange(len(numbers))
        while len(waiting):
            claiming = waiting[self._numbers[slots[waiting]] < 0]
            self._claims[slots[claiming]] = claiming
            placed = claiming[self._claims[slots[claiming]] == claiming]
            self._numbers[slots[placed]] = numbers[placed]
            self._keys[:, slots[placed]] = keys[:, placed]
            waiting = waiting[self._numbers[slots[waiting]] != numbers[waiting]]
            slots[waiting] = (slots[waiting] + 1) % len(self._numbers)

    def _slots_of(self, keys: Keys) -> Integers:
        mixed = keys[0] * _MULTIPLIER
        for word in keys[1:]:
            mixed = (mixed ^ (mixed >> np.uint64(32)) ^ word) * _MULTIPLIER
        slots: Integers = (mixed >> self._shift).astype(np.int64)
        return slots
