"""Every encoder other than BERT, pre-trained from scratch by the name of a size, and used.

With them is the encoder of CONTRIBUTING.md, whose example is run.
"""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import cloze
from cloze.cli import main
from cloze.config import read_toml, to_dict, to_toml
from cloze.errors import InputError
from cloze.inference.pretrained_heads import NextSentence
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import load_model
from cloze.models.config_file import load_config
from cloze.models.encoder import ENCODERS, encoders
from cloze.pretraining.config import ModelConfig, PhaseConfig
from cloze.training.optimizer import MuonConfig
from encoder_families import FAMILIES, OTHERS, published_config
from runs import assert_same_run, pretrain, resume_pretraining

PHASES = "phases=[{max_seq_length=96, fraction=1.0, batch_size=4}]"
SETTINGS = (PHASES, "evaluation.max_instances=8", "device=cpu")
SMALL = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 40}
WINDOW = {"options": {"local_attention": 8}}


@pytest.fixture(scope="module", autouse=True)
def mean_mixer() -> Iterator[None]:
    encoders()
    section = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text().split("## Adding an encoder")[1]
    exec(re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0], {"__name__": "mean_mixer"})
    yield
    del ENCODERS["mean-mixer"]


def flags(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


@pytest.fixture(scope="module", params=[*OTHERS, "mean-mixer"])
def run(request: Any, dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp(request.param) / "run"
    size = f"{encoders()[request.param].size_prefix}tiny"
    options = ["model.options.local_attention=16"] if request.param == "modernbert" else []
    command = ["pretrain", "--data", str(dataset), "--model", size, "--steps", "3"]
    assert main([*command, *flags(*SETTINGS, *options), "--dry-run"]) == 0
    assert main([*command, *flags(*SETTINGS, *options), "-o", str(run)]) == 0
    return run


def test_a_size_has_the_settings_of_its_encoder(run):
    settings, config = read_toml(run / "run.toml"), load_config(resolve_checkpoint(run, "latest"))
    encoder_class = encoders()[run.parent.name.rstrip("0123456789")]
    size = encoder_class.sizes()[settings["model"]["size"]]
    assert settings["pairs"]["next_sentence"] is encoder_class.trains_on_pairs
    for name in ("hidden_dropout_prob", "max_position_embeddings"):
        assert settings["model"][name] == getattr(size, name)
    size = replace(size, **settings["model"].get("options", {}))
    assert config == replace(size, vocab_size=config.vocab_size).with_padding(0)


@pytest.mark.protected
def test_transformers_reads_a_checkpoint_without_a_left_over_weight(run):
    directory = resolve_checkpoint(run, "latest")
    model_type = json.loads((directory / "config.json").read_text())["model_type"]
    if model_type not in FAMILIES:
        return
    theirs, report = transformers.AutoModelForMaskedLM.from_pretrained(directory, output_loading_info=True)
    assert type(theirs).__name__ == f"{FAMILIES[model_type].classes}ForMaskedLM"
    assert not report["missing_keys"]
    assert all(".pooler." in key for key in report["unexpected_keys"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    for role, name in {"bos": "cls", "eos": "sep"}.items():
        expected_id = getattr(theirs.config, f"{role}_token_id", None)
        assert expected_id in (None, getattr(tokenizer, f"{name}_token_id"))
    text = "The [MASK] of the 学 house. " * 8
    batch = tokenizer(text, return_tensors="pt")
    places = (batch.input_ids[0] == tokenizer.mask_token_id).nonzero().flatten()
    with torch.inference_mode():
        expected = theirs.eval()(batch.input_ids).logits[0, places].softmax(-1)
    probabilities = cloze.FillMask.load(run, device="cpu").probabilities(text)
    np.testing.assert_allclose(probabilities, expected, atol=1e-5, rtol=0)


def test_evaluate_scores_the_heads_of_the_model(run, dataset):
    masked = cloze.evaluate("mlm", model=run, data=dataset, settings={"max_seq_length": 32})
    trains_on_pairs = encoders()[run.parent.name.rstrip("0123456789")].trains_on_pairs
    assert (masked.counts["pairs"] > 0) == trains_on_pairs
    if trains_on_pairs:
        scores = cloze.evaluate("nsp", model=run, data=dataset, settings={"max_seq_length": 32}).scores
        assert 0 <= scores["next_sentence_accuracy"] <= 1
    else:
        with pytest.raises(InputError, match=r"has no next-sentence head\. .*cloze evaluate mlm"):
            cloze.evaluate("nsp", model=run, data=dataset)


@pytest.mark.slow
def test_other_verbs_work(run, tmp_path, capsys):
    rows = [f"{word} day\t{label}" for word in ("good", "fine", "bad", "poor") for label in ("yes", "no")]
    data = tmp_path / "data.tsv"
    data.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    (tmp_path / "lines.txt").write_text("The door was closed.\nHe came. " + "He went. " * 40 + "\n")
    command = ["finetune", "classification", "-m", str(run), "-d", str(data), "--dev", str(data)]
    assert main([*command, "--epochs", "1", "-o", str(tmp_path / "tuned"), *flags("device=cpu")]) == 0
    assert main(["export", str(tmp_path / "tuned"), "-o", str(tmp_path / "graph")]) == 0
    assert main(["info", str(run), "--json"]) == 0
    assert main(["embed", str(tmp_path / "lines.txt"), "-m", str(run), "-o", str(tmp_path / "v.npy")]) == 0
    assert main(["import", str(resolve_checkpoint(run)), "-o", str(tmp_path / "imported")]) == 0
    assert main(["export", str(tmp_path / "imported"), "-o", str(tmp_path / "graph of words")]) == 0
    capsys.readouterr()
    encoder = load_model(resolve_checkpoint(run))
    if hasattr(encoder.layers[0], "project_qkv"):
        has_bias = encoder.attention_bias(1) is not None  # which the page does not show
        command = ["attention", "-m", str(run), "He came.", "-o", str(tmp_path / "a.html")]
        assert main(command) == 2 * has_bias
    if encoder.half_window is not None:
        text = "The door was closed by him, and so was the house."
        assert main(["attention", "-m", str(run), text, "-o", str(tmp_path / "b.html")]) == 2
        line = capsys.readouterr().err.splitlines()[-1]
        assert "the local layers of the model see 8 on each side" in line


@pytest.mark.parametrize(
    ("size", "options", "next_sentence"),
    [
        ("modern-tiny", WINDOW, False),
        ("modern-tiny", WINDOW, True),
        ("mpnet-tiny", {}, False),
        ("mean-mixer-tiny", {}, True),
    ],
)
@pytest.mark.slow
def test_resume_is_bit_identical(nano, size, options, next_sentence, tmp_path):
    config = replace(
        nano,
        steps=6,
        model=ModelConfig(size=size, **SMALL, **options),
        pairs=replace(nano.pairs, next_sentence=next_sentence),
        optimizer=replace(nano.optimizer, muon=MuonConfig()),
        checkpoints=replace(nano.checkpoints, every_steps=3, keep_every_steps=3),
    )
    pretrain(config, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed", symlinks=True)
    shutil.rmtree(tmp_path / "resumed" / "checkpoints" / "step-00000006")
    resume_pretraining(tmp_path / "resumed")
    assert_same_run(tmp_path / "whole", tmp_path / "resumed")
    if next_sentence:
        predict = NextSentence.load(tmp_path / "resumed", device="cpu")
        assert 0 < predict("He came.", "He left.").probability < 1


@pytest.mark.parametrize("model_type", OTHERS)
def test_pretraining_continues_from_a_published_encoder(model_type, nano, tmp_path):
    directory = tmp_path / "published"
    directory.mkdir()
    cloze.load_tokenizer(nano.data).save(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    config = published_config(
        model_type, tokenizer, **SMALL, num_hidden_layers=2, max_position_embeddings=64, layer_norm_eps=1e-12
    )
    transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(directory)
    run = tmp_path / "run"
    recipe = tmp_path / "nano.toml"
    settings = {name: value for name, value in to_dict(nano).items() if name not in ("model", "pairs")}
    recipe.write_text(to_toml(settings))
    cloze.pretrain(data=nano.data, output=run, init=directory, config=recipe, steps=2)
    assert load_config(resolve_checkpoint(run, "latest")) == load_config(directory)
    shutil.rmtree(run / "checkpoints" / "step-00000002")
    resume_pretraining(run)


@pytest.mark.exhaustive
def test_texts_of_8192_tokens_are_trained_on(nano, tmp_path):
    config = replace(
        nano,
        steps=2,
        micro_batch_tokens=8192,
        model=ModelConfig(size="modern-tiny", max_position_embeddings=8192),
        phases=(PhaseConfig(max_seq_length=8192, fraction=1.0, batch_size=2),),
        pairs=replace(nano.pairs, next_sentence=False, short_seq_prob=0.0),
    )
    assert pretrain(config, tmp_path / "run")["masked_lm_loss"] > 0
