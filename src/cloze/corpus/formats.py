"""What a file holds, told by its name and its first bytes."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from cloze.errors import InputError

FileFormat: TypeAlias = Literal[
    "sentences", "paragraphs", "lines", "files", "jsonl", "wikiextractor", "parquet", "arrow"
]
TextFormat: TypeAlias = Literal["auto", FileFormat]

IN_WORDS: dict[str, str] = {
    "sentences": "a sentence a line, a blank line between documents",
    "paragraphs": "a paragraph a line, a blank line between documents",
    "lines": "a document a line",
    "files": "a document a file",
    "jsonl": "JSON lines",
    "wikiextractor": "WikiExtractor's output",
    "parquet": "Parquet",
    "arrow": "Arrow, as save_to_disk writes it",
}
HEAD_BYTES = 1 << 16

_JSON_NAMES = (".jsonl", ".ndjson", ".json")
_JSON_OBJECT = re.compile(rb'\s*\{\s*"')
_MAGIC: dict[bytes, FileFormat] = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}
_UTF_16 = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_LINES_LOOKED_AT = 200
_SENTENCES_A_LINE = 1.4
"""Where lines hold more sentences than this on average, they are paragraphs."""
_SENTENCE_END = re.compile(r"""[.!?…]["'”’»)\]]*\s+(?=[^\sa-z])|[。！？][”’」』）]*(?=.)""")
_ENDED = re.compile(r"""[.!?…:。！？]["'”’»)\]」』]*$""")
_BOOK_BYTES = 5_000_000
"""No document is larger: a file that is, and has no blank line, holds a document a line."""
_WRAPPED_CHARACTERS = range(40, 101)
_WRAPPED_LINES = 5
_WRAPPED_SHARE = 0.8


def tell_apart(file: str, head: bytes) -> FileFormat | None:
    """Return the format of a file that its name or beginning gives away; None for running text.

    Raises:
        InputError: it is nothing that can be read.
    """
    by_magic = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    if by_magic:
        return by_magic
    head = head.removeprefix(b"\xef\xbb\xbf")
    name = Path(file)
    if name.with_suffix("").suffix in _JSON_NAMES:  # as in .jsonl.xz
        name = name.with_suffix("")
    if name.suffix in _JSON_NAMES or _JSON_OBJECT.match(head):
        if head.lstrip().startswith(b"["):
            what = "a JSON array, which is not read piece by piece"
            raise InputError(what, where=file, remedy=f"Make lines of it: jq -c '.[]' {file}")
        return "jsonl"
    if head.startswith(b"<doc "):
        return "wikiextractor"
    return None


def judge_text(lines: Sequence[str], size_bytes: int) -> FileFormat:
    """Say what the lines of running text are.

    Args:
        lines: the first ones of the text, blank ones among them.
        size_bytes: of the largest file.
    """
    looked_at = lines[:_LINES_LOOKED_AT]
    if is_wrapped(looked_at):
        return "files"
    full = [line for line in looked_at if line]
    sentences = sum(1 + len(_SENTENCE_END.findall(line)) for line in full)
    if sentences <= _SENTENCES_A_LINE * len(full):
        return "sentences"
    if size_bytes > _BOOK_BYTES and len(full) == _LINES_LOOKED_AT:
        return "lines"
    return "paragraphs"


def is_wrapped(lines: Sequence[str]) -> bool:
    """Say whether the lines of a text end where the page did: in mid-sentence, with no room for the next word.

    >>> is_wrapped(["It was a bright cold day in April, and the", "clocks were striking thirteen.", ""] * 9)
    True
    >>> is_wrapped(["It was a bright cold day in the middle of April.", "The clocks struck.", ""] * 9)
    False
    """
    width = max(map(len, lines), default=0)
    followed = [(line, after) for line, after in pairwise(lines) if line and after]
    if width not in _WRAPPED_CHARACTERS or len(followed) < _WRAPPED_LINES:
        return False
    filled = [
        line
        for line, after in followed
        if len(line) >= width // 2 and len(line) + 1 + len(after.split(maxsplit=1)[0]) > width - 2
    ]
    ended = sum(_ENDED.search(line) is not None for line in filled)
    return len(filled) >= _WRAPPED_SHARE * len(followed) and ended <= len(filled) / 2
