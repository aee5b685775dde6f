"""Graphs against their oracles: the packed model, transformers and sentence-transformers; and without cloze at all."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import nn

from cloze import artifacts
from cloze.choices import Pooling
from cloze.cli import main
from cloze.data.batch import collate
from cloze.export import onnx as export
from cloze.export.graph import quantize_graph
from cloze.models.batch import to_device
from cloze.models.bert import BertConfig, BertModel, initialize_weights
from cloze.models.checkpoint import load_model
from cloze.models.heads import BertForPreTraining
from cloze.models.pooling import pool
from cloze.models.sentence_transformers import SentenceEncoderConfig, save_sentence_encoder_config
from cloze.models.torch_internals import cpu_instructions
from cloze.tokenization.loading import load_tokenizer
from model_heads import HEADS
from tiny_models import numbered_tokens, write_checkpoint

onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")

CONFIG = BertConfig(
    vocab_size=103,
    hidden_size=44,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=70,
    max_position_embeddings=61,
    initializer_range=0.2,
)
NEEDS_VNNI = pytest.mark.skipif(not cpu_instructions().vnni, reason="8 bits overflow on this processor")
NAMES = [name for name in HEADS if name not in ("regression", "labels, several at once")]
TEXTS = ["w7 w30 w2 w2", "w1", "w88 w3 w4 w5 w6 [MASK] w9 w10"]


def written(
    directory: Path, model: nn.Module, vectors: SentenceEncoderConfig | None = None, *, labels: int = 0
) -> Path:
    initialize_weights(model, CONFIG.initializer_range, torch.Generator().manual_seed(7))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(9))
    names = [f"class {number}" for number in range(labels)]
    write_checkpoint(directory, model.eval(), numbered_tokens(103), labels=names)
    if vectors is not None:
        save_sentence_encoder_config(directory, vectors, hidden_size=CONFIG.hidden_size)
    return directory


def run_graph(directory: Path, input_ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> dict:
    session = onnxruntime.InferenceSession(directory / "model.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    inputs = {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": types}
    found = session.run(names, {name: values.numpy() for name, values in inputs.items()})
    return dict(zip(names, found, strict=True))


def batch(shape: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(sum(shape))
    lengths = torch.randint(1, shape[1] + 1, (shape[0], 1), generator=generator)
    input_ids = torch.randint(CONFIG.vocab_size, shape, generator=generator)
    types = torch.randint(2, shape, generator=generator)
    return input_ids, (torch.arange(shape[1]) < lengths).long(), types


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.parametrize(
    ("name", "hidden_act"), [*((name, "gelu") for name in NAMES), ("pre-training", "gelu_tanh")]
)
def test_graph_of_every_head_equals_transformers(name, hidden_act, tmp_path, capsys):
    """The command holds the graph against the packed model; here the graph is held against a third one."""
    transformers = pytest.importorskip("transformers")
    model = HEADS[name].build(BertModel(dataclasses.replace(CONFIG, hidden_act=hidden_act)))
    directory = written(tmp_path / "model", model, labels=getattr(model, "num_labels", 0))
    assert main(["export", str(directory), "-o", str(tmp_path / "graph"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    shapes = [(check["batch"], check["length"]) for check in result["checks"]]
    assert shapes == [(1, 3), (4, 15), (3, 30), (2, 61)]
    assert 0 < max(check["largest_difference"] for check in result["checks"]) < 1e-4
    names = "README.md config.json export.json model.onnx tokenizer.json tokenizer_config.json vocab.txt"
    assert " ".join(sorted(artifacts.verify(tmp_path / "graph", kind="graph").files)) == names
    architecture = json.loads((tmp_path / "graph" / "config.json").read_text())["architectures"][0]
    theirs = getattr(transformers, architecture).from_pretrained(directory).eval()
    for shape in [(1, 1), (2, 5), (4, 61)]:
        input_ids, mask, types = batch(shape)
        inputs = {"input_ids": input_ids, "attention_mask": mask, "token_type_ids": types}
        if name == "choices":
            inputs = {key: values[None] for key, values in inputs.items()}
        with torch.inference_mode():
            expected = theirs(**inputs)
        assert result["outputs"] == list(expected)
        for output, found in run_graph(tmp_path / "graph", input_ids, mask, types).items():
            values = expected[output].numpy().reshape(found.shape)
            rows = mask.bool().numpy() if values.shape[:2] == mask.shape else ...
            np.testing.assert_allclose(found[rows], values[rows], atol=2e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.parametrize(
    ("pooling", "normalize", "dim"),
    [*((pooling, False, None) for pooling in get_args(Pooling)), ("mean", True, None), ("mean", True, 7)],
)
def test_graph_equals_sentence_transformers(pooling, normalize, dim, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    vectors = SentenceEncoderConfig(pooling=pooling, normalize=normalize, max_seq_length=6, truncate_dim=dim)
    directory = written(tmp_path / "model", BertModel(CONFIG), vectors)
    exported = export.export_onnx(directory, tmp_path / "graph")
    assert exported.outputs == ("sentence_embedding",)
    tokenizer = load_tokenizer(tmp_path / "graph")
    assert tokenizer.model_max_length == 6
    encodings = [tokenizer.encode(text, max_length=tokenizer.model_max_length) for text in TEXTS]
    longest = max(map(len, encodings))
    ids = torch.tensor([each.input_ids + [0] * (longest - len(each)) for each in encodings])
    mask = torch.tensor([[1] * len(each) + [0] * (longest - len(each)) for each in encodings])
    found = run_graph(tmp_path / "graph", ids, mask, torch.zeros_like(ids))["sentence_embedding"]
    expected = library.SentenceTransformer(str(directory), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


WITHOUT_CLOZE = """
import sys

