"""Directories of transformers, new and old: every head, every form of weights, and files that must not be trusted."""

import argparse
import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from cloze.cli import main
from cloze.errors import InputError
from cloze.inference.pretrained_heads import NextSentence
from cloze.models.checkpoint import load_model
from cloze.models.external_weights import load_external_model
from cloze.models.heads import BertForPreTraining
from cloze.models.sentence_transformers import (
    SentenceEncoderConfig,
    load_sentence_encoder_config,
    save_sentence_encoder_config,
)
from cloze.tokenization.wordpiece import WordPieceTokenizer
from helpers import edit_json
from tiny_models import SIZES, numbered_tokens

transformers = pytest.importorskip("transformers")


@pytest.fixture
def write(tmp_path):
    """Write a model of transformers and a vocabulary, and return the directory and the model."""

    def write(head="BertForPreTraining", **settings):
        torch.manual_seed(0)
        config = transformers.BertConfig(**SIZES, **settings)
        model = getattr(transformers, head)(config).eval()
        directory = tmp_path / "theirs"
        model.save_pretrained(directory)
        (directory / "vocab.txt").write_text("\n".join(numbered_tokens(40)) + "\n")
        return directory, model

    return write


def as_torch_file(directory, change=lambda weights: weights):
    weights = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    torch.save(change(weights), directory / "pytorch_model.bin")


def renamed(directory, rename):
    weights = load_file(directory / "model.safetensors")
    save_file({rename(name): weight for name, weight in weights.items()}, directory / "model.safetensors")


@pytest.mark.parametrize("head", ["BertForPreTraining", "BertForNextSentencePrediction"])
def test_next_sentence_with_and_without_a_masked_lm_head(write, head):
    directory, theirs = write(head)
    ours = NextSentence.load(directory)("w1", "w2 w3")
    with torch.inference_mode():
        ids, types = torch.tensor([[2, 6, 3, 7, 8, 3]]), torch.tensor([[0, 0, 0, 1, 1, 1]])
        output = theirs(ids, token_type_ids=types)
    logits = output.logits if head == "BertForNextSentencePrediction" else output.seq_relationship_logits
    assert ours.probability == pytest.approx(logits.softmax(-1)[0, 0].item(), abs=1e-6)


def test_sentence_encoder_config_is_imported(write, tmp_path):
    directory, _ = write("BertModel")
    said = SentenceEncoderConfig(
        pooling="cls",
        normalize=True,
        max_seq_length=17,
        prompts={"query": "w1 "},
        default_prompt_name="query",
        include_prompt=False,
    )
    save_sentence_encoder_config(directory, said, hidden_size=SIZES["hidden_size"])
    assert main(["import", str(directory), "-o", str(tmp_path / "ours"), "--quiet"]) == 0
    assert load_sentence_encoder_config(tmp_path / "ours") == said


def test_lower_casing_before_a_cased_tokenizer_is_refused(write, tmp_path):
    directory, _ = write("BertModel")
    said = SentenceEncoderConfig(pooling="mean", normalize=False, max_seq_length=None)
    save_sentence_encoder_config(directory, said, hidden_size=SIZES["hidden_size"])
    file = directory / "sentence_bert_config.json"
    file.write_text('{"max_seq_length": 8, "do_lower_case": true}')
    assert load_sentence_encoder_config(directory).max_seq_length == 8  # the tokenizer lower-cases by itself
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    with pytest.raises(InputError, match="do_lower_case is true, but the tokenizer is cased"):
        load_sentence_encoder_config(directory)


@pytest.mark.parametrize(
    ("key", "value"),
    [("id2label", {"0": "a", "1": "b", "2": "c"}), ("quantization_config", {"quant_method": "fp8"})],
)
def test_settings_that_change_what_the_weights_mean_are_refused(write, key, value):
    directory, _ = write("BertForSequenceClassification")
    edit_json(directory / "config.json", key, to=value)
    with pytest.raises(InputError, match=f"{key} "):
        load_external_model(directory)


@pytest.mark.parametrize("missing", [("bias", "weight"), ("bias",)])
def test_missing_pooler_is_initialized_and_reported(write, tmp_path, capsys, missing):
    directory, theirs = write("BertModel")
    names = [f"pooler.dense.{part}" for part in missing]
    as_torch_file(directory, lambda w: {name: t for name, t in w.items() if name not in names})
    assert main(["import", str(directory), "-o", str(tmp_path / "ours")]) == 0
    report = ", ".join(f"bert.{name}" for name in names)
    assert f"initialized at random: {report}" in capsys.readouterr().out
    pooler = load_model(tmp_path / "ours").pooler
    assert pooler.weight.std() > 0.01
    assert not pooler.bias.any()
    assert torch.equal(pooler.weight, theirs.pooler.dense.weight) == ("weight" not in missing)


