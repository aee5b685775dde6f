"""Every key that the installed sentence-transformers and transformers write is applied, kept, or refused by name."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cloze
from cloze.errors import InputError
from cloze.inference.embedder import Embedder
from cloze.models.bert import BertModel
from cloze.models.sentence_transformers import load_sentence_encoder_config
from helpers import edit_json
from tiny_models import SPECIAL, tiny_config, write_checkpoint

pytestmark = pytest.mark.slow

PIECES = (*SPECIAL, *"abcdefghij", *(f"##{letter}" for letter in "abcdefghij"))
TEXTS = ["a b c", "d ef", "g " * 40]
KEYS = {
    "config_sentence_transformers.json": {
        "applied": {"prompts", "default_prompt_name", "truncate_dim", "model_type"},
        "kept": {"similarity_fn_name"},
        "of the program": {"__version__"},
    },
    "modules.json": {"applied": {"idx", "name", "path", "type"}},
    "sentence_bert_config.json": {"applied": {"transformer_task", "modality_config", "module_output_name"}},
    "1_Pooling/config.json": {
        "applied": {"pooling_mode", "include_prompt"},
        "rewritten": {"embedding_dimension"},  # the width of the model
    },
    "2_Normalize/config.json": {"one value": {"module_input_name", "module_output_name"}},
    "config.json": {
        "applied": {
            *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
            *("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings"),
            *("type_vocab_size", "initializer_range", "layer_norm_eps", "model_type", "is_decoder"),
        },
        "rewritten": {"architectures", "dtype", "pad_token_id"},
        "no meaning in an encoder": {
            *("add_cross_attention", "bos_token_id", "eos_token_id", "use_cache", "tie_word_embeddings"),
            "classifier_dropout",
        },
        "of the program": {"transformers_version"},
    },
    "tokenizer_config.json": {
        "applied": {"do_lower_case", "strip_accents", "tokenize_chinese_chars", "model_max_length"},
        "rewritten": {*("tokenizer_class", "pad_token", "unk_token", "cls_token", "sep_token", "mask_token")},
        "of the program": {"backend", "is_local", "local_files_only"},
    },
}
"""The treatment of each key of each file."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A directory that the installed sentence-transformers wrote, and its model."""
    sentence_transformers = pytest.importorskip("sentence_transformers", minversion="6")
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    folder = tmp_path_factory.mktemp("sentence-transformers")
    encoder = write_checkpoint(folder / "encoder", BertModel(tiny_config(PIECES)), PIECES)
    model = sentence_transformers.SentenceTransformer(
        modules=[Transformer(str(encoder), max_seq_length=16), Pooling(12, "mean"), Normalize()],
        prompts={"query": "a b ", "passage": "c "},
        default_prompt_name="query",
        truncate_dim=5,
        similarity_fn_name="dot",
        device="cpu",
    )
    model.save(str(folder / "saved"))
    return folder / "saved", model


@pytest.fixture
def copy(saved: tuple[Path, Any], tmp_path: Path) -> Path:
    """The directory, which may be changed."""
    return Path(shutil.copytree(saved[0], tmp_path / "copy"))


@pytest.mark.protected
def test_every_key_is_accounted_for(saved):
    directory, _ = saved
    files = {str(file.relative_to(directory)) for file in directory.rglob("*.json")} - {"tokenizer.json"}
    assert files == set(KEYS)
    for file, kinds in KEYS.items():
        content = json.loads((directory / file).read_text())
        keys = set().union(*content) if isinstance(content, list) else set(content)
        assert keys == set().union(*kinds.values()), file


def test_settings_are_applied_and_survive_import(saved, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    directory, model = saved
    expected = model.encode(TEXTS)
    assert expected.shape == (3, 5)
    cloze.import_model(directory, output=tmp_path / "imported")
    Embedder.load(directory, device="cpu").save(tmp_path / "resaved")
    for path in (directory, tmp_path / "imported", tmp_path / "resaved"):
        embedder = Embedder.load(path, device="cpu")
        assert embedder.width == 5
        np.testing.assert_allclose(embedder(TEXTS), expected, atol=1e-6)
        theirs = sentence_transformers.SentenceTransformer(str(path), device="cpu")
        np.testing.assert_allclose(theirs.encode(TEXTS), expected, atol=1e-6)
        assert theirs.similarity_fn_name == "dot"
        assert embedder.words(TEXTS)[0].vectors.shape == (3, 12)


@pytest.mark.parametrize(
    ("file", "entries", "message"),
    [
        ("config_sentence_transformers.json", {"truncate_dim": 0}, "truncate_dim 0 is not a positive number"),
        ("config_sentence_transformers.json", {"truncate_dim": True}, "truncate_dim True"),
        (
            "config_sentence_transformers.json",
            {"model_type": "SparseEncoder"},
            'model_type is "SparseEncoder"',
        ),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, 'transformer_task is "fill-mask"'),
        ("sentence_bert_config.json", {"module_output_name": "scores"}, 'module_output_name is "scores"'),
        ("sentence_bert_config.json", {"modality_config": {"image": {}}}, "modality_config"),
        (
            "sentence_bert_config.json",
            {"processing_kwargs": {"text": {"add_special_tokens": False}}},
            "processing",
        ),
        ("sentence_bert_config.json", {"document_length": 4}, "document_length is 4: cloze reads null"),
        ("sentence_bert_config.json", {"tokenizer_args": {"do_lower_case": False}}, "tokenizer_args"),
        ("2_Normalize/config.json", {"module_input_name": "token_embeddings"}, "module_input_name"),
    ],
)
@pytest.mark.protected
def test_unsupported_values_are_refused_by_name(copy, file, entries, message):
    for key, value in entries.items():
        edit_json(copy / file, key, to=value)
    with pytest.raises(InputError, match=message):
        load_sentence_encoder_config(copy)


def test_the_length_in_a_file_of_another_family_is_applied(copy):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    (copy / "sentence_bert_config.json").unlink()
    (copy / "sentence_roberta_config.json").write_text('{"max_seq_length": 4}')
    expected = sentence_transformers.SentenceTransformer(str(copy), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(Embedder.load(copy, device="cpu")(TEXTS), expected, atol=1e-6)


def test_other_orders_of_modules_are_refused(copy):
    modules = json.loads((copy / "modules.json").read_text())
    (copy / "modules.json").write_text(json.dumps([modules[0], modules[2], modules[1]]))
    with pytest.raises(InputError, match="the modules Transformer, Normalize, Pooling: cloze reads"):
        load_sentence_encoder_config(copy)
    modules[0]["path"] = "0_Transformer"
    (copy / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match="Normalize: cloze reads Transformer with the path ''"):
        load_sentence_encoder_config(copy)
    modules[0]["path"], modules[1]["kwargs"] = "", ["task"]
    (copy / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match="with kwargs: cloze reads"):
        load_sentence_encoder_config(copy)
