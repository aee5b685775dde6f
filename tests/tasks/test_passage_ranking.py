"""Ranking: metrics over queries, windows, BM25, Cranfield, and invalid data."""

import json

import numpy as np
import pytest
from families import tokens_of

from cloze.cli import main
from cloze.errors import InputError
from cloze.tasks.bm25 import bm25_ranking, bm25_scores
from cloze.tasks.cranfield import Cranfield
from cloze.tasks.custom import Ranking
from cloze.tasks.texts import LabeledText


def pairs(*rows):
    return [
        LabeledText(query, passage, str(label), f"a.tsv:{i}")
        for i, (query, passage, label) in enumerate(rows)
    ]


def test_metrics_are_means_over_queries():
    examples = pairs(("a", "x", 1), ("b", "x", 0), ("a", "y", 0), ("b", "y", 2))
    right = Ranking().score(examples, [0.9, 0.1, 0.2, 0.3])
    assert (right["mrr@10"], right["ndcg@10"], right["map"]) == (1, 1, 1)
    half = Ranking().score(examples, [0.9, 0.5, 0.2, 0.3])  # b's relevant passage comes second
    assert (half["mrr@10"], half["map"]) == (0.75, 0.75)


def test_queries_without_relevant_passage_are_left_out():
    examples = pairs(("a", "x", 1), ("b", "x", 0))
    scores = Ranking().score(examples, [0.1, 0.2])
    assert (scores["mrr@10"], scores["queries"]) == (1, 1)
    nothing = pairs(("a", "x", 0))
    with pytest.raises(InputError, match=r"a\.tsv: no passage is relevant"):
        Ranking().check_scorable(nothing)
    with pytest.raises(InputError, match=r"a\.tsv: no passage is relevant"):
        Ranking().score(nothing, [0.1])


def test_order_of_the_file_does_not_help():
    examples = pairs(("a", "x", 1), ("a", "y", 0), ("a", "z", 0))
    assert Ranking().score(examples, [0.5, 0.5, 0.5])["mrr@10"] == pytest.approx(1 / 3)


def test_best_window_decides(tokenizer):
    task = Ranking()
    example = LabeledText("the film", "very " * 40 + "good", "1")
    features = task.features(example, tokenizer, max_seq_length=16)
    assert len(features) > 2
    assert all(tokens_of(tokenizer, feature).startswith("[CLS] the film [SEP]") for feature in features)
    outputs = [np.array([-3.0], np.float32) for _ in features]
    outputs[1][0] = 2
    assert task.decode(example, features, outputs) == pytest.approx(1 / (1 + np.exp(-2)))


def test_bm25_ignores_stop_words():
    [order] = bm25_ranking(["is it the"], ["the", "it is"])
    assert order.tolist() == [0, 1]


def test_bm25_ranks_by_rare_words():
    passages = ["the wing of a plane", "heat in slabs of steel", "the wing and the slipstream"]
    assert [order[0] for order in bm25_ranking(["slipstream of the wing", "steel slabs"], passages)] == [2, 1]
    assert not any(scores.any() for scores in bm25_scores(["zebra", "the of"], passages))


@pytest.fixture
def cranfield(tmp_path):
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


def test_cranfield_queries_are_numbered_by_position(cranfield):
    examples = list(Cranfield(candidates=1).examples(cranfield / "train.trec.txt"))
    assert [(e.text, e.pair, e.label, e.judged) for e in examples] == [
        ("what of the slipstream .", "wings in a slipstream", "2", (2,)),
        ("heat of slabs .", "heat in slabs", "1", (1, 1)),
    ]
    assert Cranfield().to_json(examples[1], 0.5) == {"score": 0.5, "query": 2, "document": 2}
    assert Ranking().to_json(LabeledText("a", "b"), 0.5) == {"score": 0.5}
    scores = Cranfield().score(examples, [0.5, 0.5])
    # one relevant passage of the second query is no candidate
    assert (scores["map"], scores["recall@100"]) == (0.75, 0.75)