def test_torch_weights_with_old_names_beside_googles_config_are_imported(write, tmp_path, capsys):
    directory, theirs = write()
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for name, former in old.items():
        renamed(directory, lambda weight, name=name, former=former: weight.replace(name, former))
    as_torch_file(directory)
    assert main(["fill", "-m", str(directory), "w1 [MASK]"]) == 2
    assert f"cloze import {directory} -o DIR" in capsys.readouterr().err
    config = json.loads((directory / "config.json").read_text())
    del config["model_type"], config["architectures"]
    (directory / "bert_config.json").write_text(json.dumps(config))
    (directory / "config.json").unlink()
    assert main(["fill", "-m", str(directory), "w1 [MASK]"]) == 2
    assert f"Convert it: cloze import {directory} -o NEW." in capsys.readouterr().err
    assert main(["import", str(directory), "-o", str(tmp_path / "ours"), "--quiet"]) == 0
    ours = load_model(tmp_path / "ours", BertForPreTraining)
    assert torch.equal(ours.masked_lm.layer_norm.bias, theirs.cls.predictions.transform.LayerNorm.bias)
    assert torch.equal(ours.masked_lm.dense.weight, theirs.cls.predictions.transform.dense.weight)


@pytest.mark.parametrize("weights", ["tf_model.h5", "model.onnx", "adapter_model.safetensors"])
def test_a_directory_without_weights_that_cloze_reads_is_refused(write, weights, capsys):
    directory, _ = write()
    (directory / "model.safetensors").rename(directory / weights)
    capsys.readouterr()  # the progress bar of transformers
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


def test_tokenizer_json_alone_is_loaded(write):
    directory, _ = write()
    tokens = (directory / "vocab.txt").read_text().splitlines()
    WordPieceTokenizer.from_tokens(tokens, lowercase=False, model_max_length=512).save(directory)
    (directory / "vocab.txt").unlink()
    tokenizer = load_external_model(directory).tokenizer
    assert (tokenizer.lowercase, tokenizer.model_max_length) == (False, 32)


@pytest.mark.parametrize("head", ["BertForPreTraining", "BertModel"])
@pytest.mark.parametrize(
    ("prefix", "key"),
    [
        *((prefix, "safetensors") for prefix in ("module.", "_orig_mod.", "model.", "module._orig_mod.")),
        *(("model.", key) for key in (None, "state_dict", "model_state_dict", "model", "module")),
    ],
)
def test_prefix_of_a_wrapper_is_left_out(write, prefix, head, key, recwarn):
    directory, theirs = write(head)
    expected = getattr(theirs, "bert", theirs).encoder.layer[1].output.dense.weight
    messages = []
    if key == "safetensors":
        renamed(directory, lambda name: prefix + name)
    else:

        def wrap(weights):
            wrapped = {prefix + name: weight for name, weight in weights.items()}
            return wrapped if key is None else {"epoch": 3, key: wrapped, "optimizer_states": [{"step": 7}]}

        as_torch_file(directory, wrap)
        told = f"{directory}/pytorch_model.bin: has the weights in {key!r}; left out: 'epoch', 'optimizer_states'"
        messages = [told] * (key is not None)
    model = load_external_model(directory).model
    assert [str(warning.message) for warning in recwarn] == messages
    assert torch.equal(getattr(model, "bert", model).layers[1].output.weight, expected)


def test_prefix_of_the_encoder_alone_is_left_out(write):
    """`model.bert = torch.compile(model.bert)`."""
    directory, theirs = write()
    renamed(directory, lambda name: name.replace("bert.", "bert._orig_mod."))
    model = load_model(directory, BertForPreTraining)
    assert torch.equal(model.masked_lm.dense.weight, theirs.cls.predictions.transform.dense.weight)


WRONG_NAMES = {
    "a module of the user": (lambda name: f"net.0.{name}", "but has net.0.embeddings.LayerNorm.bias, "),
    "RoBERTa": (lambda name: f"roberta.{name}", "but has roberta.embeddings.LayerNorm.bias, "),
    "names without dots": (lambda name: name.replace(".", "_"), "but has embeddings_LayerNorm_bias, "),
    "long names": (lambda name: "x" * 5000 + name.replace(".", "_"), f"but has {'x' * 100}, {'x' * 100}, "),
}


@pytest.mark.parametrize(("rename", "message"), WRONG_NAMES.values(), ids=WRONG_NAMES)
def test_file_that_is_no_bert_names_some_of_its_weights(write, rename, message):
    directory, _ = write("BertModel")
    renamed(directory, rename)
    for load in (load_external_model, load_model):
        with pytest.raises(InputError, match=r"no weight bert\.embeddings\.word_embeddings\.w") as caught:
            load(directory)
        assert message in str(caught.value)
        assert "belong to different models" in str(caught.value)


def test_file_of_weights_is_imported_by_the_remedies(write, tmp_path):
    directory, theirs = write("BertForMaskedLM")
    with pytest.raises(InputError, match=r"is a file, .* with this file as model\.safetensors, config"):
        load_external_model(directory / "model.safetensors")
    state = {f"model.{name}": weight for name, weight in theirs.state_dict().items()}
    whole = {"state_dict": state, "hyper_parameters": argparse.Namespace(lr=1)}
    torch.save(whole, tmp_path / "last.ckpt")
    with pytest.raises(InputError, match=r"is a file, .* with this file as pytorch_model\.bin,"):
        load_external_model(tmp_path / "last.ckpt")
    (directory / "model.safetensors").unlink()
    shutil.copy(tmp_path / "last.ckpt", directory / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"more than tensors: save model\.state_dict\(\) alone"):
        load_external_model(directory)
    torch.save(state, directory / "pytorch_model.bin")
    weight = load_external_model(directory).model.masked_lm.dense.weight
    assert torch.equal(weight, theirs.cls.predictions.transform.dense.weight)
