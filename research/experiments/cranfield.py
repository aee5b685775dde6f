"""Cranfield: which abstracts on aerodynamics answer an engineer's question?

Importing the file registers the task, whose data are TREC judgments with the documents and queries beside them. For
training and scoring, split the judgments by query:

    awk '$1 % 5 != 0' cranqrel.trec.txt > train.trec.txt
    awk '$1 % 5 == 0' cranqrel.trec.txt > dev.trec.txt

    import cloze, experiments.cranfield
    cloze.baseline("cranfield", train=".")
    cloze.finetune("cranfield", model="MODEL", train=".", output="RUN")

BM25 alone, on the 45 queries of that dev.trec.txt: nDCG@10 0.331, MRR@10 0.488, MAP 0.248.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from cloze.config import Positive
from cloze.data.reading.files import read_lines
from cloze.data.reading.memory import Data, MemoryRows
from cloze.errors import InputError
from cloze.metrics.ranking import RankedQuery, ranking_scores
from cloze.remote_files import PathOrUrl, is_url, join_path
from cloze.tasks.answers.relevance import Relevance, rank_passages
from cloze.tasks.registry import register_task
from cloze.tasks.task import Task
from cloze.tasks.task_batch import Scores
from cloze.tasks.texts import GoldAnswers, LabeledText, PassageReader, Texts
from experiments.bm25 import bm25_scores

_DOCUMENTS, _QUERIES = "cran.all.1400.xml", "cran.qry.xml"


@dataclass(frozen=True, slots=True)
class RankedText(LabeledText):
    """A query and a passage, and its relevance: 0 is not relevant, higher is more relevant."""

    judged: tuple[int, ...] = ()
    """Relevance of all relevant passages of the query, candidates or not."""
    ids: tuple[int, int] = (0, 0)
    """Numbers of the query and the passage."""


@dataclass(frozen=True, kw_only=True)
class CranfieldReader(PassageReader):
    """The candidates for a query are BM25's best."""

    candidates: Positive[int] = 50
    """Number of abstracts ranked for each query."""

    def read(
        self, source: Data, answer: GoldAnswers, *, labeled: bool = True, **how: bool
    ) -> Iterator[tuple[LabeledText, Mapping[str, Any]]]:
        """Read judgments, and yield the candidates of each judged query in BM25's order."""
        if isinstance(source, MemoryRows):
            raise InputError(
                "are read from files only", where=source, remedy="Give the file of the judgments"
            )
        judgments = _read_judgments(source)
        directory = str(source).rpartition("/")[0] if is_url(source) else Path(source).parent
        queries = _read_texts(join_path(directory, _QUERIES), "top", "title")
        passages = _read_texts(join_path(directory, _DOCUMENTS), "doc", "text")
        for query, judged in judgments.items():
            for document, where in judged.lines.items():
                if not (query <= len(queries) and 1 <= document <= len(passages)):
                    what = f"judges document {document} for query {query}"
                    counts = f"There are {len(passages):,} documents and {len(queries):,} queries"
                    raise InputError(what, where=where, remedy=counts)
        scores = bm25_scores([queries[query - 1] for query in judgments], passages)
        for (query, judged), scores_P in zip(judgments.items(), scores, strict=True):
            best = np.argsort(-scores_P, kind="stable")
            relevant = tuple(grade for grade in judged.relevance.values() if grade > 0)
            for index in best[: self.candidates].tolist():
                relevance = judged.relevance.get(index + 1, 0) if labeled else None
                example = RankedText(
                    queries[query - 1],
                    passages[index],
                    relevance,
                    judged.where,
                    judged=relevant,
                    ids=(query, index + 1),
                )
                yield example, {}


@dataclass(frozen=True, kw_only=True)
class CranfieldRelevance(Relevance):
    """The relevance of candidates; relevant abstracts among the others count as not retrieved."""

    def score(self, examples: Texts, answers: Sequence[float], metrics: Sequence[str]) -> Scores:
        """Return the metrics of ranking, where relevant passages that are no candidates count as not retrieved."""
        judged = {example.text: example.judged for example in examples if isinstance(example, RankedText)}
        rankings = rank_passages(examples, answers).items()
        queries = [RankedQuery(ranked, judged[query]) for query, ranked in rankings if judged[query]]
        return {**ranking_scores(queries), "queries": float(len(queries))}

    def to_json(self, example: LabeledText, answer: float) -> dict[str, Any]:
        """Return the probability that the passage is relevant, and the numbers of query and passage."""
        assert isinstance(example, RankedText)
        query, document = example.ids
        return {"score": answer, "query": query, "document": document}


register_task(
    Task(
        "cranfield",
        "Questions on aerodynamics and abstracts.",
        "Cleverdon 1967",
        CranfieldReader(),
        CranfieldRelevance(),
        data_format=f"TREC judgments, with {_DOCUMENTS} and {_QUERIES} beside them",
        defaults=("max_seq_length=256",),
        train_files=("train.trec.txt",),
        dev_files=("dev.trec.txt",),
    )
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
