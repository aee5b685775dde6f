"""Directories of other programs: read, or named for what they are, with the way on, by every verb and in Python."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import cloze
from cloze.cli import main
from cloze.models.bert import BertModel
from cloze.models.heads import BertForPreTraining
from tiny_models import SPECIAL, tiny_config, write_checkpoint

TOKENS = (*SPECIAL, "it", "was", ".")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    head = BertForPreTraining(BertModel(tiny_config(TOKENS), generator=torch.Generator().manual_seed(2)))
    return write_checkpoint(tmp_path_factory.mktemp("other") / "model", head, TOKENS)


def test_pytorch_weights_beside_googles_config_are_imported(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    table = json.loads((model / "config.json").read_text())
    del table["model_type"], table["architectures"]
    (old / "bert_config.json").write_text(json.dumps(table))
    shutil.copyfile(model / "vocab.txt", old / "vocab.txt")
    weights = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): weight
        for name, weight in load_file(model / "model.safetensors").items()
    }
    torch.save(weights, old / "pytorch_model.bin")
    assert main(["fill", "-m", str(old), "it was [MASK]"]) == 2
    remedy = f"Convert it: cloze import {old} -o NEW."
    assert remedy in capsys.readouterr().err
    assert main(["import", str(old), "-o", str(tmp_path / "new")]) == 0
    ours, imported = cloze.FillMask.load(model), cloze.FillMask.load(tmp_path / "new")
    assert imported("it was [MASK]") == ours("it was [MASK]")


ADAPTER = {"base_model_name_or_path": "bert-base-uncased", "task_type": "SEQ_CLS"}
DIRECTORIES: Mapping[str, tuple[Mapping[str, str], str, str]] = {
    "adapter": (
        {"adapter_config.json": json.dumps(ADAPTER), "adapter_model.safetensors": ""},
        "an adapter for bert-base-uncased, without the model",
        "AutoPeftModelForSequenceClassification.from_pretrained(DIR, num_labels=N)",
    ),
    "trainer": (
        {"checkpoint-500/config.json": "{}", "checkpoint-1000/config.json": "{}", "vocab.txt": "a"},
        "the output of a Trainer with 2 checkpoints",
        "/checkpoint-1000.",
    ),
    "state": (
        {"optimizer.pt": "", "config.json": "{}"},
        "a checkpoint of a Trainer",
        "trainer.save_model(NEW)",
    ),
    "keras": ({"config.json": "{}", "model.weights.h5": ""}, "a model of Keras", "save its encoder"),
    "tensorflow": (
        {"config.json": '{"architectures": ["BertForTokenClassification"]}', "tf_model.h5": ""},
        "a TensorFlow model",
        "BertForTokenClassification.from_pretrained(DIR, from_tf=True).save_pretrained(DIR)",
    ),
    "several files": (
        {"config.json": "{}", "pytorch_model-00001-of-00002.bin": "", "pytorch_model.bin.index.json": "{}"},
        "a PyTorch model in several files",
        "AutoModel.from_pretrained(DIR).save_pretrained(DIR)",
    ),
    "saved model": ({"saved_model.pb": "", "keras_metadata.pb": ""}, "a model of Keras", "save its encoder"),
    "flax": ({"config.json": "{}", "flax_model.msgpack": ""}, "a Flax model", "from_flax=True"),
    "flair": (
        {"final-model.pt": "", "training.log": ""},
        "a model of flair",
        "tagger.embeddings.model.save_pretrained",
    ),
    "spacy": ({"config.cfg": "", "meta.json": "{}"}, "a pipeline of spaCy", "Give the transformers model"),
    "llama.cpp": ({"model.gguf": ""}, "a model of llama.cpp", "Give the model that it was converted from"),
    "fairseq": ({"model.pt": "", "dict.txt": ""}, "a model of fairseq", "convert_roberta_original"),
    "lightning": ({"epoch=3.ckpt": ""}, "a checkpoint of Lightning", "model.save_pretrained(NEW)"),
    "deepspeed": (
        {"zero_to_fp32.py": "", "latest": ""},
        "a checkpoint of DeepSpeed",
        "python zero_to_fp32.py",
    ),
    "graph": ({"config.json": "{}", "model.onnx": ""}, "an ONNX graph", "or a graph of cloze export"),
    "packed": (
        {"vocab.txt": "a", "weights.tar.gz": ""},
        "a packed model",
        "Unpack weights.tar.gz into the directory",
    ),
}


@pytest.mark.parametrize("name", DIRECTORIES)
def test_directories_without_weights_are_named_with_the_way_on(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, what, remedy = DIRECTORIES[name]
    directory = tmp_path / "model"
    for file, text in files.items():
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_text(text)
    for command in ("predict -m {0} -", "embed -m {0} - -o {0}.npy", "serve -m {0}", "import {0} -o {0}.new"):
        assert main(command.format(directory).split()) == 2
        line = capsys.readouterr().err.strip()
        assert line.startswith(f"error: {directory}: {what}")
        assert remedy in line
    with pytest.raises(cloze.InputError, match=what.partition("(")[0]):
        cloze.Embedder.load(directory)


def test_weights_beside_files_of_other_programs_are_read(model: Path, tmp_path: Path) -> None:
    both = shutil.copytree(model, tmp_path / "both")
    for name in ("tf_model.h5", "training_args.bin", "checkpoint-5"):
        (both / name).touch()
    assert cloze.Embedder.load(both)("it was").shape == (12,)


def test_a_setfit_model_is_a_sentence_encoder_without_a_classifier(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    setfit = shutil.copytree(model, tmp_path / "setfit")
    (setfit / "model_head.pkl").write_bytes(b"\x80\x04K\x01.")
    assert main(["predict", "-m", str(setfit), "-"]) == 2
    line = capsys.readouterr().err
    assert (
        "a sentence encoder of SetFit, whose classifier model_head.pkl is a pickle that cloze does not run"
        in line
    )
    assert f"cloze finetune classification -m {setfit}; cloze embed reads the encoder" in line
    assert cloze.Embedder.load(setfit)("it was").shape == (12,)
