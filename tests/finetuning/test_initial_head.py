"""Fine-tuning from a fine-tuned model: its head is trained further, or a new one is announced."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cloze import artifacts
from cloze.errors import DataWarning, InputError
from cloze.finetuning.config import DistillationConfig, FinetuneConfig
from cloze.finetuning.preparation import load_trained_head
from cloze.models.bert import BertModel
from cloze.models.checkpoint import load_model
from cloze.models.heads import BertForPreTraining, BertForSequenceClassification, BertForTokenClassification
from cloze.models.torch_engine import TorchEngine
from cloze.progress import Progress
from cloze.tasks.config import save_finetuned
from cloze.tasks.predict import featurize, predict
from cloze.tasks.task import Task
from cloze.tokenization.tokenizer import Tokenizer
from family_cases import REVIEWS, write_case
from runs import prepare
from tiny_models import write_checkpoint

REVIEWS_WITH_LABELS = REVIEWS.with_settings({"labels": ("yes", "no")})


def _generator(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def save(
    tmp_path: Path, build_encoder: Callable[[], BertModel], tokenizer: Tokenizer
) -> Callable[[Task], Path]:
    """Return a function that writes a model of a task whose head no other one equals."""

    def write(task: Task) -> Path:
        with artifacts.write_directory(tmp_path / "trained", kind="checkpoint") as directory:
            model = task.answer.head(build_encoder(), generator=_generator())
            save_finetuned(directory, model, tokenizer, task, max_seq_length=40)
        return tmp_path / "trained"

    return write


def _fitted(name: str, directory: Path) -> tuple[Task, list[Any]]:
    task, path = write_case(name, directory)
    examples = list(task.examples(path))
    return task.fit(examples), examples


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_rounded, value), key=str)
    return round(value, 4) if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("classification", {"labels": ("up", "down"), "class_weights": (1.0, 2.0)}),
        ("mnli", {"labels": ("neutral", "entailment", "contradiction")}),
        ("multi-label", {"labels": ("up", "calm", "down")}),
        ("regression", {"minimum": -9.0, "maximum": 90.0}),
        ("multiple-choice", {}),
        ("ranking", {}),
        ("squad_v2", {"doc_stride": 3}),
        ("tagging", {"labels": ("I-BAD", "B-GOOD", "B-BAD", "O", "I-GOOD")}),
    ],
)
def test_head_gives_the_same_answers_in_a_new_run(name, changed, save, tmp_path, build_encoder, tokenizer):
    task, examples = _fitted(name, tmp_path)
    other = task.with_settings(changed)
    answers = []
    for one, head in ((task, {}), (other, load_trained_head(other, save(task)))):
        model = one.answer.head(build_encoder(), generator=_generator(3 if one is task else 4)).eval()
        model.load_state_dict(head, strict=False)
        features = featurize(one.answer, examples, tokenizer, max_seq_length=40)
        predictions = predict(one.answer, TorchEngine(model), examples, features, max_tokens=1000)
        answers.append(
            [_rounded(one.answer.to_json(e, p)) for e, p in zip(examples, predictions, strict=True)]
        )
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("trained", "task", "settings", "reason"),
    [
        ("classification", "classification", {"labels": ("down", "left")}, "classes down, up, the data"),
        ("classification", "multi-label", {"labels": ("down", "up")}, "for the task classification"),
        ("cola", "sst2", {}, "was trained for the task cola"),
        ("stsb", "regression", {"minimum": 0.0, "maximum": 5.0}, "was trained for the task stsb"),
        ("squad_v1", "ranking", {}, "was trained for the task squad_v1"),
        ("tagging", "tagging", {"labels": ("O", "B-GOOD", "I-GOOD")}, "has the classes O, B-BAD"),
        ("classification", "text-pairs", {}, "text-pairs has none"),
        ("squad_v1", "squad_v2", {}, None),
        ("squad_v2", "squad_v1", {}, None),
    ],
)
def test_head_of_another_task_is_used_where_its_outputs_mean_the_same(
    trained, task, settings, reason, save, tmp_path
):
    directory = save(_fitted(trained, tmp_path)[0])
    other = _fitted(task, tmp_path)[0].with_settings(settings)
    if reason is None:
        assert load_trained_head(other, directory).keys() >= {"qa_outputs.weight"}
        return
    with pytest.raises(InputError, match=reason):
        load_trained_head(other, directory)


def test_new_run_says_which_head_it_starts_from(save, config, capsys):
    directory = save(REVIEWS_WITH_LABELS)

    def start(config: FinetuneConfig) -> torch.Tensor:
        prepared = prepare(REVIEWS, replace(config, model=str(directory)), progress=Progress())
        return prepared.build_model().state_dict()["classifier.weight"]

    old = load_model(directory, REVIEWS_WITH_LABELS.answer.head).state_dict()["classifier.weight"]
    assert torch.equal(start(config), old[[1, 0]])  # the labels of the data are sorted
    assert f"{directory}: its head is trained further\n" in capsys.readouterr().err
    new = start(replace(config, distillation=DistillationConfig(student_layers=(0,))))
    assert not torch.equal(new, old[[1, 0]])
    assert f"{directory}: the head is new\n" in capsys.readouterr().err
    maybe = config.train.replace("reviews", "maybe")
    Path(maybe).write_text(Path(config.train).read_text().replace("yes", "maybe"))
    with pytest.warns(DataWarning, match="new: the model has the classes yes, no, the data have maybe, no$"):
        assert not torch.equal(start(replace(config, train=maybe)), old)


HEAD = {"classifier.weight", "classifier.bias"}


@pytest.mark.parametrize(
    ("head", "labels", "names", "reason"),
    [
        (BertForPreTraining, (), set(), None),
        (None, (), set(), None),
        (BertForSequenceClassification, ("yes", "no"), HEAD, None),
        (BertForSequenceClassification, ("yes", "NO"), set(), "its classes are yes, NO, the task's no, yes"),
        (BertForTokenClassification, ("yes", "no"), set(), "the model is a BertForTokenClassification"),
    ],
)
def test_heads_of_other_programs(head, labels, names, reason, tmp_path, build_encoder, tokenizer):
    model = (
        build_encoder() if head is None else head(build_encoder(), **({"num_labels": 2} if labels else {}))
    )
    write_checkpoint(tmp_path / "other", model, tokenizer.tokens, labels=labels)
    task = REVIEWS.with_settings({"labels": ("no", "yes")})
    if reason is None:
        assert load_trained_head(task, tmp_path / "other").keys() == names
    else:
        with pytest.raises(InputError, match=reason):
            load_trained_head(task, tmp_path / "other")
