"""SQuAD as google-research/bert has it: windows, predictions, n-best lists and null odds, number for number."""

import base64
import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloze.tasks.span import SpanFeature, SpanPrediction, SpanQuestion
from cloze.tasks.squad import Squad, SquadV1, SquadV2
from cloze.tasks.windows import window_of_most_context
from cloze.text.tokenizer import Tokenizer

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TASKS = {"squad_v1": SquadV1, "squad_v2": SquadV2}


@dataclass(frozen=True)
class Golden:
    """What run_squad.py made of some questions, and their windows by what it called them."""

    settings: dict[str, Any]
    squad: Path
    features_predict: list[dict[str, Any]]
    features_train: list[dict[str, Any]]
    logits: dict[str, np.ndarray]
    predictions: dict[str, str]
    nbest_predictions: dict[str, list[dict[str, Any]]]
    null_odds: dict[str, float]

    def task(self, version: str, **settings: Any) -> Squad:
        names = ("doc_stride", "max_query_length", "max_answer_length", "n_best_size")
        return TASKS[version](**{name: self.settings[name] for name in names}, **settings)


def _copied(version: str, tmp_path: Path) -> Golden:
    """The excerpt in this repository."""
    table = json.loads(lzma.decompress((GOLDEN / "squad" / f"{version}.json.xz").read_bytes()))
    squad = tmp_path / "squad.json"
    squad.write_text(json.dumps(table.pop("squad")))
    length = table["settings"]["max_seq_length"]
    logits = {
        key: np.frombuffer(base64.b64decode(text), "<f4").reshape(2, length)
        for key, text in table.pop("logits").items()
    }
    return Golden(**{"null_odds": {}, **table}, squad=squad, logits=logits)


