"""Directories of transformers, new and old: every head, every form of weights, and files that must not be trusted."""

import json
import os
import pickle
import zipfile

import pytest
import torch
from safetensors.torch import load_file, save_file

from cloze.cli import main
from cloze.errors import InputError
from cloze.evidence.describe import describe
from cloze.inference.fill import FillMask
from cloze.inference.next_sentence import NextSentence
from cloze.model.checkpoint import load_model
from cloze.model.hugging_face import load_hugging_face
from cloze.model.packed import Packed
from cloze.model.sentence_transformers import (
    VectorSettings,
    read_sentence_transformer,
    write_sentence_transformer,
)
from cloze.text.pieces import SPECIAL_PIECES
from cloze.text.tokenizer import Tokenizer

transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 40,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 28,
    "max_position_embeddings": 32,
}
HEADS = {
    "BertForPreTraining": {},
    "BertForMaskedLM": {},
    "BertForNextSentencePrediction": {},
    "BertForSequenceClassification": {"num_labels": 3},
    "BertForTokenClassification": {"num_labels": 5},
    "BertForQuestionAnswering": {},
    "BertForMultipleChoice": {},
    "BertModel": {},
}


@pytest.fixture
def write(tmp_path):
    """Write a model of transformers and a vocabulary, and return the directory and the model."""

    def write(head="BertForPreTraining", **settings):
        torch.manual_seed(0)
        config = transformers.BertConfig(**SIZES, **HEADS[head], **settings)
        model = getattr(transformers, head)(config).eval()
        directory = tmp_path / "theirs"
        model.save_pretrained(directory)
        pieces = [*SPECIAL_PIECES, *(f"word{number}" for number in range(35))]
        (directory / "vocab.txt").write_text("\n".join(pieces) + "\n")
        return directory, model

    return write


def as_torch_file(directory, change=lambda weights: weights):
    weights = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    torch.save(change(weights), directory / "pytorch_model.bin")


@pytest.mark.parametrize("head", HEADS)
def test_every_head_comes_in_with_its_weights(write, tmp_path, head):
    directory, theirs = write(head)
    assert main(["import", str(directory), "-o", str(tmp_path / "ours"), "--quiet"]) == 0
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["architectures"] == [head]
    again = getattr(transformers, head).from_pretrained(tmp_path / "ours").eval()
    ids = torch.tensor([[2, 7, 9, 4, 3]])
    inputs = {"input_ids": ids[None] if head == "BertForMultipleChoice" else ids}
    with torch.inference_mode():
        expected, got = theirs(**inputs), again(**inputs)
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, atol=1e-6, rtol=0)


@pytest.mark.parametrize("head", ["BertForPreTraining", "BertForMaskedLM"])
def test_masks_are_filled_by_models_with_and_without_a_next_sentence_head(write, head):
    directory, theirs = write(head)
    [candidates] = FillMask.load(directory)("word1 [MASK] word3", top_k=3)
    with torch.inference_mode():
        output = theirs(torch.tensor([[2, 6, 4, 8, 3]]))
    logits = output.logits if head == "BertForMaskedLM" else output.prediction_logits
    expected = logits[0, 2].softmax(-1).topk(3)
    assert [candidate.probability for candidate in candidates] == pytest.approx(expected.values.tolist())


@pytest.mark.parametrize("head", ["BertForPreTraining", "BertForNextSentencePrediction"])
def test_next_sentence_with_and_without_a_masked_lm_head(write, head):
    directory, theirs = write(head)
    ours = NextSentence.load(directory)("word1", "word2 word3")
    with torch.inference_mode():
        ids, types = torch.tensor([[2, 6, 3, 7, 8, 3]]), torch.tensor([[0, 0, 0, 1, 1, 1]])
        output = theirs(ids, token_type_ids=types)
    logits = output.logits if head == "BertForNextSentencePrediction" else output.seq_relationship_logits
    assert ours == pytest.approx(logits.softmax(-1)[0, 0].item(), abs=1e-6)


