"""The answers of every verb are those of the Python class that has the same model."""

import base64
import json
import shutil
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from clients import client_of
from kinds_of_models import write_model

import cloze
from cloze.models.bert import BertModel
from cloze.models.checkpoint import save_model
from cloze.models.heads import BertForTokenClassification
from cloze.serving.limits import Limits
from cloze.serving.served_model import EmbeddingInput, ServedModel
from cloze.tokenization.loading import load_tokenizer
from encoder_families import FAMILIES, make_encoder
from tiny_models import tiny_config

LONG = "a b c d e. " * 60
TEXTS = ["a b c", "\U0001f642 ab, e"]


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_heads_of_pre_training_answer_as_in_python(client, directories):
    bert, masked = directories["bert"], ["a [MASK] c", "[MASK][MASK]."]
    for texts, candidates in zip(
        client.ask("/fill", inputs=masked), cloze.FillMask.load(bert)(masked), strict=True
    ):
        for mine, theirs in zip(texts, candidates, strict=True):
            assert [each["token"] for each in mine] == [each.token for each in theirs]
            close([each["probability"] for each in mine], [each.probability for each in theirs])
    scores = cloze.SentenceScorer.load(bert)(TEXTS)
    close([each["score"] for each in client.ask("/likelihood", inputs=TEXTS)], [s.score for s in scores])
    follows = cloze.NextSentence.load(bert)(*TEXTS)
    close(client.ask("/next-sentence", inputs=TEXTS), [follows.probability])
    vectors = cloze.Embedder.load(bert, normalize=True)(TEXTS)
    close(client.ask("/embed", inputs=TEXTS), vectors)
    inputs = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
    close(client.ask("/similarity", inputs=inputs), [vectors[0] @ vectors[1]])


def test_fine_tuned_heads_answer_as_in_python(client, directories):
    labels = client.ask("/predict", inputs="a b")
    classified = cloze.TextClassifier.load(directories["classifier"])("a b")
    assert {each["label"]: each["score"] for each in labels} == pytest.approx(classified.probabilities)
    ranked = cloze.TextRanker.load(directories["ranker"])("a?", [*TEXTS, LONG])
    found = client.ask("/rerank", query="a?", texts=[*TEXTS, LONG])
    assert [each["index"] for each in found] == [each.index for each in ranked]
    close([each["score"] for each in found], [each.score for each in ranked])
    entities = cloze.EntityTagger.load(directories["tagger"])([LONG, *TEXTS])
    rows = [
        [asdict(each) | {"probability": pytest.approx(each.probability, abs=1e-6)} for each in its]
        for its in entities
    ]
    assert client.ask("/tag", inputs=[LONG, *TEXTS]) == rows
    expected = cloze.QuestionAnswerer.load(directories["squad"])("a?", LONG)
    (answered,) = client.ask("/answer", inputs={"question": "a?", "context": LONG})
    assert (answered["answer"], answered["null_threshold"]) == (expected.text, -0.25)
    close(answered["null_odds"], expected.null_odds)
    choice = cloze.ChoiceAnswerer.load(directories["chooser"])("a", ["b", "c d", "e"])
    (chosen,) = client.ask("/choose", inputs={"prompt": "a", "choices": ["b", "c d", "e"]})
    assert chosen["choice"] == choice.choice
    close(chosen["probabilities"], choice.probabilities)


def test_a_server_limits_the_classes_of_a_prediction(models):
    with client_of({"classifier": models["classifier"]}, Limits(top_k=1)) as client:
        answers = [client.ask("/predict", inputs="a b", top_k=top_k) for top_k in (None, 1, 2)]
        assert [[each["label"] for each in answer] for answer in answers] == [["good"]] * 3
        assert client.get("/info").json()["limits"]["top_k"] == 1


def test_tokens_of_a_space_alone_have_a_place(tmp_path):
    tokenizer = FAMILIES["roberta"].tokenizer(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = tiny_config(tokenizer.get_vocab())
    save_model(tmp_path, make_encoder("roberta", config), load_tokenizer(tmp_path))
    with client_of({"roberta": tmp_path}) as client:
        (tokens,) = client.ask("/tokenize", inputs="a  film")
    places = [(token["start"], token["stop"]) for token in tokens]
    assert places == [(None, None), (0, 1), (1, 2), (3, 7), (None, None)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("bert", "embedding"), ("classifier", "classifier"), ("ranker", "reranker"), ("squad", "embedding")],
)
def test_info_names_the_kind_of_a_single_model(models, directories, name, kind):
    with client_of({name: models[name]}) as client:
        info = client.get("/info").json()
        assert info["served_model_name"] == info["model_id"] == name
        vectors = client.ask("/embed", inputs="a")
        assert client.ask("/embed", inputs="a", model="text-embeddings-inference") == vectors
    assert list(info["model_type"]) == [kind]
    if kind == "embedding":
        assert info["model_type"] == {kind: {"pooling": "mean"}}
    else:
        labels = json.loads((directories[name] / "config.json").read_text())
        assert info["model_type"][kind] == {key: labels[key] for key in ("id2label", "label2id")}


