"""Extractive questions: windows, the text of an answer, the n best answers, training."""

import json
import os
import signal
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from cloze.finetuning.objective import FinetuningObjective
from cloze.model_paths import resolve_checkpoint
from cloze.models.batch import to_device
from cloze.tasks.answers.span import Answer, SpanPrediction
from cloze.tasks.config import load_task
from cloze.tasks.questions import Excerpt, Paragraph, SpanQuestion
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.training.interrupts import Interrupted
from cloze.training.optimizer import OptimizerConfig
from family_cases import tokens_of
from helpers import finetuning_of, task_of
from runs import finetune, resume_finetuning, rows

WORDS = WordPieceTokenizer.from_tokens(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", *(f"##{c}" for c in "abcdefgh"), ".", "1"]
)


def _question(text, question="a", answer=None, key="q"):
    answers = () if answer is None else (_excerpt(text, answer),)
    return SpanQuestion(key, question, Paragraph(text), answers)


def _excerpt(text, part):
    return Excerpt(part, text.index(part), text.index(part) + len(part))


def test_features_of_a_long_text():
    example = _question("a b c d e f g h", "h g f e", "c d")
    task = task_of("squad_v1", doc_stride=2, max_query_length=3)
    features = task.answer.features(example, WORDS, max_seq_length=10)
    assert [tokens_of(WORDS, feature) for feature in features] == [
        "[CLS] h g f [SEP] a b c d [SEP]",
        "[CLS] h g f [SEP] c d e f [SEP]",
        "[CLS] h g f [SEP] e f g h [SEP]",
    ]
    assert [feature.target for feature in features] == [(7, 8), (5, 6), (0, 0)]
    assert all(feature.is_truncated for feature in features)
    assert task.answer.batch(features).token_type_ids.tolist() == ([0] * 5 + [1] * 5) * 3


@pytest.mark.parametrize(
    ("original", "targets", "trained"),
    [
        (False, [(3, 4), (5, 5), (6, 6)], "a window learns the first that it contains"),
        (True, [(3, 4), (0, 0), (0, 0)], "only the first is trained"),
    ],
)
def test_windows_learn_the_answer_that_they_contain(original, targets, trained):
    text = "a b c d e f g h"
    answers = tuple(_excerpt(text, part) for part in ("a b", "h", "e", "f"))
    example = SpanQuestion("q", "a", Paragraph(text), answers)
    task = task_of("squad_v2", doc_stride=2, original=original)
    features = task.answer.features(example, WORDS, max_seq_length=8)
    assert [feature.target for feature in features] == targets
    (note,) = task.answer.notes([example, _question(text, answer="c")], [], WORDS)
    assert note == f"1 of 2 training questions have answers at several places: {trained}"
    same_place = SpanQuestion("q", "a", Paragraph(text), (answers[1], answers[1]))
    assert list(task.answer.notes([same_place], [], WORDS)) == []


def test_questions_on_one_text_are_one_split_group():
    group = task_of("squad_v1").reader.group
    assert group(_question("a b c", "a")) == group(_question("a b c", "b"))
    assert group(_question("a b c")) != group(_question("a b d"))


def test_paragraph_is_tokenized_once_for_all_questions():
    paragraph = Paragraph("a b c")
    first = paragraph.context(WORDS, original=False)
    assert paragraph.context(WORDS, original=False) is first
    assert paragraph.context(WORDS, original=True) is not first


@pytest.mark.parametrize("original", [False, True])
@pytest.mark.parametrize(
    ("text", "answer"),
    [("a  bcd. ef", "bcd"), ("(a) b", "a"), ("a\n\tbc d", "bc d"), ("A Bç D", "Bç"), ("a b", "a b")],
)
def test_answer_is_cut_from_the_text(text, answer, original):
    context = Paragraph(text).context(WORDS, original=original)
    excerpt = context.excerpt(*context.token_span(_excerpt(text, answer)))
    assert excerpt.text == answer
    assert " ".join(text[excerpt.start : excerpt.end].split()) == " ".join(excerpt.text.split())


def test_offsets_keep_accents_and_white_space_that_google_drops():
    text = "a cafe\u0301 b\u00a0c\nd"  # the accent is a character of its own
    by_offsets = Paragraph(text).context(WORDS, original=False)
    original = Paragraph(text).context(WORDS, original=True)
    tokens = by_offsets.token_span(_excerpt(text, "b\u00a0c\nd"))
    assert by_offsets.excerpt(*tokens).text == "b\u00a0c\nd"
    assert original.excerpt(*original.token_span(_excerpt(text, "b\u00a0c\nd"))).text == "b\u00a0c d"
    cafe = by_offsets.token_span(_excerpt(text, "cafe"))
    assert by_offsets.excerpt(*cafe).text == "cafe\u0301"


def test_google_returns_whole_words_that_it_cannot_align():
    context = Paragraph("a bc½d e").context(WORDS, original=True)
    assert context.excerpt(1, 1).text == "bc½d"


def _outputs(length, first, last, score, null):
    logits = np.zeros((length, 2), np.float32)
    logits[0] = null / 2
    logits[first, 0] = logits[last, 1] = score / 2
    return logits


def test_null_threshold_decides():
    example = _question("a b c")
    features = task_of("squad_v2").answer.features(example, WORDS, max_seq_length=20)
    outputs = [_outputs(7, 4, 5, score=6, null=8)]
    for threshold, text in ((1.9, ""), (2.0, "b c"), (2.1, "b c")):
        prediction = task_of("squad_v2", null_threshold=threshold).answer.decode(example, features, outputs)
        assert prediction.null_odds == 2
        assert prediction.text == text
        assert prediction.best is not None
        assert prediction.best.text == "b c"


