"""Stratified hold-out, class weights by label, early stopping, frozen layers, dropout."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cloze
from cloze.finetuning.config import load_finetuning
from cloze.finetuning.data import choose_held_out
from cloze.model_paths import resolve_checkpoint
from cloze.models.batch import to_device
from cloze.models.config_file import load_config
from cloze.tasks.config import to_toml
from cloze.tasks.texts import LabeledText
from cloze.training.model_card import BaseModel
from family_cases import REVIEWS
from helpers import finetuning_of, resolve_finetuning, task_of
from runs import finetune, prepare, resume_finetuning, rows, weights


def test_held_out_items_have_the_share_of_each_class():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        strata = [*rng.choice(["a", "b", "c"], 200, p=[0.8, 0.15, 0.05]).tolist(), "alone"]
        chosen = choose_held_out(strata, 0.1, seed=seed)
        assert len(chosen) == 20
        assert len(strata) - 1 not in chosen
        for name in "abc":
            held_out = sum(strata[i] == name for i in chosen)
            assert abs(held_out - 0.1 * strata.count(name)) < 1.1
        assert chosen != choose_held_out(strata, 0.1, seed=seed + 1)
    assert len(choose_held_out(["a", "b", "c", "d"], 0.5, seed=0)) == 2, "where all are alone in their class"


def _texts(*labels: str) -> list[LabeledText]:
    return [LabeledText(f"text {number}", gold=label) for number, label in enumerate(labels)]


def test_class_weights_are_given_by_label_or_balanced():
    texts = _texts("a", "b", "b", "b", "c", "c")

    def fitted(*settings: str) -> tuple[float, ...]:
        task, _ = finetuning_of("classification", ["model=m", "train=t", *settings])
        known = task.fit(texts)
        assert known.fit(_texts("a", "b", "c")) == known
        return known.answer.class_weights

    assert fitted("classification.class_weights.b=3") == (1.0, 3.0, 1.0)
    assert fitted("classification.class_weights={c=2, a=0.5}") == (0.5, 1.0, 2.0)
    assert fitted("classification.class_weights=balanced") == (2.0, 2 / 3, 1.0)
    assert fitted() == ()
    for wrong, message in (
        ("class_weights.d=3", "unknown label 'd'"),
        ("class_weights.a=-3", "must be numbers of 0 or more"),
        ("class_weights=equal", "'equal' is not a choice"),
    ):
        with pytest.raises(cloze.InputError, match=message):
            fitted(f"classification.{wrong}")


def test_labels_with_spaces_and_marks_are_written_and_read(tmp_path):
    task = task_of(
        "classification", labels=('b"c', "a.b", "not ok"), class_weights={"not ok": 2.0, "a.b": 1.5}
    )
    _, config = finetuning_of("classification", ["model=m", "train=t"])
    (tmp_path / "mine.toml").write_text(to_toml(task, config))
    assert load_finetuning(tmp_path / "mine.toml", "classification") == (task, config)
    _, changed = resolve_finetuning(task, tmp_path / "mine.toml", {"optimizer.weight_decay": 0})
    assert changed.optimizer == replace(config.optimizer, weight_decay=0.0)


def test_a_run_stops_when_its_patience_is_used_up(config, tmp_path):
    settings = replace(config, epochs=20, patience=2, optimizer=replace(config.optimizer, learning_rate=0.3))
    run = tmp_path / "run"
    finetune(REVIEWS, settings, run)
    logged = rows(run, "validation")
    best = max(logged, key=lambda row: (row["accuracy"], -row["loss"]))["step"]
    assert [row["step"] for row in logged if row["step"] > best] == [best + 7, best + 14]
    assert len(logged) < 20
    before = weights(run)
    assert resume_finetuning(run)["checkpoint"] == f"step-{best:08}"
    assert rows(run, "validation") == logged
    assert all(weights(run)[name].equal(weight) for name, weight in before.items())


def test_frozen_layers_keep_their_weights(config, tmp_path):
    start = weights(Path(config.model))
    for name, settings in (("layers", {"freeze_layers": 1}), ("embeddings", {"freeze_embeddings": True})):
        finetune(REVIEWS, replace(config, epochs=1, **settings), tmp_path / name)
        trained = weights(tmp_path / name)
        same = {key for key, weight in trained.items() if key in start and weight.equal(start[key])}
        frozen = {key for key in start if ".embeddings." in key or (name == "layers" and ".layer.0." in key)}
        assert frozen
        assert frozen <= same
        assert any("pooler" in key for key in trained.keys() - same)


@pytest.mark.slow
def test_dropout_is_that_of_the_settings(config, tmp_path):
    one_epoch = replace(config, epochs=1, train_examples=9)
    losses = []
    for name, settings, expected in (
        ("stored", one_epoch, 0),
        ("half", replace(one_epoch, dropout=0.5), 0.5),
        ("half again", replace(one_epoch, model=str(tmp_path / "half")), 0.5),
        ("none", replace(one_epoch, model=str(tmp_path / "half"), dropout=0.0), 0),
    ):
        finetune(REVIEWS, settings, tmp_path / name)
        losses.append(rows(tmp_path / name, "train")[0]["loss"])
        saved = load_config(resolve_checkpoint(tmp_path / name))
        assert saved.hidden_dropout_prob == saved.attention_probs_dropout_prob == expected
    assert len(set(losses)) == 4


@pytest.mark.parametrize(("dropout", "is_random"), [(None, True), (0.0, False), (0.5, True)])
def test_dropout_of_the_head_is_that_of_the_settings(config, dropout, is_random):
    prepared = prepare(REVIEWS, replace(config, dropout=dropout))
    model = prepared.build_model().train()
    batch = to_device(REVIEWS.answer.batch(prepared.data.flat_train_features[:9]))
    shares = [(model(batch) == model(batch)).float().mean().item() for _ in range(3)]
    assert (min(shares) < 1) == is_random


def test_the_card_of_a_classifier_names_its_data_license_and_base(config, tmp_path):
    start = Path(shutil.copytree(config.model, tmp_path / "start"))
    (start / "README.md").write_text("---\nlicense: cc-by-sa-3.0\n---\n\n# A model\n", "utf-8")
    changed = replace(config, model=str(start), epochs=1, dev=config.train, train_examples=20)
    finetune(REVIEWS, changed, tmp_path / "run")
    checkpoint = resolve_checkpoint(tmp_path / "run")
    card = (checkpoint / "README.md").read_text("utf-8")
    for role, examples in (("learned from", 20), ("scored on", 70)):
        assert f"| {role} | `{config.train}` | {examples} examples |" in card
    assert BaseModel.read("x", checkpoint) == BaseModel("start", "cc-by-sa-3.0")


def test_a_share_that_is_not_held_out_is_noted(config, capsys):
    for settings in ({"dev": config.train}, {"folds": 2}, {}):
        prepare(REVIEWS, replace(config, **settings), progress=cloze.Progress())
        assert ("dev_fraction is not used" in capsys.readouterr().err) == bool(settings)


def test_dev_data_without_targets_are_refused_before_training(config, tmp_path):
    train, dev = tmp_path / "train.jsonl", tmp_path / "dev.jsonl"
    train.write_text(json.dumps({"tokens": ["good"], "tags": ["B-A"]}) + "\n")
    dev.write_text(json.dumps({"tokens": [], "tags": []}) + "\n")
    config = replace(config, train=str(train), dev=str(dev))
    with pytest.raises(
        cloze.InputError, match=r"dev\.jsonl: the dev examples have no targets\. Add examples"
    ):
        finetune(task_of("tagging", labels=("O", "B-A")), config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
