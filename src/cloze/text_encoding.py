"""Encodings of text: files that are not in UTF-8, with the remedy, and characters that a terminal obeys."""

import re
from types import MappingProxyType

from cloze.errors import InputError

LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair of code units, which UTF-8 does not have; Python has it for a byte of a name that is not UTF-8."""
_UTF_16_SHARE = 0.3
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that a terminal obeys, but for tabs and line ends."""
UTF_8 = "utf-8"
"""Encoding of files that are always UTF-8: errors advise to convert them, and name no `encoding`."""
CONVERT_FILE = (  # Windows-1252 has all letters of Latin 1
    "Convert the file from its encoding (iconv -f windows-1252 -t utf8 OLD > NEW if it is Western European), "
    "or fix this line if the others are UTF-8"
)
"""The remedy for a line that is not UTF-8."""
SAY_ENCODING = f"Say `encoding=cp1252` if it is Western European. {CONVERT_FILE}"
"""The remedy where the encoding is an option."""

_NOT_TEXT = (
    (rb"%PDF-", "a PDF", "Extract its text first: pdftotext"),
    (rb"\x89PNG|\xff\xd8\xff|GIF8", "an image", "Give a file of text"),
    (
        rb"PK\x03\x04",
        "a ZIP archive (as .docx, .xlsx and .epub are)",
        "Unpack it first, or save it as text or CSV",
    ),
    (rb"version https://git-lfs", "a pointer of git-lfs", "Fetch it: git lfs pull"),
    (rb"<mediawiki", "a wiki dump with markup", "Extract its text first: WikiExtractor"),
    (
        rb"(?i)(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype\s+)?html\b",
        "HTML",
        "Extract its text first: html2text or trafilatura",
    ),
)
"""Beginnings of files of other formats."""
_BYTE_ORDER_MARKS = MappingProxyType(
    {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
)


def escape_controls(text: str) -> str:
    r"""Return a text with escapes in the place of characters that a terminal would obey.

    >>> escape_controls("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def refuse_non_text(head: bytes, *, where: object, encoding: str | None = None) -> None:
    """Raise an `InputError` if the first bytes of a file are those of another format or encoding than UTF-8.

    With the encoding `UTF_8` the remedy is to convert the file; otherwise also to say its encoding.
    """
    for beginning, what, remedy in _NOT_TEXT:
        if re.match(beginning, head):
            raise InputError(f"{what}, not text", where=where, remedy=remedy)
    if name := _wide_encoding(head):
        remedy = f"Convert it: iconv -f {name} -t utf-8 OLD > NEW"
        remedy += "" if encoding == UTF_8 else f", or say `encoding={name}`"
        raise InputError(f"text in {name[:6].upper()}, not in UTF-8", where=where, remedy=remedy)


def _wide_encoding(head: bytes) -> str | None:
    """Return the encoding of two or four bytes a character that the first bytes of a file show."""
    for mark, name in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return name
    for name, zeros, others in (("utf-16le", head[1::2], head[::2]), ("utf-16be", head[::2], head[1::2])):
        if len(head) > 1 and zeros.count(0) > _UTF_16_SHARE * len(zeros) and not others.count(0):
            return name
    return None


def check_encoding(name: str) -> str:
    """Return the name of an encoding of text that Python knows."""
    try:
        "".encode(name)
    except (LookupError, ValueError):
        what = f"no encoding {name!r}"
        raise InputError(
            what, where="encoding", remedy="Write it as in utf-8, latin-1, cp1252 or utf-16"
        ) from None
    return name


def refuse_carriage_return(text: str, *, where: object, what: str) -> None:
    """Raise an `InputError` if CR is in a text where it most likely ends a line, though the file has LF, too."""
    if "\r" in text:
        remedy = "Lines end in LF or CR LF: tr '\\r' '\\n' < OLD > NEW"
        raise InputError(f"a carriage return in {what}", where=where, remedy=remedy)


def ends_lines_in_cr(head: bytes) -> bool:
    """Return whether lines end in CR alone, as far as the beginning of a text shows: it has no LF."""
    return b"\r" in head[:-1] and b"\n" not in head
