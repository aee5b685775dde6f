"""Vocabularies: reading and checking `vocab.txt`, and learning WordPiece from counted words."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from cloze.artifacts import read_file
from cloze.errors import InputError
from cloze.progress import SILENT, Bar, Progress
from cloze.text.learner import LEAST_COUNT, Words, learn_pieces
from cloze.text.pieces import CLS, CONTINUATION, MASK, PAD, SEP, SPECIAL_PIECES, UNK, UNUSED

MOST_BYTES = 1 << 26
"""Of a file with a vocabulary; ten million pieces are not in one."""
MAX_WORD_CHARS = 50
MIN_ALPHABET, MAX_ALPHABET = 100, 1000


def read_vocabulary(path: Path) -> list[str]:
    """Read a `vocab.txt`: a piece a line, its id is the number of lines before it.

    Raises:
        InputError: the file is missing, empty, not UTF-8, names a piece twice or lacks a special piece.
    """
    path = Path(path)
    try:
        raw = read_file(path, most_bytes=MOST_BYTES)
    except FileNotFoundError as error:
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
        if not piece.isascii() and any("\ud800" <= character <= "\udfff" for character in piece):
            what = f"{piece!a} is no text: half of a pair of surrogates"
            raise InputError(what, where=f"{where}:{number}")
        first_line[piece] = number
    missing = [piece for piece in SPECIAL_PIECES if piece not in first_line]
    if missing:
        remedy = "BERT needs " + ", ".join(SPECIAL_PIECES)
        raise InputError(f"the vocabulary has no {' and no '.join(missing)}", where=where, remedy=remedy)


def learn_vocabulary(word_counts: Mapping[str, int], *, size: int, progress: Progress = SILENT) -> list[str]:
    """Learn a WordPiece vocabulary of exactly `size` pieces from counted words.

    Reserved pieces come first, where Google has them: [PAD], [unused0] to [unused98], [UNK], [CLS], [SEP],
    [MASK], [unused99] to [unused993]. A vocabulary under 20,000 pieces does without what follows [MASK], one
    under 5,000 without any [unusedN]. Then come the alphabet, alone and with ##, and the rest, the most
    frequent first. The same counts give the same vocabulary, whatever their order.

    The alphabet is the most frequent characters of those that stand together with others in words: a
    twentieth of `size`, but 100 at least and 1,000 at most; rarer ones are left to [UNK]. Characters that
    always stand alone (punctuation, Chinese) need no ## form and must be frequent enough, like any other
    piece.

    Args:
        word_counts: what `count_words` gives; words over 50 characters are left out.
        size: pieces in all.
        progress: where to tell how far it is.

    Raises:
        InputError: the text has fewer different pieces, or `size` is smaller than reserved pieces and
            alphabet.

    Source: Devlin et al. 2019, 3; see `cloze.text.learner`.
    """
    reserved = reserved_pieces(size)
    usable = {w: n for w, n in word_counts.items() if len(w) <= MAX_WORD_CHARS and w != UNK}
    alphabet = _alphabet(usable, size)
    words = _made_of(alphabet, usable)
    left_out = sum(word_counts.values()) - sum(usable[word] for word in words)
    if left_out:
        reason = f"over {MAX_WORD_CHARS} characters long or with characters too rare for the alphabet"
        progress.note(f"vocabulary: {left_out:,} words left out, {reason}")
    if not words:
        raise InputError("no words to learn a vocabulary from", remedy="Give more text")
    forms = [*alphabet, *(CONTINUATION + letter for letter in alphabet)]
    wanted = size - len(reserved) - len(forms)
    if wanted < 0:
        what = f"{size} pieces cannot hold {len(reserved)} reserved ones and an alphabet of {len(forms)}"
        raise InputError(what, where="size", remedy=f"Use at least {size - wanted}")
    with progress.bar("vocabulary", total=None, unit="thresholds tried") as bar:
        learned = _learn(words, usable, alphabet, wanted, bar)
        if len(learned) < wanted:
            there = _with_reserved(len(forms) + len(learned))
            most = _largest_size(usable, alphabet, there, bar)
            what = f"{size:,} pieces asked for, the text has {there:,} that occur {LEAST_COUNT} times or more"
            remedy = f"Use a smaller one, {most} at most, or more text" if most else "Give more text"
            raise InputError(what, where="size", remedy=remedy)
    return [*reserved, *forms, *learned]


def reserved_pieces(size: int) -> list[str]:
    """Return what stands before the learned pieces: special pieces and room for words added later.

    Differs: in the published cased and multilingual files the unused pieces are counted from 1.
    """
    before, after = (99, 895) if size >= 20_000 else (99, 0) if size >= 5_000 else (0, 0)
    unused = [f"[unused{number}]" for number in range(before + after)]
    return [PAD, *unused[:before], UNK, CLS, SEP, MASK, *unused[before:]]


def extend_pieces(pieces: Sequence[str], words: Sequence[str], keep: Collection[str] = ()) -> list[str]:
    """Add words to a vocabulary: they take the [unused] places first, in their order, and then stand at the end.

    The other pieces keep their ids, as do [unused] ones in `keep`, which somebody gave a meaning.

    Raises:
        InputError: a word is a piece already, or stands twice.
    """
    extended = list(pieces)
    places = (index for index, piece in enumerate(pieces) if UNUSED.fullmatch(piece) and piece not in keep)
    for word in words:
        place = next(places, None)
        if place is None:
            extended.append(word)
        else:
            extended[place] = word
    check_pieces(extended, where="words")
    return extended


def _largest_size(word_counts: Mapping[str, int], alphabet: list[str], size: int, bar: Bar) -> int | None:
    """Return a size that the text has pieces enough for, where it has `size` of them with this alphabet.

    A smaller vocabulary has a smaller alphabet, and so fewer words to learn from: None where none is left.
    """
    while (fewer := _alphabet(word_counts, size)) != alphabet:
        alphabet = fewer
        words = _made_of(alphabet, word_counts)
        if not words:
            return None
        learned = _learn(words, word_counts, alphabet, size, bar)
        there = _with_reserved(2 * len(alphabet) + len(learned))
        if there >= size:
            break
        size = there
    return size


def _with_reserved(number: int) -> int:
    return number + len(reserved_pieces(number))


def _learn(
    words: Sequence[str], word_counts: Mapping[str, int], alphabet: Sequence[str], number: int, bar: Bar
) -> list[str]:
    counted = Words.of(words, [word_counts[word] for word in words])
    return learn_pieces(counted, list(map(ord, alphabet)), number, bar)


def _made_of(alphabet: Sequence[str], word_counts: Mapping[str, int]) -> list[str]:
    """Return the words that can be learned from, in their order: of the alphabet, or of a character alone."""
    letters = frozenset(alphabet)
    return sorted(word for word in word_counts if len(word) == 1 or letters.issuperset(word))


def _alphabet(word_counts: Mapping[str, int], size: int) -> list[str]:
    """Return the most frequent characters of words of several characters, by code point.

    Args:
        word_counts: the words.
        size: of the vocabulary.
    """
    limit = min(max(MIN_ALPHABET, size // 20), MAX_ALPHABET)
    counts: Counter[str] = Counter()
    for word, count in word_counts.items():
        if len(word) > 1:
            for character in word:
                counts[character] += count
    frequent = [character for character in counts if counts[character] >= LEAST_COUNT]
    frequent.sort(key=lambda character: (-counts[character], character))
    return sorted(frequent[:limit])
