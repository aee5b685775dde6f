"""WordPiece vocabularies: read and check `vocab.txt`, learn one from word counts, add words."""

import itertools
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from cloze.errors import InputError
from cloze.file_io import read_file, read_json
from cloze.file_names import CONFIG_FILE, GOOGLE_CONFIG_FILE
from cloze.progress import SILENT, Progress
from cloze.tables import format_count
from cloze.text_encoding import CONVERT_FILE, LONE_SURROGATE, UTF_8, ends_lines_in_cr, refuse_non_text
from cloze.tokenization.special_tokens import CLS, CONTINUATION, MASK, PAD, SEP, SPECIAL_TOKENS, UNK, UNUSED
from cloze.tokenization.wordpiece_trainer import MIN_COUNT, Words, learn_tokens

MAX_VOCABULARY_BYTES = 1 << 26
MAX_WORD_CHARS = 50
MIN_ALPHABET, MAX_ALPHABET = 100, 1000


def read_vocabulary(path: Path) -> list[str]:
    """Read and check a `vocab.txt`, one token per line; the id of a token is the number of lines before it.

    Blanks around a token, and empty lines at the end, do not count. See `keep_ids` for other empty or repeated lines.
    """
    path = Path(path)
    try:
        raw = read_file(path, max_bytes=MAX_VOCABULARY_BYTES)
    except FileNotFoundError as error:
        raise InputError(f"cannot read the vocabulary: {error.strerror}", where=path) from None
    refuse_non_text(raw, where=path, encoding=UTF_8)
    if ends_lines_in_cr(raw):
        raw = raw.replace(b"\r", b"\n")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = raw.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8", where=f"{path}:{number}", remedy=CONVERT_FILE) from None
    # Published vocabularies contain U+2028 as a token.
    tokens = [line.strip() or line.strip(" \t\r") for line in text.split("\n")]
    while tokens and not tokens[-1]:
        tokens.pop()
    tokens = keep_ids(tokens, path)
    check_vocabulary(tokens, where=path)
    return tokens


def keep_ids(tokens: list[str], path: Path) -> list[str]:
    """Replace empty and repeated tokens by [unusedN], with a warning, if the model beside the vocabulary has their ids.

    Without a model the tokens are returned as they are.

    Source: google-research/bert tokenization.py:121-135 @eedf571, and transformers: an empty line has an id, and the
        last of equal tokens counts.
    """
    num_embeddings = None if len({*tokens, ""}) > len(tokens) else count_embeddings(path.parent)
    if num_embeddings is None:
        return tokens
    ids = {token: number for number, token in enumerate(tokens)}
    broken = [number for number, token in enumerate(tokens) if not token or ids[token] != number]
    if len(tokens) > num_embeddings:
        counts = f"{len(tokens):,} lines, {len(broken):,} of them empty or repeated"
        what = f"{counts}, and the model has {num_embeddings:,} embeddings"
        raise InputError(what, where=path, remedy="Copy the vocab.txt that belongs to the model's weights")
    what = f"empty or repeated tokens: {len(broken):,}, the first has id {broken[0]:,}"
    warnings.warn(f"{path}: {what}: all ids stay as they are", stacklevel=2)
    unused = dict(zip(broken, _unused_tokens(ids), strict=False))
    return [unused.get(number, token) for number, token in enumerate(tokens)]


def count_embeddings(directory: Path) -> int | None:
    """Return the number of embeddings of the model in a directory, if there is one."""
    for name in (CONFIG_FILE, GOOGLE_CONFIG_FILE):
        if (directory / name).is_file():
            size = read_json(directory / name).get("vocab_size")
            if isinstance(size, int):
                return size
    return None


def _unused_tokens(known: Collection[str]) -> Iterator[str]:
    return (token for number in itertools.count() if (token := f"[unused{number}]") not in known)


def check_vocabulary(tokens: Sequence[str], *, where: object) -> None:
    """Refuse tokens, in the order of their ids, that are empty or repeated or lack a special token."""
    if not tokens:
        raise InputError("the vocabulary is empty", where=where)
    first_line: dict[str, int] = {}
    is_whole = len({*tokens, ""}) > len(tokens) and not LONE_SURROGATE.search("".join(tokens))
    for number, token in enumerate(() if is_whole else tokens, start=1):
        if not token or token in first_line:
            first = first_line.get(token, number)
            what = f"{token!r} is in line {first} already" if token else "empty line in the vocabulary"
            # readers take the last of equal tokens
            remedy = f"Write {next(_unused_tokens(tokens))} in line {first}: all ids stay"
            raise InputError(what, where=f"{where}:{number}", remedy=remedy)
        if LONE_SURROGATE.search(token):
            what = f"{token!a} has a lone surrogate, which is not a character"
            raise InputError(what, where=f"{where}:{number}")
        first_line[token] = number
    missing = [token for token in SPECIAL_TOKENS if token not in tokens]
    if missing:
        remedy = "BERT needs " + ", ".join(SPECIAL_TOKENS)
        raise InputError(f"the vocabulary has no {' and no '.join(missing)}", where=where, remedy=remedy)


