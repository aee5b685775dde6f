"""What a file holds, told by its name and its first bytes."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import IO, Literal, TypeAlias

from cloze.errors import InputError

FileFormat: TypeAlias = Literal[
    "sentences", "paragraphs", "lines", "files", "jsonl", "wikiextractor", "parquet", "arrow", "hub"
]
TextFormat: TypeAlias = Literal[
    "auto", "sentences", "paragraphs", "lines", "files", "jsonl", "wikiextractor", "parquet", "arrow"
]
"""What the user may say: a data set of the hub is known by its name."""

IN_WORDS: Mapping[FileFormat, str] = MappingProxyType(
    {
        "sentences": "a sentence a line, a blank line between documents",
        "paragraphs": "a paragraph a line, a blank line between documents",
        "lines": "a document a line",
        "files": "a document a file",
        "jsonl": "JSON lines",
        "wikiextractor": "documents as WikiExtractor writes them",
        "parquet": "Parquet",
        "arrow": "Arrow",
        "hub": "a data set of the Hugging Face hub",
    }
)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JSON_NAMES = (".jsonl", ".ndjson", ".json")
_JSON_OBJECT = re.compile(rb'\s*\{\s*"')
_TABLES: Mapping[bytes, FileFormat] = MappingProxyType(
    {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}
)
_NOT_TEXT = MappingProxyType(
    {
        b"%PDF-": ("a PDF", "Take the text out of it first: pdftotext"),
        b"PK\3\4": ("a ZIP archive (as are .docx and .epub)", "Unpack it first"),
        b"<mediawiki": ("a dump of a wiki, with its markup", "Take the text out of it first: WikiExtractor"),
        b"\xff\xfe\0\0": ("text in UTF-32", "Convert it: iconv -f utf-32 -t utf-8"),
        b"\0\0\xfe\xff": ("text in UTF-32", "Convert it: iconv -f utf-32 -t utf-8"),
        b"\xff\xfe": ("text in UTF-16", "Convert it: iconv -f utf-16 -t utf-8"),
        b"\xfe\xff": ("text in UTF-16", "Convert it: iconv -f utf-16 -t utf-8"),
    }
)
_UTF_16_SHARE = 0.3
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


def table_format(file: str, head: bytes) -> FileFormat | None:
    """Return which kind of table a file is, by its first bytes; None where it is text.

    Raises:
        InputError: it is neither, but something well known.
    """
    for magic, (what, remedy) in _NOT_TEXT.items():
        if head.startswith(magic):
            raise InputError(f"{what}, not text in UTF-8", where=file, remedy=remedy)
    if len(head) < 2:
        return None
    for name, zeros, others in (("utf-16le", head[1::2], head[::2]), ("utf-16be", head[::2], head[1::2])):
        if zeros.count(0) > _UTF_16_SHARE * len(zeros) and not others.count(0):
            remedy = f"Convert it: iconv -f {name} -t utf-8"
            raise InputError("text in UTF-16, not in UTF-8", where=file, remedy=remedy)
    return next((kind for magic, kind in _TABLES.items() if head.startswith(magic)), None)


def tell_apart(file: str, head: bytes) -> FileFormat | None:
    """Return the format of a file that its name or beginning gives away; None for running text.

    Raises:
        InputError: it is nothing that can be read.
    """
    table = table_format(file, head)
    if table is not None:
        return table
    head = head.removeprefix(_BYTE_ORDER_MARK)
    named_json = any(suffix in _JSON_NAMES for suffix in Path(file).suffixes[-2:])  # .jsonl, .jsonl.xz
    if named_json and head.lstrip().startswith(b"["):
        what = "a JSON array, which cannot be read piece by piece"
        raise InputError(what, where=file, remedy="Make lines of it: jq -c '.[]'")
    if named_json or _JSON_OBJECT.match(head):
        return "jsonl"
    return "wikiextractor" if head.startswith(b"<doc ") else None


def head_lines(stream: IO[bytes], count: int) -> list[str]:
    """Read the first bytes of a text and return their lines, without one that is cut at the end."""
    head = stream.read(count)
    lines = [line.strip() for line in head.decode("utf-8", "replace").split("\n")]
    return lines if len(head) < count else lines[:-1]


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
    if width not in _WRAPPED_CHARACTERS:
        return False
    followed = [(line, after) for line, after in pairwise(lines) if line and after]
    if len(followed) < _WRAPPED_LINES:
        return False
    filled = [
        line
        for line, after in followed
        if len(line) >= width // 2 and len(line) + 1 + len(after.split(maxsplit=1)[0]) > width - 2
    ]
    ended = sum(_ENDED.search(line) is not None for line in filled)
    return len(filled) >= _WRAPPED_SHARE * len(followed) and ended <= len(filled) / 2


def paragraphs_of(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the paragraphs of a document: its lines, or what stands between blank lines where those are wrapped."""
    if is_wrapped(lines[:_LINES_LOOKED_AT]):
        return tuple(" ".join(block) for full, block in groupby(lines, key=bool) if full)
    return tuple(filter(None, lines))