def test_weights_in_several_files(write):
    directory, theirs = write()
    weights = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    names = sorted(weights)
    parts = {"model-00001-of-00002.safetensors": names[:9], "model-00002-of-00002.safetensors": names[9:]}
    for file, own in parts.items():
        save_file({name: weights[name] for name in own}, directory / file)
    index = {"weight_map": {name: file for file, own in parts.items() for name in own}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    assert describe(directory).facts["parameters"] == sum(weight.numel() for weight in theirs.parameters())
    ours = load_model(directory)
    packed = Packed.from_sequences([[2, 7, 9, 3]])
    with torch.inference_mode():
        expected = theirs.bert(torch.tensor([[2, 7, 9, 3]])).last_hidden_state[0]
        torch.testing.assert_close(ours.forward_packed(packed).sequence_output, expected, atol=1e-5, rtol=0)


def test_how_vectors_are_made_comes_in_with_a_model(write, tmp_path):
    directory, _ = write("BertModel")
    said = VectorSettings(
        pooling="cls",
        normalize=True,
        max_seq_length=17,
        prompts={"query": "word1 "},
        default_prompt_name="query",
        include_prompt=False,
    )
    write_sentence_transformer(directory, said, hidden_size=SIZES["hidden_size"])
    assert main(["import", str(directory), "-o", str(tmp_path / "ours"), "--quiet"]) == 0
    assert read_sentence_transformer(tmp_path / "ours") == said


def test_lower_case_before_a_tokenizer_that_keeps_it_is_refused(write, tmp_path):
    directory, _ = write("BertModel")
    said = VectorSettings(pooling="mean", normalize=False, max_seq_length=None)
    write_sentence_transformer(directory, said, hidden_size=SIZES["hidden_size"])
    file = directory / "sentence_bert_config.json"
    file.write_text('{"max_seq_length": 8, "do_lower_case": true}')
    assert read_sentence_transformer(directory).max_seq_length == 8  # the tokenizer lower-cases by itself
    (directory / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    with pytest.raises(InputError, match="lower-cases texts before a tokenizer that keeps their case"):
        read_sentence_transformer(directory)


def test_a_decoder_is_no_encoder(write):
    directory, _ = write("BertModel", is_decoder=True)
    with pytest.raises(InputError, match=r"config\.json: is_decoder: .*cloze reads encoders"):
        load_model(directory)


def test_old_files_with_old_names(write, tmp_path):
    directory, theirs = write("BertForMaskedLM")

    def age(weights):
        old = {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): w
            for name, w in weights.items()
        }
        embeddings = weights["bert.embeddings.word_embeddings.weight"]
        return old | {"cls.predictions.decoder.weight": embeddings.clone()}

    as_torch_file(directory, age)
    assert main(["import", str(directory), "-o", str(tmp_path / "ours"), "--quiet"]) == 0
    gain = theirs.bert.encoder.layer[1].output.LayerNorm.weight
    assert torch.equal(load_model(tmp_path / "ours").layers[1].output_layer_norm.weight, gain)


def test_a_bare_encoder_without_a_pooler_gets_one_that_is_said_to_be_new(write, tmp_path, capsys):
    directory, _ = write("BertModel")
    as_torch_file(directory, lambda w: {name: t for name, t in w.items() if not name.startswith("pooler.")})
    assert main(["import", str(directory), "-o", str(tmp_path / "ours")]) == 0
    assert "drawn at random: bert.pooler.dense.bias, bert.pooler.dense.weight" in capsys.readouterr().out
    assert load_model(tmp_path / "ours").pooler.weight.std() > 0.01


def test_a_model_that_has_only_a_torch_file_says_what_to_do(write, capsys):
    directory, _ = write()
    as_torch_file(directory)
    assert main(["fill", "-m", str(directory), "word1 [MASK]"]) == 2
    assert f"cloze import {directory} -o DIR" in capsys.readouterr().err


def test_the_tokenizer_is_the_models(write):
    directory, _ = write()
    Tokenizer.from_pieces(
        (directory / "vocab.txt").read_text().splitlines(), lowercase=False, model_max_length=512
    ).save(directory)
    (directory / "vocab.txt").unlink()
    tokenizer = load_hugging_face(directory).tokenizer
    assert (tokenizer.lowercase, tokenizer.model_max_length) == (False, 32)


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


def _pickled(directory):
    (directory / "pytorch_model.bin").write_bytes(pickle.dumps({"w": Payload(directory / "trap")}))


def _pickled_in_a_zip(directory):
    torch.save({"w": Payload(directory / "trap")}, directory / "pytorch_model.bin")


def _not_tensors(directory):
    torch.save({"w": [1, 2]}, directory / "pytorch_model.bin")


def _a_list(directory):
    torch.save([torch.zeros(2)], directory / "pytorch_model.bin")


def _cut_off(directory):
    data = (directory / "whole.bin").read_bytes()
    (directory / "pytorch_model.bin").write_bytes(data[: len(data) // 2])


def _compressed(directory):
    with (
        zipfile.ZipFile(directory / "whole.bin") as whole,
        zipfile.ZipFile(directory / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as bomb,
    ):
        for name in whole.namelist():
            bomb.writestr(name, whole.read(name))


def _untied(directory):
    weights = torch.load(directory / "whole.bin")
    name = "bert.embeddings.word_embeddings.weight"
    torch.save(
        weights | {"cls.predictions.decoder.weight": weights[name] + 1}, directory / "pytorch_model.bin"
    )


def _nan(directory):
    weights = torch.load(directory / "whole.bin")
    weights["bert.pooler.dense.bias"][0] = float("nan")
    torch.save(weights, directory / "pytorch_model.bin")


def _no_weights(directory):
    pass


HOSTILE = {
    "a payload": (_pickled, "cannot be read as tensors alone"),
    "a payload in a zip": (_pickled_in_a_zip, "cannot be read as tensors alone"),
    "lists": (_not_tensors, "something else than tensors"),
    "no names": (_a_list, "something else than tensors"),
    "cut off": (_cut_off, "cannot be read as tensors alone"),
    "compressed": (_compressed, "compressed, as torch"),
    "untied": (_untied, "differs from the word embeddings"),
    "NaN": (_nan, "pooler.dense.bias holds NaN"),
    "nothing": (_no_weights, "no weights here"),
}


@pytest.mark.parametrize(("make", "what"), HOSTILE.values(), ids=HOSTILE)
def test_nothing_of_a_torch_file_is_run(write, tmp_path, capsys, make, what):
    directory, _ = write()
    as_torch_file(directory)
    (directory / "pytorch_model.bin").rename(directory / "whole.bin")
    make(directory)
    capsys.readouterr()  # transformers has told of its writing
    assert main(["import", str(directory), "-o", str(tmp_path / "ours")]) == 2
    error = capsys.readouterr().err
    assert what in error
    assert error.count("\n") == 1
    assert not (directory / "trap").exists()
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    "name", ["../outside.safetensors", "/etc/passwd", "deeper/model.safetensors", "model.bin"]
)
def test_an_index_cannot_lead_out_of_the_directory(write, name):
    directory, _ = write()
    (directory / "model.safetensors").rename(directory.parent / "outside.safetensors")
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": name}}))
    with pytest.raises(InputError, match=r"no \.safetensors beside it"):
        load_model(directory)


@pytest.mark.parametrize("index", ["{", "[]", '{"weight_map": 3}', '{"weight_map": {"w": 3}}'])
def test_an_index_that_is_none_is_named(write, index):
    directory, _ = write()
    (directory / "model.safetensors").unlink()
    (directory / "model.safetensors.index.json").write_text(index)
    with pytest.raises(InputError, match=r"index\.json"):
        load_model(directory)


def test_a_weight_that_the_index_promises_is_missed(write):
    directory, _ = write()
    (directory / "model.safetensors").rename(directory / "one.safetensors")
    (directory / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"w": "one.safetensors"}})
    )
    with pytest.raises(InputError, match="the weight w is in none of its files"):
        load_model(directory)
