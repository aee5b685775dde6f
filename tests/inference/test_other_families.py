"""Models of other families than BERT, as transformers publishes them, in every use."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from fastapi.testclient import TestClient
from safetensors.torch import load_file, save_file

import cloze
from cloze.cli import main
from cloze.data.batch import collate
from cloze.data.reading.tagged_text import Sentence, TaggedText
from cloze.explorer.text_window import join_scores
from cloze.inference.explain import explain
from cloze.inference.predictor import Predictor
from cloze.inference.pretrained_heads import FillMask, NextSentence
from cloze.inference.pretrained_scores import evaluate_fill
from cloze.inference.text_predictors import QuestionAnswerer, TextClassifier, span_questions
from cloze.model_paths import resolve_checkpoint
from cloze.models.batch import to_device
from cloze.models.encoder import encoders
from cloze.serving.app import create_app
from cloze.serving.limits import Limits
from cloze.serving.served_model import ServedModel
from cloze.tasks.texts import LabeledText
from cloze.tokenization.loading import load_tokenizer
from encoder_families import FAMILIES, OTHERS, TEXTS, WORDS, published_config

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 28,
    "max_position_embeddings": 32,
    "initializer_range": 0.3,
}


def publish(model_type: str, directory: Path) -> tuple[Path, Any, Any]:
    """Write a masked-word model of transformers; return the directory, the model and its tokenizer."""
    torch.manual_seed(3)
    FAMILIES[model_type].tokenizer(directory).save_pretrained(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    config = published_config(model_type, tokenizer, **SIZES)
    model = transformers.AutoModelForMaskedLM.from_config(config).eval()
    model.save_pretrained(directory)
    return directory, model, tokenizer


@pytest.fixture(scope="module", params=OTHERS)
def published(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    return publish(request.param, tmp_path_factory.mktemp(request.param))


def fill_with_transformers(directory: Path, tokenizer: Any, text: str) -> Any:
    model = transformers.AutoModelForMaskedLM.from_pretrained(directory).eval()
    ids = tokenizer(text, return_tensors="pt").input_ids
    with torch.inference_mode():
        return model(ids).logits[ids == tokenizer.mask_token_id].softmax(-1)


@pytest.mark.protected
@pytest.mark.parametrize("model_type", FAMILIES)
@pytest.mark.parametrize("stored", ["copies alone", "two biases"])
def test_tied_weights_are_those_that_transformers_takes(stored, model_type, tmp_path):
    directory, _, tokenizer = publish(model_type, tmp_path)
    weights = load_file(directory / "model.safetensors")
    for copy, original in encoders()[model_type].names.copies.items():
        if stored == "copies alone":
            weights[copy] = weights.pop(original)
        elif copy.endswith(".bias"):
            weights[copy] = torch.randn(weights[original].shape)
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    text = f"it was a {tokenizer.mask_token} day."
    expected = fill_with_transformers(directory, tokenizer, text)
    probabilities = FillMask.load(directory, device="cpu").probabilities(text)
    np.testing.assert_allclose(probabilities, expected, atol=1e-5, rtol=0)
    assert main(["import", str(directory), "-o", str(tmp_path / "ours"), "--quiet"]) == 0
    ours = FillMask.load(tmp_path / "ours", device="cpu").probabilities(text)
    assert np.array_equal(ours, probabilities)
    wrapped = {f"module.{name}": weight for name, weight in weights.items()}
    save_file(wrapped, directory / "model.safetensors", metadata={"format": "pt"})
    assert np.array_equal(FillMask.load(directory, device="cpu").probabilities(text), probabilities)


@pytest.mark.protected
@pytest.mark.filterwarnings("ignore:.*no pooler")
def test_vectors_equal_transformers(published):
    directory, model, tokenizer = published
    batch = tokenizer(list(TEXTS), return_tensors="pt", padding=True)
    with torch.inference_mode():
        hidden = model.base_model(batch.input_ids, batch.attention_mask).last_hidden_state
    mask = batch.attention_mask[..., None]
    expected = (hidden * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(cloze.Embedder.load(directory, device="cpu")(TEXTS), expected, atol=1e-5)
    encoder, ours = cloze.load_encoder(directory, device="cpu"), load_tokenizer(directory)
    assert type(encoder).__name__ == type(model.base_model).__name__
    assert ours.encode(TEXTS[0]).input_ids == tokenizer(TEXTS[0]).input_ids


@pytest.mark.filterwarnings("ignore:.*no pooler")
def test_the_first_word_has_a_vector(published):
    [found] = cloze.Embedder.load(published[0], device="cpu").words(["good day film"])
    assert [word.text for word in found.words] == ["good", "day", "film"]


@pytest.mark.protected
@pytest.mark.filterwarnings("ignore:.*no pooler")
def test_attention_weights_equal_transformers(published):
    directory, model, tokenizer = published
    theirs = type(model).from_pretrained(directory, attn_implementation="eager").eval()
    with torch.inference_mode():
        expected = theirs(**tokenizer("a film.", return_tensors="pt"), output_attentions=True).attentions
    layers = cloze.attention("a film.", model=directory, device="cpu").layers
    weights = torch.stack([layer.weights for layer in layers])
    torch.testing.assert_close(weights, torch.cat(expected), atol=1e-5, rtol=0)


def test_next_sentence_is_one_clear_line(published, capsys):
    with pytest.raises(cloze.InputError, match="a model without the next-sentence head"):
        NextSentence.load(published[0])
    assert main(["next", "-m", str(published[0]), "a", "b"]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert "Give a pre-trained model that has it" in error


@pytest.mark.protected
@pytest.mark.filterwarnings("ignore:.*no pooler")
@pytest.mark.slow
def test_finetuned_evaluated_served_and_exported(published, tmp_path, capsys):
    directory, data, run = published[0], tmp_path / "data.tsv", tmp_path / "run"
    rows = [f"a {word} {what}\t{word in ('good', 'fine')}" for word in WORDS[1:5] for what in ("day", "film")]
    data.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    command = ["finetune", "classification", "-m", str(directory), "-d", str(data), "--dev", str(data)]
    flags = f"--epochs 60 --learning-rate 3e-3 --batch-size 4 --set device=cpu -o {run}"
    assert main([*command, *flags.split()]) == 0
    capsys.readouterr()
    assert main(["evaluate", "classification", "-m", str(run), "-d", str(data), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] >= 0.75

    ours = TextClassifier.load(run, device="cpu")
    [prediction] = ours(["a poor day"])
    served = ServedModel.load("tuned", run, device="cpu")
    assert {"predict", "embed"} <= set(served.abilities)
    assert not {"fill", "next-sentence"} & set(served.abilities)
    checkpoint = resolve_checkpoint(run)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(checkpoint).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    with torch.inference_mode():
        logits = theirs(tokenizer("a poor day", return_tensors="pt").input_ids).logits
    probabilities = dict(zip(theirs.config.id2label.values(), logits[0].softmax(-1).tolist(), strict=True))
    assert prediction.probabilities == pytest.approx(probabilities, abs=1e-5)

    assert main(["export", str(run), "-o", str(tmp_path / "graph"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outputs"] == ["logits"]


@pytest.mark.protected
def test_answers_and_tags_of_a_pair_have_the_template_of_the_tokenizer(published, tmp_path):
    directory, _, tokenizer = published
    sizes = {"num_labels": 3, "id2label": {0: "O", 1: "B-X", 2: "I-X"}}
    for name, settings in (("QuestionAnswering", {}), ("TokenClassification", sizes)):
        config = transformers.AutoConfig.from_pretrained(directory, **settings)
        torch.manual_seed(2)
        theirs = getattr(transformers, f"AutoModelFor{name}").from_config(config).eval()
        theirs.save_pretrained(tmp_path / name)
        tokenizer.save_pretrained(tmp_path / name)
        if name == "QuestionAnswering":
            answerer = QuestionAnswerer.load(tmp_path / name, device="cpu")
            features = answerer.features(*span_questions([("was it good", TEXTS[0])]))
            scores = join_scores(answerer.tokenizer, features, answerer.outputs(features))
            batch = tokenizer("was it good", TEXTS[0], return_tensors="pt", return_offsets_mapping=True)
            spans = [tuple(span) for span in batch.pop("offset_mapping")[0].tolist()]
            of_text = [place for place, text in enumerate(batch.sequence_ids()) if text == 1]
            with torch.inference_mode():
                expected = theirs(**batch)
            # cloze leaves out the space before a word, the library not always
            without_space = [
                (start + TEXTS[0][start:end].startswith(" "), end)
                for start, end in (spans[i] for i in of_text)
            ]
            assert scores["offsets"] == without_space
            assert scores["start_logits"] == pytest.approx(
                expected.start_logits[0, of_text].tolist(), abs=1e-5
            )
        else:
            tagger = Predictor.load(tmp_path / name, device="cpu")
            assert tagger.task.name == "tagging"
            words = TEXTS[0].removesuffix(".").split()
            [feature] = tagger.features(TaggedText((Sentence(tuple(words)),)))
            # every word is tokenized as after a space
            assert feature.input_ids.tolist() == tokenizer(" " + " ".join(words)).input_ids


def test_a_vocabulary_without_a_token_for_unknown_words(tmp_path):
    """As of bytes, which know every word."""
    tokenizer = FAMILIES["modernbert"].tokenizer(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = published_config("modernbert", tokenizer, **SIZES)
    transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        text = (tmp_path / name).read_text().replace("unk_token", "other").replace("[UNK]", "[other]")
        (tmp_path / name).write_text(text)
    ours = load_tokenizer(tmp_path)
    assert ours.unknown_id is None
    assert cloze.neighbors("film", model=tmp_path, device="cpu")
    (tmp_path / "answers.tsv").write_text("text\tanswer\nthe [MASK]\tfilm\n")
    fill_mask = FillMask.load(tmp_path, device="cpu")
    assert evaluate_fill(fill_mask, tmp_path / "answers.tsv").counts["examples"] == 1
    served = ServedModel.load("bytes", tmp_path, device="cpu")
    request = {"inputs": "the [MASK]", "parameters": {"targets": ["a"]}}
    with TestClient(create_app({"bytes": served}, Limits())) as client:
        assert [each["token_str"] for each in client.post("/fill", json=request).json()] == ["a"]


@pytest.mark.filterwarnings("ignore:.*no pooler")
def test_tokens_of_a_space_alone_are_explained(tmp_path):
    torch.manual_seed(3)
    tokenizer = FAMILIES["roberta"].tokenizer(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = published_config("roberta", tokenizer, **SIZES)
    transformers.AutoModelForSequenceClassification.from_config(config).save_pretrained(tmp_path)
    predictor, example = Predictor.load(tmp_path, device="cpu"), LabeledText("it  was", "a  film ")
    ((prediction,), _) = predictor.predict([example])
    found = explain(predictor, example, prediction)
    words = [(word.segment, word.start, word.end) for word in found.words]
    assert words == [
        ("A", 0, 2),
        ("A", 2, 3),
        ("A", 4, 7),
        ("B", 0, 1),
        ("B", 1, 2),
        ("B", 3, 7),
        ("B", 7, 8),
    ]
    assert all(word.attribution for word in found.words)
    encoding, mask_id = predictor.tokenizer.encode(example.text, example.pair), predictor.tokenizer.mask_id
    masked = zip(encoding.input_ids, encoding.sequence_ids, strict=True)
    ids = [token_id if sequence is None else mask_id for token_id, sequence in masked]
    with torch.inference_mode():
        (logits,) = predictor.module(to_device(collate([ids])))
    assert found.baseline_output == pytest.approx(
        logits.tolist()[predictor.task.answer.class_names.index(found.explained)]
    )
