"""Evaluation of a pre-trained model on any text, in Python and by the command."""

import json
import math
from pathlib import Path

import pytest

import cloze
from cloze.model_paths import resolve_checkpoint
from cloze.pretraining.evaluation import PretrainingEvaluationConfig, evaluate_pretrained


@pytest.fixture
def checkpoint(finished: Path) -> Path:
    return resolve_checkpoint(finished)


@pytest.mark.slow
def test_held_out_evaluation_equals_that_of_the_run(finished, checkpoint, dataset, nano):
    measured = json.loads((finished.parent / "measured.json").read_text())
    of_run = {"masking": nano.masking, "pairs": nano.pairs}
    config = PretrainingEvaluationConfig(max_seq_length=64, max_instances=40, **of_run)
    found = evaluate_pretrained(checkpoint, [dataset], config, device="cpu")
    values = {**found.masked_lm, **found.next_sentence}
    for task in ("masked_lm", "next_sentence"):
        for name in (f"{task}_loss", f"{task}_accuracy"):
            assert values[name] == pytest.approx(measured[name], rel=1e-5), name
    assert found.masked_lm["perplexity"] == pytest.approx(math.exp(found.masked_lm["masked_lm_loss"]))
    assert 0.5 <= found.next_sentence["majority_accuracy"] < 0.7
    assert found.pairs <= 40


def test_the_majority_of_one_pair_is_always_right(checkpoint, dataset):
    for seed in range(2):
        config = PretrainingEvaluationConfig(max_seq_length=32, max_instances=1, seed=seed)
        found = evaluate_pretrained(checkpoint, [dataset], config, device="cpu")
        assert (found.pairs, found.next_sentence["majority_accuracy"]) == (1, 1.0)


@pytest.mark.slow
def test_any_text_is_evaluated(checkpoint, novel):
    config = PretrainingEvaluationConfig(max_seq_length=32)
    found = evaluate_pretrained(checkpoint, [novel], config, device="cpu")
    assert found.masked_words > 1000
    assert 0 < found.masked_lm["masked_lm_accuracy"] < 1
    assert found.masked_lm["masked_lm_loss"] < math.log(700)
    assert found == evaluate_pretrained(checkpoint, [novel], config, device="cpu")


@pytest.mark.slow
def test_unsuitable_models_and_data_are_refused(checkpoint, dataset, tmp_path):
    with pytest.raises(cloze.InputError, match="max_seq_length 128, the model takes 64"):
        evaluate_pretrained(checkpoint, [dataset], PretrainingEvaluationConfig(max_seq_length=128))
    config = PretrainingEvaluationConfig(max_seq_length=32)
    (tmp_path / "one.txt").write_text("One line alone.\n")
    with pytest.raises(cloze.InputError, match="pairs need two with more"):
        evaluate_pretrained(checkpoint, [tmp_path / "one.txt"], config)
    with pytest.warns(UserWarning, match="no held-out documents"):
        cloze.build_dataset(tmp_path / "one.txt", vocabulary=dataset, output=tmp_path / "one")
    with pytest.raises(cloze.InputError, match="one: no documents are held out to evaluate on"):
        evaluate_pretrained(checkpoint, [tmp_path / "one"], config)
    with pytest.raises(cloze.InputError, match="no such file"):
        evaluate_pretrained(checkpoint, [tmp_path / "none.txt"], config)
    with pytest.raises(cloze.InputError, match="no such file"):
        evaluate_pretrained(tmp_path, [dataset], config)
