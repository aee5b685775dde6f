"""Classification, multi-label, regression and multiple choice: labels, weights, thresholds, scales, collapse."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

import cloze
from cloze.data.reading.tagged_text import Sentence, TaggedText
from cloze.errors import InputError
from cloze.finetuning.data import read_examples
from cloze.inference.predictor import Predictor
from cloze.models.batch import to_device
from cloze.models.torch_engine import TorchEngine
from cloze.tasks.answers.label_set import LabelSetPrediction
from cloze.tasks.answers.tags import TagPrediction
from cloze.tasks.config import with_settings
from cloze.tasks.predict import predict
from cloze.tasks.texts import ChoiceQuestion, LabeledText
from family_cases import tokens_of
from helpers import external_answer, task_of
from runs import finetune


def _texts(*golds):
    return [LabeledText("a", None, gold, f"x.tsv:{line}") for line, gold in enumerate(golds, 2)]


def _sets(*labels, separator=","):
    return _texts(*(frozenset(filter(None, map(str.strip, text.split(separator)))) for text in labels))


def _predictions(*labels):
    return [cloze.ClassPrediction(label, 1.0, {}) for label in labels]


TASK = task_of("classification", labels=("no", "yes"))


@pytest.mark.protected
@pytest.mark.parametrize(
    ("task", "settings", "message"),
    json.loads(Path(__file__).with_name("invalid_settings.json").read_text("utf-8")),
)
def test_invalid_settings_are_refused(task, settings, message):
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    with pytest.raises(InputError, match=message):
        task_of(task, **values)


def test_longer_text_of_a_pair_is_truncated(tokenizer):
    example = LabeledText("a", "good fine bad awful film book", "yes")
    (feature,) = TASK.answer.features(example, tokenizer, max_seq_length=8)
    assert feature.is_truncated
    assert tokens_of(tokenizer, feature) == "[CLS] a [SEP] good fine bad awful [SEP]"
    assert feature.sequences[0].token_type_ids == [0, 0, 0, 1, 1, 1, 1, 1]
    assert feature.target == 1
    (whole,) = TASK.answer.features(replace(example, gold=None), tokenizer, max_seq_length=10)
    assert not whole.is_truncated
    assert whole.target is None


def _choices(*labels):
    return [ChoiceQuestion("a", ("b", "c", "d"), label, f"x:{line}") for line, label in enumerate(labels, 1)]


def _chosen(*indices):
    return [cloze.ChoicePrediction(index, 1.0, []) for index in indices]


def _words(tags):
    return [TaggedText((Sentence(("a", "b"), tuple(tags.split())),))]


def _tags(tags):
    return [TagPrediction((tuple(tags.split()),))]


RARE = task_of("cola"), _texts(*["0"] * 5, *["1"] * 95)
FREQUENT = task_of("mrpc"), _texts(*["1"] * 70, *["0"] * 30)
BETTER = _predictions(*["1"] * 50, *["0"] * 20, *["1"] * 5, *["0"] * 25)
"""For FREQUENT: a lower F1 than the constant 1, a higher accuracy."""
SETS = task_of("multi-label", labels=("a", "b", "c"))
SCALE = task_of("regression", minimum=0.0, maximum=5.0)
CHOICE = task_of("multiple-choice")
ENTITIES = task_of("tagging", labels=("O", "B-X", "I-X"))
MAJORITY = "no better than the majority"


@pytest.mark.parametrize(
    ("task_and_examples", "predictions", "collapse"),
    [
        (RARE, _predictions(*["0"] * 15, *["1"] * 85), None),  # by Matthews
        ((TASK, _texts(*["no"] * 5, *["yes"] * 95)), _predictions(*["no"] * 15, *["yes"] * 85), MAJORITY),
        (FREQUENT, BETTER, None),  # by the accuracy
        (FREQUENT, BETTER[20:] + BETTER[:20], MAJORITY),
        ((task_of("cola"), _texts(0.0, 1.0, 1.0)), _predictions("1", "1", "1"), "one class only"),
        ((TASK, _texts("no", "no")), _predictions("yes", "yes"), "one class only"),
        ((TASK, _texts("no", "no")), _predictions("no", "no"), None),
        ((SETS, _sets("b", "c")), [LabelSetPrediction(("b",), {})] * 2, "one set of labels only"),
        ((SETS, _sets("b,a", "a,b")), [LabelSetPrediction(("a", "b"), {})] * 2, None),
        ((SCALE, _texts(1.0, 4.0, 2.0)), [2.0, 2.01, 2.0], "one score only"),
        ((SCALE, _texts(1.0, 4.0, 2.0)), [2.0, 4.0, 2.0], None),
        ((SCALE, _texts(4.0, 4.0)), [4.0, 4.0], None),
        ((task_of("scored-pairs", minimum=0.0, maximum=5.0), _texts(4.0, 4.0)), [0.8, 0.8], None),
        ((CHOICE, _choices(2, 0, 1)), _chosen(0, 0, 0), MAJORITY),
        ((CHOICE, _choices(1, 1)), _chosen(1, 1), None),
        ((ENTITIES, _words("O O")), _tags("O O"), None),
        ((ENTITIES, _words("B-X O")), _tags("O O"), "no entity predicted"),
        ((ENTITIES, _words("B-X O")), _tags("O B-X"), "no entity right"),
        ((ENTITIES, _words("B-X O")), _tags("B-X B-X"), None),
    ],
)
def test_collapse_is_named_unless_all_examples_agree(task_and_examples, predictions, collapse):
    task, examples = task_and_examples
    assert task.collapse(examples, predictions) == collapse


@pytest.mark.parametrize("pair", [None, "b"])
def test_duplicates_are_all_in_one_split(tmp_path, pair):
    task = task_of("classification", pair_column=None if pair is None else "pair")
    names = "text\tlabel" if pair is None else "text\tpair\tlabel"
    rows = [[f"text {n % 50}", *([] if pair is None else [pair]), "xy"[n % 2]] for n in range(200)]
    (tmp_path / "a.tsv").write_text("\n".join([names, *("\t".join(row) for row in rows)]) + "\n")
    _, train, dev, _ = read_examples(task, tmp_path / "a.tsv", None)
    assert len(train) + len(dev) == 200
    assert dev
    assert not {example.text for example in train} & {example.text for example in dev}


def test_class_weights_weight_the_loss(tokenizer):
    task = task_of("classification", labels=("a", "b"), class_weights=(3.0, 0.5))
    features = [
        f for text in _texts("a", "b", "b") for f in task.answer.features(text, tokenizer, max_seq_length=8)
    ]
    logits = torch.tensor([[0.2, 0.1], [0.4, -1.0], [0.0, 2.0]])
    loss, _ = task.answer.loss(logits, to_device(task.answer.batch(features)))
    losses = functional.cross_entropy(logits, torch.tensor([0, 1, 1]), reduction="none")
    assert loss.item() == pytest.approx((losses * torch.tensor([3.0, 0.5, 0.5])).sum().item())


def test_label_set_has_the_labels_above_the_threshold():
    task = task_of("multi-label", labels=("a", "b", "c"), thresholds=0.3)
    prediction = task.answer.decode(LabeledText("x"), [], [np.array([0.0, -2.0, -0.5], np.float32)])
    assert prediction.labels == ("a", "c")
    half = task.with_settings(dict(thresholds=0.5)).answer
    assert half.decode(LabeledText("x"), [], [np.zeros(3, np.float32)]).labels == ()
    assert list(prediction.probabilities.values()) == pytest.approx([0.5, 0.1192, 0.3775], abs=1e-4)


def _label_sets(*probabilities):
    return [LabelSetPrediction((), dict(zip("ab", values, strict=True))) for values in probabilities]


def test_thresholds_are_tuned_for_the_f1_of_each_label():
    examples, predictions = (
        _sets("a", "a", "", ""),
        _label_sets((0.4, 0.9), (0.2, 0.8), (0.1, 0.1), (0.3, 0.1)),
    )
    task = task_of("multi-label", labels=("a", "b"))
    tuned = task.tuned(examples, predictions)
    assert tuned.answer.thresholds == {"a": pytest.approx(0.15), "b": 0.5}
    assert tuned.answer.decode(examples[0], [], [np.array([-1.6, 0.1], np.float32)]).labels == ("a", "b")
    retuned = tuned.tuned(_sets("", "a", "a", ""), predictions)
    assert retuned.answer.thresholds["a"] == pytest.approx(0.05)


def test_thresholds_given_before_training_are_kept():
    examples, predictions = _sets("a", "b"), _label_sets((0.4, 0.9), (0.2, 0.8))
    for given in (0.3, {"a": 0.3}):
        task = task_of("multi-label", thresholds=given).fit(examples)
        assert task.tuned(examples, predictions) == task
    assert task_of("multi-label").fit(examples).answer.tune_thresholds
    with pytest.raises(InputError, match=r"thresholds: unknown label 'c'. The labels are a, b"):
        task_of("multi-label", thresholds={"c": 0.3}).fit(examples)


def test_a_threshold_changes_beside_those_of_other_labels():
    task = task_of("multi-label", labels=("a", "b"), thresholds={"a": 0.1, "b": 0.2})
    changed = with_settings(task, {"multi-label.thresholds.b": 0.9}, is_trained=True)
    assert changed.answer.thresholds == {"a": 0.1, "b": 0.9}
    assert task.answer.thresholds == {"a": 0.1, "b": 0.2}
    assert with_settings(task, {"multi-label.thresholds": 0.3}, is_trained=True).answer.thresholds == 0.3
    with pytest.raises(InputError, match="positive_weights cannot change after training"):
        with_settings(task, {"multi-label.positive_weights": "balanced"}, is_trained=True)


def test_positive_weights_weight_the_examples_with_a_label(tokenizer):
    texts = _sets("a", "a,b", "", "a,b")
    balanced = task_of("multi-label", positive_weights="balanced")
    assert balanced.fit(texts).answer.positive_weights == (1 / 3, 1.0)
    assert balanced.fit(_sets("a")).answer.positive_weights == (1.0,)
    task = task_of("multi-label", positive_weights={"b": 4.0}).fit(texts)
    assert task.answer.positive_weights == (1.0, 4.0)
    features = [f for text in texts for f in task.answer.features(text, tokenizer, max_seq_length=8)]
    logits = torch.tensor([[0.2, 0.1], [0.4, -1.0], [0.0, 2.0], [1.0, 1.0]])
    loss, _ = task.answer.loss(logits, to_device(task.answer.batch(features)))
    targets = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    weights = torch.where(targets == 1, torch.tensor([1.0, 4.0]), torch.ones(1))
    assert loss.item() == pytest.approx((losses * weights).mean(-1).sum().item())


def test_label_set_is_split_by_the_separator():
    task = task_of("multi-label", separator="|").fit(_sets("b | a,a", "", "c|b", separator="|"))
    assert task.answer.labels == ("a,a", "b", "c")
    assert [task.answer.target(text.gold) for text in _sets("c|b", "", separator="|")] == [[1, 2], []]
    assert task.answer.targets([[1, 2], [], None]).tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    scores = task.score(
        _sets("b", "b|c", separator="|"), [LabelSetPrediction(("b",), {}), LabelSetPrediction(("b",), {})]
    )
    assert scores == pytest.approx({"micro_f1": 0.8, "macro_f1": 0.5, "exact_match": 0.5})


def test_scale_is_that_of_the_training_data_by_default():
    examples = _texts(-3.0, 7.0, 2.0)
    task = task_of("regression").fit(examples)
    assert (task.answer.minimum, task.answer.maximum) == (-3.0, 7.0)
    assert [task.answer.target(example.gold) for example in examples] == [0.0, 1.0, 0.5]
    assert task.answer.decode(examples[0], [], [np.array([1.2], np.float32)]) == pytest.approx(9.0)
    assert task_of("regression", maximum=17.0).fit(examples).answer.target(examples[1].gold) == 0.5
    assert (similarity := task_of("stsb").answer).scale == (0.0, 5.0)
    assert task.answer.teacher_rows(np.array([0.5], np.float32), similarity).item() == pytest.approx(0.55)


def test_questions_with_different_numbers_of_choices_share_a_batch(build_encoder, tokenizer):
    task = task_of("multiple-choice")
    questions = [
        ChoiceQuestion("the film was", ("good", "bad", "a book"), 2, "x:1"),
        ChoiceQuestion("a book", ("fine", "awful"), 0, "x:2"),
        ChoiceQuestion("awful", ("a", "the", "very", "was", "film"), 4, "x:3"),
    ]
    features = [task.answer.features(question, tokenizer, max_seq_length=16) for question in questions]
    flat = [feature for of_example in features for feature in of_example]
    model = task.answer.head(build_encoder(), generator=torch.Generator().manual_seed(2)).eval()
    batch = to_device(task.answer.batch(flat))
    scores = model(batch)
    assert scores.shape == (10,)
    loss, measures = task.answer.loss(scores, batch)
    rows = scores.split((3, 2, 5))
    expected = [
        functional.cross_entropy(row, torch.tensor(q.gold)) for row, q in zip(rows, questions, strict=True)
    ]
    assert loss.item() == pytest.approx(sum(expected).item(), abs=1e-5)
    predictions = predict(task.answer, TorchEngine(model), questions, features, max_tokens=10)
    assert [p.choice for p in predictions] == [row.argmax().item() for row in rows]
    assert [len(p.probabilities) for p in predictions] == [3, 2, 5]
    correct = sum(p.choice == q.gold for p, q in zip(predictions, questions, strict=True))
    assert measures["accuracy"][0].item() == correct


OTHERS = {
    "classification": ("text\tlabel\ngood\tx\nbad\ty\n", lambda p: p.probabilities),
    "multi-label": ("text\tlabels\ngood\tx\nbad\ty,x\n", lambda p: p.probabilities),
    "regression": ("text\tlabel\ngood\t0\nbad\t1\n", lambda p: {"score": p}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_transformers_pipeline_predicts_the_same(name, configure, tmp_path, tokenizer):
    transformers = pytest.importorskip("transformers")
    content, values = OTHERS[name]
    (tmp_path / "a.tsv").write_text(content + content.split("\n", 1)[1] * 9)
    settings = "precision=float32 epochs=1 max_seq_length=16 micro_batch_tokens=64"
    data = tmp_path / "a.tsv"
    finetune(*configure(name, data, settings, dev=data), tmp_path / "run")
    predictor = Predictor.load(tmp_path / "run", device="cpu")
    texts = ["the film was good", "", "awful , awful"]
    predictions, _ = predictor.predict([LabeledText(text) for text in texts])
    for model in (tmp_path / "run", tmp_path / "run/best"):
        pipeline = transformers.pipeline("text-classification", model=str(model), top_k=None)
        for prediction, theirs in zip(predictions, pipeline(texts), strict=True):
            expected = {row["label"]: row["score"] for row in theirs}
            assert values(prediction) == pytest.approx(expected, abs=1e-5)


EMPTY = {
    "classification": LabeledText(""),
    "mrpc": LabeledText("", ""),
    "regression": LabeledText(" \t"),
    "multi-label": LabeledText("\u200b"),
    "multiple-choice": ChoiceQuestion("", ("", ""), None, "x:1"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_texts_have_predictions(name, build_encoder, tokenizer):
    settings = {"labels": ("x", "y")} if name in ("classification", "multi-label") else {}
    settings |= {"minimum": 0.0, "maximum": 1.0} if name == "regression" else {}
    task = task_of(name, **settings)
    model = task.answer.head(build_encoder(), generator=torch.Generator().manual_seed(2))
    features = task.answer.features(EMPTY[name], tokenizer, max_seq_length=16)
    assert [feature.is_truncated for feature in features] == [False]
    (prediction,) = predict(task.answer, TorchEngine(model), [EMPTY[name]], [features], max_tokens=64)
    assert task.answer.to_json(EMPTY[name], prediction)


def test_external_models_keep_the_order_of_their_classes(tmp_path):
    names = ("not_entailment", "entailment")
    assert external_answer(tmp_path, "qnli", *names).labels == names
    assert external_answer(tmp_path, "mrpc", "LABEL_0", "LABEL_1") == task_of("mrpc").answer
    with pytest.raises(InputError, match="its classes are 0, 1, the task's entailment"):
        external_answer(tmp_path, "qnli", "LABEL_0", "LABEL_1")
