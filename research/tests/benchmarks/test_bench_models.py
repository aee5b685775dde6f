"""Benchmarks of models at a nano size: steps, vectors and processes of cloze and its peers agree."""

import json
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch

import cloze
from benchmarks.__main__ import main
from benchmarks.embed import Embed, Latency
from benchmarks.inference import Inference
from benchmarks.pretrain import Pretrain
from benchmarks.start import Start
from benchmarks.switches import measure
from cloze.models.heads import BertForPreTraining
from cloze.models.modern_bert import ModernBertConfig
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from experiments.step_cost import attention_pairs, pretraining_step_flops
from tiny_models import tiny_config, write_checkpoint

ONCE = {"rounds": 1, "min_seconds": 0.0}
NANO = {"model": "tiny", "batch": 6, "max_seq_length": 24, "vocab_size": 300, **ONCE}
LINES = [f"Text number {number}" + ", and more of it" * (number % 4) for number in range(24)]
WORDS = ("paris", "is", "the", "of", "france", ".", "one", "two", "a", "dog")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokens = [*SPECIAL_TOKENS, *WORDS]
    generator = torch.Generator().manual_seed(1)
    model = BertForPreTraining(cloze.BertModel(tiny_config(tokens), generator=generator), generator=generator)
    return write_checkpoint(tmp_path_factory.mktemp("models") / "nano", model, tokens)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    file = tmp_path / "texts.txt"
    file.write_text("\n\n".join(LINES))
    return file


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("a dog\nparis is one of two\nthe dog is of france\n")
    return file


