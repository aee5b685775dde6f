"""Benchmarks at a nano size: both sides compute the same, figures are what they say. No test looks at a time."""

import json
import os
import random
import sys

import numpy as np
import pytest

from cloze.cli import main
from cloze.corpus.build import build_dataset
from cloze.errors import InputError, RunError
from cloze.evidence.bench.corpus import bench_corpus
from cloze.evidence.bench.harness import (
    Check,
    Comparison,
    Limit,
    Side,
    Timing,
    alternate,
    import_peer,
    write_record,
)
from cloze.evidence.bench.load import LoadBenchmark, bench_load
from cloze.evidence.bench.pretrain import PretrainBenchmark, bench_pretrain
from cloze.evidence.bench.text import TextBenchmark, same_pieces, tokenizers_threads
from cloze.evidence.bench.tokenization import bench_tokenize
from cloze.evidence.describe import describe
from cloze.model.bert import BertConfig
from cloze.text.pieces import SPECIAL_PIECES
from cloze.text.tokenizer import Tokenizer
from cloze.training.cost import Workload, pretraining_step_flops

NANO = PretrainBenchmark(size="tiny", batch_size=6, max_seq_length=24, vocab_size=300)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def text(tmp_path):
    """Sentences with words to cut, unknown ones, and a special piece's name as plain text."""
    rng = random.Random(5)
    words = ["one", "two", "threefold", "four-fold", "Fünf", "[MASK]", "six,", "日本", "zzz"]
    file = tmp_path / "text.txt"
    documents = [[" ".join(rng.choices(words, k=8)) + "." for _ in range(4)] for _ in range(30)]
    file.write_text("\n\n".join("\n".join(lines) for lines in documents))
    return file


@pytest.fixture
def vocabulary(tmp_path):
    pieces = [
        *SPECIAL_PIECES,
        "one",
        "two",
        "three",
        "##fold",
        "four",
        "fold",
        "six",
        "f",
        "##u",
        "##n",
        "##f",
    ]
    directory = tmp_path / "vocabulary"
    directory.mkdir()
    Tokenizer.from_pieces([*pieces, *"[]-,.", "mask", "日", "本"]).save(directory)
    return directory


def comparison(**changes):
    timings = (Timing("cloze", "does it", (1.0, 2.0, 4.0)), Timing("peer", "does it too", (8.0, 6.0, 5.0)))
    fields = {
        "name": "thing",
        "settings": {"size": 3},
        "amount": 100.0,
        "unit": "tokens",
        "timings": timings,
        "checks": (Check("loss", 0.001, 0.01),),
        "environment": {"threads": 2},
        "limit": Limit("products", 200.0),
    }
    return Comparison(**fields | changes)


def test_sides_take_turns_and_the_warm_up_is_not_counted():
    turns, prepared = [], []
    sides = [
        Side(name, "", lambda name=name: prepared.append(name) or (lambda: turns.append(name)))
        for name in "ab"
    ]
    timings = alternate(sides, rounds=3, min_seconds=0.0)
    assert "".join(turns) == "ab" * 4
    assert turns == prepared
    assert [len(timing.seconds) for timing in timings] == [3, 3]


def test_no_rounds():
    with pytest.raises(InputError, match="--rounds: 0 rounds"):
        alternate([], rounds=0)


def test_figures():
    ours, theirs = comparison().as_dict()["sides"]
    assert (ours["median"], ours["min"], ours["max"]) == (50.0, 25.0, 100.0)
    assert ours["cloze_is_times_as_fast"] == 1.0
    assert theirs["cloze_is_times_as_fast"] == 3.0
    assert ours["share_of_limit"] == 0.25
    text = comparison().as_text()
    assert "3.00x" in text
    assert "both sides agree" in text


def test_sides_that_disagree_cannot_be_compared():
    comparison().require_agreement()
    apart = comparison(checks=(Check("loss", 0.5, 0.01),))
    assert "DISAGREE" in apart.as_text()
    with pytest.raises(RunError, match=r"bench thing: loss: the sides are 0\.5 apart"):
        apart.require_agreement()


def test_not_a_number_is_no_agreement():
    assert not Check("loss", float("nan"), 1.0).holds


def test_record(tmp_path):
    write_record(comparison(), tmp_path / "record", overwrite=False)
    record = json.loads((tmp_path / "record" / "record.json").read_text())
    assert record["environment"] == {"threads": 2}
    assert record["checks"][0]["holds"] is True
    assert describe(tmp_path / "record").kind == "record"
    with pytest.raises(InputError, match="exists already"):
        write_record(comparison(), tmp_path / "record", overwrite=False)


def test_a_peer_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"needs the package transformers.*cloze-bert\[bench\]"):
        import_peer("transformers")


@pytest.mark.parametrize("bench", [bench_tokenize, bench_corpus])
def test_a_peer_nobody_knows(bench, text):
    with pytest.raises(InputError, match="--vs: no peer 'fairseq'"):
        bench(TextBenchmark(inputs=[text]), peers=["fairseq"])
    with pytest.raises(InputError, match="--vs: no peer 'fairseq'"):
        bench_pretrain(NANO, peers=["fairseq"])


