"""Tagging schemes for entities: detection and conversion of IOB1, IOB2, IOBES, BILOU and BMES; and plain tags."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
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
Pair: TypeAlias = tuple[str, str]
"""Neighboring tags."""

_MAX_STRAY_SHARE = 0.01
"""Share of entities that may begin with a needless B in IOB1; CoNLL-2003 has two."""
_SCHEMES: dict[str, Scheme] = {"E": "IOBES", "S": "IOBES", "L": "BILOU", "U": "BILOU", "M": "BMES"}
"""By the prefixes that only they have; BMES has E and S, too."""


@dataclass(slots=True)
class SchemeDetector:
    """Detects the scheme of tags.

    An I that begins an entity in IOB2 is an error, unless it is read as conlleval does: a tag before it is missing or
    wrong.
    """

    is_plain: bool = False
    """Accept any tags as plain ones."""
    stray: Stray = "refuse"
    _tags: dict[str, str] = field(default_factory=dict)
    """File and line of the first tag of each kind."""
    _pairs: Counter[Pair] = field(default_factory=Counter)
    """The pairs of neighboring tags, in the order of their first ones; O is before and after a sentence."""
    _places: dict[Pair, str] = field(default_factory=dict)
    """File and line of the first pair of each kind."""

    def add(self, tags: Sequence[str], where: Callable[[int], str]) -> None:
        """Add a sentence's tags; `where` returns file and line of a word."""
        for word, pair in enumerate(pairwise(["O", *tags, "O"]) if tags else ()):
            if pair not in self._places:
                self._places[pair] = place = where(min(word, len(tags) - 1))
                if word < len(tags):
                    self._tags.setdefault(pair[1], place)
            self._pairs[pair] += 1

    def scheme(self) -> Scheme:
        """Return the scheme of all tags; IOB2 if there are no entities."""
        # some files have B-O in the place of O
        plain = [tag for tag in self._tags if self.is_plain or not is_tag(tag) or tag[1:] == "-O"]
        # M may also be a part of speech
        if "" in plain or (plain and not {*self._tags} <= {*plain, "M"}):
            tag = "" if "" in plain else plain[0]
            remedy = "Tags are O, or B, I, E or S with a type, as in B-PER; other tags are read with `scheme=plain`"
            raise InputError(f"{tag!r} is not a tag", where=self._tags[tag], remedy=remedy)
        if plain:
            return "plain"
        remedy = "Give tags in one scheme, or read them as conlleval does: `stray=as-conlleval`"
        if schemes := self._schemes_with_ends():
            name, (before, tag) = list(schemes.items())[-1]
            if len(schemes) > 1 or (name == "BMES" and self._has_inner_i()):
                what = f"{tag} is a tag of {name}, and others are of another scheme"
                raise InputError(what, where=self._places[before, tag], remedy="Give tags in one scheme")
            for before, tag in self._pairs if self.stray == "refuse" else ():
                is_inside = before[0] in "BIM"
                if (tag[0] in "IMEL" and _continues(before, tag)) if is_inside else tag[0] in "OBSU":
                    continue
                ends = " and ".join(prefix for prefix, scheme in _SCHEMES.items() if scheme == name)
                what = f"{tag} after {before}: invalid in {name}, which tags with {ends} are in"
                raise InputError(what, where=self._places[before, tag], remedy=remedy)
            return name
        counts = {prefix: sum(self._pairs[pair] for pair in self._beginnings(prefix)) for prefix in "IB"}
        if not counts["I"]:
            return "IOB2"
        if counts["B"] <= _MAX_STRAY_SHARE * sum(counts.values()):
            return "IOB1"
        if self.stray == "as-conlleval":
            return "IOB2"
        few, many = sorted(counts, key=counts.__getitem__)
        before, tag = self._beginnings(few)[0]
        shares = f"{counts[few]:,} entities begin with {few}, {counts[many]:,} with {many}"
        raise InputError(f"{tag} after {before}: {shares}", where=self._places[before, tag], remedy=remedy)

    def _schemes_with_ends(self) -> dict[Scheme, Pair]:
        """Return IOBES, BILOU and BMES with the first pair whose second tag shows it."""
        schemes: dict[Scheme, Pair] = {}
        for pair in self._pairs:
            prefix = pair[1][0]
            if prefix in _SCHEMES:
                schemes.setdefault(_SCHEMES[prefix], pair)
        if "BMES" in schemes and not self._has_inner_i():
            schemes.pop("IOBES", None)
        return schemes

    def _has_inner_i(self) -> bool:
        return any(tag[0] == "I" for _, tag in self._pairs)

    def _beginnings(self, prefix: str) -> list[Pair]:
        """Return the pairs whose second tag has this prefix, and begins an entity not right after one of its type."""
        return [pair for pair in self._pairs if pair[1][0] == prefix and not _continues(*pair)]


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
    return tag == "O" or (prefix in ("B", "I", *_SCHEMES) and bool(type_) == bool(hyphen))


def _continues(before: str, tag: str) -> bool:
    """Return whether a tag is right after an entity of its type."""
    return before != "O" and tag.partition("-")[2] == before.partition("-")[2]
