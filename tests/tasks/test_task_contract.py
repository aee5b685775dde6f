"""The contract of every registered task. A new task adds four examples to `family_cases.py`."""

import json
import re
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch

from cloze import artifacts
from cloze.data.row_files import write_rows
from cloze.errors import InputError
from cloze.finetuning.config import FinetuneConfig, load_finetuning
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model, save_model
from cloze.models.torch_engine import TorchEngine
from cloze.tasks.config import to_toml
from cloze.tasks.predict import featurize, predict, prediction_row, wrong_answer_rows
from cloze.tasks.registry import TASKS, find_task, register_task
from cloze.tasks.texts import TextReader
from experiments.result_tables import table_columns
from family_cases import CASES, FAMILIES, GOLD_OUTPUTS, TEXTS, Case, gold_output, kind_of, write_case
from helpers import finetuning_of, task_of

COUNTS = {"candidates": None, "queries": None}
pytestmark = pytest.mark.protected
NOT_PERFECT_AT_ONE = {"majority_accuracy": None, "rmse": pytest.approx(0, abs=1e-5), **COUNTS}
of_each_family = pytest.mark.parametrize("task_and_path", FAMILIES, indirect=True)


@pytest.fixture(params=sorted(TASKS))
def task_and_path(request, tmp_path):
    return write_case(request.param, tmp_path)


@pytest.fixture
def task_and_examples(task_and_path):
    task, path = task_and_path
    examples = list(task.examples(path))
    assert len(examples) == 4
    return task.fit(examples), examples


def _gold_predictions(task, examples, tokenizer):
    """Decode the outputs of a perfect model."""
    return [
        task.answer.decode(example, of_example, [gold_output(task, feature) for feature in of_example])
        for example, of_example in zip(
            examples, featurize(task.answer, examples, tokenizer, max_seq_length=40), strict=True
        )
    ]


@pytest.fixture
def model(task_and_examples, build_encoder):
    return task_and_examples[0].answer.head(build_encoder(), generator=torch.Generator().manual_seed(2))


def test_a_task_names_its_head(task_and_examples, model):
    task, _ = task_and_examples
    assert task.answer.head_name == (type(model).__name__ if task.answer.has_head else None)


def test_description_and_run_settings(task_and_path):
    task, _ = task_and_path
    for text in (task.data_format, task.source, task.metrics[0]):
        assert text
        assert "\n" not in text
        assert not text.endswith(".")
    assert task.train_files
    assert task.dev_files
    _, config = finetuning_of(task.name, ["model=m", "train=t"])
    assert isinstance(config, FinetuneConfig)


def test_settings_round_trip_through_toml(task_and_examples, tmp_path):
    task, _ = task_and_examples
    config = FinetuneConfig(model="m", train="t")
    (tmp_path / "run.toml").write_text(to_toml(task, config))
    assert load_finetuning(tmp_path / "run.toml") == (task, config)