def test_flops_of_base_are_the_published_ones():
    """6N + 12 s H L + 6 f (H^2 + H V) a token, N = 12 L H^2: 0.545 GFLOP at 128 tokens, 15% of them predicted."""
    batch = {"num_tokens": 12800, "sum_of_squared_lengths": 128 * 12800, "num_predictions": 1920}
    flops = pretraining_step_flops(cloze.BertConfig(vocab_size=30528), **batch)
    assert flops / 12800 == pytest.approx(0.545e9, rel=2e-3)
    # two of the four layers of this encoder attend to three half windows of each token
    sizes = {"num_hidden_layers": 4, "local_attention": 8, "global_attn_every_n_layers": 2}
    assert attention_pairs(ModernBertConfig(**sizes), 100, 100**2) == 2 * 100**2 + 2 * 100 * 12
    assert attention_pairs(ModernBertConfig(**sizes), 9, 9**2) == 4 * 9**2


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{}, {"dtype": "bfloat16"}, {"micro_batch_tokens": 50, "vs": "transformers,transformers-tuned"}],
)
def test_cloze_and_transformers_compute_the_same_pretraining_step(settings):
    result = Pretrain(**NANO, **settings).run()
    peers = settings.get("vs", "transformers").split(",")
    assert [side["name"] for side in result.record["sides"]] == ["cloze", *peers]
    assert len(result.checks) == 2 * len(peers)
    assert all(check.holds for check in result.checks), result.checks
    assert result.record["limit"]["rate"] > 0
    assert int(result.record["notes"][0].split("; ")[1].split()[0]) <= 6 * 24
    assert "transformers" in result.record["environment"]["versions"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_vectors_equal_those_of_sentence_transformers(dtype, checkpoint, texts):
    pytest.importorskip("sentence_transformers")
    result = Embed(model=checkpoint, input=texts, texts=8, dtype=dtype, **ONCE).run()
    assert [side["name"] for side in result.record["sides"]] == ["cloze", "sentence-transformers"]
    (check,) = result.checks
    assert check.holds, check
    assert result.record["settings"]["texts"] == 8
    assert "sentence-transformers" in result.record["environment"]["versions"]


@pytest.mark.slow
def test_vectors_equal_those_of_onnx_graphs(minilm, texts):
    pytest.importorskip("onnxruntime")
    result = Embed(model=minilm, input=texts, texts=8, vs="onnxruntime,onnxruntime-int8", **ONCE).run()
    exact, rounded = result.checks
    assert exact.holds
    assert exact.tolerance == 1e-5
    assert rounded.holds
    assert rounded.difference > 1e-4


@pytest.mark.slow
def test_int8_vectors_are_compared_with_float32(minilm, texts):
    pytest.importorskip("sentence_transformers")
    result = Embed(model=minilm, input=texts, texts=8, dtype="int8", **ONCE).run()
    (check,) = result.checks
    assert check.holds
    assert check.difference > 1e-5
    mean, least, count = result.record["cosines"]["cloze"]["all"]
    assert 0.97 < least < mean < 1
    assert count == 8
    assert "share_of_limit" not in result.record["sides"][0]


@pytest.mark.exhaustive
def test_all_comparisons_are_one_table(minilm, tmp_path):
    pytest.importorskip("onnxruntime")
    lines = ["the dog runs over the hill " * 5, "stocks fell again on monday " * 5]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    result = Inference(
        model=str(minilm), input=tmp_path / "lines.txt", texts=2, rounds=1, min_seconds=0.0
    ).run()
    rows = {(row["work"], row["peer"]): row for row in result.record["rows"]}
    assert rows["vectors, int8", "onnxruntime-int8"]["bar"] == "1"
    assert "least" in rows["vectors, int8", "onnxruntime-int8"]["cosine"]
    assert rows["one text, float32", "transformers"]["cloze is"].endswith("x")
    assert rows["one text, int8, by a graph", "onnxruntime"]["bar"] == "0.9"
    assert ("whole processes", "transformers") in rows
    assert ("server, 32 tokens a text, int8", "the same in float32") in rows


def test_a_file_without_texts(minilm, tmp_path):
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(cloze.InputError, match=r"empty.txt: has no text"):
        Embed(model=minilm, input=tmp_path / "empty.txt").run()
    with pytest.raises(cloze.InputError, match=r"--texts: 0 texts"):
        Embed(model=minilm, input=tmp_path / "empty.txt", texts=0).run()
    with pytest.raises(cloze.InputError, match="has no text of 30 tokens"):
        Latency(model=minilm, input=tmp_path / "empty.txt", tokens=30).run()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_latency_is_of_texts_of_one_length(checkpoint, lines, dtype):
    result = Latency(model=checkpoint, input=lines, tokens=7, dtype=dtype, **ONCE).run()
    assert result.record["settings"]["texts"] == 2
    assert [side["name"] for side in result.record["sides"]] == ["cloze", "transformers"]
    (check,) = result.checks
    assert check.holds
    assert "milliseconds per sentence" in result.record["notes"][0]


def test_peers_that_are_missing_or_fail_are_left_out_and_named(checkpoint, lines, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "sentence_transformers", ModuleType("sentence_transformers"))
    peers, once = "transformers,sentence-transformers", ["--rounds", "1", "--min-seconds", "0", "--quiet"]
    words = ["latency", str(lines), "-m", str(checkpoint), "--tokens", "7", "--vs", peers, *once]
    assert main([*words, "--json"]) == 1
    shown = capsys.readouterr()
    record = json.loads(shown.out)
    assert [side["name"] for side in record["sides"]] == ["cloze"]
    assert record["failures"]["transformers"].startswith("needs the package transformers.")
    assert "sentence_transformers" in record["failures"]["sentence-transformers"]
    assert "error: benchmarks latency: not compared: transformers (needs the package" in shown.err
    assert "; sentence-transformers (" in shown.err


@pytest.mark.parametrize(
    ("benchmark", "texts"), [(partial(Latency, tokens=7), 1), (partial(Embed, texts=3), 3)]
)
def test_vectors_beside_busy_processes(benchmark, texts, checkpoint, lines):
    record = benchmark(model=checkpoint, input=lines, busy=1, vs="", **ONCE).run().record
    assert record["busy"]["processes"] == 1
    (side,) = record["busy"]["sides"]
    assert side["times_as_long_as_idle"] > 0
    assert side["median"] == pytest.approx(texts / side["seconds"][0])
    assert record["environment"]["thread_settings"]["GOMP_SPINCOUNT"]


@pytest.mark.exhaustive
def test_processes_give_equal_answers(checkpoint):
    run = checkpoint.parent
    (run / "run.toml").touch()
    (run / "latest").symlink_to(checkpoint.name)
    result = Start(model=run, **ONCE).run()
    names = [side["name"] for side in result.record["sides"]]
    assert names == ["cloze fill", "cloze --help", "cloze serve", "transformers"]
    (check,) = result.checks
    assert check.holds


@pytest.mark.slow
def test_a_process_that_fails_is_named(tmp_path):
    with pytest.raises(cloze.RunError, match="-m cloze fill"):
        Start(model=tmp_path, vs="", **ONCE).run()


@pytest.mark.slow
def test_switches_leave_the_losses_of_three_steps_on_a_cpu():
    nano = Pretrain(model="tiny", batch=4, max_seq_length=16, dropout=0.0, vocab_size=300)
    rows = [measure(nano, 0.0, **switch) for switch in ({}, {"waits": True}, {"deterministic": False})]
    assert [row["steps"] for row in rows] == [1, 1, 1]
    assert len({row["last_loss"] for row in rows}) == 1
