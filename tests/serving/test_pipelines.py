"""`parameters` of Hugging Face's pipelines, as its own InferenceClient sends them."""

import pytest

CONTEXT = "a b c d, e f g h i j. " * 4


def test_fill_mask_is_that_of_the_pipeline(client, directories):
    transformers = pytest.importorskip("transformers")
    pipeline = transformers.pipeline("fill-mask", str(directories["bert"]), device="cpu")
    for text in ("a [MASK] c", "[MASK] b [MASK]"):
        for parameters in ({}, {"top_k": 2}, {"targets": ["b", "##c", "j"], "top_k": 3}):
            expected = pipeline(text, **parameters)
            for row in expected if isinstance(expected[0], list) else [expected]:
                for element in row:
                    element["score"] = pytest.approx(element["score"], abs=1e-5)
            assert client.ask("/fill", inputs=text, parameters=parameters) == expected
            assert client.ask("/fill", inputs=[text], parameters=parameters) == [expected]


def test_inference_clients_fill_mask(hugging_face, address, client):
    theirs = hugging_face.InferenceClient(f"{address}/fill", token="none")
    expected = client.ask("/fill", inputs="a [MASK]", top_k=5)[0][0]
    found = theirs.fill_mask("a [MASK]")
    assert [each.token_str for each in found] == [each["token"] for each in expected]
    (best,) = theirs.fill_mask("a [MASK]", targets=["b", "c"], top_k=1)
    assert best.sequence == f"a {best.token_str}"


def test_inference_clients_token_classification(hugging_face, address, client):
    (expected,) = client.ask("/tag", inputs=CONTEXT)
    theirs = hugging_face.InferenceClient(f"{address}/tag", token="none")
    found = theirs.token_classification(CONTEXT, aggregation_strategy="simple")
    assert [(each.entity_group, each.word, each.start, each.end) for each in found] == [
        (each["type"], each["text"], each["start"], each["end"]) for each in expected
    ]
    assert {each.entity_group for each in found} == {"Y"}
    assert theirs.token_classification(CONTEXT, ignore_labels=["X"]) == found
    assert theirs.token_classification(CONTEXT, ignore_labels=["Y"]) == []


def test_inference_clients_question_answering(hugging_face, address, client):
    question = {"question": "a?", "context": CONTEXT}
    (expected,) = client.ask("/answer", inputs=question)
    theirs = hugging_face.InferenceClient(f"{address}/answer", token="none")
    best = theirs.question_answering(**question)
    spans = [each for each in expected["candidates"] if each["text"]]
    assert (best.answer, best.start, best.end) == tuple(spans[0][name] for name in ("text", "start", "end"))
    assert best.score == pytest.approx(spans[0]["probability"], abs=1e-5)
    several = theirs.question_answering(**question, top_k=3)
    assert [each.answer for each in several] == [each["text"] for each in spans[:3]]
    may_be_empty = theirs.question_answering(**question, handle_impossible_answer=True)
    assert may_be_empty.answer == expected["answer"]
    short = theirs.question_answering(
        **question, max_answer_len=1, max_question_len=1, max_seq_len=12, top_k=9
    )
    assert {len(each.answer.split()) for each in short} == {1}