def test_a_table_among_the_settings_of_a_reader_is_kept(tmp_path, monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Reader(TextReader):
        names: dict[str, str] = field(default_factory=dict)

    task = replace(
        task_of("classification", label_column="kind"), name="mine", reader=Reader(names={"a": "b"})
    )
    monkeypatch.setitem(TASKS, "mine", replace(task_of("classification"), name="mine", reader=Reader()))
    config = FinetuneConfig(model="m", train="t")
    (tmp_path / "run.toml").write_text(to_toml(task, config))
    assert load_finetuning(tmp_path / "run.toml") == (task, config)


def test_examples_without_labels_have_the_same_features(task_and_path, tokenizer):
    task, path = task_and_path
    fitted = task.fit(list(task.examples(path)))
    examples = list(task.examples(path, labeled=False))
    features = featurize(fitted.answer, examples, tokenizer, max_seq_length=40)
    fitted.answer.batch([feature for of_example in features for feature in of_example])
    labeled = featurize(fitted.answer, list(task.examples(path)), tokenizer, max_seq_length=40)
    assert [[f.num_tokens for f in of_example] for of_example in features] == [
        [f.num_tokens for f in of_example] for of_example in labeled
    ]


def test_examples_without_labels_are_not_scored(task_and_path):
    task, path = task_and_path
    if task.name in ("squad_v2", "text-pairs"):
        pytest.skip("no answer is one, and pairs have no labels")
    fitted = task.fit(list(task.examples(path)))
    with pytest.raises(InputError, match=r"a\.\w+"):
        fitted.answer.check_scorable(list(task.examples(path, labeled=False)))


@of_each_family
@pytest.mark.slow
def test_steps_lower_the_loss_until_the_examples_are_learned(task_and_examples, model, tokenizer):
    task, examples = task_and_examples
    features = featurize(task.answer, examples, tokenizer, max_seq_length=40)
    batch = to_device(task.answer.batch([feature for of_example in features for feature in of_example]))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    while len(losses) < 6 or (0.005 * losses[0] < losses[-1] and len(losses) < 120):
        loss, measures = task.answer.loss(model.eval()(batch).float(), batch)
        assert torch.isfinite(loss)
        assert measures["loss"][0] == loss.detach()
        assert measures["loss"][1] == batch.num_targets
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[5] < 0.9 * losses[0]
    predictions = predict(task.answer, TorchEngine(model), examples, features, max_tokens=1000)
    assert task.score(examples, predictions)[task.metrics[0]] > 0.99 * CASES[task.name].perfect
    assert task.collapse(examples, predictions) is None


def test_gold_outputs_are_decoded_and_scored_as_perfect(task_and_examples, tokenizer):
    task, examples = task_and_examples
    predictions = _gold_predictions(task, examples, tokenizer)
    printed = [
        json.loads(json.dumps(task.answer.to_json(example, prediction)))
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    for answers in (predictions, [task.answer.from_json(values) for values in printed]):
        scores = task.score(examples, answers)
        assert set(task.metrics) <= set(scores)
        for name, value in scores.items():
            if (perfect := NOT_PERFECT_AT_ONE.get(name, pytest.approx(CASES[task.name].perfect))) is not None:
                assert value == perfect, name
        for measured in filter(
            None, chain(*(table_columns(f"table{number}").values() for number in range(1, 5)))
        ):
            if measured.task == task.name:
                assert measured.factor * scores[measured.metric] == pytest.approx(100)


@of_each_family
def test_saved_and_loaded_model_predicts_the_same(task_and_examples, model, tokenizer, tmp_path):
    task, examples = task_and_examples
    features = featurize(task.answer, examples, tokenizer, max_seq_length=40)
    with artifacts.write_directory(tmp_path / "model", kind="checkpoint") as directory:
        save_model(directory, model, tokenizer, labels=task.answer.class_names)
    loaded = load_model(tmp_path / "model", task.answer.head)
    before = predict(task.answer, TorchEngine(model), examples, features, max_tokens=64)
    assert predict(task.answer, TorchEngine(loaded), examples, features, max_tokens=64) == before


@of_each_family
def test_outputs_do_not_depend_on_the_batch(task_and_examples, model, tokenizer):
    task, examples = task_and_examples
    assert predict(task.answer, TorchEngine(model), [], [], max_tokens=64) == []
    features = [
        f for of_example in featurize(task.answer, examples, tokenizer, max_seq_length=40) for f in of_example
    ]
    together, alone = (task.answer.batch(features), [task.answer.batch([feature]) for feature in features])
    model.eval()
    with torch.no_grad():
        outputs = task.answer.outputs(model(to_device(together)).numpy(), together)
        for number, batch in enumerate(alone):
            (output,) = task.answer.outputs(model(to_device(batch)).numpy(), batch)
            np.testing.assert_allclose(output, outputs[number], rtol=0, atol=1e-5)


@of_each_family
def test_long_texts_are_truncated_or_read_in_windows(task_and_examples, model, tokenizer):
    task, examples = task_and_examples
    whole = featurize(task.answer, examples, tokenizer, max_seq_length=40)
    assert not any(feature.is_truncated for of_example in whole for feature in of_example)
    short = featurize(task.answer, examples, tokenizer, max_seq_length=8)
    assert any(
        len(of_example) > len(of_whole) or any(feature.is_truncated for feature in of_example)
        for of_example, of_whole in zip(short, whole, strict=True)
    )
    predictions = predict(task.answer, TorchEngine(model), examples, short, max_tokens=64)
    assert len(predictions) == 4
    assert np.isfinite(task.score(examples, predictions)[task.metrics[0]])


def test_every_registered_task_has_a_case_and_belongs_to_a_family():
    assert set(CASES) == set(TASKS)
    assert {kind_of(task) for task in TASKS.values()} == set(GOLD_OUTPUTS)


def test_tasks_with_labels_in_tables_may_leave_out_missing_ones():
    others = {"conll2003", "gum", "squad_v1", "squad_v2", "tagging", "text-pairs", "wnut17"}
    assert {name for name, task in TASKS.items() if "missing_labels" not in task.settings} == others


def test_a_name_is_registered_once():
    with pytest.raises(ValueError, match="there is a task 'classification' already"):
        register_task(find_task("classification"))


@pytest.mark.slow
def test_the_task_that_contributing_adds_fulfills_the_contract(
    tmp_path, build_encoder, tokenizer, monkeypatch
):
    section = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text().split("## Adding a task")[1]
    monkeypatch.setitem(TASKS, "boolq", find_task("classification"))  # removed after the test
    del TASKS["boolq"]
    exec(re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0], {"__name__": "boolq"})
    rows = zip(TEXTS, (True, False, True, False), strict=True)
    lines = (json.dumps({"question": b, "passage": a, "label": label}) + "\n" for (a, b), label in rows)
    monkeypatch.setitem(CASES, "boolq", Case("a.jsonl", "".join(lines)))
    (tmp_path / "a.jsonl").write_text(CASES["boolq"].content)
    task = find_task("boolq")
    examples = list(task.examples(tmp_path / "a.jsonl"))
    model = task.answer.head(build_encoder(), generator=torch.Generator().manual_seed(2))
    test_description_and_run_settings((task, tmp_path / "a.jsonl"))
    test_steps_lower_the_loss_until_the_examples_are_learned((task, examples), model, tokenizer)
    test_gold_outputs_are_decoded_and_scored_as_perfect((task, examples), tokenizer)
    test_saved_and_loaded_model_predicts_the_same((task, examples), model, tokenizer, tmp_path)


@of_each_family
@pytest.mark.parametrize("ending", [".jsonl", ".csv"])
def test_predictions_are_read_back(task_and_examples, tokenizer, tmp_path, ending):
    task, examples = task_and_examples
    predictions = _gold_predictions(task, examples, tokenizer)
    pairs = list(zip(examples, predictions, strict=True))
    rows = [prediction_row(task, number, *pair) for number, pair in enumerate(pairs, 1)]
    assert {"id", "row"} & rows[0].keys()
    assert write_rows(rows, str(tmp_path / f"answers{ending}")) == 4
    read = task.answer.read_answers(tmp_path / f"answers{ending}", examples)
    assert task.score(examples, read) == pytest.approx(task.score(examples, predictions))
    written = [getattr(prediction, "probabilities", None) for prediction in predictions]
    assert [getattr(prediction, "probabilities", None) for prediction in read] == written
    if task.answer.has_wrong_answers():
        assert wrong_answer_rows(task, zip(examples, read, strict=True)) == []
        assert task.answer.breakdown(examples, read) == task.answer.breakdown(examples, predictions)


@pytest.mark.parametrize("ending", [".tsv", ".parquet"])
@pytest.mark.parametrize("task_and_path", ["multi-label", "squad_v2"], indirect=True)
def test_predictions_are_read_back_from_other_files(task_and_examples, tokenizer, tmp_path, ending):
    test_predictions_are_read_back(task_and_examples, tokenizer, tmp_path, ending)


@pytest.mark.parametrize("task_and_path", ["classification", "multi-label", "mnli"], indirect=True)
def test_wrong_answers_are_sorted_by_confidence(task_and_examples, tokenizer):
    task, examples = task_and_examples
    first, *others = _gold_predictions(task, examples, tokenizer)
    wrong = wrong_answer_rows(task, zip(examples, [*others, first], strict=True))
    assert wrong
    assert all(row["gold"] != row["prediction"] and 0 <= row["confidence"] <= 1 for row in wrong)
    assert [row["confidence"] for row in wrong] == sorted((r["confidence"] for r in wrong), reverse=True)
