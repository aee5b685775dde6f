"""Model directories of other programs: read, or refused by every verb."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import cloze
from cloze.cli import main
from cloze.models.heads import BertForPreTraining
from tiny_models import SPECIAL, tiny_config, write_checkpoint

TOKENS = (*SPECIAL, "it", "was", ".")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    head = BertForPreTraining(
        cloze.BertModel(tiny_config(TOKENS), generator=torch.Generator().manual_seed(2))
    )
    return write_checkpoint(tmp_path_factory.mktemp("other") / "model", head, TOKENS)


def test_pytorch_weights_beside_googles_config_are_imported(model, tmp_path, capsys):
    old = tmp_path / "old"
    old.mkdir()
    table = json.loads((model / "config.json").read_text())
    del table["model_type"], table["architectures"]
    (old / "bert_config.json").write_text(json.dumps(table))
    shutil.copyfile(model / "vocab.txt", old / "vocab.txt")
    weights = {}
    for name, weight in load_file(model / "model.safetensors").items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        weights[name] = weight
    torch.save(weights, old / "pytorch_model.bin")
    assert main(["fill", "-m", str(old), "it was [MASK]"]) == 2
    assert f"Convert it: cloze import {old} -o NEW." in capsys.readouterr().err
    assert main(["import", str(old), "-o", str(tmp_path / "new")]) == 0
    ours, imported = cloze.FillMask.load(model), cloze.FillMask.load(tmp_path / "new")
    assert imported("it was [MASK]") == ours("it was [MASK]")


@pytest.mark.parametrize("weights", ["tf_model.h5", "model.onnx", "adapter_model.safetensors"])
def test_a_directory_without_weights_that_cloze_reads_is_refused(model, tmp_path, weights, capsys):
    directory = shutil.copytree(model, tmp_path / "other")
    (directory / "model.safetensors").rename(directory / weights)
    (directory / "manifest.json").unlink()
    for command in (
        "fill -m {0} [MASK]",
        "embed -m {0} - -o {0}.npy",
        "serve -m {0}",
        "import {0} -o {0}.new",
    ):
        assert main(command.format(directory).split()) == 2
        line = capsys.readouterr().err
        assert line.startswith(f"error: {directory}")
        assert "cloze reads model.safetensors: " in line
        assert line.count("\n") == 1
