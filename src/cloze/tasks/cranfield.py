"""Cranfield: which abstracts on aerodynamics answer an engineer's question?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar
from xml.etree import ElementTree

from cloze.errors import InputError
from cloze.stores import Place, below, folder_of
from cloze.tasks.bm25 import bm25_order
from cloze.tasks.passage_ranking import PassageRanking, RankedText
from cloze.tasks.registry import register_task
from cloze.tasks.tables import read_lines
from cloze.tasks.task import Split

_DOCUMENTS, _QUERIES = "cran.all.1400.xml", "cran.qry.xml"


@register_task("cranfield")
@dataclass(frozen=True, kw_only=True)
class Cranfield(PassageRanking):
    """The candidates for a query are BM25's best; relevant abstracts that are none of them count as not found."""

    data_format: ClassVar[str] = f"TREC judgements, with {_DOCUMENTS} and {_QUERIES} beside them"
    source: ClassVar[str] = "Cleverdon 1967"
    libraries: ClassVar[tuple[str, ...]] = ("bm25s",)
    defaults: ClassVar[tuple[str, ...]] = ("max_seq_length=256",)
    file_names: ClassVar[Mapping[Split, tuple[str, ...]]] = MappingProxyType(
        {"train": ("train.trec.txt",), "dev": ("dev.trec.txt",)}
    )

    candidates: int = 50
    """Abstracts that are put in order for each query."""

    def examples(self, path: Place, *, labelled: bool = True) -> Iterator[RankedText]:
        """Read judgements, and for each query that has some its candidates, the best of BM25 first."""
        judgements = _read_judgements(path)
        folder = folder_of(path)
        queries = _read_texts(below(folder, _QUERIES), "top", "title")
        passages = _read_texts(below(folder, _DOCUMENTS), "doc", "text")
        for number, relevance in judgements.items():
            for document, where in relevance.places.items():
                if not (number <= len(queries) and 1 <= document <= len(passages)):
                    what = f"judges document {document} for query {number}"
                    there = f"There are {len(passages):,} documents and {len(queries):,} queries"
                    raise InputError(what, where=where, remedy=there)
        order = bm25_order([queries[number - 1] for number in judgements], passages)
        for (number, relevance), best in zip(judgements.items(), order, strict=True):
            judged = tuple(each for each in relevance.of.values() if each > 0)
            for index in best[: self.candidates].tolist():
                yield RankedText(
                    queries[number - 1],
                    passages[index],
                    str(relevance.of.get(index + 1, 0)) if labelled else None,
                    relevance.where,
                    judged,
                    (number, index + 1),
                )


@dataclass(frozen=True, slots=True)
class _Relevance:
    """What the judgements say of a query."""

    where: str
    """Of the first."""
    of: dict[int, int]
    """By the number of the document."""
    places: dict[int, str]
    """The line of each."""


def _read_judgements(path: Place) -> dict[int, _Relevance]:
    """Read lines of query, a zero, document, relevance.

    Queries are numbered from 1 by their position in the file of queries; the <num> there is another number.
    """
    judgements: dict[int, _Relevance] = {}
    for line, where in read_lines(path):
        if not line.strip():
            continue
        try:
            query, _, document, relevance = (int(cell) for cell in line.split())
        except ValueError:
            raise InputError("not four whole numbers: query, 0, document, relevance", where=where) from None
        if query < 1:
            raise InputError(f"query {query}: they are numbered from 1", where=where)
        own = judgements.setdefault(query, _Relevance(where, {}, {}))
        own.of[document], own.places[document] = max(relevance, 0), where
    if not judgements:
        raise InputError("holds no judgements", where=path)
    return judgements


def _read_texts(path: Place, element: str, part: str) -> list[str]:
    """Return the text of a part of every element, white space made single spaces."""
    text = "\n".join(line for line, _ in read_lines(path) if not line.startswith("<?xml"))
    try:
        root = ElementTree.fromstring(f"<file>{text}</file>")
    except ElementTree.ParseError as error:
        raise InputError(f"not XML: {error}", where=path) from error
    found = [each.findtext(part) or "" for each in root.iter(element)]
    if not found:
        raise InputError(f"holds no <{element}>", where=path)
    return [" ".join(text.split()) for text in found]
