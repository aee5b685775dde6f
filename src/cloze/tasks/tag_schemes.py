"""Tagging schemes for entities: detection and conversion of IOB1, IOB2, IOBES, BILOU and BMES; and plain tags."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Literal, TypeAlias

from cloze.errors import InputError
from cloze.metrics.conll import Entity, entities

Scheme: TypeAlias = Literal["IOB2", "IOB1", "IOBES", "BILOU", "BMES", "plain"]
"""How tags mark the words of an entity.

IOB2: B the first, I the others. IOB1: I all, but B the first where an entity of its type ends right before. IOBES: as
IOB2, but E the last, and S a single one; BILOU calls them L and U; BMES has M for I. plain: each word has a tag of its
own, such as a part of speech.
"""
Stray: TypeAlias = Literal["refuse", "as-conlleval"]
"""Tags that no scheme allows, such as I after O, are an error, or are read as conlleval does."""

_MAX_STRAY_SHARE = 0.01
"""Share of entities that may begin with a needless B in IOB1; CoNLL-2003 has two."""
_NO_TAG = re.compile(r"_?|-?\d+|LABEL_\d+")  # a placeholder or a number, which plain tags are not taken to be
_OTHER_CASE = re.compile(r"o|[bimeslu]-.+")
_NOTATIONS = (
    re.compile(r"(?P<type>.+)[-_](?P<mark>[BIMESLU])"),
    re.compile(r"(?P<mark>[BIMESLU])_(?P<type>.+)"),
)
_ENDS: Mapping[str, Scheme] = MappingProxyType({"E": "IOBES", "S": "IOBES", "L": "BILOU", "U": "BILOU"})


@dataclass(slots=True)
class SchemeDetector:
    """Detects the scheme of tags.

    An I that begins an entity in IOB2 is an error, unless it is read as conlleval does: a tag before it is missing or
    wrong.

    Args:
        task: name of the task, for remedies.
        is_plain: accept any tags as plain ones.
        stray: whether tags that no scheme allows are an error.
    """

    task: str = "tagging"
    is_plain: bool = False
    stray: Stray = "refuse"
    _num_beginnings: Counter[str] = field(default_factory=Counter)
    """Entities that are not right after one of their type, by the prefix of their first tag."""
    _first_beginning: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The first of them by prefix: both tags, and file and line."""
    _num_not_iobes: int = 0
    """Tags that IOBES and BILOU do not allow there."""
    _first_not_iobes: tuple[str, str] | None = None
    _with_ends: dict[Scheme, tuple[str, str]] = field(default_factory=dict)
    """By IOBES, BILOU and BMES, the first tag that only this scheme has, and file and line."""
    _has_inner_i: bool = False
    """Whether I is a tag, which BMES does not have."""
    _plain_tags: Counter[str] = field(default_factory=Counter)
    _first_plain: tuple[str, str] | None = None
    _has_entity_tag: bool = False

    def add(self, tags: Sequence[str], where: Callable[[int], str]) -> None:
        """Add a sentence's tags; `where` returns file and line of a word.

        Raises:
            InputError: a tag is of no scheme, and is not plain as all others are.
        """
        self._check_kind(tags, where)
        if self._first_plain is not None:
            return
        before = "O"
        for word, tag in enumerate([*tags, "O"]):
            prefix, begins, is_iobes = _transition(before, tag)
            if prefix == "M" and "BMES" not in self._with_ends:
                self._with_ends["BMES"] = tag, where(word)
            self._has_inner_i = self._has_inner_i or prefix == "I"
            if prefix in _ENDS and _ENDS[prefix] not in self._with_ends:
                self._with_ends[_ENDS[prefix]] = tag, where(word)
            if begins:
                self._num_beginnings[prefix] += 1
                if prefix not in self._first_beginning:
                    self._first_beginning[prefix] = f"{tag} after {before}", where(word)
            if not is_iobes:
                self._num_not_iobes += 1
                if self._first_not_iobes is None:
                    self._first_not_iobes = f"{tag} after {before}", where(min(word, len(tags) - 1))
            before = tag

    def _check_kind(self, tags: Sequence[str], where: Callable[[int], str]) -> None:
        """Check that all tags are of entities, or all are plain."""
        for word, tag in enumerate(tags):
            if not self.is_plain and is_tag(tag):
                # M alone may also be a part of speech
                self._has_entity_tag = self._has_entity_tag or tag != "M"
            elif _NO_TAG.fullmatch(tag) and not (self.is_plain and tag.strip("_")):
                self._refuse(tag, where(word))
            else:
                self._plain_tags[tag] += 1
                self._first_plain = self._first_plain or (tag, where(word))
            if self._has_entity_tag and self._first_plain is not None:
                self._refuse(*self._first_plain)

    def _refuse(self, tag: str, where: str) -> None:
        remedy = "Tags are O, or B, I, E or S with a type, as in B-PER"
        if tag.strip("_"):
            remedy += f"; other tags are read with `{self.task}.scheme=plain`"
        raise InputError(f"{tag!r} is not a tag", where=where, remedy=remedy)

    def scheme(self) -> Scheme:
        """Return the scheme of all tags; IOB2 if there are no entities.

        Raises:
            InputError: the tags are in no scheme, or in several.
        """
        remedy = f"Give tags in one scheme, or read them as conlleval does: `{self.task}.stray=as-conlleval`"
        if self._first_plain is not None:
            if not self.is_plain and max(self._plain_tags.values()) == 1:  # words of a text are as different
                self._refuse(*self._first_plain)
            if not self.is_plain and all(_OTHER_CASE.fullmatch(tag) for tag in self._plain_tags):
                self._refuse(*self._first_plain)
            return "plain"
        if self._with_ends:
            if "BMES" in self._with_ends and not self._has_inner_i:
                self._with_ends.pop("IOBES", None)  # which has E and S, too
            name, (tag, where) = list(self._with_ends.items())[-1]
            if len(self._with_ends) > 1 or (name == "BMES" and self._has_inner_i):
                what = f"{tag} is a tag of {name}, and others are of another scheme"
                raise InputError(what, where=where, remedy="Give tags in one scheme")
            if self._first_not_iobes is not None and self.stray == "refuse":
                pair, where = self._first_not_iobes
                ends = "M" if name == "BMES" else " and ".join(p for p in _ENDS if _ENDS[p] == name)
                what = f"{pair}: invalid in {name}, which tags with {ends} are in"
                raise InputError(what, where=where, remedy=remedy)
            return name
        with_i, with_b = self._num_beginnings["I"], self._num_beginnings["B"]
        if not with_i:
            return "IOB2"
        if with_b <= _MAX_STRAY_SHARE * (with_i + with_b):
            return "IOB1"
        if self.stray == "as-conlleval":
            return "IOB2"
        prefix, other = ("I", "B") if with_i <= with_b else ("B", "I")
        pair, where = self._first_beginning[prefix]
        counts = self._num_beginnings
        what = f"{pair}: {counts[prefix]:,} entities begin with {prefix}, {counts[other]:,} with {other}"
        raise InputError(what, where=where, remedy=remedy)

    @property
    def num_stray(self) -> int:
        """Tags that the scheme does not allow."""
        if self._with_ends:
            return self._num_not_iobes
        return self._num_beginnings["I"] if self.scheme() == "IOB2" else 0