def test_flops_of_base_are_the_published_ones():
    """6N + 12 s H L + 6 f (H^2 + H V) a token, N = 12 L H^2: 0.545 GFLOP at 128 tokens, 15% of them predicted."""
    flops = pretraining_step_flops(BertConfig(vocab_size=30528), Workload(12800, 128 * 12800, 1920))
    assert flops / 12800 == pytest.approx(0.545e9, rel=2e-3)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_both_sides_of_a_pretraining_step_compute_the_same(precision):
    benchmark = PretrainBenchmark(
        size="tiny", batch_size=6, max_seq_length=24, vocab_size=300, precision=precision
    )
    found = bench_pretrain(benchmark, rounds=1, min_seconds=0.0)
    assert [timing.name for timing in found.timings] == ["cloze", "transformers"]
    assert len(found.checks) == 2
    assert all(check.holds for check in found.checks), found.checks
    assert found.limit.rate > 0
    assert found.amount <= 6 * 24
    assert "transformers" in found.environment["versions"]


def test_a_pretraining_step_in_several_micro_batches_is_still_the_same(monkeypatch):
    settings = PretrainBenchmark.settings

    def small(self):
        config = settings(self)
        object.__setattr__(config, "micro_batch_tokens", 50)
        return config

    monkeypatch.setattr(PretrainBenchmark, "settings", small)
    peers = ["transformers", "transformers-float32", "transformers-tuned"]
    found = bench_pretrain(NANO, peers=peers, rounds=1, min_seconds=0.0)
    assert len(found.checks) == 2 * len(peers)
    assert all(check.holds for check in found.checks), found.checks


def test_tokenising_gives_equal_ids(text, vocabulary):
    found = bench_tokenize(TextBenchmark(inputs=[text], vocabulary=vocabulary), rounds=1, min_seconds=0.0)
    (check,) = found.checks
    assert check.difference == 0.0
    assert "pieces" in check.what
    assert found.timings[0].name == "cloze"
    assert len(found.timings) == 4
    half = len(text.read_text().split("\n\n")) * 4 // 2
    assert found.settings["lines"] == half


def test_building_a_corpus_gives_equal_ids(text, vocabulary):
    found = bench_corpus(TextBenchmark(inputs=[text], vocabulary=vocabulary), rounds=1, min_seconds=0.0)
    (check,) = found.checks
    assert check.difference == 0.0
    assert found.settings["format"] == "sentences"
    assert found.amount == pytest.approx(len(text.read_bytes()) / 1e6, rel=0.01)


def test_loading_gives_the_text_that_the_peer_is_given(text, vocabulary, tmp_path):
    build_dataset([text], vocabulary, tmp_path / "data")
    benchmark = LoadBenchmark(
        data=tmp_path / "data", batch_size=20, max_seq_length=24, micro_batch_tokens=100
    )
    found = bench_load(benchmark, rounds=1, min_seconds=0.0)
    assert [timing.name for timing in found.timings] == ["cloze", "cloze, whole words", "transformers"]
    same_text, share_predicted = found.checks
    assert same_text.difference == 0.0
    assert 0 < share_predicted.difference < 0.05  # chance, over few tokens
    assert 16 * 20 * 8 < found.amount <= 16 * 20 * 24
    assert len(bench_load(benchmark, peers=[], rounds=1, min_seconds=0.0).timings) == 2


def test_without_a_vocabulary_the_text_must_be_large_enough(text):
    with pytest.raises(InputError, match=r"--vocab: .*Give a vocabulary, or more text"):
        bench_tokenize(TextBenchmark(inputs=[text]))


def test_only_the_beginning_of_a_text_is_taken(text, vocabulary):
    benchmark = TextBenchmark(inputs=[text], vocabulary=vocabulary, max_megabytes=0.0005)
    found = bench_tokenize(benchmark, peers=[], rounds=1, min_seconds=0.0)
    assert found.settings["lines"] < 10


def test_pieces_that_differ():
    ours = np.array([1, 2, 3, 4], np.uint32)
    assert same_pieces("p", ours, np.array([1, 2, 9, 4], np.uint32)).difference == 0.25
    assert not same_pieces("p", ours, ours[:3]).holds


def test_threads_are_put_back(monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "yes")
    monkeypatch.delenv("RAYON_NUM_THREADS", raising=False)
    with tokenizers_threads(1):
        assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
    assert os.environ["TOKENIZERS_PARALLELISM"] == "yes"
    assert "RAYON_NUM_THREADS" not in os.environ


def test_command(text, vocabulary, tmp_path, capsys):
    output = tmp_path / "record"
    arguments = ["bench", "corpus", str(text), "--vocab", str(vocabulary), "--rounds", "1", "--quiet"]
    assert main([*arguments, "-o", str(output), "--json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table == json.loads((output / "record.json").read_text())
    assert main([*arguments, "-o", str(output)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_command_says_what_it_takes(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "pretrain", "--help"])
    text = capsys.readouterr().out
    for flag in ("--vs", "--dtype", "--rounds", "--output", "--json"):
        assert flag in text
