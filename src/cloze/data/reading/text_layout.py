"""The layout of text: whether lines are sentences, paragraphs, documents or wrapped, and marks of a PDF's pages."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Literal

HEAD_BYTES = 1 << 18
"""Number of bytes from which the layout of a text is guessed."""
_MAX_LINES = 1000
_MANY_SENTENCES = re.compile(
    r"""(?<![A-Z\d])(?<!\b[A-Z]r)(?<!\bMrs)(?<!\bSt)[.!?…]["'”’»)\]]*\s+["'“‘«(\[]*(?=[^\sa-z\d])"""
    r"""|[。！？][”’」』）]*(?=[^”’」』）\s])"""
)
"""Matches a line of more than one sentence; "Mr. Holmes", "J. Smith" and "3. Oktober" are not taken for two."""
_PARAGRAPHS_SHARE = 0.25
"""Minimum share of lines with several sentences for lines to be paragraphs. In novels it is 0.34 and more."""
_MAX_LIKELY_DOCUMENT_BYTES = 5_000_000
"""A larger text without a blank line has one document per line."""
_ARTICLE_BYTES = 20_000
_LONE_SHARE = 0.9
_LONE_SENTENCES_SHARE = 0.1
"""Blocks of one line are paragraphs if at least this share of them are single sentences. Of documents, fewer are."""
_WIDTHS = range(40, 101)
_LINES_WITHIN_WIDTH = 0.98
_MIN_WRAPPED_LINES = 5
_FILLED_SHARE = 0.6
"""Minimum share of filled lines in wrapped text. Novels have 0.73 or more; text with a sentence per line has 0.13."""
_ENDED = re.compile(r"""[.!?…:。！？]["'”’»)\]」』]*$""")
_LIGATURE = re.compile("[\ufb00-\ufb06]")
_SOFT_HYPHEN = re.compile(r"\xad(?:[ \t]*\n\s*)?")
_LETTERS = r"[^\W\d_]++"
_DIVIDED = re.compile(rf"(?<![^\W\d_])({_LETTERS})[-\u2010][ \t]*\n\s*(?=({_LETTERS}))")
_HYPHENATED = re.compile(rf"(?<![^\W\d_]){_LETTERS}[-\u2010]{_LETTERS}")


def guess_text_layout(head: bytes, size_bytes: float) -> Literal["sentences", "paragraphs", "lines", "files"]:
    """Guess the text format of running text from its first `HEAD_BYTES`, or all of it, and its approximate size."""
    lines = [line.strip() for line in head.decode("utf-8", "replace").split("\n")]
    is_whole = len(head) < HEAD_BYTES
    complete = lines if is_whole else lines[:-1]
    # The beginning of a cut line shows well enough what it holds, and it may be the only line.
    blocks = [list(block) for is_full, block in groupby(lines[:_MAX_LINES], key=bool) if is_full]
    full = [line for block in blocks for line in block]
    if wrapped_width(complete):
        return "files"
    if sum(map(_has_many_sentences, full)) <= _PARAGRAPHS_SHARE * len(full):
        return "sentences"
    if all(complete) and not is_whole and size_bytes > _MAX_LIKELY_DOCUMENT_BYTES:
        return "lines"
    lone = [block[0] for block in blocks if len(block) == 1]
    if len(blocks) > 1 and len(lone) >= _LONE_SHARE * len(blocks):
        single = len(lone) - sum(map(_has_many_sentences, lone))
        if single >= _LONE_SENTENCES_SHARE * len(lone) or len(head) < _ARTICLE_BYTES:
            return "files"
    return "paragraphs"


def split_paragraphs(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the paragraphs of a document from its lines, including blank ones.

    Wrapped lines become one paragraph with line breaks in it.
    """
    width = wrapped_width(lines)
    if not width:
        return tuple(filter(None, lines))
    paragraphs: list[str] = []
    paragraph: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if line:
            paragraph.append(line)
            # it ends at a blank line, or with a sentence before the next word would not fit
            if not after or (_ENDED.search(line) and not _is_filled(line, after, width)):
                paragraphs.append("\n".join(paragraph))
                paragraph = []
    return tuple(paragraphs)


def wrapped_width(lines: Sequence[str]) -> int | None:
    """Return the width at which a text is wrapped: lines end in mid-sentence, with no space for the next word.

    >>> wrapped_width(["It was a bright cold day in April, and the", "clocks were striking thirteen.", ""] * 9)
    42
    >>> wrapped_width(["It was a bright cold day in the middle of April.", "The clocks struck.", ""] * 9)
    """
    if len(lines) <= _MIN_WRAPPED_LINES:
        return None
    lines = lines[:_MAX_LINES]
    lengths = sorted(filter(None, map(len, lines)))
    width = lengths[int(_LINES_WITHIN_WIDTH * (len(lengths) - 1))] if lengths else 0
    if width not in _WIDTHS:
        return None
    followed = [(line, after) for line, after in pairwise(lines) if line and after]
    if len(followed) < _MIN_WRAPPED_LINES:
        return None
    filled = [line for line, after in followed if _is_filled(line, after, width)]
    ended = sum(_ENDED.search(line) is not None for line in filled)
    return width if len(filled) >= _FILLED_SHARE * len(followed) and ended <= len(filled) / 2 else None


def clean_pdf_text(text: str) -> tuple[str, int]:
    r"""Return a text without marks of a page's layout, and the number of changes.

    A word that a hyphen divides at a line end is joined, unless the text has it with the hyphen within a line, or only
    one of its halves is in capitals. Ligatures become letters, and soft hyphens are deleted. Time is linear.

    >>> clean_pdf_text("The \ufb01rst exam-\nple is well-\nknown: a well-known one.")
    ('The first example is well-\nknown: a well-known one.', 2)
    """
    text, ligatures = _LIGATURE.subn(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    text, soft_hyphens = _SOFT_HYPHEN.subn("", text)
    divided = [match.groups() for match in _DIVIDED.finditer(text)]
    if not divided:
        return text, ligatures + soft_hyphens
    hyphenated = {word.replace("\u2010", "-").lower() for word in _HYPHENATED.findall(text)}

    def is_one_word(head: str, tail: str) -> bool:
        same_case = tail[0].islower() if head[-1].islower() else head.isupper() and tail[0].isupper()
        return same_case and f"{head}-{tail}".lower() not in hyphenated

    text = _DIVIDED.sub(lambda match: match[1] if is_one_word(*match.groups()) else match[0], text)
    return text, ligatures + soft_hyphens + sum(is_one_word(*halves) for halves in divided)


def _is_filled(line: str, after: str, width: int) -> bool:
    return len(line) >= width // 2 and len(line) + 1 + len(after.split(maxsplit=1)[0]) > width - 2


def _has_many_sentences(line: str) -> bool:
    return _MANY_SENTENCES.search(line) is not None