def usual_tags(tags: Collection[str]) -> dict[str, str]:
    """Return the usual form of those tags of a file or model that are in another one.

    The mark of an entity may be behind its type, as in PER-B, or joined by _. Without a tag O, B-O and I-O mark words
    outside of entities.

    >>> usual_tags(["O", "PER-B", "PER-I"]), usual_tags(["B-O", "I-O", "B-PER"]), usual_tags(["O", "B-O", "B-PER"])
    ({'PER-B': 'B-PER', 'PER-I': 'I-PER'}, {'B-O': 'O', 'I-O': 'O'}, {})
    """
    usual = {tag: tag for tag in tags}
    marked = [tag for tag in tags if tag != "O"]
    for notation in _NOTATIONS:
        matches = {tag: match for tag in marked if (match := notation.fullmatch(tag)) is not None}
        types = {match["type"] for match in matches.values()}
        has_outside = len(marked) < len(usual) or "O" in types
        marks = {match["mark"] for match in matches.values()}
        if (
            len(matches) == len(marked)
            and has_outside
            and marks & {"B", "I"}
            and not all(map(is_tag, marked))
        ):
            usual |= {tag: join_tag(match["mark"], match["type"]) for tag, match in matches.items()}
            break
    if "O" not in usual and all(map(is_tag, usual.values())):
        usual |= {tag: "O" for tag, name in usual.items() if name.partition("-")[2] == "O"}
    return {tag: name for tag, name in usual.items() if name != tag}


