"""Routes of cloze alone: their answers equal those of the predictors."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from clients import Client
from held_queue import Thread, admitted, answers, held, start, wait_until

from cloze.inference.explain import ExplainConfig
from cloze.inference.pretrained_heads import FillMask, NextSentence, SentenceScorer
from cloze.inference.text_predictors import EntityTagger, QuestionAnswerer
from cloze.serving.limits import Limits
from cloze.serving.native import explain, likelihood
from cloze.serving.queue import Queue
from cloze.serving.routes import estimate_tokens
from cloze.serving.schema import ExplainRequest, TextsRequest
from cloze.serving.served_model import ServedModel
from cloze.tasks.texts import ChoiceQuestion, LabeledText

Post = Callable[..., Any]


def test_fill(post: Post, directories: Mapping[str, Path]) -> None:
    texts = ["a [MASK] c", "[MASK][MASK]."]
    fill_mask = FillMask.load(directories["bert"], device="cpu")
    found = post("/fill", inputs=texts, top_k=3)
    assert [len(masks) for masks in found] == [1, 2]
    for text, masks in zip(texts, found, strict=True):
        for mine, theirs in zip(masks, fill_mask(text, top_k=3), strict=True):
            assert [each["token"] for each in mine] == [each.token for each in theirs]
            expected = [each.probability for each in theirs]
            assert [each["probability"] for each in mine] == pytest.approx(expected, abs=1e-6)


def test_likelihood(post: Post, directories: Mapping[str, Path]) -> None:
    texts = ["a b c", "d"]
    scorer = SentenceScorer.load(directories["bert"], device="cpu")
    for mine, theirs in zip(post("/likelihood", inputs=texts), scorer(texts), strict=True):
        assert mine["score"] == pytest.approx(theirs.score, abs=1e-5)
        assert [each["token"] for each in mine["tokens"]] == [each.token for each in theirs.tokens]
        assert sum(each["log_probability"] for each in mine["tokens"]) == pytest.approx(mine["score"])


def test_a_long_sentence_is_scored_in_turns(client: Client, models: Mapping[str, ServedModel]) -> None:
    queue = Queue(Limits(batch_tokens=12), threads=1)
    (found,) = asyncio.run(likelihood(models["bert"], TextsRequest(inputs="a b c d"), queue))
    queue.close()
    assert queue.batches == 2  # of four copies of six tokens
    assert found.score == pytest.approx(client.ask("/likelihood", inputs="a b c d")[0]["score"], abs=1e-5)
    too_long = client.refusal("/likelihood", inputs=["a", "a " * 600])
    assert too_long.startswith("inputs[1]: 602 tokens, the model takes")


def test_likelihoods_of_two_requests_share_a_batch(models: Mapping[str, ServedModel]) -> None:
    queue = Queue(Limits(), threads=1)
    requests = (likelihood(models["bert"], TextsRequest(inputs=text), queue) for text in ("a b", "c d e"))
    found = asyncio.run(answers(queue, *(admitted(queue, request) for request in requests)))
    queue.close()
    assert [len(scores[0].tokens) for scores in found] == [2, 3]
    assert queue.batches == 2  # the first one holds the thread


def test_a_likelihood_waits_with_the_square_of_its_tokens(models: Mapping[str, ServedModel]) -> None:
    queue, texts = Queue(Limits(), threads=1), ["a b c", "d"]

    async def ask(thread: Thread, tokens: int) -> None:
        async with held(queue, thread):
            request = likelihood(models["bert"], TextsRequest(inputs=texts), queue)
            (task,) = await start(queue, admitted(queue, request))
            await wait_until(lambda: queue.waiting_tokens == tokens)
        await task

    asyncio.run(ask("texts", sum(estimate_tokens(text) ** 2 for text in texts)))
    asyncio.run(ask("model", 3 * 5 + 1 * 3))
    queue.close()


def test_fill_reads_long_texts_in_windows(client: Client) -> None:
    text = "a " * 600 + "[MASK]"
    assert "say `long_texts=windows`" in client.refusal("/fill", inputs=text)
    assert len(client.ask("/fill", inputs=text, long_texts="windows")[0][0]) == 5


def test_next_sentence(post: Post, directories: Mapping[str, Path]) -> None:
    follows = NextSentence.load(directories["bert"], device="cpu")
    pairs = [["a b", "c d"], ["c d", "a"]]
    expected = [follows(*pair).probability for pair in pairs]
    assert post("/next-sentence", inputs=pairs[0]) == pytest.approx(expected[:1], abs=1e-6)
    assert post("/next-sentence", inputs=pairs) == pytest.approx(expected, abs=1e-6)


def test_tag_finds_entities_in_long_texts(post: Post, directories: Mapping[str, Path]) -> None:
    text = "  A b, c\u200bd.   D\u00e1 (a) \U0001f642 " + "a b c d. " * 300
    tagger = EntityTagger.load(directories["tagger"], device="cpu")
    (found,) = post("/tag", inputs=text)
    assert found == [
        {**asdict(each), "probability": pytest.approx(each.probability, abs=1e-6)}
        for each in tagger([text])[0]
    ]
    assert all(text[each["start"] : each["end"]] == each["text"] for each in found)
    assert found[-1]["end"] > 2000


def test_answer(post: Post, directories: Mapping[str, Path]) -> None:
    contexts = ["a b c d e. " * 60, "\U0001f642 j i h"]
    answerer = QuestionAnswerer.load(directories["squad"], device="cpu")
    expected = answerer(["a?", "h i?"], contexts)
    asked = [
        {"question": question, "context": context}
        for question, context in zip(["a?", "h i?"], contexts, strict=True)
    ]
    found = post("/answer", inputs=asked, n_best=4)
    for mine, theirs, context in zip(found, expected, contexts, strict=True):
        assert mine["answer"] == theirs.text
        assert mine["null_odds"] == pytest.approx(theirs.null_odds, abs=1e-4)
        assert mine["null_threshold"] == -0.25
        assert mine["answer"] == "" or mine["null_odds"] <= -0.25
        assert len(mine["candidates"]) == 4
        for each in mine["candidates"]:
            assert each["text"] == ("" if each["start"] is None else context[each["start"] : each["end"]])
    (alone,) = post("/answer", inputs=asked[1])
    assert alone["answer"] == found[1]["answer"]


def test_choose(post: Post, models: Mapping[str, ServedModel]) -> None:
    predictor = models["chooser"].predictor
    assert predictor is not None
    choices = ["b", "c d", "e"]
    (expected,), _ = predictor.predict([ChoiceQuestion("a", tuple(choices), None, "")])
    (found,) = post("/choose", inputs={"prompt": "a", "choices": choices})
    assert found["choice"] == expected.choice
    assert found["text"] == choices[expected.choice]
    assert found["probabilities"] == pytest.approx(expected.probabilities, abs=1e-6)


@pytest.mark.parametrize(
    ("model", "texts", "examples"),
    [
        ("classifier", [["ab c"], ["e"]], [LabeledText("ab c"), LabeledText("e")]),
        ("matcher", [["ab", "c"], ["d", "ef"]], [LabeledText("ab", "c"), LabeledText("d", "ef")]),
    ],
)
def test_explain_adds_up(
    model: str, texts: list[Any], examples: list[LabeledText], post: Post, models: Mapping[str, ServedModel]
) -> None:
    found = post("/explain", inputs=texts, model=model)
    predictions, _ = models[model].finetuned.predict(examples)
    assert [each["explained"] for each in found] == [each.label for each in predictions]
    for each in found:
        total = sum(word["attribution"] for word in each["words"]) - each["convergence_gap"]
        assert total == pytest.approx(each["output"] - each["baseline_output"], abs=1e-4)
    if model == "matcher":
        assert [(word["word"], word["segment"]) for word in found[1]["words"]] == [("d", "A"), ("ef", "B")]


def test_the_label_to_explain_is_chosen(client: Client) -> None:
    logits = client.ask("/predict", inputs="ab c", model="classifier", raw_scores=True)
    assert {each["label"] for each in logits} == {"bad", "good", "so-so"}
    for each in logits:
        (found,) = client.ask("/explain", inputs="ab c", model="classifier", label=each["label"])
        assert found["explained"] == each["label"]
        assert found["output"] == pytest.approx(each["score"], abs=1e-5)
    told = client.refusal("/explain", inputs=["ab c"], model="classifier", label="fine")
    assert told == "label: the model has no label 'fine'. Choose from bad, good, so-so."


@pytest.mark.parametrize("route", ["/predict", "/explain"])
def test_texts_of_the_wrong_form_are_refused_with_the_right_one(client: Client, route: str) -> None:
    wrong = {
        ("classifier", "a pair of texts, and the model reads single texts"): [["a", "b"], [["a", "b"]]],
        ("matcher", "a single text, and the model reads pairs"): ["a", ["a"], [["a"]], [["a", "b"], ["c"]]],
    }
    for (model, what), inputs in wrong.items():
        for value in inputs:
            error = client.refusal(route, inputs=value, model=model)
            assert what in error
            remedy = json.loads(error.partition("in JSON ")[2].rstrip("."))
            client.ask(route, inputs=remedy, model=model)


@pytest.mark.slow
def test_a_long_explanation_takes_turns_with_other_requests(models: Mapping[str, ServedModel]) -> None:
    config = ExplainConfig(max_tokens=16, max_gap=-1)  # never converges
    queue = Queue(Limits(batch_tokens=160), threads=1)
    request = ExplainRequest(inputs="a b c")
    (explanation,) = asyncio.run(explain(models["classifier"], request, queue, config))
    queue.close()
    assert explanation.steps == 512
    assert queue.batches >= 5 * sum(config.steps) // 160  # [CLS] a b c [SEP]


def test_the_model_is_chosen_by_name_or_ability(client: Client) -> None:
    refused = client.refusal
    assert "no model 'gpt' is served" in refused("/embed", inputs="a", model="gpt")
    told = refused("/tag", inputs="a", model="bert")
    assert told == "model: 'bert' does not answer /tag. Use tagger."
    assert "'tagger' does not answer /likelihood" in refused("/likelihood", inputs="a", model="tagger")
    many = refused("/fill", inputs=["[MASK] " * 60] * 3, top_k=1000)
    assert many.startswith("inputs: 180,000 candidates requested, at most 50,000 are returned")
    assert "inputs" in refused("/next-sentence", inputs=["a"])
    assert "inputs" in refused("/next-sentence", inputs=["a", "b", "c"])
    assert client.ask("/embed", inputs="a", model="squad") != client.ask("/embed", inputs="a")


def test_info_lists_the_abilities_of_each_model(client: Client) -> None:
    info = client.get("/info").json()
    abilities = {
        each["name"]: set(each["abilities"]) - {"encode", "embed", "tokenize"} for each in info["models"]
    }
    assert all("tokenize" in each["abilities"] for each in info["models"])
    assert abilities == {
        "bert": {"fill", "next-sentence"},
        "classifier": {"predict", "explain"},
        "topics": {"predict", "explain"},
        "tagger": {"tag"},
        "squad": {"answer"},
        "chooser": {"choose"},
        "ranker": {"predict", "rerank"},
        "matcher": {"predict", "explain"},
    }
    assert info["limits"]["batch_texts"] == info["max_client_batch_size"] == 32
    assert info["limits"]["body_bytes"] == 2_000_000


@pytest.mark.parametrize(
    ("route", "request_", "where"),
    [
        ("/predict", {"inputs": ""}, "inputs"),
        ("/predict", {"inputs": [["a"], [" \n"]]}, "inputs[1]"),
        ("/predict", {"model": "matcher", "inputs": ["", "\u200b"]}, "inputs"),
        ("/explain", {"inputs": " "}, "inputs"),
        ("/next-sentence", {"inputs": ["a", ""]}, "inputs.1"),
        ("/answer", {"inputs": {"question": "", "context": "a b"}}, "inputs.question"),
        ("/rerank", {"query": " ", "texts": ["a"]}, "query"),
        ("/embed", {"inputs": ""}, "inputs"),
        ("/embed", {"inputs": [[8], " "]}, "inputs.1"),
        ("/embed_all", {"inputs": ["a", ""]}, "inputs.1"),
        ("/embeddings", {"input": ["a", ""]}, "input.1"),
        ("/similarity", {"inputs": {"source_sentence": "a", "sentences": [""]}}, "inputs.sentences.0"),
        ("/explore/inside", {"text": ""}, "text"),
        ("/explore/layers", {"text": ""}, "text"),
        ("/explore/span", {"question": "", "context": "a"}, "question"),
    ],
)
def test_empty_texts_have_no_answer(client: Client, route: str, request_: dict[str, Any], where: str) -> None:
    assert client.refusal(route, **request_) == f"{where}: the text is empty. Give a text."


@pytest.mark.parametrize(
    ("route", "request_", "where"),
    [
        ("/embed", {"inputs": 1}, "inputs"),
        ("/embed", {"inputs": {"a": 1}}, "inputs"),
        ("/predict", {"inputs": [["a"], [1]]}, "inputs.1.0"),
        ("/answer", {"inputs": {"question": "a"}}, "inputs.context"),
        ("/answer", {"inputs": [{"question": "a", "context": "b", "extra": 1}]}, "inputs.0.extra"),
        ("/rerank", {"query": "a", "documents": ["a", 1]}, "documents.1"),
        ("/fill", {}, "inputs"),
        ("/fill", [], "body"),
    ],
)
def test_an_error_has_the_path_of_the_request(client: Client, route: str, request_: Any, where: str) -> None:
    error = client.post(route, json=request_).json()["error"]
    assert error.partition(": ")[0] == where


def test_an_empty_text_has_no_entities_no_answer_and_score_zero(post: Post) -> None:
    assert post("/tag", inputs=["", "\n"]) == [[], []]
    assert post("/likelihood", inputs="") == [{"score": 0.0, "tokens": []}]
    (answer,) = post("/answer", inputs={"question": "a", "context": ""})
    assert (answer["answer"], answer["start"]) == ("", None)
