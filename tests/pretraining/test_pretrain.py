"""A pre-training run, from settings to a checkpoint that others load."""

import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cloze import artifacts
from cloze import config as configuration
from cloze.corpus.build import build_dataset
from cloze.corpus.masking import MaskingConfig
from cloze.corpus.pairs import PairsConfig
from cloze.errors import InputError
from cloze.inference.fill import FillMask
from cloze.inference.next_sentence import NextSentence
from cloze.locate import resolve_checkpoint
from cloze.model.checkpoint import load_model, write_model_files
from cloze.model.heads import BertForMaskedLM
from cloze.pretraining.config import GoogleInstancesConfig, ModelConfig, PhaseConfig, PretrainConfig
from cloze.pretraining.run import pretrain, resume_pretraining
from cloze.progress import Progress
from cloze.text.tokenizer import Tokenizer
from cloze.training.averaging import AveragingConfig
from cloze.training.checkpoints import read_state
from cloze.training.distribution import World
from cloze.training.metrics_log import read_metrics
from cloze.training.muon import MuonConfig
from cloze.training.optimizer import OptimizerConfig
from cloze.training.run_lock import alone_at

RECIPES = sorted((Path(__file__).resolve().parents[2] / "src/cloze/recipes").glob("*.toml"))


def _weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(resolve_checkpoint(run) / "model.safetensors")


