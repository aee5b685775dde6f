"""Wrong arguments of the Python interface are refused by name and position, and every ordered collection is read."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import cloze
from cloze.arguments import (
    check_integer,
    check_path,
    check_paths,
    check_text,
    check_texts,
    describe,
    iterate_texts,
)
from cloze.models.heads import BertForPreTraining
from cloze.parallel_map import AnyWorkers
from cloze.signatures import check_kind
from helpers import task_of
from tiny_models import SPECIAL, tiny_config, write_checkpoint, write_finetuned

TOKENS = (*SPECIAL, *"abcdefgh", "##a")
TEXT = Path(__file__)
FRAME = pd.DataFrame({"id": [1], "text": ["b"]})
NO_TEXT: tuple[Any, ...] = (
    *(None, float("nan"), np.float32("nan"), pd.NA, 5, 2.5, True),
    *({"a": "b"}, {"a"}, b"a", object(), len, str),
    *(np.array("a"), np.array([["a", "b"]]), pa.table({"text": ["a"]}), FRAME, {"text": ["a"]}, [None]),
    *({"text": np.array(["a"])}, torch.tensor([1.5]), ("a", "b"), ["a"]),
)
NO_TEXTS = (*NO_TEXT[:-2], Path("x"))


class Loaded:
    """Public classes with small models."""

    def __init__(self, place: Path) -> None:
        self.out = place / "out"
        labels = task_of("classification", labels=("x", "y"))
        tagging = task_of("tagging", labels=("O", "B-X", "I-X"))
        squad = task_of("squad_v2", doc_stride=5, null_threshold=1.0, max_query_length=4)
        pretrained = BertForPreTraining(cloze.BertModel(tiny_config(TOKENS)))
        self.path = write_checkpoint(place / "model", pretrained, TOKENS)
        pairs = write_finetuned(place / "matcher", labels.with_settings({"pair_column": "pair"}), TOKENS)
        self.match = cloze.TextClassifier.load(pairs, device="cpu")
        classifier = write_finetuned(place / "classifier", labels, TOKENS)
        self.classify = cloze.TextClassifier.load(classifier, device="cpu")
        self.tag = cloze.EntityTagger.load(write_finetuned(place / "tagger", tagging, TOKENS), device="cpu")
        answerer = write_finetuned(place / "answerer", squad, TOKENS, max_seq_length=16)
        self.answer = cloze.QuestionAnswerer.load(answerer, device="cpu")
        self.embed = cloze.Embedder.load(self.path, device="cpu")
        self.fill = cloze.FillMask.load(self.path, device="cpu")
        self.score = cloze.SentenceScorer.load(self.path, device="cpu")
        self.follows = cloze.NextSentence.load(self.path, device="cpu")
        self.tokenizer = cloze.load_tokenizer(self.path)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return Loaded(tmp_path_factory.mktemp("models"))


Call = Callable[[Loaded, Any], object]
TEXTS: dict[str, tuple[str, Call]] = {
    "embed": ("texts", lambda my, x: my.embed(x)),
    "embed.words": ("texts", lambda my, x: my.embed.words(x)),
    "embed.token_ids": ("texts", lambda my, x: my.embed.token_ids(x)),
    "score": ("texts", lambda my, x: my.score(x)),
    "classify": ("texts", lambda my, x: my.classify(x)),
    "tag": ("texts", lambda my, x: my.tag(x)),
    "ids": ("texts", lambda my, x: my.tokenizer.ids(x)),
    "pairs": ("pairs", lambda my, x: my.match(["a", "b"], x)),
    "questions": ("questions", lambda my, x: my.answer(x, ["a", "b"])),
    "contexts": ("contexts", lambda my, x: my.answer(["a", "b"], x)),
    "from_tokens": ("tokens", lambda my, x: cloze.WordPieceTokenizer.from_tokens(x)),
}
METHODS: tuple[tuple[str, Call], ...] = (
    ("texts[1]", lambda my, x: my.fill(["a [MASK]", x])),
    ("text", lambda my, x: my.fill.probabilities(x)),
    ("sentence_a", lambda my, x: my.follows(x, "b")),
    ("text", lambda my, x: my.tokenizer.encode(x)),
    ("name", lambda my, x: cloze.find_task(x)),
    ("words[1]", lambda my, x: my.tag(words=["a", x])),
    ("ids[1]", lambda my, x: my.tokenizer.decode([5, x])),
    ("examples[0]", lambda my, x: my.classify.predict([x])),
    ("examples", lambda my, x: list(my.classify.stream(x))),
    ("examples", lambda my, x: my.classify.evaluate(x)),
    ("example", lambda my, x: my.classify.features(x)),
    ("config", lambda my, x: cloze.BertModel(x)),
    ("data", lambda my, x: cloze.PretrainConfig(data=x, steps=1)),
    ("epochs", lambda my, x: cloze.FinetuneConfig(model="m", train="t", epochs=x)),
)
ROWS = [("a", "x"), ("b", "y")] * 4
ANY: tuple[tuple[str, Call], ...] = (
    ("train", lambda my, x: cloze.finetune("classification", train=x, model=my.path, output=my.out)),
    ("train", lambda my, x: cloze.validate_data("classification", train=x, model=my.path)),
    ("data", lambda my, x: cloze.evaluate(model=my.classify, data=x)),
    ("predictions", lambda my, x: cloze.score("classification", x, ROWS)),
    ("gold", lambda my, x: cloze.score("classification", ROWS, x)),
    ("texts", lambda my, x: cloze.explain(x, model=my.classify)),
    ("texts", lambda my, x: cloze.train_vocabulary(texts=x, output=my.out)),
    ("texts", lambda my, x: cloze.build_dataset(texts=x, vocabulary=my.path, output=my.out)),
    ("texts", lambda my, x: cloze.pretrain(texts=x, init=my.path, steps=1, output=my.out)),
    ("inputs[0]", lambda my, x: cloze.train_vocabulary([x], output=my.out)),
    ("model[0]", lambda my, x: cloze.evaluate(model=[x], data=ROWS)),
)
"""Calls with an argument whose annotation is Any, or with an item of a list."""


def annotated() -> Iterator[Any]:
    """Yield the arguments of public functions and methods whose annotations name kinds."""
    for name in cloze.__all__:
        public = getattr(cloze, name)
        methods = [getattr(public, name, None) for name in ("load", "__call__", "save")]
        for function in methods if inspect.isclass(public) else [public]:
            for parameter in inspect.signature(function).parameters.values() if is_checked(function) else ():
                if parameter.annotation not in (Any, object, parameter.empty):
                    where = f"{name} {function.__name__} {parameter.name}"
                    yield pytest.param(function, parameter.name, id=where)


def is_checked(function: object) -> bool:
    return hasattr(function, "setting_names")


CHECKERS: tuple[tuple[str, Callable[[Any, str], object], type | tuple[()]], ...] = (
    ("name", check_text, ()),
    ("name", check_texts, ()),
    ("name", lambda x, name: list(iterate_texts(x, name)), ()),
    ("name", check_path, Path),
    ("name", check_paths, Path),
    ("name", check_integer, int),
    ("hidden_size", lambda x, name: cloze.BertConfig(**{name: x}), int),
    ("train", lambda x, name: cloze.baseline("classification", **{name: x}), Path),
)
"""The name of an argument, a function that checks it, and the kind that it accepts."""


def assert_refused(argument: str, call: Callable[[Any], object], value: object) -> None:
    """Check that a value is refused in one line with the name of the argument."""
    with pytest.raises(cloze.InputError) as caught:
        call(value)
    message = str(caught.value)
    assert argument in message, value
    assert "\n" not in message, value


@pytest.mark.parametrize(("name", "check", "accepted"), CHECKERS)
def test_checkers_refuse_every_wrong_kind(name, check, accepted):
    for value in NO_TEXTS:
        if not isinstance(value, accepted) or value is True:
            assert_refused(name, lambda x: check(x, name), value)


@pytest.mark.parametrize(("function", "argument"), [*annotated()])
def test_the_kinds_of_annotations_are_checked_first(function, argument):
    needed = {"self": None} if "self" in inspect.signature(function).parameters else {}
    for value in (object(), b"a"):
        assert_refused(argument, lambda x: function(*needed.values(), **{argument: x}), value)


@pytest.mark.parametrize(
    ("hint", "right", "wrong", "says"),
    [
        (str, ["a"], [5], "it is 5, an int. Give a text."),
        (bool, [True], [1], "it is 1, an int. Give True or False."),
        (
            int | None,
            [1, np.int64(1), torch.tensor(1), None],
            [1.0, True, "1"],
            "it is 1.0, a float. Give a whole number.",
        ),
        (float, [1, 0.5, np.float32(1)], [True, "1"], "it is True, a bool. Give a number."),
        (str | Path, ["a", Path("a")], ["", "a\0", 5], "it is ''. Give the path of a file or directory."),
        (
            str | Path | Sequence[str],
            [np.array(["a", "b"]), FRAME["text"]],
            [np.array(5), ""],
            "it is a ndarray. Give the path of a file or directory or a list.",
        ),
        (
            Sequence[int],
            [[1], (), iter("a"), np.array([1])],
            ["a", {"a": 1}, {1}, FRAME, 5],
            "it is 'a'. Give a list.",
        ),
        (Mapping[str, Any], [{}], [[]], "it is a list. Give a dict."),
        (
            Literal["sum", "concat"],
            ["sum"],
            ["product", 5, np.array(["sum", "concat"])],
            "it: 'product' is not a choice. Choose from sum, concat.",
        ),
        (int | Literal["auto"], [1, "auto"], [1.5, "x"], "it is 1.5, a float. Give a whole number or auto."),
        (
            AnyWorkers.__origin__,
            [1, "ray", cloze.RayCluster()],
            [2.5],
            "it is 2.5, a float. Give a whole number, a RayCluster, auto or ray.",
        ),
        (str | cloze.Task, ["a", task_of("mrpc")], [5], "it is 5, an int. Give a text or a Task."),
        (Any, [5, None], [], ""),
    ],
)
def test_kinds(hint, right, wrong, says):
    for value in right:
        check_kind(value, hint, "it")
    for number, value in enumerate(wrong):
        with pytest.raises(cloze.InputError) as caught:
            check_kind(value, hint, "it")
        assert number or str(caught.value) == says


@pytest.mark.parametrize(
    ("argument", "call"),
    [*TEXTS.values(), *METHODS, *ANY],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arguments_of_a_wrong_kind_are_refused_by_name(argument, call, loaded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in (2.5, {"a": "b"}):
        assert_refused(argument, partial(call, loaded), value)
    assert not list(tmp_path.iterdir())
    assert not loaded.out.exists()


@pytest.mark.parametrize("name", TEXTS)
def test_every_call_names_the_position_of_a_wrong_item(loaded, name):
    argument, call = TEXTS[name]
    for item in (5, ("a", "b")):
        with pytest.raises(cloze.InputError) as caught:
            call(loaded, iter(["a", item]))
        assert str(caught.value).startswith(f"{argument}[1] is {describe(item)}. ")


def test_every_ordered_collection_is_read_alike():
    texts = ["a b", "c"]
    series, arrow = pd.Series(texts, index=[3, 7]), pa.chunked_array([texts[:1], texts[1:]])
    for values in (tuple(texts), iter(texts), np.array(texts), np.array(texts, object), arrow, series):
        assert [(type(text), text) for text in check_texts(values)] == [(str, "a b"), (str, "c")]
    with pytest.raises(cloze.InputError, match="2 texts, expected 1"):
        check_texts(texts, paired_with=["a"])


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - {"from_tokens"}))
def test_every_call_reads_iterators_and_arrays(loaded, name):
    _, call = TEXTS[name]
    expected = repr(call(loaded, ["a b", "c"]))
    for texts in (iter(["a b", "c"]), np.array(["a b", "c"])):
        assert repr(call(loaded, texts)) == expected


def test_numbers_of_numpy_are_settings():
    numpy = {"data_fractions": np.array([0.5, 1.0]), "epochs": np.int64(3), "learning_rate": np.float32(0.25)}
    python = {"data_fractions": [0.5, 1.0], "epochs": 3, "learning_rate": 0.25}
    plans = [
        cloze.plan_finetuning("classification", train=ROWS, dev=ROWS, model="cloze-mini", **settings)
        for settings in (numpy, python)
    ]
    assert plans[0].runs == plans[1].runs == 2
    assert [phase.steps for phase in plans[0].phases] == [phase.steps for phase in plans[1].phases]


def test_one_path_is_a_list_of_one():
    assert check_paths("a.txt") == ["a.txt"]
    assert check_paths(Path("a.txt")) == [Path("a.txt")]
    assert check_paths(path for path in ["a.txt", Path("b.txt")]) == ["a.txt", Path("b.txt")]
    for nothing in ("", ["a.txt", "\0"]):
        with pytest.raises(cloze.InputError, match=r"^inputs"):
            check_paths(nothing)


def test_public_functions_and_classes_can_be_sent_to_a_cluster():
    cloudpickle = pytest.importorskip("cloudpickle")
    for name in cloze.__all__:
        value = getattr(cloze, name)
        for function in (value, getattr(value, "load", value)):
            assert callable(cloudpickle.loads(cloudpickle.dumps(function)))
