"""What every task must do, whatever its family. A new task brings four examples, and is tested."""

import ast
import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from families import CASES, gold_output

import cloze.tasks
from cloze import artifacts
from cloze.errors import InputError
from cloze.evidence.reproduce import COLUMNS
from cloze.model.bert import BertModel
from cloze.model.checkpoint import load_model, write_model_files
from cloze.tasks.classification import Classification
from cloze.tasks.config import FinetuneConfig, load_finetuning, to_toml
from cloze.tasks.features import featurize
from cloze.tasks.predict import predict
from cloze.tasks.registry import find_task, register_task, tasks
from cloze.tasks.task import AnyTask
from cloze.text.tokenizer import Tokenizer

COUNTS = {"candidates": None, "queries": None}
NOT_PERFECT_AT_ONE = {"majority_accuracy": None, "rmse": pytest.approx(0, abs=1e-5), **COUNTS}


@pytest.fixture(params=sorted(tasks()))
def task_and_path(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[AnyTask, Path]:
    case = CASES[request.param]
    path = tmp_path / case.file
    path.write_text(case.content, encoding="utf-8")
    for name, content in case.beside.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return find_task(request.param)(**case.settings), path


@pytest.fixture
def task_and_examples(task_and_path: tuple[AnyTask, Path]) -> tuple[AnyTask, list]:
    task, path = task_and_path
    examples = list(task.examples(path))
    assert len(examples) == 4
    return task.fitted(examples), examples


@pytest.fixture
def model(task_and_examples: tuple[AnyTask, list], build_encoder: Callable[[], BertModel]) -> torch.nn.Module:
    return task_and_examples[0].head(build_encoder(), generator=torch.Generator().manual_seed(2))


def test_it_says_what_it_is(task_and_path: tuple[AnyTask, Path]) -> None:
    task, _ = task_and_path
    for text in (task.data_format, task.source, task.main_metric):
        assert text
        assert "\n" not in text
        assert not text.endswith(".")
    assert set(task.file_names) == {"train", "dev"}
    _, config = load_finetuning(task.name, None, ["model=m", "train=t"])
    assert isinstance(config, FinetuneConfig)


def test_settings_and_their_text_are_one(task_and_examples: tuple[AnyTask, list], tmp_path: Path) -> None:
    task, _ = task_and_examples
    config = FinetuneConfig(model="m", train="t")
    (tmp_path / "run.toml").write_text(to_toml(task, config))
    assert load_finetuning(path=tmp_path / "run.toml") == (task, config)


def test_it_reads_what_has_no_labels(task_and_path: tuple[AnyTask, Path], tokenizer: Tokenizer) -> None:
    task, path = task_and_path
    fitted = task.fitted(list(task.examples(path)))
    examples = list(task.examples(path, labelled=False))
    features = featurize(fitted, examples, tokenizer, max_seq_length=40)
    fitted.batch([feature for own in features for feature in own])
    labelled = featurize(fitted, list(task.examples(path)), tokenizer, max_seq_length=40)
    assert [[f.num_tokens for f in own] for own in features] == [
        [f.num_tokens for f in own] for own in labelled
    ]


def test_what_has_no_labels_is_not_scored(task_and_path: tuple[AnyTask, Path]) -> None:
    task, path = task_and_path
    if task.name in ("squad_v2", "text-pairs"):
        pytest.skip("no answer is one, and pairs have no labels")
    fitted = task.fitted(list(task.examples(path)))
    with pytest.raises(InputError, match=r"a\.\w+"):
        fitted.check_scored(list(task.examples(path, labelled=False)))


def test_steps_lower_the_loss_until_the_examples_are_learned(
    task_and_examples: tuple[AnyTask, list], model: torch.nn.Module, tokenizer: Tokenizer
) -> None:
    task, examples = task_and_examples
    features = featurize(task, examples, tokenizer, max_seq_length=40)
    batch = task.batch([feature for own in features for feature in own])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(120):
        loss, measures = task.loss(model.eval()(batch.packed).float(), batch)
        assert torch.isfinite(loss)
        assert measures["loss"][0] == loss.detach()
        assert measures["loss"][1] == batch.num_targets
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[5] < 0.9 * losses[0]
    predictions = predict(task, model, examples, features, max_tokens=1000)
    assert task.score(examples, predictions)[task.main_metric] > 0.99 * CASES[task.name].perfect
    assert task.collapse(examples, predictions) is None


def test_gold_decoded_and_scored_is_perfect(
    task_and_examples: tuple[AnyTask, list], tokenizer: Tokenizer
) -> None:
    task, examples = task_and_examples
    features = featurize(task, examples, tokenizer, max_seq_length=40)
    predictions = [
        task.decode(example, own, [gold_output(task, feature) for feature in own])
        for example, own in zip(examples, features, strict=True)
    ]
    printed = [
        json.loads(json.dumps(task.to_json(example, prediction)))
        for example, prediction in zip(examples, predictions, strict=True)
    ]
    for answers in (predictions, [task.from_json(values) for values in printed]):
        scores = task.score(examples, answers)
        assert task.main_metric in task.metrics
        assert set(task.metrics) <= set(scores)
        assert set(task.errors) <= set(task.metrics)
        for name, value in scores.items():
            if (perfect := NOT_PERFECT_AT_ONE.get(name, pytest.approx(CASES[task.name].perfect))) is not None:
                assert value == perfect, name
        for measured in filter(None, chain(*(columns.values() for columns in COLUMNS.values()))):
            if measured.task == task.name:
                assert measured.factor * scores[measured.metric] == pytest.approx(100)


def test_saved_and_loaded_it_predicts_the_same(
    task_and_examples: tuple[AnyTask, list], model: torch.nn.Module, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    task, examples = task_and_examples
    features = featurize(task, examples, tokenizer, max_seq_length=40)
    with artifacts.write_directory(tmp_path / "model", kind="checkpoint") as directory:
        write_model_files(directory, model, tokenizer, labels=task.class_names)
    loaded = load_model(tmp_path / "model", task.head)
    before = predict(task, model, examples, features, max_tokens=64)
    assert predict(task, loaded, examples, features, max_tokens=64) == before


def test_no_examples_make_no_predictions_and_batches_change_nothing(
    task_and_examples: tuple[AnyTask, list], model: torch.nn.Module, tokenizer: Tokenizer
) -> None:
    task, examples = task_and_examples
    assert predict(task, model, [], [], max_tokens=64) == []
    features = [f for own in featurize(task, examples, tokenizer, max_seq_length=40) for f in own]
    together, alone = task.batch(features), [task.batch([feature]) for feature in features]
    model.eval()
    with torch.no_grad():
        outputs = task.outputs(model(together.packed), together)
        for number, batch in enumerate(alone):
            (output,) = task.outputs(model(batch.packed), batch)
            np.testing.assert_allclose(output, outputs[number], rtol=0, atol=1e-5)


def test_what_does_not_fit_is_said_to_be_cut_or_read_in_windows(
    task_and_examples: tuple[AnyTask, list], model: torch.nn.Module, tokenizer: Tokenizer
) -> None:
    task, examples = task_and_examples
    whole = featurize(task, examples, tokenizer, max_seq_length=40)
    assert not any(feature.is_truncated for own in whole for feature in own)
    short = featurize(task, examples, tokenizer, max_seq_length=8)
    assert any(
        len(own) > len(all_of_it) or any(feature.is_truncated for feature in own)
        for own, all_of_it in zip(short, whole, strict=True)
    )
    predictions = predict(task, model, examples, short, max_tokens=64)
    assert len(predictions) == 4
    assert np.isfinite(task.score(examples, predictions)[task.main_metric])


def test_every_registered_task_is_tested() -> None:
    assert set(CASES) == set(tasks())


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="'classification' is registered twice"):
        register_task("classification")(Classification)


def test_an_unknown_task_is_told_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no task 'clasification'. Did you mean classification"):
        find_task("clasification")


def test_no_task_imports_another() -> None:
    modules = {task.__module__ for task in tasks().values()}
    for path in Path(cloze.tasks.__path__[0]).glob("*.py"):
        if f"cloze.tasks.{path.stem}" in modules:
            imported = {
                node.module
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.ImportFrom)
            }
            assert not imported & modules
