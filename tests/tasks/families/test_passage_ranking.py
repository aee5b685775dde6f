"""Ranking: metrics over queries, windows, BM25, and invalid data."""

import json

import numpy as np
import pytest
from family_cases import tokens_of

from cloze.cli import main
from cloze.errors import InputError
from cloze.tasks.bm25 import bm25_scores
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
    [scores] = bm25_scores(["is it the"], ["the", "it is"])
    assert not scores.any()


def test_bm25_ranks_by_rare_words():
    passages = ["the wing of a plane", "heat in slabs of steel", "the wing and the slipstream"]
    scores = bm25_scores(["slipstream of the wing", "steel slabs", "zebra"], passages)
    assert [int(of_query.argmax()) if of_query.any() else None for of_query in scores] == [2, 1, None]


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