def _whole(version: str, shared: Path) -> Golden:
    directory = shared / "golden" / version

    def read(name: str) -> Any:
        file = directory / name
        return json.loads(file.read_text()) if file.exists() else {}

    def lines(name: str) -> list[dict[str, Any]]:
        with lzma.open(directory / name, "rt", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    with np.load(directory / "logits.npz") as arrays:
        logits = dict(arrays)
    names = ("settings", "predictions", "nbest_predictions", "null_odds")
    return Golden(
        squad=directory / "squad_subset.json",
        features_predict=lines("features_predict.jsonl.xz"),
        features_train=lines("features_train.jsonl.xz"),
        logits=logits,
        **{name: read(f"{name}.json") for name in names},
    )


@pytest.fixture(params=["squad_v1", "squad_v2"])
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=["excerpt", "whole"])
def golden(request: pytest.FixtureRequest, version: str, tmp_path: Path) -> Golden:
    if request.param == "excerpt":
        return _copied(version, tmp_path)
    return _whole(version, request.getfixturevalue("shared"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    content = lzma.decompress((GOLDEN / "tokenization" / "bert-base-uncased-vocab.txt.xz").read_bytes())
    return Tokenizer.from_pieces(content.decode().splitlines())


def _features(
    golden: Golden, task: Squad, tokenizer: Tokenizer, *, labelled: bool
) -> list[tuple[SpanQuestion, list[SpanFeature]]]:
    length = golden.settings["max_seq_length"]
    examples = list(task.examples(golden.squad, labelled=labelled))
    return [(example, task.features(example, tokenizer, max_seq_length=length)) for example in examples]


def _flat(pairs: list[tuple[SpanQuestion, list[SpanFeature]]]) -> list[tuple[SpanQuestion, SpanFeature]]:
    return [(example, feature) for example, own in pairs for feature in own]


@pytest.mark.parametrize("original", [True, False])
def test_windows(golden: Golden, version: str, tokenizer: Tokenizer, original: bool) -> None:
    task = golden.task(version, original=original)
    ours = _flat(_features(golden, task, tokenizer, labelled=False))
    for (example, feature), theirs in zip(ours, golden.features_predict, strict=True):
        assert example.id == theirs["qas_id"]
        assert [tokenizer.pieces[i] for i in feature.input_ids] == theirs["tokens"]
        batch = task.batch([feature])
        assert batch.packed.num_tokens == theirs["num_input_tokens"]
        assert batch.packed.token_type_ids.sum() == theirs["segment_ids_sum"]


def test_words_and_most_context(golden: Golden, version: str, tokenizer: Tokenizer) -> None:
    task = golden.task(version, original=True)
    theirs = iter(golden.features_predict)
    for _, features in _features(golden, task, tokenizer, labelled=False):
        best = window_of_most_context([feature.window for feature in features])
        for number, feature in enumerate(features):
            expected = next(theirs)
            pieces = slice(feature.window.start, feature.window.start + feature.window.length)
            tokens = [str(feature.first_token + i) for i in range(feature.window.length)]
            words = feature.context.word_of_piece[pieces].tolist()
            assert dict(zip(tokens, words, strict=True)) == expected["token_to_orig_map"]
            flags = (best[pieces] == number).tolist()
            assert dict(zip(tokens, flags, strict=True)) == expected["token_is_max_context"]
    assert next(theirs, None) is None


@pytest.mark.parametrize("original", [True, False])
def test_where_the_answer_is(golden: Golden, version: str, tokenizer: Tokenizer, original: bool) -> None:
    task = golden.task(version, original=original)
    ours = _flat(_features(golden, task, tokenizer, labelled=True))
    for (example, feature), theirs in zip(ours, golden.features_train, strict=True):
        assert example.id == theirs["qas_id"]
        assert feature.target == (theirs["start_position"], theirs["end_position"])


def _decoded(
    golden: Golden, task: Squad, tokenizer: Tokenizer
) -> dict[str, tuple[SpanQuestion, SpanPrediction]]:
    """By the id; of a question that stands twice the last, as in Google's files."""
    names = iter(str(feature["unique_id"]) for feature in golden.features_predict)
    return {
        example.id: (
            example,
            task.decode(example, features, [golden.logits[next(names)].T for _ in features]),
        )
        for example, features in _features(golden, task, tokenizer, labelled=False)
    }


def test_answers(golden: Golden, version: str, tokenizer: Tokenizer) -> None:
    decoded = _decoded(golden, golden.task(version, original=True), tokenizer)
    assert {key: prediction.answer.text for key, (_, prediction) in decoded.items()} == golden.predictions
    for key, (example, prediction) in decoded.items():
        theirs = golden.nbest_predictions[key]
        assert [answer.text for answer in prediction.candidates] == [row["text"] for row in theirs]
        for answer, row in zip(prediction.candidates, theirs, strict=True):
            assert (answer.start_logit, answer.end_logit) == (row["start_logit"], row["end_logit"])
            assert answer.probability == pytest.approx(row["probability"], rel=1e-12)
            if answer.excerpt is not None:
                place = example.paragraph.text[answer.excerpt.start : answer.excerpt.end]
                assert " ".join(place.split()) == answer.text
        assert prediction.null_odds == golden.null_odds.get(key)


def test_by_offsets_few_answers_differ(golden: Golden, version: str, tokenizer: Tokenizer) -> None:
    decoded = _decoded(golden, golden.task(version), tokenizer)
    differing = [
        (answer.text, row["text"])
        for key, (_, prediction) in decoded.items()
        for answer, row in zip(prediction.candidates, golden.nbest_predictions[key], strict=True)
        if " ".join(answer.text.split()) != row["text"]
    ]
    assert len(differing) <= 0.01 * sum(len(prediction.candidates) for _, prediction in decoded.values())
    for key, (example, prediction) in decoded.items():
        for answer in prediction.candidates:
            if answer.excerpt is not None:
                assert answer.text == example.paragraph.text[answer.excerpt.start : answer.excerpt.end]
        assert prediction.null_odds == golden.null_odds.get(key)
