"""Wrong arguments of the Python interface are refused by name and position, and every ordered collection is read."""

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cloze
from cloze.arguments import (
    check_integer,
    check_integers,
    check_path,
    check_paths,
    check_text,
    check_texts,
    check_type,
    describe,
    iterate_texts,
)
from cloze.models.bert import BertModel
from cloze.models.heads import BertForPreTraining
from cloze.results import Result
from cloze.tasks.task import Task
from helpers import task_of
from tiny_models import SPECIAL, tiny_config, write_checkpoint, write_finetuned

TOKENS = (*SPECIAL, *"abcdefgh", "##a")
TEXT = Path(__file__)


class NAType:
    """As the missing value of pandas: comparing it gives itself, which has no truth."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = None  # type: ignore[assignment]


class Series:
    """As a pandas Series whose index does not start at 0."""

    def __init__(self, *values: object) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[object]:
        return iter(self.values)

    def __getitem__(self, key: object) -> object:
        raise KeyError(key)


class Frame:
    """As a pandas DataFrame, whose iteration yields the names of its columns."""

    def __init__(self, **columns: list[object]) -> None:
        self.columns, self.cells = list(columns), columns

    def __getitem__(self, name: str) -> list[object]:
        return self.cells[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


NO_TEXTS: dict[str, Any] = {
    "None": None,
    "NaN": float("nan"),
    "NaN of NumPy": np.float32("nan"),
    "NA": NAType(),
    "int": 5,
    "float": 2.5,
    "bool": True,
    "dict": {"a": "b"},
    "set": {"a"},
    "bytes": b"a",
    "path": Path("x"),
    "object": object(),
    "function": len,
    "class": str,
    "array without dimensions": np.array("a"),
    "array of two dimensions": np.array([["a", "b"]]),
    "table": pa.table({"text": ["a"]}),
    "data frame": Frame(text=["a"]),
    "dict of lists": {"text": ["a"]},
    "dict of arrays": {"text": np.array(["a"])},
    "list with None": [None],
    "tensor": torch.tensor([1.5]),
}


class Loaded:
    """Every public class with a small model."""

    def __init__(self, place: Path) -> None:
        self.out = place / "out"
        labels = task_of("classification", labels=("x", "y"))
        self.classifier_path = write_finetuned(place / "classifier", labels, TOKENS)
        tagging = task_of("tagging", labels=("O", "B-X", "I-X"))
        squad = task_of("squad_v2", doc_stride=5, null_threshold=1.0, max_query_length=4)
        self.path = write_checkpoint(
            place / "model", BertForPreTraining(BertModel(tiny_config(TOKENS))), TOKENS
        )
        pairs = write_finetuned(place / "matcher", labels.with_settings({"pair_column": "pair"}), TOKENS)
        self.match = cloze.TextClassifier.load(pairs, device="cpu")
        self.classify = cloze.TextClassifier.load(self.classifier_path, device="cpu")
        self.tag = cloze.EntityTagger.load(write_finetuned(place / "tagger", tagging, TOKENS), device="cpu")
        answerer = write_finetuned(place / "answerer", squad, TOKENS, max_seq_length=16)
        self.answer = cloze.QuestionAnswerer.load(answerer, device="cpu")
        self.embed = cloze.Embedder.load(self.path, device="cpu")
        self.fill = cloze.FillMask.load(self.path, device="cpu")
        self.score = cloze.SentenceScorer.load(self.path, device="cpu")
        self.follows = cloze.NextSentence.load(self.path, device="cpu")
        self.tokenizer = cloze.load_tokenizer(self.path)
        self.config = cloze.FinetuneConfig(model=str(self.path), train="none.tsv")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return Loaded(tmp_path_factory.mktemp("models"))


Call = Callable[[Loaded, Any], object]

TEXTS: dict[str, Call] = {
    "Embedder": lambda my, x: my.embed(x),
    "Embedder.embed": lambda my, x: my.embed.embed(x),
    "Embedder.words": lambda my, x: my.embed.words(x),
    "Embedder.embed_tokens": lambda my, x: my.embed.embed_tokens(x),
    "Embedder.token_ids": lambda my, x: my.embed.token_ids(x),
    "SentenceScorer": lambda my, x: my.score(x),
    "SentenceScorer.scores": lambda my, x: list(my.score.scores(x)),
    "TextClassifier": lambda my, x: my.classify(x),
    "EntityTagger": lambda my, x: my.tag(x),
    "Tokenizer.ids": lambda my, x: my.tokenizer.ids(x),
}
NAMED_TEXTS: dict[str, tuple[str, Call]] = {
    "TextClassifier pairs": ("pairs", lambda my, x: my.match(["a", "b"], x)),
    "QuestionAnswerer": ("questions", lambda my, x: my.answer(x, ["a", "b"])),
    "QuestionAnswerer of": ("contexts", lambda my, x: my.answer(["a", "b"], x)),
    "WordPieceTokenizer.from_tokens": ("tokens", lambda my, x: cloze.WordPieceTokenizer.from_tokens(x)),
}
ALL_TEXTS = {name: ("texts", call) for name, call in TEXTS.items()} | NAMED_TEXTS
ONE_TEXT: dict[str, tuple[str, Call]] = {
    "FillMask": ("text", lambda my, x: my.fill(x)),
    "FillMask.probabilities": ("text", lambda my, x: my.fill.probabilities(x)),
    "NextSentence": ("sentence_a", lambda my, x: my.follows(x, "b")),
    "NextSentence of": ("sentence_b", lambda my, x: my.follows("a", x)),
    "Tokenizer.encode": ("text", lambda my, x: my.tokenizer.encode(x)),
}
PATH, OUT = attrgetter("path"), attrgetter("out")
CLASSIFIER, CONFIG = attrgetter("classify"), attrgetter("config")
GOLD = [("a", "x")]
FUNCTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("train_vocabulary", "inputs", {"output": OUT}),
    ("train_vocabulary", "output", {"inputs": TEXT, "size": 300}),
    ("train_vocabulary", "size", {"inputs": TEXT, "output": OUT}),
    ("train_vocabulary", "workers", {"inputs": TEXT, "output": OUT, "size": 300}),
    ("build_dataset", "inputs", {"vocabulary": PATH, "output": OUT}),
    ("build_dataset", "vocabulary", {"inputs": TEXT, "output": OUT}),
    ("build_dataset", "output", {"inputs": TEXT, "vocabulary": PATH}),
    ("preview_inputs", "inputs", {}),
    ("check_inputs", "inputs", {}),
    ("inspect_vocabulary", "vocabulary", {}),
    ("inspect_vocabulary", "text", {"vocabulary": PATH}),
    ("finetune", "task", {"config": CONFIG, "output": OUT}),
    ("finetune", "config", {"task": task_of("classification"), "output": OUT}),
    ("finetune", "output", {"task": task_of("classification"), "config": CONFIG}),
    ("finetune", "train", {"task": "classification", "model": PATH, "output": OUT}),
    ("plan_finetuning", "task", {"config": CONFIG}),
    ("validate_data", "task", {"config": CONFIG}),
    ("finetuning_settings", "task", {"config": CONFIG}),
    ("evaluate", "data", {"model": CLASSIFIER}),
    ("evaluate", "model", {"data": GOLD}),
    ("glue_submission", "model", {"data": OUT, "output": OUT}),
    ("describe_tasks", "task", {}),
    ("describe_formats", "task", {}),
    ("baseline", "train", {"task": "classification"}),
    ("score", "predictions", {"task": "classification", "gold": GOLD}),
    ("explain", "texts", {"model": CLASSIFIER}),
    ("attention", "text", {"model": PATH}),
    ("embed_file", "layers", {"input_file": TEXT, "model": PATH, "output": "a.npy"}),
    ("neighbors", "query", {"model": PATH}),
    ("fill", "texts", {"model": PATH}),
    ("next_sentence", "sentence_a", {"sentence_b": "b", "model": PATH}),
    ("export_model", "output", {"model": PATH}),
    ("import_model", "source", {"output": OUT}),
    ("push", "name", {"directory": PATH}),
    ("audit", "dataset", {}),
    ("extend_vocabulary", "output", {"vocabulary": PATH, "words": ["ab"]}),
    ("pretrain", "config", {"output": OUT}),
    ("pretrain", "output", {"config": cloze.PretrainConfig(data="d", steps=1)}),
    ("pretrain", "texts", {"init": PATH, "output": OUT, "steps": 1}),
    ("plan_pretraining", "config", {}),
    ("pretraining_settings", "config", {}),
    ("report", "run", {}),
    ("info", "directory", {}),
    ("run_demo", "output", {}),
    ("serve", "threads", {}),
    ("configure_process", "work", {}),
)
"""Public functions, an argument that is wrong, and those that are right or are made of what is loaded."""


def calling(function: str, argument: str, others: dict[str, Any]) -> Call:
    def call(my: Loaded, value: object) -> object:
        right = {name: of(my) if isinstance(of, attrgetter) else of for name, of in others.items()}
        return getattr(cloze, function)(**right, **{argument: value})

    return call


OTHERS: dict[str, tuple[str, Call]] = {
    **{
        f"{name}.load": ("model", lambda my, x, name=name: getattr(cloze, name).load(x))
        for name in (
            *("ChoiceAnswerer", "Embedder", "EntityTagger", "FillMask", "MultiLabelClassifier"),
            *("NextSentence", "QuestionAnswerer", "SentenceScorer", "TextClassifier", "TextRanker"),
            "TextRegressor",
        )
    },
    "load_tokenizer": ("directory", lambda my, x: cloze.load_tokenizer(x)),
    "load": ("model", lambda my, x: cloze.load(x)),
    "load_encoder": ("model", lambda my, x: cloze.load_encoder(x)),
    "Tokenizer.save": ("directory", lambda my, x: my.tokenizer.save(x)),
    "word_masking": ("word_masking", lambda my, x: my.score("a", word_masking=x)),
    "device": ("device", lambda my, x: cloze.Embedder.load(my.path, device=x)),
    "top_k": ("top_k", lambda my, x: my.fill("a [MASK]", top_k=x)),
    "words": ("words", lambda my, x: my.tag(words=x)),
    "words one": ("words[1]", lambda my, x: my.tag(words=["a", x])),
    "decode": ("ids", lambda my, x: my.tokenizer.decode(x)),
    "decode one": ("ids[1]", lambda my, x: my.tokenizer.decode([5, x])),
    "embed_token_ids": ("token_ids", lambda my, x: my.embed.embed_token_ids(x)),
    "embed_token_ids one": ("token_ids[1]", lambda my, x: my.embed.embed_token_ids([[5], x])),
    "embed_tokens_of_ids": ("token_ids", lambda my, x: my.embed.embed_tokens_of_ids(x)),
    "embed_tokens_of_ids one": ("token_ids[1]", lambda my, x: my.embed.embed_tokens_of_ids([[5], x])),
    "predict": ("examples", lambda my, x: my.classify.predict(x)),
    "predict one": ("examples[0]", lambda my, x: my.classify.predict([x])),
    "stream": ("examples", lambda my, x: list(my.classify.stream(x))),
    "evaluate": ("examples", lambda my, x: my.classify.evaluate(x)),
    "features": ("example", lambda my, x: my.classify.features(x)),
    **{
        f"Embedder {name}": (name, lambda my, x, name=name: cloze.Embedder.load(my.path, **{name: x}))
        for name in ("pooling", "layers", "combine", "normalize", "max_seq_length", "long_texts", "prompt")
    },
    "predict_file": ("input", lambda my, x: cloze.predict_file(x, model=my.classify)),
    "BertModel": ("config", lambda my, x: cloze.BertModel(x)),
    "BertConfig": ("hidden_size", lambda my, x: cloze.BertConfig(hidden_size=x)),
    "find_task": ("task", lambda my, x: cloze.find_task(x)),
    "register_task": ("task", lambda my, x: cloze.register_task(x)),
    "PretrainConfig": ("data", lambda my, x: cloze.PretrainConfig(data=x, steps=1)),
    "FinetuneConfig": ("epochs", lambda my, x: cloze.FinetuneConfig(model="m", train="t", epochs=x)),
    **{
        f"{function} {argument}": (argument, calling(function, argument, others))
        for function, argument, others in FUNCTIONS
    },
}
CHECKERS: dict[str, tuple[str, Callable[[Any], object], set[str]]] = {
    "check_text": ("name", lambda x: check_text(x, "name"), set()),
    "check_texts": ("name", lambda x: check_texts(x, "name"), set()),
    "iterate_texts": ("name", lambda x: list(iterate_texts(x, "name")), set()),
    "check_path": ("name", lambda x: check_path(x, "name"), {"path"}),
    "check_paths": ("name", lambda x: check_paths(x, "name"), {"path"}),
    "check_integer": ("name", lambda x: check_integer(x, "name"), {"int"}),
    "check_integers": ("name", lambda x: check_integers(x, "name", minimum=0, maximum=9), set()),
    "check_type": ("name", lambda x: check_type(x, str, "name", remedy="Give a text"), set()),
    "a setting": ("hidden_size", lambda x: cloze.BertConfig(hidden_size=x), {"int"}),
    "rows": ("train", lambda x: cloze.baseline("classification", train=x), {"path"}),
}
"""Functions that check arguments, with the name in the message and the kinds that they accept."""


def assert_refused(argument: str, call: Callable[[Any], object], kind: str) -> None:
    """Check that a value is refused in one line with the name of the argument."""
    with pytest.raises(cloze.InputError) as caught:
        call(NO_TEXTS[kind])
    message = str(caught.value)
    assert argument in message, kind
    assert "\n" not in message, kind


@pytest.mark.parametrize("name", CHECKERS)
def test_checkers_refuse_every_wrong_kind(name: str) -> None:
    argument, check, accepted = CHECKERS[name]
    for kind in NO_TEXTS.keys() - accepted:
        assert_refused(argument, check, kind)


@pytest.mark.parametrize("name", [*ALL_TEXTS, *ONE_TEXT, *OTHERS])
def test_arguments_of_a_wrong_kind_are_refused_by_name(
    name: str, loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    argument, call = (ALL_TEXTS | ONE_TEXT | OTHERS)[name]
    for kind in ("float", "dict"):
        assert_refused(argument, partial(call, loaded), kind)
    assert not list(tmp_path.iterdir())


def test_every_public_name_is_tried() -> None:
    tried = {word.partition(".")[0] for name in [*ALL_TEXTS, *ONE_TEXT, *OTHERS] for word in name.split()}
    names = set(cloze.__all__) - {"AttentionMap", "Audit", "Callback", "ExplainConfig", "Explanation"}
    names -= {"BuildSummary", "Extension", "InputPreview", "InspectedVocabulary", "Progress", "RayCluster"}
    public = {name: getattr(cloze, name) for name in names}
    not_called = (Result, Task, dict, list, Exception)
    assert {
        name for name, kind in public.items() if not (isinstance(kind, type) and issubclass(kind, not_called))
    } <= tried


NO_TEXT = {kind: value for kind, value in NO_TEXTS.items() if kind != "path"} | {
    "pair": ("a", "b"),
    "list": ["a"],
}


@given(st.sampled_from(sorted(NO_TEXT)), st.lists(st.text("abc "), max_size=5), st.integers(0, 5))
def test_the_position_of_a_wrong_item_is_named(kind: str, texts: list[str], position: int) -> None:
    position = min(position, len(texts))
    items = [*texts[:position], NO_TEXT[kind], *texts[position:]]
    for values in (items, tuple(items), iter(items)):
        with pytest.raises(cloze.InputError) as caught:
            check_texts(values)
        assert str(caught.value).startswith(f"texts[{position}] is {describe(NO_TEXT[kind])}. ")


@pytest.mark.parametrize("name", ALL_TEXTS)
def test_every_call_names_the_position_of_a_wrong_item(loaded: Loaded, name: str) -> None:
    argument, call = ALL_TEXTS[name]
    for item in (5, ("a", "b")):
        with pytest.raises(cloze.InputError) as caught:
            call(loaded, iter(["a", item]))
        assert str(caught.value).startswith(f"{argument}[1] is {describe(item)}. ")


def collections() -> Iterator[object]:
    """Yield two texts in every ordered collection."""
    yield ("a b", "c")
    yield (text for text in ["a b", "c"])
    yield np.array(["a b", "c"])
    yield np.array(["a b", "c"], dtype=object)
    yield pa.chunked_array([["a b"], ["c"]])
    yield Series("a b", "c")


def test_every_ordered_collection_is_read_alike() -> None:
    for texts in collections():
        assert [(type(text), text) for text in check_texts(texts)] == [(str, "a b"), (str, "c")]


@pytest.mark.parametrize("name", [name for name, (argument, _) in ALL_TEXTS.items() if argument != "tokens"])
def test_every_call_reads_iterators_and_arrays(loaded: Loaded, name: str) -> None:
    _, call = ALL_TEXTS[name]
    expected = repr(call(loaded, ["a b", "c"]))
    for texts in (iter(["a b", "c"]), np.array(["a b", "c"])):
        assert repr(call(loaded, texts)) == expected


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([None], 'texts[0] is None. Leave it out, or give "" for an empty text.'),
        (["a", float("nan")], 'texts[1] is nan. Leave it out, or give "" for an empty text.'),
        ([5], "texts[0] is 5, an int. Write it as text, as in str(texts[0])."),
        ([b"a"], 'texts[0] is bytes. Decode it, as in texts[0].decode("utf-8").'),
        ([{"text": "a"}], "texts[0] is a dict. Give one text in its place."),
        ({"a": "b"}, "texts: is a dict. Give a list of texts, as in list(texts.values())."),
        ({"a"}, "texts: is a set. A set has no order: give a list, as in sorted(texts)."),
        (pa.table({"a": ["b"]}), "texts: is a Table. Give one of its columns, as in texts['a']."),
        (Frame(id=[1], text=["b"]), "texts: is a Frame. Give one of its columns, as in texts['text']."),
        ({"text": ["a", "b"]}, "texts: is a dict. Give one of its columns, as in texts['text']."),
        ("a", "texts: is one text. Give a list of texts."),
        (None, "texts: is None. Give a list of texts."),
    ],
)
def test_messages_name_a_remedy(value: object, says: str) -> None:
    with pytest.raises(cloze.InputError) as caught:
        check_texts(value)
    assert str(caught.value) == says


def test_remedies_work() -> None:
    texts: Any = {"first": "a", "second": "b"}
    assert check_texts(list(texts.values())) == ["a", "b"]
    assert check_texts(sorted({"b", "a"})) == ["a", "b"]
    for table in (pa.table({"text": ["a"]}), {"text": ["a"]}, Frame(id=[1], text=["a"])):
        assert check_texts(table["text"]) == ["a"]
    assert check_texts([str(5), b"a".decode("utf-8"), ""]) == ["5", "a", ""]


def test_numbers_of_numpy_are_settings() -> None:
    rows = [("a", "x"), ("b", "y")] * 4
    fractions: Any = np.array([0.5, 1.0])
    epochs: Any = np.int64(3)
    rate: Any = np.float32(0.25)
    plans = [
        cloze.plan_finetuning("classification", train=rows, dev=rows, model="cloze-mini", **settings)
        for settings in (
            {"data_fractions": fractions, "epochs": epochs, "learning_rate": rate},
            {"data_fractions": [0.5, 1.0], "epochs": 3, "learning_rate": 0.25},
        )
    ]
    assert plans[0].runs == plans[1].runs == 2
    assert [phase.steps for phase in plans[0].phases] == [phase.steps for phase in plans[1].phases]


def test_one_path_is_a_list_of_one() -> None:
    assert check_paths("a.txt") == ["a.txt"]
    assert check_paths(Path("a.txt")) == [Path("a.txt")]
    assert check_paths(path for path in ["a.txt", Path("b.txt")]) == ["a.txt", Path("b.txt")]
    for nothing in ("", ["a.txt", "\0"]):
        with pytest.raises(cloze.InputError, match=r"^inputs"):
            check_paths(nothing)


def test_a_data_set_is_built_from_one_path(loaded: Loaded, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"a b c.\n{letter} a.\n\n" for letter in "abcdefgh" * 8))
    for inputs, name in ((tmp_path / "text.txt", "one"), ([str(tmp_path / "text.txt")], "list")):
        output = str(tmp_path / name)
        cloze.build_dataset(inputs, vocabulary=str(loaded.path), output=output, validation_fraction=0.2)
    one, several = (tmp_path / name / "documents-00000.arrow" for name in ("one", "list"))
    assert one.read_bytes() == several.read_bytes()