def learn_vocabulary(word_counts: Mapping[str, int], *, size: int, progress: Progress = SILENT) -> list[str]:
    """Learn a WordPiece vocabulary of exactly `size` tokens.

    Reserved tokens come first, at Google's ids: [PAD], [unused0] to [unused98], [UNK], [CLS], [SEP], [MASK],
    [unused99] to [unused993]. A vocabulary below 20,000 tokens has only those up to [MASK], one below 5,000 no
    [unusedN]. Then come the alphabet, without and with ##, and the learned tokens by frequency. The result does not
    depend on the order of the counts.

    The alphabet has the most frequent characters of words with several characters: a twentieth of `size`, at least 100
    and at most 1,000. Words with rarer characters become [UNK]. Characters that are always words of their own
    (punctuation, Chinese) need no ## form; they are learned by frequency.

    Words of `word_counts` over 50 characters are ignored.

    Source: Devlin et al. 2019, 3; see `cloze.tokenization.wordpiece_trainer`.
    """
    reserved = reserved_tokens(size)
    usable = {w: n for w, n in word_counts.items() if len(w) <= MAX_WORD_CHARS and w != UNK}
    character_counts: Counter[str] = Counter()
    for word, count in usable.items():
        if len(word) > 1:
            for character in word:
                character_counts[character] += count
    frequent = [character for character, count in character_counts.items() if count >= MIN_COUNT]
    frequent.sort(key=lambda character: (-character_counts[character], character))
    alphabet = sorted(frequent[: min(max(MIN_ALPHABET, size // 20), MAX_ALPHABET)])
    letters_alone = frozenset(alphabet)
    words = sorted(word for word in usable if len(word) == 1 or letters_alone.issuperset(word))
    num_ignored = sum(word_counts.values()) - sum(usable[word] for word in words)
    if num_ignored:
        reason = f"over {MAX_WORD_CHARS} characters long or with characters too rare for the alphabet"
        progress.note(f"vocabulary: ignored {format_count(num_ignored, 'word')}, {reason}")
    if not words:
        raise InputError("no words to learn a vocabulary from", remedy="Give more text")
    letters = [*alphabet, *(CONTINUATION + letter for letter in alphabet)]
    num_learned = size - len(reserved) - len(letters)
    if num_learned < 0:
        what = f"{size} is too small for {len(reserved)} reserved tokens and an alphabet of {len(letters)}"
        raise InputError(what, where="size", remedy=f"Use at least {size - num_learned}")
    with progress.bar("vocabulary", total=None, unit="thresholds tried") as bar:
        concatenated = Words.concatenate(words, [usable[word] for word in words])
        learned = learn_tokens(concatenated, list(map(ord, alphabet)), num_learned, bar)
        if len(learned) < num_learned:
            available = len(letters) + len(learned)
            available += len(reserved_tokens(available))
            what = f"{size:,} tokens requested, {available:,} occur {MIN_COUNT} times or more in the text"
            raise InputError(what, where="size", remedy=f"Use {available} tokens or fewer, or give more text")
    return [*reserved, *letters, *learned]


def reserved_tokens(size: int) -> list[str]:
    """Return the tokens before the learned ones: special tokens, and placeholders for words that are added later.

    Differs: the placeholders of the published cased and multilingual vocabularies are numbered from 1.
    """
    before, after = (99, 895) if size >= 20_000 else (99, 0) if size >= 5_000 else (0, 0)
    unused = [f"[unused{number}]" for number in range(before + after)]
    return [PAD, *unused[:before], UNK, CLS, SEP, MASK, *unused[before:]]


def add_tokens(tokens: Sequence[str], words: Sequence[str], keep: Collection[str] = ()) -> list[str]:
    """Add words to a vocabulary: first in place of [unused] tokens, in order, then at the end.

    All other tokens keep their ids, as do [unused] tokens in `keep`, which are in use. Refuses words that it has.
    """
    extended = list(tokens)
    places = (index for index, token in enumerate(tokens) if UNUSED.fullmatch(token) and token not in keep)
    for word in words:
        place = next(places, None)
        if place is None:
            extended.append(word)
        else:
            extended[place] = word
    check_vocabulary(extended, where="words")
    return extended
