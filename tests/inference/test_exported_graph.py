"""An exported graph is a model: the same classes, verbs and server, with the same answers and without torch."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloze
from answering_models import INPUTS, answers, assert_same, write_graphs
from cloze import artifacts
from cloze.cli import main
from cloze.inference.graph_model import start_session
from cloze.models.engine import GRAPH_KIND
from helpers import flip_bit, make_once
from serving.clients import client_of

pytest.importorskip("onnxruntime")
WEIGHTS = "an exported graph, which has no weights, gradients or hidden layers"
TEXTS = ["a b", "c", "d e f g h a b c d e f g h", "b"]
WITHOUT_TORCH = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(f"{name} is hidden", name=name)

sys.meta_path.insert(0, Hidden())
"""
VERBS = """
import json
from contextlib import redirect_stdout
from io import StringIO
import cloze
from cloze.cli import main

results = []
for arguments in json.loads(sys.argv[1]):
    with redirect_stdout(StringIO()) as stdout:
        assert main(arguments) == 0
    results.append(stdout.getvalue())
graph = cloze.FillMask.load(sys.argv[2])
for use in (lambda: graph.encoder, lambda: graph.save("new")):
    try:
        use()
    except cloze.InputError as error:
        assert "an exported graph, which has no weights" in str(error)
    else:
        raise AssertionError("not refused")
assert "torch" not in sys.modules
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models and the graphs of all of them, in `models` and `graphs` by the names of their classes."""
    return make_once(tmp_path_factory, "exported", write_graphs)


def test_threads_of_a_session_sleep_between_texts(folder):
    session = start_session(folder / "graphs" / "Vectors" / "model.onnx", threads=8)
    ids = np.ones((64, 16), np.int64)
    inputs = {"input_ids": ids, "attention_mask": ids, "token_type_ids": ids * 0}
    busy = 0.0
    for _ in range(10):
        session.run(None, inputs)
        start = time.process_time()
        time.sleep(0.02)
        busy += time.process_time() - start
    assert busy < 0.05


@pytest.mark.protected
@pytest.mark.parametrize("name", [*INPUTS, "Vectors"])
def test_a_graph_gives_the_answers_of_its_model(name, folder):
    model = cloze.load(folder / "models" / name, device="cpu")
    graph = cloze.load(folder / "graphs" / name)
    assert type(graph) is type(model)
    assert repr(graph) == repr(model)
    if name == "Vectors":
        assert_same(graph(TEXTS), model(TEXTS))
        assert (graph.prompt, graph.max_seq_length, graph.width) == ("a ", 9, 7)
        assert cloze.Embedder.load(folder / "models" / name, layers=(0,)).width == 12  # not cut to 7
    else:
        assert_same(answers(name, graph), answers(name, model))
    with pytest.raises(cloze.InputError, match=WEIGHTS):
        graph.save(folder / "again")
    assert not (folder / "again").exists()


def test_the_heads_of_pretraining_and_the_vectors_of_an_encoder_are_all_in_their_graph(folder):
    models, graphs = folder / "models" / "FillMask", folder / "graphs" / "FillMask"
    for kind in (cloze.NextSentence, cloze.SentenceScorer):
        inputs = [("a b", "c"), ("d", "e")] if kind is cloze.NextSentence else TEXTS
        assert_same(kind.load(graphs)(inputs), kind.load(models, device="cpu")(inputs))
    model, graph = folder / "models" / "Embedder", folder / "graphs" / "Embedder"
    for settings in (
        {"pooling": "cls", "normalize": True},
        {"pooling": "max"},
        {"pooling": "mean_sqrt_len", "long_texts": "windows", "max_seq_length": 6},
    ):
        expected = cloze.Embedder.load(model, device="cpu", **settings)(TEXTS)
        assert_same(cloze.Embedder.load(graph, **settings)(TEXTS), expected)
    expected = cloze.Embedder.load(model, device="cpu").embed_tokens(TEXTS)
    assert_same(cloze.load(graph).embed_tokens(TEXTS), expected)


def test_a_pickled_graph_needs_no_files(folder, tmp_path):
    graph = cloze.load(shutil.copytree(folder / "graphs" / "Vectors", tmp_path / "graph"))
    pickled = pickle.dumps(graph)
    expected = graph(TEXTS)
    shutil.rmtree(tmp_path / "graph")
    assert_same(pickle.loads(pickled)(TEXTS), expected)


