"""Vocabularies: reading and checking `vocab.txt`, and learning WordPiece from counted words."""

from collections.abc import Sequence
from pathlib import Path

from cloze.errors import InputError

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_PIECES = (PAD, UNK, CLS, SEP, MASK)
CONTINUATION = "##"


def read_vocabulary(path: Path) -> list[str]:
    """Read a `vocab.txt`: a piece a line, its id is the number of lines before it.

    Raises:
        InputError: the file is missing, empty, not UTF-8, names a piece twice or lacks a special piece.
    """
    path = Path(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the vocabulary: {error.strerror}", where=path) from None
    lines = raw.removesuffix(b"\n").split(b"\n") if raw else []
    pieces = []
    for number, line in enumerate(lines, start=1):
        try:
            # No strip(): published vocabularies hold U+2028 as a piece.
            pieces.append(line.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError:
            remedy = "A vocabulary is a text file with a piece a line"
            raise InputError("not UTF-8", where=f"{path}:{number}", remedy=remedy) from None
    check_pieces(pieces, where=path)
    return pieces


def check_pieces(pieces: Sequence[str], *, where: object) -> None:
    """Refuse a list of pieces that no BERT tokenizer can work with.

    Args:
        pieces: the vocabulary in the order of the ids.
        where: the file it was read from, for the message.

    Raises:
        InputError: it is empty, has an empty or repeated piece, or lacks a special piece.
    """
    if not pieces:
        raise InputError("the vocabulary is empty", where=where)
    first_line: dict[str, int] = {}
    for number, piece in enumerate(pieces, start=1):
        if not piece:
            raise InputError("empty line in the vocabulary", where=f"{where}:{number}", remedy="Delete it")
        if piece in first_line:
            what = f"{piece!r} stands in line {first_line[piece]} already"
            raise InputError(what, where=f"{where}:{number}", remedy="Every piece may stand once")
        first_line[piece] = number
    missing = [piece for piece in SPECIAL_PIECES if piece not in first_line]
    if missing:
        remedy = "BERT needs " + ", ".join(SPECIAL_PIECES)
        raise InputError(f"the vocabulary has no {' and no '.join(missing)}", where=where, remedy=remedy)
