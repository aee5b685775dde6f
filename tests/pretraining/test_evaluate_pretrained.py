"""Evaluation of a pre-trained model on any text, in Python and by the command."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from cloze.cli import main
from cloze.data.build.corpus import build_dataset
from cloze.errors import InputError
from cloze.model_paths import resolve_checkpoint
from cloze.pretraining.config import PretrainConfig
from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained
from runs import pretrain


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluated")


@pytest.fixture
def run(nano: PretrainConfig, place: Path) -> tuple[Path, dict[str, float]]:
    measured = place / "measured.json"
    if not measured.exists():
        measured.write_text(json.dumps(pretrain(nano, place / "run")))
    return place / "run", json.loads(measured.read_text())


@pytest.mark.slow
def test_held_out_evaluation_equals_that_of_the_run(run, dataset, nano):
    path, measured = run
    config = PretrainingEvaluationConfig(
        max_seq_length=64, max_instances=40, masking=nano.masking, pairs=nano.pairs
    )
    found = evaluate_pretrained(resolve_checkpoint(path), [dataset], config, device="cpu")
    values = {**found.masked_lm, **found.next_sentence}
    for task in ("masked_lm", "next_sentence"):
        for name in (f"{task}_loss", f"{task}_accuracy"):
            assert values[name] == pytest.approx(measured[name], rel=1e-5), name
    assert found.masked_lm["perplexity"] == pytest.approx(math.exp(found.masked_lm["masked_lm_loss"]))
    assert 0.5 <= found.next_sentence["majority_accuracy"] < 0.7
    assert found.pairs <= 40
    fewer = evaluate_pretrained(
        resolve_checkpoint(path), [dataset], replace(config, max_instances=7), device="cpu"
    )
    assert fewer.pairs == 7


def test_the_majority_of_one_pair_is_always_right(pretrained, dataset):
    checkpoint = resolve_checkpoint(pretrained(steps=1))
    for seed in range(2):
        config = PretrainingEvaluationConfig(max_seq_length=32, max_instances=1, seed=seed)
        found = evaluate_pretrained(checkpoint, [dataset], config, device="cpu")
        assert (found.pairs, found.next_sentence["majority_accuracy"]) == (1, 1.0)


@pytest.mark.slow
def test_any_text_is_evaluated(run, novel):
    config = PretrainingEvaluationConfig(max_seq_length=32)
    found = evaluate_pretrained(resolve_checkpoint(run[0]), [novel], config, device="cpu")
    assert found.masked_words > 1000
    assert 0 < found.masked_lm["masked_lm_accuracy"] < 1
    assert found.masked_lm["masked_lm_loss"] < math.log(700)
    assert found == evaluate_pretrained(resolve_checkpoint(run[0]), [novel], config, device="cpu")


@pytest.mark.slow
def test_command_prints_the_metrics(run, dataset, capsys):
    for task, name in (("mlm", "masked_lm_loss"), ("nsp", "next_sentence_accuracy")):
        command = ["evaluate", task, "-m", str(run[0]), "-d", str(dataset), "--set=max_seq_length=64"]
        assert main([*command, "--quiet"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert any(line.split()[0] == name for line in lines)
        assert lines[-1].endswith(f"pairs: {dataset}")
        assert main([*command, "--json", "--quiet"]) == 0
        assert {name, "pairs", "masked_words", "data"} <= set(json.loads(capsys.readouterr().out))


@pytest.mark.slow
def test_unsuitable_models_and_data_are_refused(run, dataset, tmp_path):
    with pytest.raises(InputError, match="max_seq_length 128, the model takes 64"):
        evaluate_pretrained(
            resolve_checkpoint(run[0]), [dataset], PretrainingEvaluationConfig(max_seq_length=128)
        )
    config = PretrainingEvaluationConfig(max_seq_length=32)
    (tmp_path / "one.txt").write_text("One line alone.\n")
    with pytest.raises(InputError, match="pairs need two with more"):
        evaluate_pretrained(resolve_checkpoint(run[0]), [tmp_path / "one.txt"], config)
    build_dataset([tmp_path / "one.txt"], dataset, tmp_path / "one")
    with pytest.raises(InputError, match="one: no documents are held out to evaluate on"):
        evaluate_pretrained(resolve_checkpoint(run[0]), [tmp_path / "one"], config)
    with pytest.raises(InputError, match="no such file"):
        evaluate_pretrained(resolve_checkpoint(run[0]), [tmp_path / "none.txt"], config)
    with pytest.raises(InputError, match="no such file"):
        evaluate_pretrained(tmp_path, [dataset], config)