def convert_tags(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return tags that mark the same entities in a scheme; plain tags stay as they are.

    >>> convert_tags(["I-PER", "I-PER", "B-PER", "O"], "IOB2")
    ('B-PER', 'I-PER', 'B-PER', 'O')
    """
    return tuple(tags) if scheme == "plain" else entities_to_tags(entities(tags), len(tags), scheme)


def entities_to_tags(marked: Iterable[Entity], num_words: int, scheme: Scheme) -> tuple[str, ...]:
    """Return the tags of a sentence's words that mark its entities.

    >>> entities_to_tags([Entity("LOC", 1, 3)], 4, "IOBES")
    ('O', 'B-LOC', 'E-LOC', 'O')
    """
    tags = ["O"] * num_words
    before = Entity("", 0, 0)
    last, single = "LU" if scheme == "BILOU" else "ES"
    inner = "M" if scheme == "BMES" else "I"
    for entity in marked:
        prefixes = [inner] * (entity.end - entity.start)
        if scheme != "IOB1" or (before.type, before.end) == (entity.type, entity.start):
            prefixes[0] = "B"
        if scheme in ("IOBES", "BILOU", "BMES"):
            prefixes[-1] = single if len(prefixes) == 1 else last
        tags[entity.start : entity.end] = [join_tag(prefix, entity.type) for prefix in prefixes]
        before = entity
    return tuple(tags)


def mark_words(tags: Sequence[str], known_tags: Collection[str]) -> tuple[str, ...]:
    """Return tags of entities whose type is a plain tag: of each word, or of all neighbors if there is a tag O."""
    prefix = "I" if "O" in known_tags else "B"
    return tuple(tag if tag == "O" else f"{prefix}-{tag}" for tag in tags)


def join_tag(prefix: str, type_: str) -> str:
    """Return a tag; files with one entity type may leave the type out."""
    return f"{prefix}-{type_}" if type_ else prefix


def is_tag(tag: str) -> bool:
    """Return whether a text is a tag of one of the schemes for entities."""
    prefix, hyphen, type_ = tag.partition("-")
    return tag == "O" or (prefix in ("B", "I", "M", *_ENDS) and bool(type_) == bool(hyphen))


@cache
def _transition(before: str, tag: str) -> tuple[str, bool, bool]:
    """Return a tag's prefix, whether an entity begins not right after one of its type, and whether IOBES allows it."""
    prefix_before, _, type_before = before.partition("-")
    prefix, _, type_ = tag.partition("-")
    continues = prefix_before != "O" and type_ == type_before
    is_open = prefix_before in ("B", "I", "M")
    is_valid = (prefix in ("I", "M", "E", "L") and continues) if is_open else prefix in ("O", "B", "S", "U")
    return prefix, prefix != "O" and not continues, is_valid
