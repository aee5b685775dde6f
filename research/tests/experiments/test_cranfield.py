"""Cranfield: its queries, judgments and candidates, and invalid collections."""

from collections.abc import Iterator
from importlib import import_module

import pytest

from cloze.errors import InputError
from cloze.tasks.registry import TASKS
from cloze.tasks.task import Task


@pytest.fixture(scope="module")
def cranfield() -> Iterator[Task]:
    """The task, which is registered for this file alone."""
    import_module("experiments.cranfield")
    yield TASKS["cranfield"]
    del TASKS["cranfield"]


@pytest.fixture
def collection(tmp_path):
    documents = {1: "wings in a slipstream", 2: "heat in slabs", 3: "shear flow past a plate"}
    (tmp_path / "cran.all.1400.xml").write_text(
        "".join(f"<doc>\n<docno>{n}</docno>\n<text>{t}</text>\n</doc>\n" for n, t in documents.items())
    )
    queries = {4: "what of the\nslipstream .", 9: "heat of slabs ."}
    (tmp_path / "cran.qry.xml").write_text(
        "<?xml version='1.0'?>\n<xml>"
        + "".join(f"<top><num>{n}</num><title>\n{t}\n</title></top>" for n, t in queries.items())
        + "</xml>"
    )
    (tmp_path / "train.trec.txt").write_text("1 0 1 2\n1 0 3 -1\n2 0 2 1\n2 0 3 1\n")
    return tmp_path


def test_queries_are_numbered_by_position(cranfield, collection):
    examples = list(cranfield.with_settings({"candidates": 1}).examples(collection / "train.trec.txt"))
    assert [(e.text, e.pair, e.gold, e.judged) for e in examples] == [
        ("what of the slipstream .", "wings in a slipstream", 2, (2,)),
        ("heat of slabs .", "heat in slabs", 1, (1, 1)),
    ]
    assert cranfield.answer.to_json(examples[1], 0.5) == {"score": 0.5, "query": 2, "document": 2}
    scores = cranfield.score(examples, [0.5, 0.5])
    # one relevant passage of the second query is no candidate
    assert (scores["map"], scores["recall@100"]) == (0.75, 0.75)


def test_real_collection(cranfield, shared):
    examples = list(cranfield.examples(shared / "data" / "cranfield" / "cranqrel.trec.txt"))
    assert len(examples) == 225 * 50
    scores = cranfield.score(examples, [-float(number) for number in range(len(examples))])
    assert scores["ndcg@10"] == pytest.approx(0.352, abs=0.02)  # BM25's own order


def test_bm25_ranks_by_rare_words_and_ignores_stop_words():
    from experiments.bm25 import bm25_scores

    passages = ["the wing of a plane", "heat in slabs of steel", "the wing and the slipstream"]
    scores = bm25_scores(["slipstream of the wing", "steel slabs", "zebra", "of the"], passages)
    assert [int(of_query.argmax()) if of_query.any() else None for of_query in scores] == [2, 1, None, None]


BAD = {
    "words": ("1 0 one 1\n", "not four whole numbers"),
    "three columns": ("1 0 1\n", "not four whole numbers"),
    "query from zero": ("0 0 1 1\n", "numbered from 1"),
    "unknown document": ("1 0 1 1\n1 0 4 1\n", r"train\.trec\.txt:2: judges document 4"),
    "unknown query": ("3 0 1 1\n", r"train\.trec\.txt:1: judges document 1 for query 3"),
    "nothing": ("\n", "holds no judgments"),
}


@pytest.mark.parametrize(("text", "what"), BAD.values(), ids=BAD)
def test_invalid_judgments_are_named(cranfield, collection, text, what):
    (collection / "train.trec.txt").write_text(text)
    with pytest.raises(InputError, match=what):
        list(cranfield.examples(collection / "train.trec.txt"))


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("cran.qry.xml", "<xml><top>", "not XML"),
        ("cran.qry.xml", "<xml></xml>", "holds no <top>"),
        ("cran.all.1400.xml", "", "holds no <doc>"),
        ("cran.all.1400.xml", None, "no such file"),
    ],
)
def test_invalid_collections_are_named(cranfield, collection, name, text, what):
    (collection / name).unlink()
    if text is not None:
        (collection / name).write_text(text)
    with pytest.raises(InputError, match=f"{name}.*{what}"):
        list(cranfield.examples(collection / "train.trec.txt"))