def test_real_cranfield(shared):
    task = Cranfield()
    examples = list(task.examples(shared / "data" / "cranfield" / "cranqrel.trec.txt"))
    assert len(examples) == 225 * 50
    scores = task.score(examples, [-float(number) for number in range(len(examples))])
    assert scores["ndcg@10"] == pytest.approx(0.352, abs=0.02)  # BM25's own order


def test_cranfield_baseline(cranfield, capsys):
    (cranfield / "dev.trec.txt").write_text("1 0 1 1\n")
    assert main(["baseline", "cranfield", "-d", str(cranfield), "--json", "--quiet"]) == 0
    [result] = [r for r in json.loads(capsys.readouterr().out)["baselines"] if r["baseline"] == "bm25"]
    assert result["scores"]["mrr@10"] == 1


BAD = {
    "words": ("1 0 one 1\n", "not four whole numbers"),
    "three columns": ("1 0 1\n", "not four whole numbers"),
    "query from zero": ("0 0 1 1\n", "numbered from 1"),
    "unknown document": ("1 0 1 1\n1 0 4 1\n", r"train\.trec\.txt:2: judges document 4"),
    "unknown query": ("3 0 1 1\n", r"train\.trec\.txt:1: judges document 1 for query 3"),
    "nothing": ("\n", "holds no judgments"),
}


@pytest.mark.parametrize(("text", "what"), BAD.values(), ids=BAD)
def test_invalid_judgments_are_named(cranfield, text, what):
    (cranfield / "train.trec.txt").write_text(text)
    with pytest.raises(InputError, match=what):
        list(Cranfield().examples(cranfield / "train.trec.txt"))


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("cran.qry.xml", "<xml><top>", "not XML"),
        ("cran.qry.xml", "<xml></xml>", "holds no <top>"),
        ("cran.all.1400.xml", "", "holds no <doc>"),
        ("cran.all.1400.xml", None, "no such file"),
    ],
)
def test_invalid_collections_are_named(cranfield, name, text, what):
    (cranfield / name).unlink()
    if text is not None:
        (cranfield / name).write_text(text)
    with pytest.raises(InputError, match=f"{name}.*{what}"):
        list(Cranfield().examples(cranfield / "train.trec.txt"))


@pytest.mark.parametrize("label", ["-1", "0.5", "yes", "nan"])
def test_invalid_relevance_is_named(nano_checkpoint, tmp_path, capsys, label):
    file = tmp_path / "a.tsv"
    file.write_text(f"query\tpassage\tlabel\nfilm\tgood\t1\nfilm\tbad\t{label}\n")
    command = f"finetune ranking -m {nano_checkpoint} -d {file} --dev {file} -o {tmp_path / 'run'}"
    assert main([*command.split(), "--set", "max_seq_length=16"]) == 2
    error = capsys.readouterr().err
    assert "a.tsv:3" in error
    assert "not a" in error


def test_finetune_evaluate_and_predict(nano_checkpoint, tmp_path, capsys):
    rows = [f"{q} {i}\t{p}\t{int(p == 'good')}" for i in range(8) for q in ("film",) for p in ("good", "bad")]
    file = tmp_path / "a.tsv"
    file.write_text("\n".join(["query\tpassage\tlabel", *rows]) + "\n")
    run = str(tmp_path / "run")
    settings = "--set max_seq_length=16 --set optimizer.learning_rate=5e-3 --epochs 6"
    command = f"finetune ranking -m {nano_checkpoint} -d {file} --dev {file} -o {run} {settings} --quiet"
    assert main(command.split()) == 0
    capsys.readouterr()
    assert main(["evaluate", "ranking", "-m", run, "-d", str(file), "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["ndcg@10"] == 1
    assert main(["predict", "ranking", "-m", run, str(file), "--quiet"]) == 0
    good, bad = (json.loads(line)["score"] for line in capsys.readouterr().out.splitlines()[:2])
    assert good > bad
