"""`precision="int8"`: a graph that is traced once answers, near the model itself, for verbs, classes and servers."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloze
from cloze.errors import InputError
from cloze.export import onnx as export
from cloze.file_io import cache_directory
from cloze.inference import graph_model
from cloze.model_paths import resolve_checkpoint
from cloze.models.torch_internals import cpu_instructions
from cloze.serving.served_model import ServedModel
from helpers import flip_bit, task_of
from tiny_models import SPECIAL, write_finetuned

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")
TEXTS = [
    "A dog runs.",
    "Stocks fell again on Monday.",
    "He sat down on the bank of the river and watched the boats.",
    "What is the capital of France?",
    "The committee has not yet decided whether the bridge, which was closed in May, will be repaired or replaced.",
    "Yes",
]
COSINES = {"minilm": 0.995, "cloze-mini-sentences": 0.998}
LOSS_OF_7_BITS = 0.0015
"""Of cosines, on processors without VNNI."""


@pytest.mark.slow
def test_short_texts_have_a_session_of_one_thread(monkeypatch):
    start, threads = graph_model.start_session, list[int]()

    def spy(graph: Path, *, threads: int, of_all: list[int] = threads) -> Any:
        of_all.append(threads)
        return start(graph, threads=threads)

    monkeypatch.setattr(graph_model, "start_session", spy)
    answers = []
    for count in (1, 2):
        monkeypatch.setattr(graph_model, "openmp_threads", lambda count=count: count)
        embedder = cloze.Embedder.load("cloze-mini-sentences", precision="int8")
        answers.append([embedder(text) for text in ("A dog runs.", "A dog runs. " * 40)])
    assert threads == [1, 2, 1]
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-5)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return cache_directory() / "int8"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    task = task_of("classification", labels=("x", "y"))
    return write_finetuned(tmp_path_factory.mktemp("classifier") / "model", task, [*SPECIAL, *"abcdefgh"])


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.parametrize("name", COSINES)
def test_vectors_are_near_those_of_float32_and_those_of_the_kept_graph(name, request):
    model = request.getfixturevalue(name) if name == "minilm" else name
    int8 = cloze.Embedder.load(model, precision="int8", normalize=True)
    vectors, exact = int8(TEXTS), cloze.Embedder.load(model, device="cpu", normalize=True)(TEXTS)
    cosines = (vectors * exact).sum(1)
    limit = COSINES[name] - (0 if cpu_instructions().vnni else LOSS_OF_7_BITS)
    assert limit < cosines.mean() < 0.99999
    assert cosines.min() > 0.98
    alone = np.stack([int8(text) for text in TEXTS])
    assert (alone * exact).sum(1).min() > 0.98
    graph = export.int8_graph(resolve_checkpoint(model), of_encoder=True)
    assert graph.parent == cache_directory() / "int8"
    for again in (
        cloze.Embedder.load(model, precision="int8", normalize=True),
        cloze.Embedder.load(graph, normalize=True),
    ):
        np.testing.assert_array_equal(again(TEXTS), vectors)
    assert (graph / "model.onnx").stat().st_size <= 0.3 * 4 * int8.engine.num_parameters


@pytest.mark.slow
def test_int8_fills_masks_with_the_same_words():
    text = "She closed the [MASK] behind her."
    ((int8, *_),), ((exact, *_),) = (
        cloze.FillMask.load("cloze-mini", device="cpu", precision=precision)(text)
        for precision in ("int8", "float32")
    )
    assert int8.token == exact.token == "door"
    assert int8.probability == pytest.approx(exact.probability, abs=0.05)
    assert int8.probability != exact.probability


@pytest.mark.slow
def test_a_fine_tuned_model_answers_and_is_served(classifier, capsys):
    exact, int8 = (
        cloze.TextClassifier.load(classifier, device="cpu", precision=precision)
        for precision in ("float32", "int8")
    )
    assert int8.engine.number_format == "int8"
    assert int8("a b c") != exact("a b c")
    assert int8("a b c").probabilities["x"] == pytest.approx(exact("a b c").probabilities["x"], abs=0.05)
    with pytest.raises(InputError, match="computed by a graph, which has no weights, gradients or hidden"):
        int8.save(classifier / "again")
    with pytest.raises(InputError, match="computed by a graph, which has no weights, gradients or hidden"):
        cloze.explain("a b c", model=int8)
    whole, small = (
        ServedModel.load("model", classifier, device="cpu", precision=precision)
        for precision in ("float32", "int8")
    )
    assert set(whole.abilities) - set(small.abilities) == {"explain", "encode"}
    first, second = (served.embedder("a b c") for served in (whole, small))
    assert 0.9 < first @ second / (np.linalg.norm(first) * np.linalg.norm(second)) < 1


@pytest.mark.slow
def test_damaged_graphs_are_made_again_and_other_weights_have_their_own(
    classifier, cache, tmp_path, monkeypatch
):
    def answer(model: Path) -> Any:
        return cloze.TextClassifier.load(model, precision="int8")("a b c")

    expected = answer(classifier)
    (graph,) = cache.iterdir()
    traced, calls = onnx.load(graph / "model.onnx"), 0  # one trace takes seconds

    def build_graph(*_: Any, **__: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:  # meanwhile another process makes the same graph
            answer(other)
        return copy.deepcopy(traced)

    monkeypatch.setattr(export, "build_graph", build_graph)
    other = shutil.copytree(classifier, tmp_path / "other")
    flip_bit(graph / "model.onnx")
    assert answer(classifier) == expected
    (graph / "export.json").unlink()
    assert answer(classifier) == expected
    assert list(cache.iterdir()) == [graph]

    (other / "manifest.json").unlink()
    flip_bit(other / "model.safetensors")
    answer(other)
    assert calls == 4
    assert len(list(cache.iterdir())) == 2
    assert {json.loads((path / "manifest.json").read_text())["kind"] for path in cache.iterdir()} == {"graph"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"device": "cuda"}, "precision: int8 runs on CPUs, not on cuda"),
        pytest.param(
            {"layers": (0,)},
            "layers: a graph has the last layer alone. Use the model itself in float32",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_int8_cannot_do_is_refused(settings, message, classifier):
    with pytest.raises(InputError, match=message):
        cloze.Embedder.load(classifier, precision="int8", **settings)


def test_models_that_cannot_be_traced_and_missing_packages_are_named(classifier, cache, monkeypatch):
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("Could not guard on\n data-dependent expression")

    monkeypatch.setattr(export, "build_graph", fail)
    message = "model: has no graph: Could not guard on data-dependent expression. Use the model itself"
    with pytest.raises(InputError, match=message):
        cloze.TextClassifier.load(classifier, precision="int8")
    assert not cache.exists()
    monkeypatch.setattr("cloze.optional_dependencies.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"int8: needs the package onnx. Run pip install .*\[onnx\]'"):
        cloze.TextClassifier.load(classifier, precision="int8")
    with pytest.raises(InputError, match="precision: 'int4' is not a choice"):
        cloze.FillMask.load("cloze-mini", precision="int4")