def test_info_lists_the_abilities_of_each_model(client):
    info = client.get("/info").json()
    abilities = {each["name"]: set(each["abilities"]) for each in info["models"]}
    assert {name: has - {"encode", "embed", "tokenize"} for name, has in abilities.items()} == {
        "bert": {"fill", "next-sentence"},
        "classifier": {"predict", "explain"},
        "topics": {"predict", "explain"},
        "tagger": {"tag"},
        "squad": {"answer"},
        "chooser": {"choose"},
        "ranker": {"predict", "rerank"},
        "matcher": {"predict", "explain"},
        "encoder": {"search"},
    }
    assert all("tokenize" in has for has in abilities.values())
    assert info["limits"]["max_batch_texts"] == info["max_client_batch_size"] == 32
    assert info["limits"]["body_bytes"] == 2_000_000
    assert info["limits"]["body_seconds"] == 10


def test_an_unusable_head_leaves_the_encoder(tmp_path):
    def tagger(bert: BertModel) -> BertForTokenClassification:
        return BertForTokenClassification(bert, num_labels=2)

    config_file = write_model(tmp_path / "model", tagger) / "config.json"
    (tmp_path / "model" / "manifest.json").unlink()
    unnamed = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}
    config_file.write_text(json.dumps(json.loads(config_file.read_text()) | unnamed))
    with pytest.warns(UserWarning, match="served without its head: no tagger"):
        served = ServedModel.load("foreign", tmp_path / "model", device="cpu")
    assert served.task is None
    assert "embed" in served.abilities


@pytest.mark.parametrize(
    "text", ["a b\nc " * 400, " " * 900 + "a b " * 40, "ab" * 900, "c" + " " * 900 + "a"]
)
def test_of_a_long_text_only_a_beginning_is_tokenized(models, monkeypatch, text):
    served, read = models["bert"], list[str]()
    tokenize, limit = type(served.embedder).token_ids, served.embedder.max_seq_length - 2

    def record(embedder: Any, texts: list[str]) -> Any:
        read.extend(texts)
        return tokenize(embedder, texts)

    whole = served.embedder.token_ids([text])[0]
    monkeypatch.setattr(type(served.embedder), "token_ids", record)
    for side, ids in (("right", whole[:limit]), ("left", whole[-limit:])):
        ((tokens,),) = served.token_ids([EmbeddingInput(text, truncation_side=side)])
        assert (tokens.ids.tolist(), tokens.is_truncated) == (ids.tolist(), len(whole) > limit)
    assert (len(read[0]) < 700) == (" " in text)
    assert read[1] == text


@pytest.mark.protected
def test_left_truncation_of_pairs_is_that_of_tokenizers(directories):
    path, long = directories["encoder"], " ".join("abcdefghij" * 6)
    tokenizer = load_tokenizer(path)
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(str(path), truncation_side="left")
    for text, pair in ((long, None), (long, "a b c"), ("a b c", long)):
        ours = tokenizer.encode(text, pair, max_length=20, truncation_side="left")
        expected = theirs(text, pair, truncation=True, max_length=20)
        assert ours.input_ids == expected["input_ids"]
        assert ours.token_type_ids == expected["token_type_ids"]


def test_embed_of_cohere_has_types_truncation_and_prompts(directories, tmp_path):
    shutil.copytree(directories["encoder"], tmp_path / "encoder")
    prompts = {"prompts": {"query": "a b "}, "default_prompt_name": None}
    (tmp_path / "encoder" / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    with client_of({"encoder": tmp_path / "encoder"}) as client:
        document, query = (
            client.ask(
                "/v2/embed", texts=["c"], input_type=f"search_{kind}", embedding_types=["float", "base64"]
            )
            for kind in ("document", "query")
        )
        plain, prompted = (client.ask("/embed", inputs=[text])[0] for text in ("c", "a b c"))
        for answer, vector in ((document, plain), (query, prompted)):
            (as_base64,) = answer["embeddings"]["base64"]
            np.testing.assert_allclose(answer["embeddings"]["float"], [vector], atol=1e-6)
            np.testing.assert_allclose(np.frombuffer(base64.b64decode(as_base64), "<f4"), vector, atol=1e-6)
        assert (document["response_type"], document["texts"]) == ("embeddings_by_type", ["c"])
        assert [each["meta"]["billed_units"]["input_tokens"] for each in (document, query)] == [3, 5]
        long, start = "b " + "a " * 99, client.ask("/v2/embed", texts=["b " + "a " * 99], truncate="START")
        (expected,) = client.ask("/embed", inputs=[long], truncation_direction="left")
        np.testing.assert_allclose(start["embeddings"]["float"], [expected], atol=1e-6)
        assert "tokens" in client.refusal("/v2/embed", texts=[long], truncate="NONE")
        assert "embedding_types" in client.refusal("/v2/embed", texts=["a"], embedding_types=["int8"])