def test_predictions_of_an_average_are_those_of_the_models(folder):
    models = [folder / kind / "TextClassifier" for kind in ("models", "graphs")]
    rows = [{"text": text} for text in TEXTS]
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    both = cloze.predict_file(file, model=models, device="cpu")
    assert_same(list(both), list(cloze.predict_file(file, model=models[0], device="cpu")))


@pytest.mark.protected
def test_verbs_answer_without_torch(folder, capsys):
    texts = folder / "texts.txt"
    texts.write_text("".join(f"{text}\n" for text in TEXTS))
    labeled = folder / "labeled.tsv"
    labeled.write_text("text\tlabel\na b\tgood\nc d\tbad\ne\tso-so\n")
    pairs = folder / "pairs.tsv"
    pairs.write_text("text\tpair\tscore\na b\tc\t1\nd\te f\t2\ng\th a\t5\n")
    gold = folder / "gold.jsonl"
    gold.write_text('{"text": "a [MASK] c", "answer": "b"}\n')
    calls = [
        ("FillMask", "fill", "a [MASK] b", "--top-k", "3"),
        ("NextSentence", "next", "a b", "c d"),
        ("TextClassifier", "predict", str(texts)),
        ("TextClassifier", "evaluate", "-d", str(labeled)),
        ("EntityTagger", "predict", str(texts), "--format", "text"),
        ("FillMask", "evaluate", "fill", "-d", str(gold)),
        ("FillMask", "evaluate", "likelihood", "-d", str(texts)),
        ("Embedder", "evaluate", "scored-pairs", "-d", str(pairs)),
        ("Vectors", "evaluate", "scored-pairs", "-d", str(pairs)),
        ("Vectors", "embed", str(texts), "-o", str(folder / "OF.jsonl")),
    ]

    def arguments(kind: str) -> list[list[str]]:
        return [
            [*(word.replace("OF", kind) for word in words), "-m", str(folder / kind / name), "--quiet"]
            + ["--json"] * (words[0] != "predict")
            for name, *words in calls
        ]

    expected = []
    for words in arguments("models"):
        assert main(words) == 0
        expected.append(capsys.readouterr().out)
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            WITHOUT_TORCH + VERBS,
            json.dumps(arguments("graphs")),
            str(folder / "graphs" / "FillMask"),
        ],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ).stdout
    for text, before in zip(json.loads(found), expected, strict=True):
        assert_same(
            *(
                [json.loads(line) for line in part.replace("models", "graphs").splitlines()]
                for part in (text, before)
            )
        )
    vectors = ((folder / f"{kind}.jsonl").read_text().splitlines() for kind in ("graphs", "models"))
    assert_same(*([json.loads(line) for line in lines] for lines in vectors))


REFUSED = (
    ("FillMask", "attention a -o x.html", WEIGHTS),
    ("FillMask", "evaluate mlm -d texts.txt", WEIGHTS),
    ("FillMask", "embed texts.txt -o v.npy", "a graph of BertForPreTraining, without vectors of texts"),
    ("FillMask", "fill [MASK] --precision int8", "is a graph in float32, not int8"),
    ("FillMask", "fill [MASK] --precision bfloat16", "not bfloat16. Give the model that it was exported"),
    ("FillMask", "fill [MASK] --device cuda", "an exported graph runs on the CPU, not on cuda"),
    ("Vectors", "fill [MASK]", "a graph of SentenceEncoder, without the masked-word head"),
    ("Vectors", "embed texts.txt -o v.npy --pooling cls", "--pooling: the exported graph has max, not cls"),
    ("Vectors", "embed texts.txt -o v.npy --layers 0", "--layers: a graph has the last layer alone"),
    ("Vectors", "embed texts.txt -o v.jsonl --tokens", "of SentenceEncoder, without vectors of tokens"),
    ("Embedder", "neighbors a", "--layers: a graph has the last layer alone"),
    ("TextClassifier", "predict texts.txt --explain", WEIGHTS),
    ("TextClassifier", "evaluate scored-pairs -d texts.txt", "without vectors of texts"),
    ("NextSentence", "evaluate squad_v1 -d texts.txt", "without a head for the task squad_v1"),
    ("TextClassifier", "finetune classification --train texts.txt -o run", WEIGHTS),
    ("TextClassifier", "export -o again", WEIGHTS),
    ("TextClassifier", "pretrain --data texts.txt -o run --steps 1", WEIGHTS),
)


