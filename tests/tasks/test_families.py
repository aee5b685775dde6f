"""What the families add to the contract: weights, thresholds, scales, numbers of choices."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from cloze.errors import InputError
from cloze.inference.predictor import Predictor
from cloze.locate import resolve_checkpoint
from cloze.model.bert import BertModel
from cloze.tasks.choice import OwnChoices
from cloze.tasks.classification import Classification
from cloze.tasks.cola import CoLA
from cloze.tasks.config import load_finetuning
from cloze.tasks.conll import Sentence
from cloze.tasks.data import read_examples
from cloze.tasks.finetune import finetune
from cloze.tasks.mrpc import MRPC
from cloze.tasks.multi_label import LabelSet, MultiLabel
from cloze.tasks.multiple_choice import Choice, Question
from cloze.tasks.predict import predict
from cloze.tasks.registry import find_task
from cloze.tasks.regression import Regression
from cloze.tasks.scored_pairs import ScoredPairs
from cloze.tasks.sequence_classification import Prediction
from cloze.tasks.tagged_text import TaggedText
from cloze.tasks.tagging import Tags
from cloze.tasks.tags import OwnTags
from cloze.tasks.texts import LabelledText
from cloze.text.tokenizer import Tokenizer


def _texts(*labels: str) -> list[LabelledText]:
    return [LabelledText("a", None, label, f"x.tsv:{line}") for line, label in enumerate(labels, 2)]


def test_classes_are_balanced_by_their_share() -> None:
    task = Classification(balanced=True).fitted(_texts("a", "b", "b", "b", "c", "c"))
    assert task.class_weights == pytest.approx((2.0, 2 / 3, 1.0))
    mean = np.mean([task.class_weights[task.labels.index(label)] for label in "abbbcc"])
    assert mean == pytest.approx(1.0)
    assert task.fitted(_texts("a", "b", "c")) == task  # a run that goes on has the weights that it began with


def test_who_finds_the_rare_class_has_learned() -> None:
    true = _texts(*["rare"] * 5, *["common"] * 95)
    found = [Prediction(label, 1.0, {}) for label in ["rare"] * 15 + ["common"] * 85]
    task = Classification(labels=("common", "rare"))
    assert task.score(true, found)["accuracy"] < task.score(true, found)["majority_accuracy"]
    assert task.collapse(true, found) == "no better than the majority"  # by its main metric, the accuracy
    cola = CoLA()
    found = [Prediction(label, 1.0, {}) for label in ["0"] * 15 + ["1"] * 85]
    assert cola.collapse(_texts(*["0"] * 5, *["1"] * 95), found) is None  # by Matthews
    assert cola.collapse(_texts("0", "1", "1"), [Prediction("1", 1.0, {})] * 3) == "one class only"


ONE_KIND = {
    "classification": (Classification(labels=("a", "b")), ("a", "a"), Prediction("a", 1.0, {})),
    "multi-label": (MultiLabel(labels=("a", "b")), ("b,a", "a,b"), LabelSet(("a", "b"), {})),
    "regression": (Regression(minimum=0.0, maximum=5.0), ("4", "4"), 4.0),
    "scored-pairs": (ScoredPairs(minimum=0.0, maximum=5.0), ("4", "4"), 0.8),
}


@pytest.mark.parametrize("name", ONE_KIND)
def test_who_says_of_data_of_one_kind_what_they_are_is_not_told_to_have_learned_nothing(name: str) -> None:
    task, labels, prediction = ONE_KIND[name]
    assert task.collapse(_texts(*labels), [prediction] * 2) is None


def test_nor_who_says_it_of_choices_or_finds_nothing_where_nothing_is() -> None:
    questions = [Question("a", ("b", "c"), 1, f"x:{line}") for line in (1, 2)]
    assert OwnChoices().collapse(questions, [Choice(1, 1.0, [])] * 2) is None
    words = TaggedText((Sentence(("a", "b"), ("O", "O")),))
    assert OwnTags(labels=("O", "B-X", "I-X")).collapse([words], [Tags((("O", "O"),))]) is None


def test_who_says_one_wrong_label_of_such_data_is() -> None:
    task = Classification(labels=("a", "b"))
    assert task.collapse(_texts("a", "a"), [Prediction("b", 1.0, {})] * 2) == "one class only"


def test_who_is_right_more_often_has_learned() -> None:
    true = _texts(*["1"] * 70, *["0"] * 30)
    found = [Prediction(label, 1.0, {}) for label in ["1"] * 50 + ["0"] * 20 + ["1"] * 5 + ["0"] * 25]
    scores = MRPC().score(true, found)
    assert scores["f1"] < 2 * 70 / (70 + 100)  # that of who always says 1
    assert scores["accuracy"] > scores["majority_accuracy"]
    assert MRPC().collapse(true, found) is None
    assert MRPC().collapse(true, found[20:] + found[:20]) == "no better than the majority"


@pytest.mark.parametrize("pair", [None, "b"])
def test_what_stands_there_twice_is_learned_or_scored(tmp_path: Path, pair: str | None) -> None:
    task = Classification(pair_column=None if pair is None else "pair")
    names = "text\tlabel" if pair is None else "text\tpair\tlabel"
    rows = [[f"text {n % 50}", *([] if pair is None else [pair]), "xy"[n % 2]] for n in range(200)]
    (tmp_path / "a.tsv").write_text("\n".join([names, *("\t".join(row) for row in rows)]) + "\n")
    _, train, dev = read_examples(task, tmp_path / "a.tsv", None)
    assert len(train) + len(dev) == 200
    assert dev
    assert not {example.text for example in train} & {example.text for example in dev}


def test_weights_weigh_the_loss(tokenizer: Tokenizer) -> None:
    task = Classification(labels=("a", "b"), class_weights=(3.0, 0.5))
    features = [f for text in _texts("a", "b", "b") for f in task.features(text, tokenizer, max_seq_length=8)]
    logits = torch.tensor([[0.2, 0.1], [0.4, -1.0], [0.0, 2.0]])
    loss, _ = task.loss(logits, task.batch(features))
    each = functional.cross_entropy(logits, torch.tensor([0, 1, 1]), reduction="none")
    assert loss.item() == pytest.approx((each * torch.tensor([3.0, 0.5, 0.5])).sum().item())


def test_labels_of_a_set_are_those_over_the_threshold() -> None:
    task = MultiLabel(labels=("a", "b", "c"), threshold=0.3)
    found = task.decode(LabelledText("x"), [], [np.array([0.0, -2.0, -0.5], np.float32)])
    assert found.labels == ("a", "c")
    assert list(found.probabilities.values()) == pytest.approx([0.5, 0.1192, 0.3775], abs=1e-4)


def test_labels_of_a_set_may_be_a_list(tmp_path: Path) -> None:
    rows = (
        '{"text": "x", "labels": ["b ", "a"]}\n{"text": "y", "labels": []}\n{"text": "z", "labels": "a, b"}\n'
    )
    (tmp_path / "a.jsonl").write_text(rows)
    examples = list(MultiLabel().examples(tmp_path / "a.jsonl"))
    task = MultiLabel().fitted(examples)
    assert task.labels == ("a", "b")
    assert [task.target(example) for example in examples] == [[0, 1], [], [0, 1]]
    with pytest.raises(TypeError, match="labels is 'a, b', not a list"):
        task.from_json({"labels": "a, b"})


def test_labels_of_a_set_are_parted_as_said() -> None:
    task = MultiLabel(separator="|").fitted(_texts("b | a,a", "", "c|b"))
    assert task.labels == ("a,a", "b", "c")
    assert [task.target(text) for text in _texts("c|b", "")] == [[1, 2], []]
    assert task.targets([[1, 2], [], None]).tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    scores = task.score(_texts("b", "b|c"), [LabelSet(("b",), {}), LabelSet(("b",), {})])
    assert scores == pytest.approx({"micro_f1": 0.8, "macro_f1": 0.5, "exact_match": 0.5})
    assert task.collapse(_texts("b", "c"), [LabelSet(("b",), {})] * 2) == "one set of labels only"


def test_a_scale_is_that_of_the_training_data_or_given() -> None:
    examples = _texts("-3", "7", "2")
    task = Regression().fitted(examples)
    assert (task.minimum, task.maximum) == (-3.0, 7.0)
    assert [task.target(example) for example in examples] == [0.0, 1.0, 0.5]
    assert task.decode(examples[0], [], [np.array([1.2], np.float32)]) == pytest.approx(9.0)
    assert Regression(maximum=17.0).fitted(examples).target(examples[1]) == 0.5
    assert task.collapse(examples, [2.0, 2.01, 2.0]) == "one score only"
    assert task.collapse(examples, [2.0, 4.0, 2.0]) is None


def test_questions_with_different_numbers_of_choices_share_a_batch(
    build_encoder, tokenizer: Tokenizer
) -> None:
    task = OwnChoices()
    questions = [
        Question("the film was", ("good", "bad", "a book"), 2, "x:1"),
        Question("a book", ("fine", "awful"), 0, "x:2"),
        Question("awful", ("a", "the", "very", "was", "film"), 4, "x:3"),
    ]
    features = [task.features(question, tokenizer, max_seq_length=16) for question in questions]
    flat = [feature for own in features for feature in own]
    model = task.head(build_encoder(), generator=torch.Generator().manual_seed(2)).eval()
    batch = task.batch(flat)
    scores = model(batch.packed)
    assert scores.shape == (10,)
    loss, measures = task.loss(scores, batch)
    rows = scores.split((3, 2, 5))
    expected = [
        functional.cross_entropy(row, torch.tensor(q.label)) for row, q in zip(rows, questions, strict=True)
    ]
    assert loss.item() == pytest.approx(sum(expected).item(), abs=1e-5)
    predictions = predict(task, model, questions, features, max_tokens=10)
    assert [p.choice for p in predictions] == [row.argmax().item() for row in rows]
    assert [len(p.probabilities) for p in predictions] == [3, 2, 5]
    correct = sum(p.choice == q.label for p, q in zip(predictions, questions, strict=True))
    assert measures["accuracy"][0].item() == correct
    with pytest.raises(TypeError, match="is not a number"):
        task.from_json({"choice": "b"})
    assert task.collapse(questions, [Choice(0, 1.0, [])] * 3) == "no better than the majority"


@pytest.mark.parametrize("choice", [2, -1])
def test_a_choice_must_be_there(tmp_path: Path, choice: int) -> None:
    (tmp_path / "out").write_text(f'{{"choice": 1}}\n{{"choice": {choice}}}\n')
    questions = [Question("a", ("b", "c"), 0, "x:1"), Question("a", ("b", "c"), 0, "x:2")]
    with pytest.raises(InputError, match=f"out: choice {choice}: x:2 has 2, counted from 0"):
        OwnChoices().predictions(tmp_path / "out", questions)


def test_a_number_of_hundreds_of_digits_is_none(tmp_path: Path) -> None:
    (tmp_path / "out").write_text(f'{{"score": {"9" * 400}}}\n')
    with pytest.raises(InputError, match="out:1: no prediction for regression"):
        Regression().predictions(tmp_path / "out", _texts("1"))
    (tmp_path / "a.jsonl").write_text(f'{{"text": "a", "label": {"9" * 400}}}\n')
    with pytest.raises(InputError, match=r"a\.jsonl:1: score .* is not a number"):
        Regression().fitted(list(Regression().examples(tmp_path / "a.jsonl")))


OTHERS = {
    "classification": ("text\tlabel\ngood\tx\nbad\ty\n", lambda p: p.probabilities),
    "multi-label": ("text\tlabels\ngood\tx\nbad\ty,x\n", lambda p: p.probabilities),
    "regression": ("text\tlabel\ngood\t0\nbad\t1\n", lambda p: {"score": p}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_pipelines_of_transformers_say_the_same(
    name: str, nano_checkpoint: Path, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    transformers = pytest.importorskip("transformers")
    content, values = OTHERS[name]
    (tmp_path / "a.tsv").write_text(content + content.split("\n", 1)[1] * 9)
    task, config = load_finetuning(
        name,
        None,
        [
            *(f"model={nano_checkpoint}", f"train={tmp_path / 'a.tsv'}", "device=cpu", "precision=float32"),
            *("epochs=1", "max_seq_length=16", "micro_batch_tokens=64"),
        ],
    )
    finetune(task, config, tmp_path / "run")
    checkpoint = resolve_checkpoint(tmp_path / "run", "best")
    pipeline = transformers.pipeline("text-classification", model=str(checkpoint), top_k=None)
    predictor = Predictor.load(checkpoint, device="cpu")
    texts = ["the film was good", "", "awful , awful"]
    predictions, _ = predictor.predict([LabelledText(text) for text in texts])
    for prediction, theirs in zip(predictions, pipeline(texts), strict=True):
        expected = {row["label"]: row["score"] for row in theirs}
        assert values(prediction) == pytest.approx(expected, abs=1e-5)


EMPTY = {
    "classification": LabelledText(""),
    "mrpc": LabelledText("", ""),
    "regression": LabelledText(" \t"),
    "multi-label": LabelledText("\u200b"),
    "multiple-choice": Question("", ("", ""), None, "x:1"),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_texts_are_answered(
    name: str, build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    settings = {"labels": ("x", "y")} if name in ("classification", "multi-label") else {}
    settings |= {"minimum": 0.0, "maximum": 1.0} if name == "regression" else {}
    task = find_task(name)(**settings)
    model = task.head(build_encoder(), generator=torch.Generator().manual_seed(2))
    features = task.features(EMPTY[name], tokenizer, max_seq_length=16)
    assert [feature.is_truncated for feature in features] == [False]
    (prediction,) = predict(task, model, [EMPTY[name]], [features], max_tokens=64)
    assert task.to_json(EMPTY[name], prediction)


def test_choices_may_stand_in_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('prompt,right,wrong,label\n"a, b",c,d,1\n')
    (question,) = OwnChoices(choice_columns=("right", "wrong")).examples(path)
    assert question == Question("a, b", ("c", "d"), 1, f"{path}:2")
