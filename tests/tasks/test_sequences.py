"""Long texts: cut, or read in windows whose outputs are averaged."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cloze.model.bert import BertModel
from cloze.tasks.choice import OwnChoices
from cloze.tasks.classification import Classification
from cloze.tasks.features import featurize
from cloze.tasks.multiple_choice import Question
from cloze.tasks.predict import predict
from cloze.tasks.regression import Regression
from cloze.tasks.sequences import sequences_of, windows_of
from cloze.tasks.texts import LabelledText
from cloze.text.tokenizer import Tokenizer

LONG = "good fine bad awful film book a the was very"
PIECES = LONG.split()


def _texts(tokenizer: Tokenizer, text: str, pair: str | None, limit: int) -> list[str]:
    found = sequences_of(tokenizer, text, pair, max_seq_length=limit, long_texts="windows")
    assert all(sequence.num_tokens <= limit for sequence in found)
    assert not any(sequence.is_truncated for sequence in found)
    return [" ".join(tokenizer.pieces[i] for i in sequence.input_ids) for sequence in found]


def test_windows_of_a_text_overlap_by_half(tokenizer: Tokenizer) -> None:
    assert _texts(tokenizer, LONG, None, 6) == [
        "[CLS] good fine bad awful [SEP]",
        "[CLS] bad awful film book [SEP]",
        "[CLS] film book a the [SEP]",
        "[CLS] a the was very [SEP]",
    ]
    assert _texts(tokenizer, LONG, None, 12) == [f"[CLS] {LONG} [SEP]"]


@pytest.mark.parametrize("long_first", [True, False])
def test_of_a_pair_the_longer_text_is_cut(tokenizer: Tokenizer, long_first: bool) -> None:
    texts = (LONG, "a film") if long_first else ("a film", LONG)
    found = sequences_of(tokenizer, *texts, max_seq_length=11, long_texts="windows")
    windows = ["good fine bad awful film book", "awful film book a the was", "a the was very"]
    pairs = [(w, "a film") if long_first else ("a film", w) for w in windows]
    assert [[tokenizer.pieces[i] for i in sequence.input_ids] for sequence in found] == [
        ["[CLS]", *a.split(), "[SEP]", *b.split(), "[SEP]"] for a, b in pairs
    ]
    for sequence, (a, b) in zip(found, pairs, strict=True):
        assert sequence.token_type_ids == [0] * (len(a.split()) + 2) + [1] * (len(b.split()) + 1)


def test_two_long_texts_share_the_room(tokenizer: Tokenizer) -> None:
    found = sequences_of(tokenizer, LONG, LONG, max_seq_length=11, long_texts="windows")
    assert all(sequence.is_truncated for sequence in found)
    assert {sequence.token_type_ids.count(0) for sequence in found} == {6}


def test_by_default_the_longer_text_loses_its_end(tokenizer: Tokenizer) -> None:
    (cut,) = sequences_of(tokenizer, LONG, "a film", max_seq_length=9)
    assert cut.is_truncated
    assert [tokenizer.pieces[i] for i in cut.input_ids] == [
        "[CLS]",
        *PIECES[:4],
        "[SEP]",
        "a",
        "film",
        "[SEP]",
    ]


@given(st.lists(st.integers(), max_size=50), st.integers(1, 20))
def test_windows_hold_everything_and_none_is_within_another(pieces: list[int], size: int) -> None:
    step = max(size // 2, 1)
    windows = windows_of(pieces, size)
    rebuilt = windows[0] + [piece for window in windows[1:] for piece in window[size - step :]]
    assert rebuilt == pieces
    assert all(len(window) == size for window in windows[:-1])
    assert len(windows) == 1 or len(windows[-1]) > size - step


def test_the_outputs_of_windows_are_averaged(
    build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    task = Classification(labels=("no", "yes"), long_texts="windows")
    model = task.head(build_encoder(), generator=torch.Generator().manual_seed(3)).eval()
    example = LabelledText(LONG, label="yes")
    (features,) = featurize(task, [example], tokenizer, max_seq_length=6)
    assert len(features) == 4
    assert [feature.target for feature in features] == [1, 1, 1, 1]
    (prediction,) = predict(task, model, [example], [features], max_tokens=100)
    batch = task.batch(features)
    with torch.no_grad():
        expected = model(batch.packed).mean(0).softmax(-1)
    assert list(prediction.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    whole = replace(task, long_texts="truncate").features(example, tokenizer, max_seq_length=6)
    assert [feature.is_truncated for feature in whole] == [True]


def test_scores_of_windows_are_averaged_too() -> None:
    task = Regression(minimum=2.0, maximum=4.0)
    outputs = [np.array([0.25], np.float32), np.array([0.75], np.float32)]
    assert task.decode(LabelledText(LONG), [], outputs) == pytest.approx(3.0)


def test_a_long_beginning_stands_before_every_choice(tokenizer: Tokenizer) -> None:
    question = Question(LONG, ("bad", "very fine ."), 1, "x:1")
    task = OwnChoices(long_texts="windows")
    features = task.features(question, tokenizer, max_seq_length=12)
    texts = [
        [" ".join(tokenizer.pieces[i] for i in sequence.input_ids) for sequence in feature.sequences]
        for feature in features
    ]
    assert texts == [
        [f"[CLS] {window} [SEP] {choice} [SEP]" for choice in question.choices]
        for window in (" ".join(PIECES[:6]), " ".join(PIECES[3:9]), " ".join(PIECES[6:]))
    ]
    assert not any(feature.is_truncated for feature in features)
    outputs = [np.array([1, 0], np.float32), np.array([0, 0.5], np.float32), np.array([0, 1], np.float32)]
    assert task.decode(question, features, outputs).choice == 1
    (cut,) = OwnChoices().features(question, tokenizer, max_seq_length=12)
    assert cut.is_truncated


def test_windows_keep_no_less_of_long_choices_than_cutting(tokenizer: Tokenizer) -> None:
    question = Question("a film", (LONG, "bad"), 1, "x:1")
    (window,), (cut,) = (
        OwnChoices(long_texts=long_texts).features(question, tokenizer, max_seq_length=12)
        for long_texts in ("windows", "truncate")
    )
    assert window.sequences[0].num_tokens == cut.sequences[0].num_tokens == 12
