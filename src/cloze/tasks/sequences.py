"""A text, or two, as the model reads them: cut to length, or in windows."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cloze.text.tokenizer import Tokenizer

LongTexts: TypeAlias = Literal["truncate", "windows"]
"""What becomes of texts that are longer than the model reads at once."""


@dataclass(frozen=True, slots=True)
class TextSequence:
    """The pieces of a text or a pair, with [CLS] and [SEP]."""

    input_ids: list[int]
    token_type_ids: list[int]
    is_truncated: bool

    @property
    def num_tokens(self) -> int:
        """Tokens, [CLS] and [SEP] included."""
        return len(self.input_ids)


def sequences_of(
    tokenizer: Tokenizer,
    text: str,
    pair: str | None = None,
    *,
    max_seq_length: int,
    long_texts: LongTexts = "truncate",
) -> list[TextSequence]:
    """Tokenize a text or a pair: into one sequence, or where it is too long into several, if windows are asked for.

    To truncate is to take pieces from the end of the longer text first (google-research/bert
    run_classifier.py:557 @eedf571). Windows of one text overlap by half. Of a pair the longer text is cut into
    windows, and the other, which stands in each of them, gets half of the room at most.
    """
    whole = tokenizer.encode(text, pair)
    if len(whole) <= max_seq_length:
        return [TextSequence(whole.input_ids, whole.token_type_ids, is_truncated=False)]
    if long_texts == "truncate":
        cut = tokenizer.encode(text, pair, max_length=max_seq_length)
        return [TextSequence(cut.input_ids, cut.token_type_ids, is_truncated=True)]
    a_end = whole.token_type_ids.count(0) - 1
    a, b = whole.input_ids[1:a_end], whole.input_ids[a_end + 1 : -1]
    if pair is None:
        windows = windows_of(a, max_seq_length - 2)
        return [join(tokenizer, window, None, is_truncated=False) for window in windows]
    room = max_seq_length - 3
    shorter, longer = (a, b) if len(a) <= len(b) else (b, a)
    kept = shorter[: room // 2]
    is_truncated = len(kept) < len(shorter)
    pairs = [
        (kept, window) if shorter is a else (window, kept) for window in windows_of(longer, room - len(kept))
    ]
    return [join(tokenizer, *both, is_truncated=is_truncated) for both in pairs]


def windows_of(pieces: list[int], size: int) -> list[list[int]]:
    """Cut pieces into windows that overlap by half.

    >>> windows_of([1, 2, 3, 4, 5, 6, 7], 4)
    [[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7]]
    """
    step = max(size // 2, 1)
    return [pieces[start : start + size] for start in range(0, max(len(pieces) - size, 0) + step, step)]


def join(tokenizer: Tokenizer, a: list[int], b: list[int] | None, *, is_truncated: bool) -> TextSequence:
    """Put [CLS] and [SEP] around the pieces of one text, or two."""
    input_ids = [tokenizer.cls_id, *a, tokenizer.sep_id]
    token_type_ids = [0] * len(input_ids)
    if b is not None:
        input_ids += [*b, tokenizer.sep_id]
        token_type_ids += [1] * (len(b) + 1)
    return TextSequence(input_ids, token_type_ids, is_truncated)
