"""Cranfield: which abstracts on aerodynamics answer an engineer's question?"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree

from cloze.config import check_positive
from cloze.data.files import read_lines
from cloze.errors import InputError
from cloze.remote_files import PathOrUrl, join_path, parent_of
from cloze.tasks.bm25 import bm25_ranking
from cloze.tasks.passage_ranking import PassageRanking, RankedText
from cloze.tasks.registry import register_task

_DOCUMENTS, _QUERIES = "cran.all.1400.xml", "cran.qry.xml"


@register_task("cranfield")
class Cranfield(PassageRanking):
    """The candidates for a query are BM25's best; relevant abstracts among the others count as not retrieved."""

    data_format = f"TREC judgments, with {_DOCUMENTS} and {_QUERIES} beside them"
    source = "Cleverdon 1967"
    libraries = ("bm25s",)
    defaults = ("max_seq_length=256",)
    train_files = ("train.trec.txt",)
    dev_files = ("dev.trec.txt",)

    candidates: int = 50
    """Number of abstracts ranked for each query."""

    def __post_init__(self) -> None:
        check_positive(self, "candidates")

    def examples(self, path: PathOrUrl, *, labeled: bool = True) -> Iterator[RankedText]:
        """Read judgments, and yield the candidates of each judged query in BM25's order."""
        judgments = _read_judgments(path)
        directory = parent_of(path)
        queries = _read_texts(join_path(directory, _QUERIES), "top", "title")
        passages = _read_texts(join_path(directory, _DOCUMENTS), "doc", "text")
        for query, judged in judgments.items():
            for document, where in judged.lines.items():
                if not (query <= len(queries) and 1 <= document <= len(passages)):
                    what = f"judges document {document} for query {query}"
                    counts = f"There are {len(passages):,} documents and {len(queries):,} queries"
                    raise InputError(what, where=where, remedy=counts)
        ranking = bm25_ranking([queries[query - 1] for query in judgments], passages)
        for (query, judged), best in zip(judgments.items(), ranking, strict=True):
            relevant = tuple(relevance for relevance in judged.relevance.values() if relevance > 0)
            for index in best[: self.candidates].tolist():
                label = str(judged.relevance.get(index + 1, 0)) if labeled else None
                yield RankedText(
                    queries[query - 1], passages[index], label, judged.where, relevant, (query, index + 1)
                )


@dataclass(frozen=True, slots=True)
class _Judgments:
    """The judged documents of a query, by number."""

    where: str
    """Line of the first judgment."""
    relevance: dict[int, int] = field(default_factory=dict)
    lines: dict[int, str] = field(default_factory=dict)


def _read_judgments(path: PathOrUrl) -> dict[int, _Judgments]:
    """Read lines of query, 0, document, relevance.

    Queries are numbered from 1 in the order of the query file; its <num> is another number.
    """
    judgments: dict[int, _Judgments] = {}
    for line, where in read_lines(path):
        if not line.strip():
            continue
        try:
            query, _, document, relevance = (int(cell) for cell in line.split())
        except ValueError:
            raise InputError("not four whole numbers: query, 0, document, relevance", where=where) from None
        if query < 1:
            raise InputError(f"query {query}: they are numbered from 1", where=where)
        judged = judgments.setdefault(query, _Judgments(where))
        judged.relevance[document], judged.lines[document] = max(relevance, 0), where
    if not judgments:
        raise InputError("holds no judgments", where=path)
    return judgments


def _read_texts(path: PathOrUrl, element: str, part: str) -> list[str]:
    """Return the text of a part of every element, with white space normalized."""
    text = "\n".join(line for line, _ in read_lines(path) if not line.startswith("<?xml"))
    try:
        root = ElementTree.fromstring(f"<file>{text}</file>")
    except ElementTree.ParseError as error:
        raise InputError(f"not XML: {error}", where=path) from error
    texts = [node.findtext(part) or "" for node in root.iter(element)]
    if not texts:
        raise InputError(f"holds no <{element}>", where=path)
    return [" ".join(text.split()) for text in texts]
