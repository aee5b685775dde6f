"""SQuAD as in google-research/bert: windows, predictions, n-best lists and null odds, number for number."""

import base64
import json
import lzma
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cloze.tasks.answers.span import SpanPrediction
from cloze.tasks.features import max_context_windows
from cloze.tasks.questions import SpanFeature, SpanQuestion
from cloze.tasks.registry import find_task
from cloze.tasks.task import Task
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer

pytestmark = pytest.mark.protected

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
TASKS = {name: find_task(name) for name in ("squad_v1", "squad_v2")}


@dataclass(frozen=True)
class Golden:
    """The outputs of run_squad.py, by their names there."""

    settings: dict[str, Any]
    squad: Path
    features_predict: list[dict[str, Any]]
    features_train: list[dict[str, Any]]
    logits: dict[str, np.ndarray]
    predictions: dict[str, str]
    nbest_predictions: dict[str, list[dict[str, Any]]]
    null_odds: dict[str, float]

    def task(self, version: str, **settings: Any) -> Task:
        names = ("doc_stride", "max_query_length", "max_answer_length", "n_best_size")
        return TASKS[version].with_settings({**{name: self.settings[name] for name in names}, **settings})


def _copied(version: str, tmp_path: Path) -> Golden:
    """Return the excerpt in this repository."""
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


@pytest.fixture(params=["excerpt", pytest.param("whole", marks=pytest.mark.slow)])
def golden(request: pytest.FixtureRequest, version: str, tmp_path: Path) -> Golden:
    if request.param == "excerpt":
        return _copied(version, tmp_path)
    return _whole(version, request.getfixturevalue("shared"))


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    content = lzma.decompress((GOLDEN / "tokenization" / "bert-base-uncased-vocab.txt.xz").read_bytes())
    return WordPieceTokenizer.from_tokens(content.decode().splitlines())


def _features(
    golden: Golden, task: Task, tokenizer: Tokenizer, *, labeled: bool
) -> list[tuple[SpanQuestion, list[SpanFeature]]]:
    length = golden.settings["max_seq_length"]
    examples = list(task.examples(golden.squad, labeled=labeled))
    if not task.answer.original:  # Google's code trains on the first answer only
        examples = [replace(example, answers=example.answers[:1]) for example in examples]
    return [
        (example, task.answer.features(example, tokenizer, max_seq_length=length)) for example in examples
    ]


def _flat(pairs: list[tuple[SpanQuestion, list[SpanFeature]]]) -> list[tuple[SpanQuestion, SpanFeature]]:
    return [(example, feature) for example, features in pairs for feature in features]


@pytest.mark.parametrize("original", [True, False])
def test_windows(golden, version, tokenizer, original):
    task = golden.task(version, original=original)
    ours = _flat(_features(golden, task, tokenizer, labeled=False))
    for (example, feature), theirs in zip(ours, golden.features_predict, strict=True):
        assert example.id == theirs["qas_id"]
        assert [tokenizer.tokens[i] for i in feature.input_ids] == theirs["tokens"]
        batch = task.answer.batch([feature])
        assert batch.num_tokens == theirs["num_input_tokens"]
        assert batch.token_type_ids.sum() == theirs["segment_ids_sum"]


def test_words_and_max_context(golden, version, tokenizer):
    task = golden.task(version, original=True)
    theirs = iter(golden.features_predict)
    for _, features in _features(golden, task, tokenizer, labeled=False):
        best = max_context_windows([feature.window for feature in features])
        for index, feature in enumerate(features):
            expected = next(theirs)
            inside = feature.window
            tokens = [str(feature.first_token + i) for i in range(inside.stop - inside.start)]
            words = feature.context.word_of_token[inside].tolist()
            assert dict(zip(tokens, words, strict=True)) == expected["token_to_orig_map"]
            flags = (best[inside] == index).tolist()
            assert dict(zip(tokens, flags, strict=True)) == expected["token_is_max_context"]
    assert next(theirs, None) is None


@pytest.mark.parametrize("original", [True, False])
def test_answer_positions(golden, version, tokenizer, original):
    task = golden.task(version, original=original)
    ours = _flat(_features(golden, task, tokenizer, labeled=True))
    for (example, feature), theirs in zip(ours, golden.features_train, strict=True):
        assert example.id == theirs["qas_id"]
        assert feature.target == (theirs["start_position"], theirs["end_position"])


def _decoded(
    golden: Golden, task: Task, tokenizer: Tokenizer
) -> dict[str, tuple[SpanQuestion, SpanPrediction]]:
    """Return examples and predictions by id; the last of a repeated question, as in Google's files."""
    names = iter(str(feature["unique_id"]) for feature in golden.features_predict)
    return {
        example.id: (
            example,
            task.answer.decode(example, features, [golden.logits[next(names)].T for _ in features]),
        )
        for example, features in _features(golden, task, tokenizer, labeled=False)
    }


def test_answers(golden, version, tokenizer):
    decoded = _decoded(golden, golden.task(version, original=True), tokenizer)
    assert {key: prediction.text for key, (_, prediction) in decoded.items()} == golden.predictions
    for key, (example, prediction) in decoded.items():
        theirs = golden.nbest_predictions[key]
        assert [answer.text for answer in prediction.candidates] == [row["text"] for row in theirs]
        for answer, row in zip(prediction.candidates, theirs, strict=True):
            assert (answer.start_logit, answer.end_logit) == (row["start_logit"], row["end_logit"])
            assert answer.probability == pytest.approx(row["probability"], rel=1e-12)
            if answer.text:
                place = example.paragraph.text[answer.start : answer.end]
                assert " ".join(place.split()) == answer.text
        assert prediction.null_odds == golden.null_odds.get(key)


def test_few_answers_differ_by_offsets(golden, version, tokenizer):
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
            if answer.text:
                assert answer.text == example.paragraph.text[answer.start : answer.end]
        assert prediction.null_odds == golden.null_odds.get(key)
