"""`cloze.load` returns the class that answers with a model, and each class answers one input as in a list."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import cloze
from cloze.models.bert import BertModel
from cloze.models.encoder import Encoder
from cloze.models.heads import BertForMaskedLM, BertForNextSentencePrediction, BertForPreTraining
from cloze.tasks.custom import Classification, CustomMultipleChoice, CustomTagging, Ranking, Regression
from cloze.tasks.families.multi_label import MultiLabel
from cloze.tasks.squad import SquadV2
from cloze.tasks.task import AnyTask
from tiny_models import SPECIAL, tiny_config, write_checkpoint, write_finetuned

TOKENS = (*SPECIAL, *"abcdefgh")
TASKS: Mapping[str, AnyTask] = {
    "TextClassifier": Classification(labels=("bad", "good", "so-so")),
    "MultiLabelClassifier": MultiLabel(labels=("x", "y", "z"), threshold=0.01),
    "TextRegressor": Regression(minimum=0.0, maximum=5.0, pair_column="pair"),
    "TextRanker": Ranking(),
    "EntityTagger": CustomTagging(labels=("O", "B-X", "I-X")),
    "QuestionAnswerer": SquadV2(null_threshold=1e9),
    "ChoiceAnswerer": CustomMultipleChoice(),
}
HEADS: Mapping[str, Callable[[Encoder], Any]] = {
    "FillMask": BertForPreTraining,
    "NextSentence": BertForNextSentencePrediction,
    "Embedder": lambda encoder: encoder,
}
INPUTS: Mapping[str, tuple[Any, ...]] = {
    "TextClassifier": ("a b", "c"),
    "MultiLabelClassifier": ("a b", "c"),
    "TextRegressor": (("a", "b c"), ("d", "e")),
    "TextRanker": (("a b", ["c", "a", "d e"]), ("d", ["e", "f"])),
    "EntityTagger": ("a b", "c"),
    "QuestionAnswerer": (("a", "b c d"), ("d", "e f")),
    "ChoiceAnswerer": (("a b", ["c", "d"]), ("d", ["e", "f", "a"])),
    "FillMask": ("a [MASK]", "[MASK] b [MASK]"),
    "NextSentence": (("a", "b"), ("c d", "e")),
    "Embedder": ("a b", "c"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    place = tmp_path_factory.mktemp("models")
    for name, task in TASKS.items():
        write_finetuned(place / name, task, TOKENS, max_seq_length=16)
    for name, head in HEADS.items():
        write_checkpoint(place / name, head(BertModel(tiny_config(TOKENS))), TOKENS)
    return {name: cloze.load(place / name, device="cpu") for name in INPUTS}


def test_a_model_is_loaded_as_the_class_that_answers_with_it(
    models: Mapping[str, Any], tmp_path: Path
) -> None:
    for name, model in models.items():
        assert type(model) is getattr(cloze, name)
        assert isinstance(model.encoder, BertModel)
        assert model.tokenizer.encode("a b").input_ids == [2, 5, 6, 3]
    path = write_checkpoint(tmp_path / "model", BertForMaskedLM(BertModel(tiny_config(TOKENS))), TOKENS)
    assert type(cloze.load(path, device="cpu")) is cloze.FillMask
    assert type(cloze.load("cloze-mini-sentences", device="cpu")) is cloze.Embedder


@pytest.mark.parametrize("name", INPUTS)
def test_one_input_is_answered_as_in_a_list_and_results_are_shown(
    name: str, models: Mapping[str, Any]
) -> None:
    model, inputs = models[name], INPUTS[name]
    in_two_lists = name in ("TextRanker", "ChoiceAnswerer")
    together = model(*map(list, zip(*inputs, strict=True))) if in_two_lists else model(list(inputs))
    assert len(together) == 2
    assert len(model([], []) if in_two_lists else model([])) == 0
    for one, expected in zip(inputs, together, strict=True):
        alone = model(*one) if in_two_lists else model(one)
        if name == "Embedder":
            assert alone == pytest.approx(expected, abs=1e-5)
            continue
        assert _rounded(alone) == _rounded(expected)
        result = alone
        while isinstance(result, list):
            result = result[0] if result else None
        if result is not None:
            assert repr(result).startswith(type(result).__name__ + "(")
            assert "<table><tr><th>" in result._repr_html_()


def _rounded(value: Any) -> Any:
    """Return a result as its repr, without the last digits, which depend on the batch."""
    return [_rounded(item) for item in value] if isinstance(value, list) else repr(value)


def test_passages_are_ranked(models: Mapping[str, Any]) -> None:
    ranker, passages = models["TextRanker"], ["c", "a", "d e"]
    ranked = ranker("a b", passages)
    assert sorted(passage.index for passage in ranked) == [0, 1, 2]
    assert [passages[passage.index] for passage in ranked] == [passage.text for passage in ranked]
    scores = [passage.score for passage in ranked]
    assert scores == sorted(scores, reverse=True)
    assert ranker("a b", passages, top_k=1) == ranked[:1]
    with pytest.raises(cloze.InputError, match="passages: 1 lists, expected 2"):
        ranker(["a", "b"], [["c"]])
    with pytest.raises(cloze.InputError, match="choices has 1 texts"):
        models["ChoiceAnswerer"]("a", ["b"])
