"""Labels, truncation and decoding of the classification family."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cloze import config
from cloze.errors import InputError
from cloze.tasks.classification import Classification
from cloze.tasks.texts import LabelledText
from cloze.text.tokenizer import Tokenizer

TASK = Classification(labels=("no", "yes"))


def test_labels_are_found_and_sorted_or_given() -> None:
    examples = [LabelledText("a", None, label, "x.tsv:2") for label in ("yes", "no", "yes", "maybe")]
    assert Classification().fitted(examples).labels == ("maybe", "no", "yes")
    given = Classification(labels=("yes", "no", "maybe"))
    assert given.fitted(examples) == given


def test_one_label_is_not_enough() -> None:
    examples = [LabelledText("a", None, "yes", f"x.tsv:{number}") for number in (2, 3)]
    with pytest.raises(InputError, match=r"^x.tsv: every row has the label 'yes'"):
        Classification().fitted(examples)
    with pytest.raises(InputError, match="labels holds 'a' twice"):
        config.from_table(Classification, {"labels": ["a", "b", "a"]}, where="run.toml")


def test_a_label_that_is_not_known_is_told_where(tokenizer: Tokenizer) -> None:
    example = LabelledText("a book", None, "perhaps", "dev.tsv:7")
    with pytest.raises(
        InputError, match=r"dev.tsv:7: label 'perhaps' is none of the task's. It knows no, yes"
    ):
        TASK.features(example, tokenizer, max_seq_length=16)


def test_a_pair_is_cut_longest_first(tokenizer: Tokenizer) -> None:
    example = LabelledText("a", "good fine bad awful film book", "yes")
    (feature,) = TASK.features(example, tokenizer, max_seq_length=8)
    assert feature.is_truncated
    assert [tokenizer.pieces[i] for i in feature.input_ids] == [
        "[CLS]",
        "a",
        "[SEP]",
        "good",
        "fine",
        "bad",
        "awful",
        "[SEP]",
    ]
    assert feature.token_type_ids == [0, 0, 0, 1, 1, 1, 1, 1]
    assert feature.target == 1
    (whole,) = TASK.features(replace(example, label=None), tokenizer, max_seq_length=10)
    assert not whole.is_truncated
    assert whole.target is None


def test_probabilities_are_a_softmax(tmp_path: Path) -> None:
    prediction = TASK.decode(LabelledText("a"), [], [np.log(np.array([1, 3], np.float32)) + 500])
    assert prediction.label == "yes"
    assert prediction.probability == pytest.approx(0.75, abs=1e-4)
    assert prediction.probabilities == pytest.approx({"no": 0.25, "yes": 0.75}, abs=1e-4)