class Nowhere:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("cloze", "torch", "transformers"):
            raise ImportError(name)

sys.meta_path.insert(0, Nowhere())
"""
PRINTED = """
import json
assert not {"cloze", "torch", "transformers"} & set(sys.modules)
print(json.dumps(vectors.tolist()))
"""


@pytest.mark.slow
@pytest.mark.protected
def test_example_of_the_docs_runs_without_cloze_and_torch(tmp_path):
    vectors = SentenceEncoderConfig(pooling="mean", normalize=True, max_seq_length=None)
    directory = written(tmp_path / "model", BertModel(CONFIG), vectors)
    export.export_onnx(directory, tmp_path / "graph")
    docs = (Path(__file__).parents[2] / "docs" / "guides" / "export.md").read_text("utf-8")
    [block] = re.findall(r"```python\n(.*?)```", docs, re.DOTALL)
    texts = re.search(r"encode_batch\((.*)\)", block)
    assert texts is not None
    code = WITHOUT_CLOZE + block.replace(texts[1], repr(TEXTS)) + PRINTED
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    tokenizer, encoder = load_tokenizer(directory), load_model(directory)
    packed = to_device(collate([tokenizer.encode(text).input_ids for text in TEXTS]))
    with torch.inference_mode():
        pooled = pool(encoder(packed).sequence_output, packed, "mean")
    expected = nn.functional.normalize(pooled, dim=-1).numpy()
    np.testing.assert_allclose(json.loads(done.stdout), expected, atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "share", "loss", "cosine"), [("int8", 0.4, 0.1, 0.997), ("float16", 0.6, 0.003, 0.99999)]
)
def test_smaller_precisions_report_their_loss(precision, share, loss, cosine, tmp_path, capsys):
    directory = written(tmp_path / "model", BertForPreTraining(BertModel(CONFIG)))
    for name, flags in (("whole", []), ("small", ["--precision", precision])):
        assert main(["export", str(directory), "-o", str(tmp_path / name), *flags]) == 0
    assert "largest difference from PyTorch" in capsys.readouterr().out
    sizes = [(tmp_path / name / "model.onnx").stat().st_size for name in ("small", "whole")]
    assert sizes[0] < share * sizes[1]
    report = json.loads((tmp_path / "small" / "export.json").read_text())
    for check in report["checks"]:
        assert 1e-5 < check["largest_difference"] < loss * check["largest_value"]
        assert check["lowest_cosine"] > cosine


def run_int8(
    arrays: dict[str, Any], nodes: list[tuple[str, list[str], str]], values: Any, limit: int = 63
) -> tuple[dict[str, Any], Any]:
    """Round the matrices of a graph from `input` to `output`; return the arrays that it has, and its output."""
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, [output]) for operator, inputs, output in nodes],
        "graph",
        [helper.make_tensor_value_info("input", helper.np_dtype_to_tensor_dtype(values.dtype), values.shape)],
        [helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    quantize_graph(graph, limit)
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", export.OPSET)], ir_version=10)
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"input": values})
    return stored, found


@pytest.mark.parametrize("limit", [63, pytest.param(127, marks=NEEDS_VNNI)])
def test_the_largest_activations_and_weights_do_not_overflow(limit):
    """Nearly all activations are the largest, and the weights of an output have one sign."""
    matrix = np.ones((256, 48), np.float32)
    matrix[:, ::2] = -1
    activations = np.ones((2, 3, 256), np.float32)
    activations[1] = -1
    activations[:, :, 100] *= -1
    nodes = [("MatMul", ["input", "matrix"], "output")]
    _, found = run_int8({"matrix": matrix}, nodes, activations, limit)
    np.testing.assert_allclose(found, activations @ matrix, rtol=0.01)


def test_tokens_of_feed_forward_layers_are_rounded_by_scales_of_their_own():
    generator = np.random.default_rng(6)
    matrix = generator.normal(size=(16, 64)).astype(np.float32)
    spread = np.logspace(-6, 6, 18).reshape(2, 9, 1)
    activations = (generator.normal(size=(2, 9, 16)) * spread).astype(np.float32)
    activations[1, 4] = 0
    for weight, values in ((matrix, activations), (matrix.T.copy(), np.repeat(activations, 4, -1))):
        _, found = run_int8({"matrix": weight}, [("MatMul", ["input", "matrix"], "output")], values)
        expected = values @ weight
        error, largest = (np.abs(array).max(-1) for array in (found - expected, expected))
        assert (error <= 0.05 * largest).all()


def test_int8_has_seven_bits_and_a_scale_for_each_row_and_output():
    """Of the table of the vocabulary, which the embeddings and the scores share, and of a matrix."""
    generator = np.random.default_rng(5)
    arrays = {
        name: (generator.normal(size=shape) * generator.uniform(0.1, 9, spread)).astype(np.float32)
        for name, shape, spread in (("table", (50, 8), (50, 1)), ("matrix", (8, 8), (1, 8)))
    }
    nodes = [
        ("Gather", ["table", "input"], "rows"),
        ("MatMul", ["rows", "matrix"], "hidden"),
        ("Transpose", ["table"], "vocabulary"),
        ("MatMul", ["hidden", "vocabulary"], "output"),
    ]
    stored, found = run_int8(arrays, nodes, np.arange(50))
    shapes = {name: array.shape for name, array in stored.items() if array.dtype == np.int8}
    assert shapes == {"table.int8": (50, 8), "matrix.int8": (8, 8)}
    assert (np.abs(stored["table.int8"]).max(1) == 63).all()
    assert (np.abs(stored["matrix.int8"]).max(0) == 63).all()
    expected = arrays["table"] @ arrays["matrix"] @ arrays["table"].T
    assert 1e-4 < np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_the_limit_of_a_difference_grows_with_the_largest_output():
    check = export.ParityCheck(1, 3, largest_difference=0.0, largest_value=30.0, lowest_cosine=1.0)
    assert check.limit == pytest.approx(1e-4 + 30 * 1e-5)


@pytest.mark.slow
@pytest.mark.protected
def test_a_graph_that_differs_is_not_written(tmp_path, capsys, monkeypatch):
    directory = written(tmp_path / "model", BertModel(CONFIG))
    build = export.build_graph

    def wrong(model: nn.Module, **settings: str) -> object:
        graph = build(model, **settings)
        masked = np.float32(-10_000).tobytes()
        [score] = [tensor for tensor in graph.graph.initializer if tensor.raw_data == masked]
        score.raw_data = np.float32(-1).tobytes()
        return graph

    monkeypatch.setattr(export, "build_graph", wrong)
    assert main(["export", str(directory), "-o", str(tmp_path / "graph")]) == 1
    error = capsys.readouterr().err
    assert "the graph differs from torch by" in error
    assert "the limit is 0.0001" in error
    assert not (tmp_path / "graph").exists()


@pytest.mark.protected
def test_unexportable_models_are_refused(tmp_path, capsys, monkeypatch):
    directory, output = written(tmp_path / "model", BertModel(CONFIG)), tmp_path / "graph"

    def refused(*arguments: str) -> str:
        assert main(["export", *arguments]) == 2
        assert not (tmp_path / "graph").exists()
        return capsys.readouterr().err

    assert "already exists" in refused(str(directory), "-o", str(directory))
    (directory / "model.safetensors").write_bytes(b"0" * 100)
    assert "model.safetensors: " in refused(str(directory), "-o", str(output))
    monkeypatch.setattr("cloze.optional_dependencies.find_spec", lambda name: None)
    assert "[onnx]'." in refused(str(directory), "-o", str(output))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "labels", "printed"),
    [
        ("classes", "- Labels: `class 0`, `class 1`, `class 2`", r"(class [012]\n){2}"),
        ("pre-training", "- Labels: none", r"prediction_logits \(2, "),
    ],
)
def test_the_snippet_of_the_card_runs_as_it_is(name, labels, printed, tmp_path):
    model = HEADS[name].build(BertModel(CONFIG))
    source = written(tmp_path / "model", model, labels=getattr(model, "num_labels", 0))
    (source / "README.md").write_text("---\nlicense: apache-2.0\nbase_model: a/b\n---\n")
    export.export_onnx(source, tmp_path / "graph")
    card = (tmp_path / "graph/README.md").read_text("utf-8")
    assert card.startswith("---\nlicense: apache-2.0\nbase_model: a/b\n---\n")
    assert "# model as an ONNX graph" in card
    assert labels in card
    assert "at most 61 tokens" in card
    snippet = card.partition("```python\n")[2].partition("```")[0]
    snippet = snippet.replace('"A dog runs."', repr("w1 w2 " * 100))  # longer than the model takes
    command = [sys.executable, "-c", snippet]
    result = subprocess.run(command, cwd=tmp_path / "graph", capture_output=True, text=True, check=True)
    assert re.match(printed, result.stdout)