def test_answer_is_empty_if_every_candidate_is():
    example = _question("a b c")
    task = task_of("squad_v2", n_best_size=2)
    features = task.answer.features(example, WORDS, max_seq_length=20)
    logits = np.zeros((7, 2), np.float32)
    logits[[0, 1]] = 9
    prediction = task.answer.decode(example, features, [logits])
    assert prediction.text == ""
    assert json.loads(json.dumps(task.answer.to_json(example, prediction)))["answer"] == ""
    assert task_of("squad_v1", n_best_size=2).answer.decode(example, features, [logits]).text == ""
    empty = _question("\u200e")
    features = task.answer.features(empty, WORDS, max_seq_length=20)  # an empty paragraph has a window, too
    assert task.answer.decode(empty, features, [np.zeros((4, 2), np.float32)]).text == ""


def test_no_answer_is_no_collapse_if_no_question_has_one():
    task, predictions = task_of("squad_v2"), [_predicted("", 3.0)] * 2
    assert task.collapse([_question("a b", key=key) for key in "pq"], predictions) is None
    assert task.collapse([_question("a b", key=key, answer="b") for key in "pq"], predictions) is not None


def _predicted(text, odds):
    answer = Answer(text, 0, len(text))
    return SpanPrediction(**asdict(answer), candidates=(answer,), null_odds=odds)


def test_threshold_is_tuned_for_f1():
    examples = [
        _question("a b c", answer="a", key="right"),
        _question("a b c", key="none"),
        _question("a b c", answer="b", key="right and unsure"),
    ]
    predictions = [_predicted("a", -3.0), _predicted("c", 3.0), _predicted("b", 2.5)]
    tuned = lambda predictions: task_of("squad_v2").tuned(examples, predictions).answer.null_threshold  # noqa: E731
    assert tuned(predictions) == 2.75  # halfway to the next
    predictions[2] = _predicted("c", 2.5)
    assert tuned(predictions) == -0.25
    predictions[0] = _predicted("c", -3.0)
    assert tuned(predictions) < -3.0  # answer nothing
    no_candidates = replace(_predicted("", 0.0), null_odds=sys.float_info.max)
    assert tuned([_predicted("a", 4.0), no_candidates, no_candidates]) == 5.0


def test_loss_is_the_mean_of_start_and_end_over_each_sequence():
    task = task_of("squad_v1")
    features = [
        feature
        for text, answer in (("a b c", "b"), ("a b", "a b"))
        for feature in task.answer.features(_question(text, answer=answer), WORDS, max_seq_length=20)
    ]
    batch = to_device(task.answer.batch(features))
    logits = torch.randn(batch.num_tokens, 2, generator=torch.Generator().manual_seed(1))
    loss, measures = task.answer.loss(logits, batch)
    first, second = logits[:7].log_softmax(0), logits[7:].log_softmax(0)
    expected = -(first[4, 0] + first[4, 1]) / 2 - (second[3, 0] + second[4, 1]) / 2
    torch.testing.assert_close(loss, expected)
    assert measures["loss"][1] == 2
    assert [len(output) for output in task.answer.outputs(logits.numpy(), batch)] == [7, 6]


def test_defaults_are_those_of_the_paper():
    for name, batch_size, epochs in (("squad_v1", 32, 3), ("squad_v2", 48, 2)):
        _, config = finetuning_of(name, ["model=m", "train=t"])
        assert (config.batch_size, config.epochs, config.max_seq_length) == (batch_size, epochs, 384)
        assert config.optimizer == OptimizerConfig(learning_rate=5e-5, warmup_fraction=0.1)


@pytest.fixture
def some_unanswered(config, tmp_path):
    """The settings of a run of twelve steps, with an evaluation after every third."""
    questions = [
        {"id": f"{i}", "question": word, "answers": [] if i % 3 else [{"text": "book", "answer_start": 4}]}
        for i, word in enumerate(["good", "bad", "awful"] * 6)
    ]
    table = {"data": [{"paragraphs": [{"context": "the book was bad .", "qas": questions}]}]}
    (tmp_path / "train.json").write_text(json.dumps(table))
    path = str(tmp_path / "train.json")
    return replace(config, train=path, dev=path, epochs=4, batch_size=6, micro_batch_tokens=40)


def test_tuned_threshold_is_stored_with_the_model(some_unanswered, tmp_path):
    config = some_unanswered
    scores = finetune(task_of("squad_v2"), config, tmp_path / "run")
    stored = load_task(resolve_checkpoint(tmp_path / "run", "best"))
    assert stored is not None
    assert stored[0].name == "squad_v2"
    assert stored[0].answer.null_threshold != 0
    assert stored[0] == task_of("squad_v2", null_threshold=stored[0].answer.null_threshold)
    assert scores["f1"] >= 2 / 3 * 100
    assert set(scores) >= {"exact", "f1", "HasAns_f1", "NoAns_f1"}


def test_resumed_run_has_the_tuned_threshold(some_unanswered, tmp_path, monkeypatch):
    forward, run, found, calls = FinetuningObjective.forward, tmp_path / "run", {}, []

    def stopping(*args):
        calls.extend(rows(run, "validation"))
        if len(calls) in (1, 5):  # in the first step after an evaluation, and in the second
            os.kill(os.getpid(), signal.SIGTERM)
        return forward(*args)

    monkeypatch.setattr(FinetuningObjective, "forward", stopping)
    for again in (False, True):
        with pytest.raises(Interrupted):
            resume_finetuning(run) if again else finetune(task_of("squad_v2"), some_unanswered, run)
        latest = resolve_checkpoint(run, "latest")
        found[latest.name] = load_task(latest)
    assert len(rows(run, "validation")) == 1  # which tuned the threshold
    first, second = found.values()
    assert first[0].answer.null_threshold != 0
    assert first == second