@pytest.mark.parametrize(("name", "words", "message"), REFUSED)
def test_what_a_graph_cannot_do_is_refused_by_name(
    name, words, message, folder, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("a b\nc d\n")
    graph = str(folder / "graphs" / name)
    flag = {"export": [graph], "pretrain": ["--init", graph]}.get(words.split()[0], ["-m", graph])
    assert main([*words.split(), *flag, "--quiet"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert os.listdir() == ["texts.txt"]


def test_a_server_answers_with_graphs_as_with_models(folder):
    names = [name for name in (*INPUTS, "Vectors") if name != "NextSentence"]
    ours, theirs = (
        client_of({name: folder / kind / name for name in names}) for kind in ("graphs", "models")
    )
    question = {"question": "a", "context": "b c d"}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("Vectors", "/embed", {"inputs": TEXTS}),
        ("Embedder", "/embed_all", {"inputs": TEXTS}),
        ("TextClassifier", "/predict", {"inputs": "a b"}),
        ("TextRanker", "/rerank", {"query": "a", "texts": ["b", "c"]}),
        ("QuestionAnswerer", "/answer", {"inputs": [question]}),
        ("QuestionAnswerer", "/explore/span", question),
        ("FillMask", "/fill", {"inputs": ["a [MASK]"]}),
    ]
    with ours, theirs:
        engines = [
            {(model["engine"], model["number_format"]) for model in client.get("/info").json()["models"]}
            for client in (ours, theirs)
        ]
        assert engines == [{("onnxruntime", "float32")}, {("torch", "float32")}]
        for name, route, request in requests:
            assert_same(*(client.ask(route, model=name, **request) for client in (ours, theirs)))
        refusal = ours.refusal("/embed", model="Vectors", inputs="a", normalize=False)
        assert "the graph of 'Vectors' scales vectors to length 1" in refusal
        assert "neither int8 nor an exported graph" in ours.refusal(
            "/explain", model="TextClassifier", inputs=["a"]
        )
        refusal = ours.refusal("/tokenize", model="TextClassifier", inputs="a", prompt_name="query")
        assert refusal == "prompt_name: 'TextClassifier' has no vectors. Leave it out."


@pytest.mark.slow
@pytest.mark.protected
def test_a_graph_reads_as_many_tokens_as_the_classifier_of_another_program(folder, tmp_path):
    model = shutil.copytree(folder / "models" / "TextClassifier", tmp_path / "model")
    for name in ("manifest.json", "task.toml"):
        (model / name).unlink()
    settings = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": 8}))
    cloze.export_model(model, output=tmp_path / "graph")
    ours, theirs = cloze.load(tmp_path / "graph"), cloze.load(model, device="cpu")
    assert ours.max_seq_length == theirs.max_seq_length == 8
    with pytest.warns(UserWarning, match="longer than 8 tokens"):
        assert_same(ours(TEXTS), theirs(TEXTS))


def test_damaged_files_and_what_onnx_runtime_cannot_read_are_refused(folder, tmp_path):
    with artifacts.write_directory(tmp_path / "graph", kind=GRAPH_KIND) as directory:
        shutil.copytree(folder / "graphs" / "FillMask", directory, dirs_exist_ok=True)
        (directory / "manifest.json").unlink()
        (directory / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(cloze.InputError, match=r"model\.onnx: ONNX Runtime .* cannot read it: .*Export the"):
        cloze.FillMask.load(tmp_path / "graph")
    flip_bit(tmp_path / "graph" / "model.onnx")
    with pytest.raises(cloze.InputError, match=r"model\.onnx: damaged"):
        cloze.FillMask.load(tmp_path / "graph")


@pytest.mark.slow
def test_what_a_model_learned_from_is_told_of_its_graph(folder, tmp_path):
    data = tmp_path / "rows.tsv"
    data.write_text("text\tlabel\n" + "a b\tgood\nc d\tbad\n" * 4)
    run = cloze.finetune(
        "classification",
        train=data,
        dev=data,
        model=folder / "models" / "Embedder",
        output=tmp_path / "run",
        epochs=1,
        max_seq_length=12,
    )
    cloze.export_model(run.path, output=tmp_path / "graph")
    with pytest.warns(UserWarning, match="the model learned from these data"):
        cloze.evaluate(model=tmp_path / "graph", data=data)
