"""Ranking: metrics over queries, windows, and invalid data."""

import numpy as np
import pytest

from cloze.errors import InputError
from cloze.tasks.texts import LabeledText
from family_cases import tokens_of
from helpers import task_of


def pairs(*rows):
    return [
        LabeledText(query, passage, label, f"a.tsv:{i}") for i, (query, passage, label) in enumerate(rows)
    ]


def test_metrics_are_means_over_queries():
    examples = pairs(("a", "x", 1), ("b", "x", 0), ("a", "y", 0), ("b", "y", 2))
    right = task_of("ranking").score(examples, [0.9, 0.1, 0.2, 0.3])
    assert (right["mrr@10"], right["ndcg@10"], right["map"]) == (1, 1, 1)
    half = task_of("ranking").score(examples, [0.9, 0.5, 0.2, 0.3])  # b's relevant passage comes second
    assert (half["mrr@10"], half["map"]) == (0.75, 0.75)


def test_queries_without_relevant_passage_are_left_out():
    examples = pairs(("a", "x", 1), ("b", "x", 0))
    scores = task_of("ranking").score(examples, [0.1, 0.2])
    assert (scores["mrr@10"], scores["queries"]) == (1, 1)
    nothing = pairs(("a", "x", 0))
    with pytest.raises(InputError, match=r"a\.tsv: no passage is relevant"):
        task_of("ranking").answer.check_scorable(nothing)
    with pytest.raises(InputError, match=r"a\.tsv: no passage is relevant"):
        task_of("ranking").score(nothing, [0.1])


def test_order_of_the_file_does_not_help():
    examples = pairs(("a", "x", 1), ("a", "y", 0), ("a", "z", 0))
    assert task_of("ranking").score(examples, [0.5, 0.5, 0.5])["mrr@10"] == pytest.approx(1 / 3)


def test_best_window_decides(tokenizer):
    task = task_of("ranking")
    example = LabeledText("the film", "very " * 40 + "good", 1)
    features = task.answer.features(example, tokenizer, max_seq_length=16)
    assert len(features) > 2
    assert all(tokens_of(tokenizer, feature).startswith("[CLS] the film [SEP]") for feature in features)
    outputs = [np.array([-3.0], np.float32) for _ in features]
    outputs[1][0] = 2
    assert task.answer.decode(example, features, outputs) == pytest.approx(1 / (1 + np.exp(-2)))
