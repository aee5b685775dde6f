"""How tags mark entities: the schemes IOB1, IOB2 and IOBES, told apart and turned into each other."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

from cloze.errors import InputError
from cloze.metrics.conll import Entity, entities

Scheme: TypeAlias = Literal["IOB2", "IOB1", "IOBES"]
"""How tags mark the words of an entity.

IOB2: B the first, I the others. IOB1: I all, but B the first where an entity of its type ends right before. IOBES: as
IOB2, but E the last, and S where there is only one.
"""

_MOST_STRAYS = 0.01
_ONE_SCHEME = "Give tags in one of IOB1, IOB2 and IOBES"


class _Place(NamedTuple):
    """A tag, the one before it, file and line."""

    before: str
    tag: str
    where: str


class _Step(NamedTuple):
    """What it is for a tag to follow another."""

    mark: str
    begins: bool
    """Whether an entity begins, not right after one of its type."""
    is_iobes: bool


@dataclass(slots=True)
class SchemeFinder:
    """Looks at tags, and says which scheme they are in.

    In IOB1 a B that is not needed marks the same entity as an I; CoNLL-2003 has two of them, and so a few are taken. An
    I that begins an entity of IOB2 is an error: a tag before it is lost or wrong.
    """

    _num_begun: Counter[str] = field(default_factory=Counter)
    """Entities not right after one of their type, by the mark of their first word."""
    _first_begun: dict[str, _Place] = field(default_factory=dict)
    """The first such, by mark."""
    _first_not_iobes: _Place | None = None
    _has_last_marks: bool = False
    """Whether E or S was seen, which are IOBES's alone."""

    def add(self, tags: Sequence[str], where: Callable[[int], str]) -> None:
        """Look at a sentence's tags; `where` gives file and line of a word."""
        before = "O"
        for word, tag in enumerate([*tags, "O"]):
            step = _step(before, tag)
            self._has_last_marks = self._has_last_marks or step.mark in ("E", "S")
            if step.begins:
                self._num_begun[step.mark] += 1
                if step.mark not in self._first_begun:
                    self._first_begun[step.mark] = _Place(before, tag, where(word))
            if not step.is_iobes and self._first_not_iobes is None:
                self._first_not_iobes = _Place(before, tag, where(min(word, len(tags) - 1)))
            before = tag

    def found(self) -> Scheme:
        """Return the scheme of all tags seen; without entities, the first of them.

        Raises:
            InputError: they are of no scheme, or of several.
        """
        if self._has_last_marks:
            if self._first_not_iobes is None:
                return "IOBES"
            place = self._first_not_iobes
            what = f"{place.tag} after {place.before}: not so in IOBES, which tags with E and S are in"
            raise InputError(what, where=place.where, remedy=_ONE_SCHEME)
        by_i, by_b = self._num_begun["I"], self._num_begun["B"]
        if not by_i:
            return "IOB2"
        if by_b <= _MOST_STRAYS * (by_i + by_b):
            return "IOB1"
        mark, other = ("I", "B") if by_i <= by_b else ("B", "I")
        place = self._first_begun[mark]
        what = f"{place.tag} after {place.before}: begun by {mark} are {self._num_begun[mark]:,} entities, "
        what += f"by {other} {self._num_begun[other]:,}"
        raise InputError(what, where=place.where, remedy=_ONE_SCHEME)


def convert(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return tags that mark the same entities in a scheme.

    >>> convert(["I-PER", "I-PER", "B-PER", "O"], "IOB2")
    ('B-PER', 'I-PER', 'B-PER', 'O')
    """
    return tags_of(entities(tags), len(tags), scheme)


def tags_of(found: Iterable[Entity], num_words: int, scheme: Scheme) -> tuple[str, ...]:
    """Return the tags of a sentence's words that mark its entities.

    >>> tags_of([Entity("LOC", 1, 3)], 4, "IOBES")
    ('O', 'B-LOC', 'E-LOC', 'O')
    """
    tags = ["O"] * num_words
    before = Entity("", 0, 0)
    for entity in found:
        marks = ["I"] * (entity.end - entity.start)
        if scheme != "IOB1" or (before.type, before.end) == (entity.type, entity.start):
            marks[0] = "B"
        if scheme == "IOBES":
            marks[-1] = "S" if len(marks) == 1 else "E"
        tags[entity.start : entity.end] = [tag_name(mark, entity.type) for mark in marks]
        before = entity
    return tuple(tags)


def tag_name(mark: str, type_: str) -> str:
    """Return a tag; files with one type of entities may leave it out."""
    return f"{mark}-{type_}" if type_ else mark


def is_tag(tag: str) -> bool:
    """Return whether a text is a tag of one of the schemes."""
    mark, hyphen, type_ = tag.partition("-")
    return tag == "O" or (mark in ("B", "I", "E", "S") and bool(type_) == bool(hyphen))


@cache
def _step(before: str, tag: str) -> _Step:
    mark_before, _, type_before = before.partition("-")
    mark, _, type_ = tag.partition("-")
    goes_on = mark_before != "O" and type_ == type_before
    is_open = mark_before in ("B", "I")
    return _Step(
        mark,
        begins=mark != "O" and not goes_on,
        is_iobes=(mark in ("I", "E") and goes_on) if is_open else mark in ("O", "B", "S"),
    )