def test_a_run_learns_and_its_checkpoint_answers(nano: PretrainConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    measured = pretrain(replace(nano, steps=60), run)
    rows = read_metrics(run)
    train = [row for row in rows if row["kind"] == "train"]
    assert {
        "masked_lm_loss",
        "next_sentence_loss",
        "learning_rate",
        "gradient_norm",
        "tokens_per_second",
    } <= set(train[0])
    assert train[0]["masked_lm_loss"] == pytest.approx(math.log(700), rel=0.05)
    assert measured["masked_lm_loss"] < train[0]["masked_lm_loss"] - 0.3
    assert 0 < measured["masked_lm_unigram_loss"] < math.log(700)
    assert {row["phase"] for row in train} == {0, 1}
    assert (run / "environment.json").exists()
    artifacts.verify(resolve_checkpoint(run), kind="checkpoint")

    (candidates,) = FillMask.load(run)("The [MASK] of the house.", top_k=7)
    assert len(candidates) == 7
    assert candidates[0].probability >= candidates[1].probability
    assert 0 < NextSentence.load(run)("He came.", "He left.") < 1


def test_run_toml_runs_again_to_the_same_bits(nano: PretrainConfig, tmp_path: Path) -> None:
    pretrain(nano, tmp_path / "first")
    again = configuration.load(PretrainConfig, tmp_path / "first" / "run.toml")
    assert again.data_sha256 is not None
    pretrain(again, tmp_path / "second")
    first, second = _weights(tmp_path / "first"), _weights(tmp_path / "second")
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def test_micro_batches_change_a_step_by_rounding_only(nano: PretrainConfig, tmp_path: Path) -> None:
    quiet = replace(
        nano, steps=4, model=replace(nano.model, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    )
    pretrain(quiet, tmp_path / "small")
    pretrain(replace(quiet, micro_batch_tokens=4096), tmp_path / "large")
    small, large = _weights(tmp_path / "small"), _weights(tmp_path / "large")
    for name, tensor in small.items():
        torch.testing.assert_close(tensor, large[name], rtol=1e-4, atol=1e-6)


def test_transformers_loads_the_checkpoint_as_it_is(nano: PretrainConfig, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pretrain(replace(nano, steps=3), tmp_path / "run")
    directory = resolve_checkpoint(tmp_path / "run")
    model, report = transformers.AutoModelForPreTraining.from_pretrained(directory, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    text = "The [MASK] of the house."
    with torch.no_grad():
        logits = model.eval()(**tokenizer(text, return_tensors="pt")).prediction_logits[0]
    position = tokenizer(text)["input_ids"].index(tokenizer.mask_token_id)
    (ours,) = FillMask.load(directory)(text, top_k=3)
    theirs = logits[position].softmax(-1).topk(3)
    assert [c.token for c in ours] == tokenizer.convert_ids_to_tokens(theirs.indices.tolist())
    np.testing.assert_allclose([c.probability for c in ours], theirs.values.numpy(), rtol=1e-5)


def test_googles_instances_are_built_once_and_trained_on(nano: PretrainConfig, tmp_path: Path) -> None:
    config = replace(nano, google_instances=GoogleInstancesConfig(dupe_factor=2), steps=8)
    measured = pretrain(config, tmp_path / "run")
    assert math.isfinite(measured["loss"])
    artifacts.verify(tmp_path / "run" / "instances" / "phase-1", kind="instances")
    artifacts.verify(tmp_path / "run" / "instances" / "phase-2", kind="instances")


def test_going_on_from_a_checkpoint_starts_with_its_weights(nano: PretrainConfig, tmp_path: Path) -> None:
    pretrain(replace(nano, steps=40), tmp_path / "first")
    end = [row for row in read_metrics(tmp_path / "first") if row["kind"] == "validation"][-1]
    pretrain(replace(nano, steps=4, init=str(tmp_path / "first")), tmp_path / "second")
    start = next(row for row in read_metrics(tmp_path / "second") if row["kind"] == "validation")
    assert start["masked_lm_loss"] == pytest.approx(end["masked_lm_loss"], abs=0.2)


def test_what_goes_on_from_a_checkpoint_says_which_encoder_it_is(
    nano: PretrainConfig, tmp_path: Path
) -> None:
    pretrain(replace(nano, steps=2), tmp_path / "first")
    unsaid = ModelConfig(hidden_dropout_prob=0.25)
    pretrain(replace(nano, steps=2, init=str(tmp_path / "first"), model=unsaid), tmp_path / "second")
    written = configuration.load(PretrainConfig, tmp_path / "second/run.toml").model
    assert written.encoder(vocab_size=7) == replace(
        nano.model.encoder(vocab_size=7), hidden_dropout_prob=0.25
    )


def test_a_checkpoint_of_masked_words_alone_goes_on_with_these(nano: PretrainConfig, tmp_path: Path) -> None:
    pretrain(replace(nano, steps=2), tmp_path / "first")
    checkpoint = resolve_checkpoint(tmp_path / "first")
    with artifacts.write_directory(tmp_path / "masked", kind="checkpoint") as directory:
        write_model_files(directory, load_model(checkpoint, BertForMaskedLM), Tokenizer.load(checkpoint))
    asked = replace(nano, steps=2, init=str(tmp_path / "masked"))
    with pytest.raises(
        InputError, match=r"no weight .*Say --set pairs.next_sentence=false: masked words alone"
    ):
        pretrain(asked, tmp_path / "second")
    pretrain(replace(asked, pairs=replace(nano.pairs, next_sentence=False)), tmp_path / "second")
    assert FillMask.load(tmp_path / "second")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"optimizer": OptimizerConfig(muon=MuonConfig(learning_rate=1e-3))}, "optimizer.muon"),
        ({"averaging": AveragingConfig(tail_fraction=0.5)}, "averaging"),
        ({"optimizer": OptimizerConfig(bias_correction=True)}, "optimizer.bias_correction"),
        ({"model": ModelConfig(size="tiny", max_position_embeddings=64)}, "model"),
        ({"steps": 4}, "steps"),
        ({"seed": 4}, "seed"),
        ({"masking": MaskingConfig(masked_lm_prob=0.2)}, "masking"),
    ],
)
def test_a_run_cannot_go_on_as_another(
    nano: PretrainConfig, tmp_path: Path, change: dict[str, object], named: str
) -> None:
    pretrain(replace(nano, steps=2), tmp_path / "run")
    file = tmp_path / "run/run.toml"
    settings = configuration.load(PretrainConfig, file)
    file.write_text(configuration.to_toml(replace(settings, **change)))
    with pytest.raises(InputError, match=rf"run\.toml: {named} is not as the run began. Put it back"):
        resume_pretraining(tmp_path / "run")


def test_positions_of_a_run_that_goes_on_learn_or_not_as_they_began(
    nano: PretrainConfig, tmp_path: Path
) -> None:
    pretrain(replace(nano, steps=2), tmp_path / "run")
    changed = replace(nano, steps=2, model=replace(nano.model, positions="sinusoidal"))
    (tmp_path / "run/run.toml").write_text(configuration.to_toml(changed))
    with pytest.raises(InputError, match=r"run\.toml: model\.positions is not as the run began"):
        resume_pretraining(tmp_path / "run")


