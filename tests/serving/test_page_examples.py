"""The examples of the page were chosen with the bundled model, which is right about each."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from clients import client_of

import cloze
from cloze.explorer.encoder_internals import trace_masked_lm, trace_token
from cloze.explorer.word_in_context import word_in_context
from cloze.serving.served_model import ServedModel

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES: dict[str, Any] = json.loads((REPOSITORY / "page" / "src" / "examples.json").read_text("utf-8"))
BANK = {
    "river": [
        "They sat on the bank of the river.",
        "The bank of the river was covered with grass.",
        "The boat was tied to the left bank.",
    ],
    "money": [
        "She works for a bank in the city.",
        "The bank lent him money to buy a house.",
        "He opened an account at the bank.",
    ],
}


@pytest.fixture(scope="module")
def served() -> ServedModel:
    mini = Path(cloze.__file__).parent / "pretrained" / "cloze-mini"
    return ServedModel.load("cloze-mini", mini, device="cpu")


RECORDED = {
    path.stem: recording["exchanges"]
    for path in sorted((REPOSITORY / "page" / "static").glob("recorded-*.json"))
    for recording in json.loads(path.read_text("utf-8"))
    if recording["model"]["name"] == "cloze-mini"
}
"""By the bundled model; those of fine-tuned ones are not compared."""


def numbers_of(value: Any) -> Any:
    """Return the numbers of an answer as an array, also those in base64."""
    if isinstance(value, dict | list):
        values = [value[key] for key in sorted(value)] if isinstance(value, dict) else value
        return np.concatenate([np.empty(0), *map(numbers_of, values)])
    if isinstance(value, str):
        try:
            return np.frombuffer(base64.b64decode(value, validate=True), "<f4")
        except ValueError:
            return np.empty(0)  # a word
    return np.empty(0) if value is None else np.array([value])


def test_recorded_answers_are_those_of_the_bundled_model(served):
    with client_of({"cloze-mini": served}) as client:
        for view, exchanges in RECORDED.items():
            for exchange in exchanges:
                answer = client.ask(f"/{exchange['path']}", **exchange["body"])
                found, expected = numbers_of(answer), numbers_of(exchange["answer"])
                np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3, err_msg=view)


def test_the_examples_were_chosen_with_the_bundled_model():
    manifest = Path(cloze.__file__).parent / "pretrained" / EXAMPLES["model"]["name"] / "manifest.json"
    weights = json.loads(manifest.read_text("utf-8"))["files"]["model.safetensors"]
    assert EXAMPLES["model"]["sha256"] == weights["sha256"], "run page/choose_examples.py, then make page"


def test_the_sentences_are_of_held_out_articles():
    record = (REPOSITORY / "records" / "2026-11-21-sentences" / "sentences.tsv").read_text("utf-8")
    for example in [*EXAMPLES["fill"], *EXAMPLES["layers"]]:
        assert f"{example['text']}\t{example['answer']}\n" in record
    assert "CC BY-SA 3.0" in EXAMPLES["source"]


def test_the_bundled_model_is_right_about_each(served):
    fill_mask, follows = served.fill_mask, served.next_sentence
    for example in EXAMPLES["fill"]:
        [[first]] = fill_mask(example["text"], top_k=1)
        assert first.token == example["answer"]
    for example in EXAMPLES["layers"]:
        trace = trace_token(served.model.encoder, served.tokenizer, example["text"])
        *_, read = trace_masked_lm(fill_mask, trace.hidden_states, top_k=1)
        *earlier, last = [candidate.token for (candidate,) in read]
        assert last == example["answer"]
        assert example["name"] != "At the last layer" or last not in earlier
    for example in EXAMPLES["next_sentence"]:
        assert follows(example["text"], example["pair"]).is_next == example["follows"]


def test_the_meanings_of_bank_separate(served):
    source = (REPOSITORY / "page" / "src" / "views" / "pairs.tsx").read_text("utf-8")
    sentences = [sentence for sense in BANK.values() for sentence in sense]
    assert all(f'"{sentence}"' in source for sentence in sentences)
    with torch.inference_mode():
        word = word_in_context(served.model.encoder, served.tokenizer, "bank", sentences)
    cosines = word.cosines()[-1]
    same = np.kron(np.eye(2), np.ones((3, 3))).astype(bool) & ~np.eye(6, dtype=bool)
    other = ~same & ~np.eye(6, dtype=bool)
    assert cosines[same].mean() > cosines[other].mean()
