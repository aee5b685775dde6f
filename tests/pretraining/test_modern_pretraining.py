"""Pre-training of ModernBERT's encoder, by the name of a size."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import cloze
from cloze.cli import main
from cloze.config import read_toml
from cloze.inference.next_sentence import NextSentence
from cloze.model_paths import resolve_checkpoint
from cloze.models.checkpoint import load_model
from cloze.models.config_file import load_config
from cloze.models.modern_bert import MODERN_SIZES, ModernBertConfig, ModernBertModel
from cloze.pretraining.config import ModelConfig, PhaseConfig, PretrainConfig
from cloze.pretraining.run import pretrain, resume_pretraining
from cloze.training.muon import MuonConfig
from runs import assert_same_run


@pytest.fixture(scope="module")
def run(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run by the command line, with its own length and a window of 16 tokens."""
    run = tmp_path_factory.mktemp("modern") / "run"
    command = ["pretrain", "--data", str(dataset), "--model", "modern-tiny", "--steps", "3", "-o", str(run)]
    phases = "phases=[{max_seq_length=96, fraction=1.0, batch_size=4}]"
    settings = (phases, "model.local_attention=16", "evaluation.max_instances=8", "device=cpu")
    assert main([*command, *(word for setting in settings for word in ("--set", setting))]) == 0
    return run


def test_a_size_has_the_settings_of_its_encoder(run: Path) -> None:
    settings = read_toml(run / "run.toml")
    assert settings["model"]["max_position_embeddings"] == 8192
    assert settings["model"]["hidden_dropout_prob"] == 0
    assert settings["pairs"]["next_sentence"] is False
    config = load_config(resolve_checkpoint(run, "latest"))
    assert config == replace(MODERN_SIZES["modern-tiny"], vocab_size=config.vocab_size, local_attention=16)


def test_transformers_reads_a_checkpoint_without_a_left_over_weight(run: Path) -> None:
    directory = resolve_checkpoint(run, "latest")
    theirs, report = transformers.AutoModelForMaskedLM.from_pretrained(directory, output_loading_info=True)
    assert type(theirs).__name__ == "ModernBertForMaskedLM"
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    text = "The [MASK] of the house. " * 8
    batch = tokenizer(text, return_tensors="pt")
    place = batch.input_ids[0].tolist().index(tokenizer.mask_token_id)
    with torch.inference_mode():
        expected = theirs.eval()(batch.input_ids).logits[0, place].softmax(-1)
    probabilities = cloze.FillMask.load(run, device="cpu").probabilities(text)
    np.testing.assert_allclose(probabilities[0], expected, atol=1e-5, rtol=0)


def test_next_sentence_is_one_clear_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["next", "-m", str(run), "a", "b"]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "which is not pre-trained on pairs of sentences" in line


@pytest.mark.slow
def test_other_verbs_work(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lines.txt").write_text("The door was closed.\nHe came. " + "He went. " * 40 + "\n")
    assert main(["info", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)
    assert main(["embed", str(tmp_path / "lines.txt"), "-m", str(run), "-o", str(tmp_path / "v.npy")]) == 0
    assert main(["attention", "-m", str(run), "He came.", "-o", str(tmp_path / "a.html")]) == 0
    assert main(["import", str(resolve_checkpoint(run)), "-o", str(tmp_path / "imported")]) == 0
    assert main(["export", str(tmp_path / "imported"), "-o", str(tmp_path / "graph")]) == 0
    capsys.readouterr()
    text = "The door was closed by him, and so was the house."
    assert main(["attention", "-m", str(run), text, "-o", str(tmp_path / "b.html")]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert "the local layers of the model see 8 on each side" in line


@pytest.mark.parametrize("next_sentence", [False, True])
@pytest.mark.slow
def test_resume_is_bit_identical(nano: PretrainConfig, next_sentence: bool, tmp_path: Path) -> None:
    config = replace(
        nano,
        steps=6,
        model=ModelConfig(
            size="modern-tiny", hidden_size=32, num_attention_heads=2, intermediate_size=40, local_attention=8
        ),
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
        assert (
            0 < NextSentence.load(tmp_path / "resumed", device="cpu")("He came.", "He left.").probability < 1
        )


def test_pretraining_continues_from_a_published_encoder(
    nano: PretrainConfig, pretrained: Callable[..., Path], tmp_path: Path
) -> None:
    vocabulary = cloze.load_tokenizer(nano.data)
    config = transformers.ModernBertConfig(
        vocab_size=vocabulary.vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=40,
        max_position_embeddings=64,
        pad_token_id=0,
        global_attn_every_n_layers=2,
        global_rope_theta=5000.0,
    )
    transformers.ModernBertForMaskedLM(config).save_pretrained(tmp_path / "published")
    vocabulary.save(tmp_path / "published")
    pairs = replace(nano.pairs, next_sentence=False)
    model = load_model(
        resolve_checkpoint(pretrained(steps=2, init=str(tmp_path / "published"), pairs=pairs), "latest")
    )
    assert isinstance(model, ModernBertModel)
    assert isinstance(model.config, ModernBertConfig)
    assert (model.config.global_rope_theta, model.config.global_attn_every_n_layers) == (5000.0, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": "tiny", "local_attention": 8}, "local_attention is a setting of ModernBERT"),
        ({"size": "modern-tiny", "attends_to": "left"}, "ModernBERT attends to both sides"),
    ],
)
def test_settings_of_another_encoder_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.exhaustive
def test_texts_of_8192_tokens_are_trained_on(nano: PretrainConfig, tmp_path: Path) -> None:
    config = replace(
        nano,
        steps=2,
        micro_batch_tokens=8192,
        model=ModelConfig(size="modern-tiny", max_position_embeddings=8192),
        phases=(PhaseConfig(max_seq_length=8192, fraction=1.0, batch_size=2),),
        pairs=replace(nano.pairs, next_sentence=False, short_seq_prob=0.0),
    )
    assert pretrain(config, tmp_path / "run")["masked_lm_loss"] > 0
