"""What a file holds, told by its name and its first bytes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from cloze.corpus.streams import COMPRESSED
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
_JSON_ARRAY = re.compile(rb'\s*\[\s*\{\s*"')
_TABLES: Mapping[bytes, FileFormat] = MappingProxyType(
    {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}
)
_NOT_TEXT = MappingProxyType(
    {
        b"%PDF-": ("a PDF, not text", "Take the text out of it first: pdftotext"),
        b"PK\3\4": ("a ZIP archive (as .docx and .epub are), not text", "Unpack it first"),
        b"version https://git-lfs": ("a pointer of git-lfs, not the file itself", "Fetch it: git lfs pull"),
        b"<mediawiki": (
            "a dump of a wiki with its markup, not text",
            "Take the text out of it first: WikiExtractor",
        ),
        b"\xff\xfe\0\0": ("text in UTF-32, not in UTF-8", "Convert it: iconv -f utf-32 -t utf-8"),
        b"\0\0\xfe\xff": ("text in UTF-32, not in UTF-8", "Convert it: iconv -f utf-32 -t utf-8"),
        b"\xff\xfe": ("text in UTF-16, not in UTF-8", "Convert it: iconv -f utf-16 -t utf-8"),
        b"\xfe\xff": ("text in UTF-16, not in UTF-8", "Convert it: iconv -f utf-16 -t utf-8"),
    }
)
_TABLE_NAMES: Mapping[str, FileFormat] = MappingProxyType({".parquet": "parquet", ".arrow": "arrow"})
_COLUMNS = (".tsv", ".csv")
_UTF_16_SHARE = 0.3

HEAD_BYTES = 1 << 18
"""What is looked at to judge running text."""
_LINES_LOOKED_AT = 1000
_MANY_SENTENCES = re.compile(
    r"""(?<![A-Z\d])(?<!\b[A-Z]r)(?<!\bMrs)(?<!\bSt)[.!?…]["'”’»)\]]*\s+["'“‘«(\[]*(?=[^\sa-z\d])"""
    r"""|[。！？][”’」』）]*(?=[^”’」』）\s])"""
)
"""Found in a line of more than one sentence; "Mr. Holmes", "J. Smith" and "3. Oktober" are not taken for two."""
_PARAGRAPHS_SHARE = 0.25
"""Of lines with many sentences, from which on lines are paragraphs. In novels it is 0.34 and more."""
_DOCUMENT_BYTES = 5_000_000
"""No document is larger: a text that is, and has no blank line, holds a document a line."""
_ARTICLE_BYTES = 20_000
_LONE_SHARE = 0.9
_LONE_SENTENCES_SHARE = 0.1
"""Of blocks of one line, the share of single sentences from which on they are paragraphs. Documents have more."""
_WIDTHS = range(40, 101)
_LINES_WITHIN_WIDTH = 0.98
_WRAPPED_LINES = 5
_FILLED_SHARE = 0.6
"""Of lines that end where the page did, in wrapped text. In novels it is 0.73 and more; of sentences, 0.13 do."""
_ENDED = re.compile(r"""[.!?…:。！？]["'”’»)\]」』]*$""")


def table_format(file: str, head: bytes) -> FileFormat | None:
    """Return which kind of table a file is, by its first bytes; None where it is text.

    Raises:
        InputError: it is neither, but something well known.
    """
    for magic, (what, remedy) in _NOT_TEXT.items():
        if head.startswith(magic):
            raise InputError(what, where=file, remedy=remedy)
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
    table = table_format(file, head) or _TABLE_NAMES.get(Path(file.lower()).suffix)
    if table is not None:
        return table
    head = head.removeprefix(_BYTE_ORDER_MARK)
    name = Path(file.lower())
    suffix = name.with_suffix("").suffix if name.suffix in COMPRESSED else name.suffix
    if suffix in _COLUMNS:
        remedy = "Take a column out of it (cut -f 1), or say with --format that its lines are text"
        raise InputError("a table of columns, not running text", where=file, remedy=remedy)
    if b"\r" in head and b"\n" not in head:
        remedy = "Convert it: tr '\\r' '\\n' < OLD > NEW"
        raise InputError("lines end as those of old Macs do (CR without LF)", where=file, remedy=remedy)
    if _JSON_ARRAY.match(head) or (suffix in _JSON_NAMES and head.lstrip().startswith(b"[")):
        what = "a JSON array, which cannot be read piece by piece"
        raise InputError(what, where=file, remedy="Make lines of it: jq -c '.[]'")
    if suffix in _JSON_NAMES or _JSON_OBJECT.match(head):
        return "jsonl"
    return "wikiextractor" if head.startswith(b"<doc ") else None


