import functools
import json
import shutil

import pytest
import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from cloze.artifacts import write_directory
from cloze.errors import InputError, RunError
from cloze.model import checkpoint
from cloze.model.bert import BertConfig, BertModel
from cloze.model.checkpoint import load_config, load_labels, load_model, write_model_files
from cloze.model.heads import BertForPreTraining, BertForSequenceClassification
from cloze.model.hugging_face import load_hugging_face
from cloze.model.packed import pack_padded
from cloze.text.tokenizer import Tokenizer

WORDS = ["the", "capital", "of", "france", "is", "paris", ".", "##s", "a", "b", "##c"]
PIECES = ["[PAD]", *(f"[unused{i}]" for i in range(83)), "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


@pytest.fixture
def tokenizer():
    return Tokenizer.from_pieces(PIECES)


@pytest.fixture
def saved(pretraining_model, tokenizer, tmp_path):
    with write_directory(tmp_path / "model", kind=checkpoint.KIND) as directory:
        write_model_files(directory, pretraining_model, tokenizer)
    return tmp_path / "model"


@pytest.fixture
def foreign(saved):
    """The same without a manifest, as other tools leave it."""
    (saved / "manifest.json").unlink()
    return saved


def same_weights(ours, theirs):
    ours, theirs = ours.state_dict(), theirs.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def edit_config(directory, **changes):
    table = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(table | changes))


def edit_weights(directory, change):
    weights = load_file(directory / "model.safetensors")
    weights = {name: weight.clone() for name, weight in weights.items()}
    change(weights)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


def test_comes_back_bit_for_bit(saved, pretraining_model):
    model = load_model(saved, BertForPreTraining)
    assert same_weights(model, pretraining_model)
    assert model.config == pretraining_model.config
    assert not model.training
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_others_may_read_the_weights_as_they_may_the_rest(saved):
    modes = {(saved / name).stat().st_mode & 0o777 for name in ("config.json", "model.safetensors")}
    assert len(modes) == 1


def test_the_encoder_alone(saved, pretraining_model):
    assert same_weights(load_model(saved), pretraining_model.bert)


def test_an_encoder_is_saved_without_a_head(pretraining_model, tokenizer, tmp_path):
    write_model_files(tmp_path, pretraining_model.bert, tokenizer)
    assert same_weights(load_model(tmp_path), pretraining_model.bert)
    with pytest.raises(InputError, match=r"no weight cls\.predictions"):
        load_model(tmp_path, BertForPreTraining)


def test_a_classifier_keeps_its_labels(config, randomize, tokenizer, tmp_path):
    head = functools.partial(BertForSequenceClassification, num_labels=3)
    model = head(BertModel(config))
    randomize(model)
    write_model_files(tmp_path, model, tokenizer, labels=["no", "yes", "maybe"])
    assert load_labels(tmp_path) == ("no", "yes", "maybe")
    assert same_weights(load_model(tmp_path, head), model)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert theirs.config.id2label == {0: "no", 1: "yes", 2: "maybe"}
    with pytest.raises(
        InputError, match=r"classifier\.weight has shape \[3, 44\], the config says \[2, 44\]"
    ):
        load_model(tmp_path, functools.partial(BertForSequenceClassification, num_labels=2))


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_tanh"])
def test_transformers_loads_it_as_it_is(config, hidden_act, randomize, tokenizer, ragged, tmp_path):
    table = {name: getattr(config, name) for name in BertConfig.__dataclass_fields__}
    ours = BertForPreTraining(BertModel(BertConfig(**table | {"hidden_act": hidden_act}))).eval()
    randomize(ours)
    write_model_files(tmp_path, ours, tokenizer)
    assert load_config(tmp_path) == ours.config

    theirs, report = transformers.AutoModelForPreTraining.from_pretrained(tmp_path, output_loading_info=True)
    assert type(theirs) is transformers.BertForPreTraining
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    input_ids, mask, token_type_ids = ragged
    packed, padding = pack_padded(*ragged)
    with torch.no_grad():
        output = theirs(input_ids, attention_mask=mask.long(), token_type_ids=token_type_ids)
        logits = ours(packed, torch.arange(packed.num_tokens))
    unpacked = padding.unpack_tokens(logits.masked_lm_logits)
    torch.testing.assert_close(unpacked[mask], output.prediction_logits[mask], atol=1e-5, rtol=1e-5)
    next_sentence = padding.unpack_sequences(logits.next_sentence_logits)
    torch.testing.assert_close(next_sentence, output.seq_relationship_logits, atol=1e-5, rtol=1e-5)

    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "The capital of France is [MASK]."
    assert their_tokenizer(text)["input_ids"] == tokenizer.encode(text).input_ids
    assert their_tokenizer.model_max_length == config.max_position_embeddings


