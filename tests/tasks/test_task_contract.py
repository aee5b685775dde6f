"""What every task must do, whatever its family. A new task brings four example rows, and is tested."""

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import cloze.tasks
from cloze import artifacts
from cloze.errors import InputError
from cloze.model.bert import BertModel
from cloze.model.checkpoint import load_model, write_model_files
from cloze.tasks.classification import Classification
from cloze.tasks.features import featurize
from cloze.tasks.predict import predict
from cloze.tasks.registry import find_task, register_task, tasks
from cloze.tasks.sequence_classification import LabelledSequence, SequenceClassification
from cloze.tasks.task import AnyTask, Array
from cloze.text.tokenizer import Tokenizer

# name: settings, the end of the file's name, four example rows under what is above them
EXAMPLES = {
    "classification": (
        {"text_column": "said", "pair_column": "then", "label_column": "kind"},
        "tsv",
        "kind\tsaid\tthen\n"
        "up\tthe film was good\tvery fine .\ndown\ta bad book\tawful , awful\nup\tfine\tgood .\ndown\tawful\tbad\n",
    ),
}


def _gold_output(task: AnyTask, feature: object) -> Array:
    """Return what a model that is always right would say to a feature."""
    assert isinstance(task, SequenceClassification)
    assert isinstance(feature, LabelledSequence)
    return 9.0 * np.eye(len(task.labels), dtype=np.float32)[feature.label_id]


@pytest.fixture(params=sorted(tasks()))
def task_and_examples(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[AnyTask, list]:
    settings, suffix, text = EXAMPLES[request.param]
    path = tmp_path / f"examples.{suffix}"
    path.write_text(text, encoding="utf-8")
    task = find_task(request.param)(**settings)
    examples = list(task.examples(path))
    assert len(examples) == 4
    return task.fitted(examples), examples


def test_five_steps_lower_the_loss(
    task_and_examples: tuple[AnyTask, list], build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    task, examples = task_and_examples
    features = [f for own in featurize(task, examples, tokenizer, max_seq_length=16) for f in own]
    batch = task.batch(features)
    model = task.head(build_encoder(), generator=torch.Generator().manual_seed(2)).eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(6):
        loss, measures = task.loss(model(batch.packed), batch)
        assert torch.isfinite(loss)
        assert measures["loss"][0] == loss.detach()
        assert measures["loss"][1] == batch.num_targets
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]


def test_gold_decoded_and_scored_is_perfect(
    task_and_examples: tuple[AnyTask, list], tokenizer: Tokenizer
) -> None:
    task, examples = task_and_examples
    features = featurize(task, examples, tokenizer, max_seq_length=16)
    predictions = [
        task.decode(example, own, [_gold_output(task, feature) for feature in own])
        for example, own in zip(examples, features, strict=True)
    ]
    scores = task.score(examples, predictions)
    assert all(value == 1.0 for name, value in scores.items() if name != "majority_share")


def test_saved_and_loaded_it_predicts_the_same(
    task_and_examples: tuple[AnyTask, list],
    build_encoder: Callable[[], BertModel],
    tokenizer: Tokenizer,
    tmp_path: Path,
) -> None:
    task, examples = task_and_examples
    features = featurize(task, examples, tokenizer, max_seq_length=16)
    model = task.head(build_encoder(), generator=torch.Generator().manual_seed(2))
    with artifacts.write_directory(tmp_path / "model", kind="checkpoint") as directory:
        write_model_files(directory, model, tokenizer, labels=task.class_names)
    loaded = load_model(tmp_path / "model", task.head)
    before = predict(task, model, examples, features, max_tokens=64)
    assert predict(task, loaded, examples, features, max_tokens=64) == before


def test_no_examples_make_no_predictions_and_batches_change_nothing(
    task_and_examples: tuple[AnyTask, list], build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> None:
    task, examples = task_and_examples
    model = task.head(build_encoder(), generator=torch.Generator().manual_seed(2))
    assert predict(task, model, [], [], max_tokens=64) == []
    features = featurize(task, examples, tokenizer, max_seq_length=16)
    together = predict(task, model, examples, features, max_tokens=1000)
    alone = predict(task, model, examples, features, max_tokens=1)
    assert [p.label for p in together] == [p.label for p in alone]
    np.testing.assert_allclose(
        [p.probability for p in together], [p.probability for p in alone], rtol=0, atol=1e-5
    )


def test_what_does_not_fit_is_cut_and_said_to_be(
    task_and_examples: tuple[AnyTask, list], tokenizer: Tokenizer
) -> None:
    task, examples = task_and_examples
    for own in featurize(task, examples, tokenizer, max_seq_length=8):
        assert all(feature.num_tokens <= 8 for feature in own)
    features = featurize(task, examples, tokenizer, max_seq_length=8)
    assert any(feature.is_truncated for own in features for feature in own)
    assert not any(
        f.is_truncated for own in featurize(task, examples, tokenizer, max_seq_length=40) for f in own
    )


def test_every_registered_task_is_tested() -> None:
    assert set(EXAMPLES) == set(tasks())


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