def test_a_run_has_one_process_at_a_time(nano: PretrainConfig, tmp_path: Path) -> None:
    run = tmp_path / "run"
    pretrain(replace(nano, steps=2), run)
    with alone_at(run, World(torch.device("cpu"))):
        for again in (
            lambda: resume_pretraining(run),
            lambda: pretrain(replace(nano, steps=2), run, overwrite=True),
        ):
            with pytest.raises(InputError, match=r"run: another process is at this run\. Wait for it"):
                again()
    resume_pretraining(run)


def test_a_phase_without_a_step_and_another_machine_are_said(
    nano: PretrainConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    phases = tuple(
        PhaseConfig(max_seq_length=length, fraction=share, batch_size=4)
        for length, share in ((16, 0.9), (32, 0.1))
    )
    pretrain(replace(nano, steps=2, phases=phases), run, progress=Progress())
    assert (
        "sequences of up to 32 tokens have 10% of the run, and get none of its 2 steps"
        in capsys.readouterr().err
    )
    file = run / "environment.json"
    elsewhere = json.loads(file.read_text()) | {"processor": "another"}
    file.write_text(json.dumps(elsewhere))
    resume_pretraining(run, progress=Progress())
    assert "warning: processor not as before" in capsys.readouterr().err
    assert json.loads(file.read_text())["earlier"] == [elsewhere]


@pytest.mark.parametrize("change", [{"hidden_dropout_prob": 0.3}, {"num_hidden_layers": 1}])
def test_a_run_that_began_with_a_checkpoint_cannot_go_on_with_another_model(
    nano: PretrainConfig, tmp_path: Path, change: dict[str, object]
) -> None:
    pretrain(replace(nano, steps=2), tmp_path / "first")
    pretrain(replace(nano, steps=2, init=str(tmp_path / "first")), tmp_path / "second")
    resume_pretraining(tmp_path / "second")
    file = tmp_path / "second/run.toml"
    settings = configuration.load(PretrainConfig, file)
    file.write_text(configuration.to_toml(replace(settings, model=replace(settings.model, **change))))
    with pytest.raises(InputError, match=r"run\.toml: model is not as the run began"):
        resume_pretraining(tmp_path / "second")


def test_a_run_cannot_go_on_with_other_instances(nano: PretrainConfig, tmp_path: Path) -> None:
    pretrain(replace(nano, steps=2, google_instances=GoogleInstancesConfig(dupe_factor=1)), tmp_path / "run")
    resume_pretraining(tmp_path / "run")
    file = tmp_path / "run/run.toml"
    settings = configuration.load(PretrainConfig, file)
    changed = replace(settings, google_instances=GoogleInstancesConfig(dupe_factor=3))
    file.write_text(configuration.to_toml(changed))
    with pytest.raises(
        InputError, match=r"run\.toml: dupe_factor, with which the instances were built, is not"
    ):
        resume_pretraining(tmp_path / "run")


def test_a_run_may_be_made_where_the_user_stands(
    nano: PretrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pretrain(replace(nano, steps=2), Path())
    assert read_state(resolve_checkpoint(tmp_path)).step == 2


@pytest.mark.parametrize(
    ("released", "size"),
    [(ModelConfig(size="mini"), "mini"), (ModelConfig(size="mini", hidden_size=128), None)],
)
def test_an_encoder_that_is_there_is_called_by_its_size(released: ModelConfig, size: str | None) -> None:
    encoder = released.encoder(vocab_size=7)
    written = ModelConfig().of(encoder)
    assert written.size == size
    assert written.encoder(vocab_size=7) == encoder
    with pytest.raises(ValueError, match="without a size all of num_hidden_layers"):
        ModelConfig(size=None)


def test_longer_sequences_than_those_of_the_default_model_are_for_the_checkpoint_to_refuse(
    nano: PretrainConfig, tmp_path: Path
) -> None:
    overrides = ["data=somewhere", "steps=10", "phases=[{max_seq_length=1024, fraction=1.0}]"]
    assert (
        configuration.load(PretrainConfig, None, [*overrides, "init=there"]).phases[0].max_seq_length == 1024
    )
    pretrain(replace(nano, steps=2), tmp_path / "run")
    phases = (replace(nano.phases[0], max_seq_length=65, fraction=1.0),)
    with pytest.raises(InputError, match=r"phases: max_seq_length 65, .*run takes 64"):
        pretrain(replace(nano, init=str(tmp_path / "run"), phases=phases), tmp_path / "longer")


def test_masks_made_beforehand_cannot_grow_fewer() -> None:
    overrides = ["data=somewhere", "steps=10", "google_instances.dupe_factor=1"]
    with pytest.raises(InputError, match="initial_masked_lm_prob"):
        configuration.load(PretrainConfig, None, [*overrides, "masking.initial_masked_lm_prob=0.3"])


def test_the_mean_of_the_weights_is_what_was_measured(nano: PretrainConfig, tmp_path: Path) -> None:
    measured = {
        name: pretrain(replace(nano, averaging=averaging), tmp_path / name)
        for name, averaging in (("last", None), ("mean", AveragingConfig(tail_fraction=0.5)))
    }
    last, mean = _weights(tmp_path / "last"), _weights(tmp_path / "mean")
    assert any(not torch.equal(tensor, mean[name]) for name, tensor in last.items())
    kept = load_file(resolve_checkpoint(tmp_path / "mean") / "training" / "average.safetensors")
    assert int(kept["count"]) == 12
    assert torch.equal(kept["bert.pooler.weight"], last["bert.pooler.dense.weight"])
    assert measured["mean"]["loss"] != measured["last"]["loss"]
    assert resume_pretraining(tmp_path / "mean") == measured["mean"]


def test_without_pairs_only_words_are_learned(nano: PretrainConfig, tmp_path: Path) -> None:
    measured = pretrain(
        replace(nano, steps=8, pairs=replace(nano.pairs, next_sentence=False)), tmp_path / "run"
    )
    assert "next_sentence_loss" not in measured
    assert measured["loss"] == measured["masked_lm_loss"]


def test_resume_refuses_another_data_set(nano: PretrainConfig, dataset: Path, tmp_path: Path) -> None:
    pretrain(replace(nano, steps=3), tmp_path / "run")
    text = (tmp_path / "run" / "run.toml").read_text()
    (tmp_path / "run" / "run.toml").write_text(text.replace('data_sha256 = "', 'data_sha256 = "0'))
    with pytest.raises(InputError, match="not the data set"):
        resume_pretraining(tmp_path / "run")
    with pytest.raises(InputError, match="no run to resume"):
        resume_pretraining(tmp_path)


def test_a_run_that_names_its_data_by_their_manifest_goes_on(
    nano: PretrainConfig, dataset: Path, tmp_path: Path
) -> None:
    """As runs of old did."""
    run = tmp_path / "run"
    pretrain(replace(nano, steps=3), run)
    settings = configuration.load(PretrainConfig, run / "run.toml")
    of_manifest = artifacts.sha256_of(dataset / "manifest.json")
    assert settings.data_sha256 not in (None, of_manifest)
    (run / "run.toml").write_text(configuration.to_toml(replace(settings, data_sha256=of_manifest)))
    resume_pretraining(run)


@pytest.mark.parametrize("documents", [["The dog.\nIt was a dog.", "He left."], ["The dog."] * 9])
def test_of_few_or_short_documents_words_are_learned_but_no_pairs(
    nano: PretrainConfig, dataset: Path, tmp_path: Path, documents: list[str]
) -> None:
    (tmp_path / "text").write_text("\n\n".join(f"{n} {text}" for n, text in enumerate(documents)))
    build_dataset([tmp_path / "text"], dataset, tmp_path / "data")
    config = replace(nano, data=str(tmp_path / "data"), steps=2)
    with pytest.raises(InputError, match=r"data: fewer than 4 .* --set pairs\.next_sentence=false"):
        pretrain(config, tmp_path / "run")
    measured = pretrain(replace(config, pairs=PairsConfig(next_sentence=False)), tmp_path / "run")
    assert measured["masked_lm_loss"] > 0


def test_an_existing_run_is_not_overwritten(nano: PretrainConfig, tmp_path: Path) -> None:
    pretrain(replace(nano, steps=3), tmp_path / "run")
    with pytest.raises(InputError, match=r"exists already. .*--resume.*--overwrite"):
        pretrain(nano, tmp_path / "run")
    pretrain(replace(nano, steps=5), tmp_path / "run", overwrite=True)
    assert read_state(resolve_checkpoint(tmp_path / "run")).step == 5


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_loads(recipe: Path) -> None:
    loaded = configuration.load(PretrainConfig, recipe, ["data=somewhere", "steps=1000"])
    written = tomllib.loads(configuration.to_toml(loaded))
    assert configuration.from_table(PretrainConfig, written, where="written") == loaded


def test_the_original_recipe_is_the_papers_and_googles() -> None:
    recipe = next(path for path in RECIPES if path.stem == "original")
    config = configuration.load(PretrainConfig, recipe, ["data=somewhere", "steps=1000000"])
    phases = [(p.max_seq_length, p.fraction, p.batch_size, p.max_predictions_per_seq) for p in config.phases]
    assert phases == [(128, 0.9, 256, 20), (512, 0.1, 256, 77)]
    assert config.google_instances is not None
    assert config.google_instances.dupe_factor == 10
    assert (config.masking.masked_lm_prob, config.masking.mask_token_prob) == (0.15, 0.8)
    assert (config.masking.random_token_prob, config.masking.whole_word) == (0.1, False)
    assert (config.pairs.short_seq_prob, config.pairs.next_sentence) == (0.1, True)
    encoder = config.model.encoder(vocab_size=30_522)
    assert (encoder.hidden_act, encoder.layer_norm_eps) == ("gelu_tanh", 1e-12)
    assert (encoder.hidden_dropout_prob, encoder.attention_probs_dropout_prob) == (0.1, 0.1)
    optimizer = config.optimizer
    assert (optimizer.learning_rate, optimizer.weight_decay, optimizer.epsilon) == (1e-4, 0.01, 1e-6)
    assert (optimizer.beta1, optimizer.beta2, optimizer.bias_correction) == (0.9, 0.999, False)
    assert (optimizer.warmup_fraction, optimizer.max_grad_norm, optimizer.muon) == (0.01, 1.0, None)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("steps=0", "positive"),
        ("budget_seconds=60", "either steps or a budget"),
        ("optimizer.max_grad_norm=nan", "max_grad_norm"),
        ("optimizer.muon.weight_decay=nan", "weight_decay"),
        ("model.size=huge", "is not a choice"),
        ("model.hidden_size=25", "multiple"),
        ("phases=[{max_seq_length=128, fraction=0.5}]", "add up to 1"),
        ("phases=[{max_seq_length=1024, fraction=1.0}]", "max_position_embeddings"),
        ("micro_batch_tokens=100", "micro_batch_tokens"),
        ("masking.masked_lm_prob=1.5", "masked_lm_prob"),
        ("masking.initial_masked_lm_prob=1.5", "initial_masked_lm_prob"),
        ("averaging.tail_fraction=2", "tail_fraction"),
        ("optimizer.muon.learning_rate=2", "learning_rate"),
        ("optimizer.learning_rat=1", "Did you mean optimizer.learning_rate"),
    ],
)
def test_wrong_settings_are_one_line(override: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        configuration.load(PretrainConfig, None, ["data=somewhere", "steps=10", override])


@pytest.mark.parametrize("seconds", ["inf", "nan", "0"])
def test_a_time_that_is_none_is_refused(seconds: str) -> None:
    with pytest.raises(InputError, match=r"budget_seconds .* is not positive and finite"):
        configuration.load(PretrainConfig, None, ["data=somewhere", f"budget_seconds={seconds}"])


def test_the_model_card_is_written_from_the_run(nano: PretrainConfig, tmp_path: Path) -> None:
    measured = pretrain(replace(nano, license="cc0-1.0"), tmp_path / "run")
    card = (resolve_checkpoint(tmp_path / "run") / "README.md").read_text("utf-8")
    settings = configuration.load(PretrainConfig, tmp_path / "run" / "run.toml")
    assert f"`{settings.data_sha256}`" in card
    assert f"| masked lm loss | {measured['masked_lm_loss']:.4f} |" in card
    assert card.startswith("---\nlicense: cc0-1.0\n")
    assert configuration.to_toml(settings).strip() in card
    assert [line for line in card.splitlines() if line.startswith("| 24 |")], (
        "the curve ends at the last step"
    )
