"""The bundled models: found by name, complete, small, and the same in transformers and sentence-transformers."""

import json
import shutil
from pathlib import Path

import pytest
import tokenizers
import torch

import cloze
from cloze import artifacts
from cloze.cli import main
from cloze.errors import InputError
from cloze.model_paths import find_model_directory
from cloze.reports.describe import describe

MODEL = find_model_directory("cloze-mini")
SENTENCES = find_model_directory("cloze-mini-sentences")
MAX_BYTES = 28_000_000
WEIGHTS = {MODEL: "model.safetensors", SENTENCES: "layers.safetensors"}


@pytest.mark.parametrize("model", WEIGHTS, ids=lambda model: model.name)
def test_files_are_complete_and_small_and_the_card_has_the_license(model):
    manifest = artifacts.verify(model, kind="checkpoint")
    assert {"config.json", WEIGHTS[model], "vocab.txt", "README.md"} <= set(manifest.files)
    files = [file for file in MODEL.parent.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < MAX_BYTES
    opening, head, _ = (model / "README.md").read_text().split("---\n", 2)
    assert opening == ""
    assert "license: cc-by-sa-3.0" in head.splitlines()


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.parametrize("model", WEIGHTS, ids=lambda model: model.name)
def test_other_programs_read_as_many_tokens_as_there_are_positions(model):
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")
    positions = transformers.AutoConfig.from_pretrained(model).max_position_embeddings
    assert transformers.AutoTokenizer.from_pretrained(model).model_max_length == positions == 512


def test_existing_paths_take_precedence_over_the_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_model_directory("cloze-mini").is_absolute()
    with pytest.raises(InputError, match="no such directory"):
        find_model_directory("cloze-mini/x")
    assert find_model_directory("./sub/cloze-mini") == Path("sub/cloze-mini")
    with pytest.raises(InputError, match=r"big: no such .*, or cloze-mini or cloze-mini-sentences\."):
        find_model_directory("big")
    assert find_model_directory("") == Path()
    (tmp_path / "cloze-mini").mkdir()
    assert find_model_directory("cloze-mini") == Path("cloze-mini")


@pytest.mark.slow
@pytest.mark.protected
def test_transformers_gives_the_same_probabilities():
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")
    theirs = transformers.AutoModelForPreTraining.from_pretrained(MODEL).eval()
    assert theirs.dtype == torch.float32  # config.json says so, though the file has bfloat16
    tokenizer = transformers.AutoTokenizer.from_pretrained(MODEL)
    question = "She closed the [MASK] behind her."
    inputs = tokenizer(question, return_tensors="pt")
    with torch.no_grad():
        logits = theirs(**inputs).prediction_logits[0]
    at = inputs["input_ids"][0].tolist().index(tokenizer.mask_token_id)
    expected = logits[at].softmax(-1)
    for candidate in cloze.FillMask.load("cloze-mini")(question)[0]:
        number = tokenizer.convert_tokens_to_ids(candidate.token)
        assert candidate.probability == pytest.approx(expected[number].item(), abs=1e-5)


def test_sentence_encoder_shares_the_first_weights_and_has_no_heads():
    base, own = cloze.load_encoder("cloze-mini"), cloze.load_encoder("cloze-mini-sentences")
    for (name, one), other in zip(base.named_parameters(), own.parameters(), strict=True):
        is_shared = name.startswith(("embeddings.", "layers.0.", "pooler."))
        assert torch.equal(one, other) == is_shared, name
    with pytest.raises(InputError, match="a model without the masked-word head"):
        cloze.FillMask.load("cloze-mini-sentences")


@pytest.mark.slow
@pytest.mark.protected
def test_sentence_transformers_gives_the_same_vectors():
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    texts = ["A man plays the guitar.", "Stocks fell on Monday after the bank raised its rates.", ""]
    expected = sentence_transformers.SentenceTransformer(str(SENTENCES), device="cpu").encode(texts)
    torch.testing.assert_close(cloze.Embedder.load(SENTENCES)(texts), expected, atol=1e-5, rtol=0)


def test_saved_sentence_encoder_is_whole(tmp_path):
    embedder = cloze.Embedder.load("cloze-mini-sentences")
    embedder.save(tmp_path / "copy")
    copy = cloze.Embedder.load(tmp_path / "copy")
    assert (copy("Snow fell.") == embedder("Snow fell.")).all()
    assert (tmp_path / "copy" / "model.safetensors").is_file()


@pytest.mark.slow
@pytest.mark.protected
@pytest.mark.parametrize("model", WEIGHTS, ids=lambda model: model.name)
def test_an_imported_copy_is_read_by_other_programs(model, tmp_path):
    transformers = pytest.importorskip("transformers", reason="needs the package transformers")
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
    cloze.import_model(model, output=tmp_path / "copy")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "copy" / "tokenizer.json"))
    bundled = transformers.AutoTokenizer.from_pretrained(model)
    assert json.loads(bundled.backend_tokenizer.to_str()) == json.loads(library.to_str())
    text = "Café-Crème, naïve [MASK] in Æsop's 中国 \u200b; 1,000 ﬁelds"
    ids = cloze.load_tokenizer(model).encode(text).input_ids
    assert library.encode(text).ids == bundled(text)["input_ids"] == ids
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "copy")(text)["input_ids"] == ids
    if model == SENTENCES:
        encoder = sentence_transformers.SentenceTransformer(str(tmp_path / "copy"), device="cpu")
        torch.testing.assert_close(cloze.Embedder.load(model)(text), encoder.encode(text), atol=1e-5, rtol=0)


@pytest.mark.protected
def test_damage_of_the_shared_file_is_found(tmp_path, monkeypatch):
    shutil.copytree(MODEL.parent, tmp_path / "models")
    monkeypatch.setattr("cloze.model_paths._BUNDLED_MODELS", tmp_path / "models")
    cloze.Embedder.load("cloze-mini-sentences")
    file = tmp_path / "models" / "cloze-mini" / "model.safetensors"
    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(InputError, match=r"cloze-mini/model\.safetensors: damaged"):
        cloze.Embedder.load("cloze-mini-sentences")
    with pytest.raises(InputError, match=r"cloze-mini/model\.safetensors: damaged"):
        describe("cloze-mini-sentences")


@pytest.mark.slow
@pytest.mark.protected
def test_a_copy_that_lacks_the_shared_weights_is_refused_with_a_way_out(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SENTENCES, "copy")
    with pytest.raises(InputError, match="write a whole one: cloze import NAME -o DIR"):
        cloze.Embedder.load("copy")
    with pytest.raises(InputError, match=r"shares weights .* cloze import cloze-mini-sentences -o DIR"):
        cloze.push(SENTENCES, "somebody/sentences")
    assert main(["import", "cloze-mini-sentences", "-o", "whole", "--quiet"]) == 0
    assert (cloze.Embedder.load("whole")("a") == cloze.Embedder.load(SENTENCES)("a")).all()