def test_reads_what_transformers_writes(config, ragged, tmp_path):
    their_config = transformers.BertConfig(
        **{name: getattr(config, name) for name in BertConfig.__dataclass_fields__}
    )
    theirs = transformers.BertForPreTraining(their_config).eval()
    theirs.save_pretrained(tmp_path)
    ours = load_model(tmp_path, BertForPreTraining)
    input_ids, mask, token_type_ids = ragged
    with torch.no_grad():
        expected = theirs.bert(input_ids, attention_mask=mask.long(), token_type_ids=token_type_ids)
        output = ours.bert(*ragged)
    torch.testing.assert_close(output.pooled_output, expected.pooler_output, atol=1e-5, rtol=1e-5)
    theirs.bert.half().save_pretrained(tmp_path / "bare")  # without the `bert.` prefix, in another dtype
    assert load_model(tmp_path / "bare").pooler.weight.dtype == torch.float32


def test_every_damaged_byte_is_found(saved):
    file = saved / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match="SHA-256"):
        load_model(saved)
    load_model(saved, verify=False)


def test_what_only_training_reads_does_not_keep_a_model_from_being_read(
    pretraining_model, tokenizer, tmp_path
):
    with write_directory(tmp_path / "model", kind=checkpoint.KIND) as directory:
        write_model_files(directory, pretraining_model, tokenizer)
        (directory / "training").mkdir()
        (directory / "training/optimizer.safetensors").write_bytes(b"averages")
        (directory / "README.md").write_text("# A card\n")
    (tmp_path / "model/training/optimizer.safetensors").write_bytes(b"damaged")
    (tmp_path / "model/README.md").write_text("# A card\nedited\n")
    load_model(tmp_path / "model")
    load_hugging_face(tmp_path / "model")


@pytest.mark.parametrize("keep", [0, 5, 1000, -1])
def test_truncated_weights_are_found_without_a_manifest(foreign, keep):
    file = foreign / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"model\.safetensors: cannot be read"):
        load_model(foreign)


def test_a_flipped_header_is_found_without_a_manifest(foreign):
    file = foreign / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[3] ^= 255
    file.write_bytes(data)
    with pytest.raises(InputError, match="cannot be read"):
        load_model(foreign)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 40}, "word_embeddings.weight has shape [103, 44], the config says [103, 40]"),
        ({"vocab_size": 104}, "word_embeddings.weight has shape [103, 44], the config says [104, 44]"),
        ({"num_hidden_layers": 4}, "no weight bert.encoder.layer.3.attention.self.query.weight, "),
        ({"num_hidden_layers": 2}, "unexpected weight bert.encoder.layer.2."),
        ({"num_attention_heads": 7}, "hidden_size = 44 is not a multiple of num_attention_heads = 7"),
        ({"hidden_size": "44"}, "hidden_size must be of type int"),
        ({"hidden_act": "relu"}, "hidden_act = 'relu' is not a choice"),
        ({"model_type": "roberta"}, "model_type 'roberta', cloze reads 'bert'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"vocab_size": 98}, "vocab.txt: 99 pieces, config.json says vocab_size = 98"),
    ],
)
def test_a_config_that_disagrees_is_found(foreign, changes, message):
    edit_config(foreign, **changes)
    with pytest.raises(InputError) as caught:
        load_model(foreign)
    assert message in str(caught.value)


def test_a_config_without_sizes_is_refused(foreign):
    (foreign / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(InputError, match=r"config\.json: vocab_size is missing"):
        load_model(foreign)


@pytest.mark.parametrize("text", ["{", "[]", "\ud800"])
def test_a_config_that_is_not_json_is_refused(foreign, text):
    (foreign / "config.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=r"config\.json: not a JSON"):
        load_model(foreign)


def test_missing_weights_are_named(foreign):
    edit_weights(foreign, lambda weights: weights.pop("bert.pooler.dense.bias"))
    with pytest.raises(InputError, match=r"no weight bert\.pooler\.dense\.bias"):
        load_model(foreign)


def test_unexpected_weights_are_named(foreign):
    edit_weights(foreign, lambda weights: weights.update({"classifier.weight": torch.zeros(2, 44)}))
    assert load_model(foreign)
    with pytest.raises(InputError, match=r"unexpected weight classifier\.weight: a BertForPreTraining"):
        load_model(foreign, BertForPreTraining)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_missing_files_are_named(foreign, name):
    (foreign / name).unlink()
    with pytest.raises(InputError, match=f"{name}: no such file"):
        load_model(foreign)


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_model(tmp_path / "nowhere")


def test_a_manifest_of_another_kind_is_refused(saved, tmp_path):
    with write_directory(tmp_path / "other", kind="dataset") as directory:
        for file in saved.iterdir():
            if file.name != "manifest.json":
                shutil.copy(file, directory)
    with pytest.raises(InputError, match="is a dataset, not a checkpoint"):
        load_model(tmp_path / "other")


def test_more_pieces_than_embeddings_are_not_written(pretraining_model, tmp_path):
    many = Tokenizer.from_pieces([*PIECES, *(f"w{i}" for i in range(5))])
    with pytest.raises(ValueError, match="104 pieces, the model has 103 embeddings"):
        write_model_files(tmp_path, pretraining_model, many)


def test_a_full_disk_leaves_nothing(pretraining_model, tokenizer, tmp_path, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint, "save_file", full)
    path = tmp_path / "model"
    with (
        pytest.raises(RunError, match="No space left"),
        write_directory(path, kind="checkpoint") as directory,
    ):
        write_model_files(directory, pretraining_model, tokenizer)
    assert list(tmp_path.iterdir()) == []
