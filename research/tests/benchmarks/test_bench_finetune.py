"""The benchmark of fine-tuning at a nano size: cloze and transformers start, train and are scored alike."""

import json
from functools import partial

import pytest
import torch

import cloze
from benchmarks.__main__ import main
from benchmarks.transformers_trainer import build_padded_model
from cloze.data.batch import collate
from cloze.models.batch import to_device
from cloze.models.heads import (
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from experiments.differences import paired_difference
from tiny_models import tiny_config, write_checkpoint

pytest.importorskip("accelerate")

TOKENS = [*SPECIAL_TOKENS, "good", "bad", "film", "book", "rome", "anna", "in", "saw", "."]


def encoder():
    return cloze.BertModel(tiny_config(TOKENS), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def model(tmp_path):
    return write_checkpoint(tmp_path / "model", encoder(), TOKENS)


@pytest.fixture
def classification(tmp_path):
    rows = [f"{thing} {word} .\t{word}" for thing in ("film", "book film") for word in ("good", "bad")]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows * 6]) + "\n")
    return "classification", tmp_path / "train.tsv"


@pytest.fixture
def tagging(tmp_path):
    sentence = "Anna B-PER\nsaw O\nRome B-LOC\n. O\n\nin O\nRome B-LOC\n\n"
    (tmp_path / "train.conll").write_text(sentence * 8)
    return "tagging", tmp_path / "train.conll"


@pytest.fixture
def squad(tmp_path):
    def question(number):
        answer = {"text": "Rome", "answer_start": 8}
        qa = {"id": str(number), "question": "Anna saw", "answers": [answer]}
        return {"title": "", "paragraphs": [{"context": f"Anna in Rome {'. ' * number}.", "qas": [qa]}]}

    data = {"version": "1.1", "data": [question(number) for number in range(12)]}
    (tmp_path / "train.json").write_text(json.dumps(data))
    return "squad_v1", tmp_path / "train.json"


def bench(model, named, *more):
    task, data = named
    flags = ["--set", "max_seq_length=30", "--set", "epochs=2", "--set", "batch_size=4", "--rounds", "2"]
    return main(["finetune", task, "-m", str(model), "-d", str(data), *flags, *more, "--quiet"])


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("classification", marks=pytest.mark.slow),
        pytest.param("tagging", marks=pytest.mark.exhaustive),
        pytest.param("squad", marks=pytest.mark.exhaustive),
    ],
)
def test_all_contestants_are_fine_tuned_and_scored(model, kind, request, tmp_path, capsys):
    named = request.getfixturevalue(kind)
    peers = "transformers,transformers-tuned" if kind == "classification" else "transformers"
    output = tmp_path / "record"
    assert bench(model, named, "--vs", peers, "-o", str(output)) == 0
    text = capsys.readouterr().out
    assert "95% interval" in text
    record = json.loads((output / "record.json").read_text())
    assert {(o["side"], o["seed"]) for o in record["outcomes"]} == {
        (side, seed) for side in ("cloze", *peers.split(",")) for seed in (12345, 12346)
    }
    assert all(outcome["seconds_per_epoch"] > 0 for outcome in record["outcomes"])
    assert set(record["differences"]) == set(peers.split(","))
    assert all(check["holds"] for check in record["checks"])


def test_the_interval_of_a_difference():
    difference = paired_difference([3.0, 5.0, 4.0], [2.0, 3.0, 1.0])  # 1, 2, 3: deviation 1
    half = 4.302652729911275 / 3**0.5  # Student's t, two degrees of freedom
    assert difference.mean == 2
    assert (difference.low, difference.high) == pytest.approx((2 - half, 2 + half))


@pytest.mark.parametrize(
    "head",
    [
        partial(BertForSequenceClassification, num_labels=3),
        partial(BertForTokenClassification, num_labels=5),
        BertForQuestionAnswering,
    ],
)
@pytest.mark.slow
def test_the_padded_model_computes_the_same(head):
    pytest.importorskip("transformers")
    ours = head(encoder(), generator=torch.Generator().manual_seed(2)).eval()
    theirs = build_padded_model(ours, cloze.find_task("classification", where="test")).eval()
    packed = to_device(collate([[2, 5, 6, 7, 3], [2, 9, 3], [2, 5, 11, 3]]))
    with torch.inference_mode():
        torch.testing.assert_close(ours(packed), theirs(packed), atol=1e-5, rtol=0)


def test_heads_and_rounds_that_cannot_be_compared(model, classification, capsys):
    assert bench(model, classification, "--rounds", "1") == 2
    assert "2 at least" in capsys.readouterr().err
    assert bench(model, classification, "--vs", "keras") == 2
    assert "Choose from transformers, transformers-tuned" in capsys.readouterr().err
    for setting in ("seeds=3", "evaluations_per_epoch=2", "budget_seconds=60", "grid.batch_sizes=[8, 16]"):
        assert bench(model, classification, "--set", setting) == 2
        name = setting.partition("=")[0].partition(".")[0]
        assert f"{name} applies to cloze alone" in capsys.readouterr().err
    with pytest.raises(cloze.InputError, match="uses a BertForMultipleChoice"):
        build_padded_model(BertForMultipleChoice(encoder()), cloze.find_task("swag", where="test"))
