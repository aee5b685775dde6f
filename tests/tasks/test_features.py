"""Long texts: truncated, or read in windows whose outputs are averaged."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cloze.models.batch import to_device
from cloze.models.torch_engine import TorchEngine
from cloze.tasks.features import encode_text, half_overlapping, max_context_windows, sliding_windows
from cloze.tasks.predict import featurize, predict
from cloze.tasks.texts import ChoiceQuestion, LabeledText
from family_cases import tokens_of
from helpers import task_of

LONG = "good fine bad awful film book a the was very"
TOKENS = LONG.split()


def test_windows_of_a_text_overlap_by_half(tokenizer):
    windows = ["good fine bad awful", "bad awful film book", "film book a the", "a the was very"]
    for max_seq_length, expected in ((6, windows), (12, [LONG])):
        sequences = encode_text(tokenizer, LONG, None, max_seq_length=max_seq_length, long_texts="windows")
        assert [tokens_of(tokenizer, s) for s in sequences] == [f"[CLS] {text} [SEP]" for text in expected]
        assert not any(sequence.is_truncated for sequence in sequences)


@pytest.mark.parametrize("long_first", [True, False])
def test_longer_text_of_a_pair_is_cut_into_windows(tokenizer, long_first):
    texts = (LONG, "a film") if long_first else ("a film", LONG)
    sequences = encode_text(tokenizer, *texts, max_seq_length=11, long_texts="windows")
    windows = ["good fine bad awful film book", "awful film book a the was", "a the was very"]
    pairs = [(w, "a film") if long_first else ("a film", w) for w in windows]
    assert [tokens_of(tokenizer, s) for s in sequences] == [f"[CLS] {a} [SEP] {b} [SEP]" for a, b in pairs]
    for sequence, (a, b) in zip(sequences, pairs, strict=True):
        assert sequence.token_type_ids == [0] * (len(a.split()) + 2) + [1] * (len(b.split()) + 1)


def test_two_long_texts_get_half_of_the_tokens_each(tokenizer):
    sequences = encode_text(tokenizer, LONG, LONG, max_seq_length=11, long_texts="windows")
    assert all(sequence.is_truncated for sequence in sequences)
    assert {sequence.token_type_ids.count(0) for sequence in sequences} == {6}


@given(st.lists(st.integers(), max_size=50), st.integers(1, 20))
def test_half_overlapping_windows_cover_all_and_none_contains_another(ids, size):
    step = max(size // 2, 1)
    windows = [ids[window] for window in half_overlapping(len(ids), size)]
    rebuilt = windows[0] + [i for window in windows[1:] for i in window[size - step :]]
    assert rebuilt == ids
    assert all(len(window) == size for window in windows[:-1])
    assert len(windows) == 1 or len(windows[-1]) > size - step


@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 20))
def test_sliding_windows_cover_all_and_one_has_the_most_context(num, size, stride):
    windows = sliding_windows(num, size, stride)
    assert {i for w in windows for i in range(w.start, w.stop)} == set(range(num))
    assert all(w.stop - w.start <= size for w in windows)
    assert [w.start for w in windows] == [i * min(stride, size) for i in range(len(windows))]
    best = max_context_windows(windows)
    for token in range(num):
        context = [
            min(token - w.start, w.stop - 1 - token) + 0.01 * (w.stop - w.start)
            if w.start <= token < w.stop
            else -1
            for w in windows
        ]
        assert best[token] == context.index(max(context))


def test_outputs_of_windows_are_averaged(build_encoder, tokenizer):
    task = task_of("classification", labels=("no", "yes"), long_texts="windows")
    model = task.answer.head(build_encoder(), generator=torch.Generator().manual_seed(3)).eval()
    example = LabeledText(LONG, gold="yes")
    (features,) = featurize(task.answer, [example], tokenizer, max_seq_length=6)
    assert [feature.target for feature in features] == [1, 1, 1, 1]
    (prediction,) = predict(task.answer, TorchEngine(model), [example], [features], max_tokens=100)
    with torch.no_grad():
        expected = model(to_device(task.answer.batch(features))).mean(0).softmax(-1)
    assert list(prediction.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    truncated = task.with_settings(dict(long_texts="truncate")).answer.features(
        example, tokenizer, max_seq_length=6
    )
    assert [feature.is_truncated for feature in truncated] == [True]


def test_scores_of_windows_are_averaged():
    task = task_of("regression", minimum=2.0, maximum=4.0)
    outputs = [np.array([0.25], np.float32), np.array([0.75], np.float32)]
    assert task.answer.decode(LabeledText(LONG), [], outputs) == pytest.approx(3.0)


def test_windows_of_a_long_prompt_precede_every_choice(tokenizer):
    question = ChoiceQuestion(LONG, ("bad", "very fine ."), 1, "x:1")
    task = task_of("multiple-choice", long_texts="windows")
    features = task.answer.features(question, tokenizer, max_seq_length=12)
    assert [[tokens_of(tokenizer, s) for s in feature.sequences] for feature in features] == [
        [f"[CLS] {window} [SEP] {choice} [SEP]" for choice in question.choices]
        for window in (" ".join(TOKENS[:6]), " ".join(TOKENS[3:9]), " ".join(TOKENS[6:]))
    ]
    assert not any(feature.is_truncated for feature in features)
    outputs = [np.array([1, 0], np.float32), np.array([0, 0.5], np.float32), np.array([0, 1], np.float32)]
    assert task.answer.decode(question, features, outputs).choice == 1
    (truncated,) = task_of("multiple-choice").answer.features(question, tokenizer, max_seq_length=12)
    assert truncated.is_truncated


def test_windows_keep_as_much_of_long_choices_as_truncation(tokenizer):
    question = ChoiceQuestion("a film", (LONG, "bad"), 1, "x:1")
    (window,), (truncated,) = (
        task_of("multiple-choice", long_texts=long_texts).answer.features(
            question, tokenizer, max_seq_length=12
        )
        for long_texts in ("windows", "truncate")
    )
    assert len(window.sequences[0].input_ids) == len(truncated.sequences[0].input_ids) == 12
