"""The calculation of a run against runs that were published, and against itself."""

from dataclasses import replace

import pytest
import torch

import cloze
from cloze.models.heads import BertForPreTraining
from cloze.pretraining.config import PAPER_PHASES, PhaseConfig
from experiments.__main__ import main
from experiments.scale import Run, bottleneck, find_device, known_devices, num_parameters, plan
from helpers import assert_help_is_complete
from tiny_models import tiny_config

PAPER = Run(model=cloze.BertModel.sizes()["base"], phases=PAPER_PHASES, steps=1e6, words=3.3e9)
ROWS_OF_128 = (PhaseConfig(max_seq_length=128, fraction=1.0, batch_size=2048),)


def test_weights_are_counted_as_the_model_has_them():
    config = tiny_config(range(37), num_hidden_layers=3, num_attention_heads=2, max_position_embeddings=17)
    generator = torch.Generator().manual_seed(0)
    model = BertForPreTraining(cloze.BertModel(config, generator=generator), generator=generator)
    assert num_parameters(config) == sum(parameter.numel() for parameter in model.parameters())


def test_published_runs_are_foretold():
    # Devlin et al. 2019, A.2: four days, Base on 16 chips and Large on 64; the rate is that of Base
    chip = find_device("tpu-v2")
    assert plan(PAPER, chip, 16).hours / 96 == pytest.approx(1, abs=0.05)
    large = replace(PAPER, model=cloze.BertModel.sizes()["large"])
    assert 1 / 1.5 < plan(large, chip, 64).hours / 96 < 1.5
    # NVIDIA DeepLearningExamples, BERT-Large, sequences of 128 a second: 580 on one A100, 4,591 on eight
    run = replace(large, phases=ROWS_OF_128)
    for accelerators, published in ((1, 580), (8, 4591)):
        found = plan(run, find_device("a100"), accelerators)
        rate = 2048 / (found.compute_seconds + found.waiting_seconds)
        assert 1 / 1.5 < rate / published < 1.5


def test_more_devices_take_less_time_until_the_network_takes_it_all():
    assert all(device.source and device.teraflops_per_second > 1 for device in known_devices().values())
    device = find_device("v100")
    run = replace(PAPER, phases=(PhaseConfig(max_seq_length=128, fraction=1.0, batch_size=4096),))
    plans = [plan(run, device, count) for count in (1, 8, 64, 512, 4096)]
    hours = [found.hours for found in plans]
    assert hours == sorted(hours, reverse=True)
    assert hours[1] == pytest.approx(hours[0] / 8)
    assert plans[0].network_bytes == 0
    assert plans[-1].efficiency < 0.1 < plans[0].efficiency == 1
    assert "network" in bottleneck(plans[-1], cores_per_host=40)
    assert "computing" in bottleneck(plans[0], cores_per_host=40)
    assert "loader" in bottleneck(plans[0], cores_per_host=0)
    half = plan(run, device, 4096, reduce_dtype="bfloat16")
    assert half.network_bytes == plans[-1].network_bytes / 2
    with pytest.raises(cloze.InputError, match="4097 devices, and 4096 sequences per step"):
        plan(run, device, 4097)


def test_the_verb(capsys):
    assert main(["plan", "-m", "base", "--text", "3.3e9w", "--accelerators", "64", "--tflops", "400"]) == 0
    told = capsys.readouterr().out
    assert "400.0 TFLOP/s (given with --tflops)" in told
    assert "limited by" in told
    for flag, wrong in {
        "text": "much",
        "device": "abacus",
        "accelerators": "300",
        "steps": "nan",
        "network": "0",
    }.items():
        assert main(["plan", f"--{flag}", wrong]) == 2
        assert f"--{flag}: " in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["study"], ["plan"]], ids=" ".join)
def test_help_describes_every_flag(words, capsys):
    command = " ".join(["python -m experiments", *words])
    assert_help_is_complete(main, [*(words or ["table1"])], command, capsys)


def test_help_lists_the_commands(capsys):
    assert main(["--help"]) == 0
    assert "python -m experiments study" in capsys.readouterr().out
    assert main([]) == 2