def judge_text(head: bytes, size_bytes: float) -> FileFormat:
    """Say what the lines of running text are.

    Args:
        head: the first bytes of the text, `HEAD_BYTES` of them if there are as many.
        size_bytes: of the whole text, roughly; infinite where nobody knows.
    """
    lines = [line.strip() for line in head.decode("utf-8", "replace").split("\n")]
    is_whole = len(head) < HEAD_BYTES
    uncut = lines if is_whole else lines[:-1]
    # Of a line that is cut the beginning shows well enough what it holds, and it may be all there is.
    blocks = [list(block) for full, block in groupby(lines[:_LINES_LOOKED_AT], key=bool) if full]
    full = [line for block in blocks for line in block]
    if wrapped_width(uncut):
        return "files"
    if sum(map(_holds_many_sentences, full)) <= _PARAGRAPHS_SHARE * len(full):
        return "sentences"
    if all(uncut) and not is_whole and size_bytes > _DOCUMENT_BYTES:
        return "lines"
    lone = [block[0] for block in blocks if len(block) == 1]
    if len(blocks) > 1 and len(lone) >= _LONE_SHARE * len(blocks):
        single = len(lone) - sum(map(_holds_many_sentences, lone))
        if single >= _LONE_SENTENCES_SHARE * len(lone) or len(head) < _ARTICLE_BYTES:
            return "files"
    return "paragraphs"


def paragraphs_of(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the paragraphs of a document from its lines, blank ones among them; wrapped lines are joined."""
    width = wrapped_width(lines)
    return tuple(_unwrapped(lines, width) if width else filter(None, lines))


def wrapped_width(lines: Sequence[str]) -> int | None:
    """Return at which width a text is wrapped: its lines end in mid-sentence, with no room for the next word.

    >>> wrapped_width(["It was a bright cold day in April, and the", "clocks were striking thirteen.", ""] * 9)
    42
    >>> wrapped_width(["It was a bright cold day in the middle of April.", "The clocks struck.", ""] * 9)
    """
    if len(lines) <= _WRAPPED_LINES:
        return None
    lines = lines[:_LINES_LOOKED_AT]
    lengths = sorted(filter(None, map(len, lines)))
    width = lengths[int(_LINES_WITHIN_WIDTH * (len(lengths) - 1))] if lengths else 0
    if width not in _WIDTHS:
        return None
    followed = [(line, after) for line, after in pairwise(lines) if line and after]
    if len(followed) < _WRAPPED_LINES:
        return None
    filled = [line for line, after in followed if _is_filled(line, after, width)]
    ended = sum(_ENDED.search(line) is not None for line in filled)
    return width if len(filled) >= _FILLED_SHARE * len(followed) and ended <= len(filled) / 2 else None


def _unwrapped(lines: Sequence[str], width: int) -> Iterator[str]:
    """Yield paragraphs. They end at a blank line, or with a sentence where there was room for the next word."""
    paragraph: list[str] = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if line:
            paragraph.append(line)
            if not after or (_ENDED.search(line) and not _is_filled(line, after, width)):
                yield " ".join(paragraph)
                paragraph = []


def _is_filled(line: str, after: str, width: int) -> bool:
    return len(line) >= width // 2 and len(line) + 1 + len(after.split(maxsplit=1)[0]) > width - 2


def _holds_many_sentences(line: str) -> bool:
    return _MANY_SENTENCES.search(line) is not None
