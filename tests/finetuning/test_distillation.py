"""Distillation: losses, the teacher's outputs for every kind of answer, exact resume, bad input."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

import cloze
from cloze import artifacts
from cloze.errors import InputError
from cloze.file_names import MANIFEST
from cloze.finetuning import preparation
from cloze.finetuning.config import DistillationConfig, FinetuneConfig
from cloze.finetuning.objective import FinetuningObjective
from cloze.finetuning.preparation import TeacherOutputs, compute_targets, load_teacher
from cloze.model_paths import resolve_checkpoint
from cloze.models.batch import to_device
from cloze.models.checkpoint import load_model, save_model
from cloze.models.config_file import load_config
from cloze.tasks.answers.vectors import Vectors
from cloze.tasks.config import save_finetuned
from cloze.tasks.predict import featurize
from cloze.tasks.task import Task
from cloze.training.checkpoints import CheckpointConfig
from cloze.training.interrupts import Interrupted
from cloze.training.metric_sums import sigmoid_divergence, softmax_divergence
from family_cases import FAMILIES, REVIEWS, write_case
from helpers import task_of
from runs import (
    assert_same_run,
    finetune,
    interrupt_finetuning,
    plan_finetuning,
    prepare,
    resume_finetuning,
    rows,
    validate,
)

TAUGHT = [name for name in FAMILIES if not name.startswith("squad")]
"""A task of each kind of answer that learns from a teacher."""

LABELED = REVIEWS.with_settings({"labels": ("no", "yes")})
WITH_PERHAPS = REVIEWS.with_settings({"labels": ("no", "perhaps", "yes")})
SCORED = task_of("scored-pairs")
SaveTeacher = Callable[..., Path]


@pytest.fixture
def save_teacher(
    tmp_path: Path, build_encoder: Callable[..., cloze.BertModel], tokenizer: cloze.Tokenizer
) -> SaveTeacher:
    """Return a function from a task to a checkpoint of it with random weights."""

    def save(task: Task, *, tokenizer: cloze.Tokenizer = tokenizer, name: str = "teacher") -> Path:
        model = task.answer.head(build_encoder(), generator=torch.Generator().manual_seed(3))
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=1.0, generator=torch.Generator().manual_seed(parameter.numel()))
        with artifacts.write_directory(tmp_path / name, kind="checkpoint", overwrite=True) as directory:
            save_finetuned(directory, model, tokenizer, task, max_seq_length=40)
        return tmp_path / name

    return save


@pytest.fixture
def small(config: FinetuneConfig) -> FinetuneConfig:
    return replace(config, epochs=1, batch_size=3, max_seq_length=40)


def fitted(task: Task, path: Path, start: Path) -> tuple[Task, list[Any]]:
    examples = list(task.examples(path))
    if isinstance(task.answer, Vectors):
        task = replace(task, answer=task.answer.with_checkpoint_settings(start))
    return task.fit(examples), examples


def with_teacher(config: FinetuneConfig, teacher: Path | str, **settings: Any) -> FinetuneConfig:
    return replace(config, distillation=DistillationConfig(teacher=str(teacher), **settings))


def test_sigmoid_divergence_is_that_of_two_classes():
    student, teacher = torch.randn(2, 7, generator=torch.Generator().manual_seed(1)).unbind()
    two_classes = [torch.stack([torch.zeros(7), logits], -1) for logits in (student, teacher)]
    expected = softmax_divergence(*two_classes, 2.0)
    assert sigmoid_divergence(student, teacher, 2.0).sum().item() == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("is_labeled", [True, False])
def test_loss_of_a_step_is_the_weighted_sum(config, save_teacher, is_labeled):
    task, _ = fitted(REVIEWS, Path(config.train), Path(config.model))
    config = with_teacher(config, save_teacher(task), temperature=4.0, weight=0.7)
    prepared = prepare(REVIEWS, config)
    task, features = prepared.task, prepared.data.flat_train_features[:5]
    model = task.answer.head(
        load_model(Path(config.model)), generator=torch.Generator().manual_seed(1)
    ).eval()
    teacher_logits = torch.randn(5, 2, generator=torch.Generator().manual_seed(2))
    batch = replace(task.answer.batch(features), teacher=teacher_logits.numpy(), is_labeled=is_labeled)
    measured = FinetuningObjective(model, prepared)(batch)
    logits, targets = model(to_device(batch)), torch.tensor([feature.target for feature in features])
    hard = nn.functional.cross_entropy(logits, targets, reduction="sum")
    soft = 16 * nn.functional.kl_div(
        (logits / 4).log_softmax(-1), (teacher_logits / 4).softmax(-1), reduction="sum"
    )
    expected = 0.7 * soft + 0.3 * hard if is_labeled else soft
    assert measured["loss"][0].item() == pytest.approx(expected.item(), rel=1e-5)
    assert measured["soft_loss"][0].item() == pytest.approx(soft.item(), rel=1e-5)
    assert measured["accuracy"][1] == (5 if is_labeled else 0)


@pytest.mark.parametrize("name", TAUGHT)
def test_a_model_that_is_its_own_teacher_has_no_loss(name, small, save_teacher, tokenizer, tmp_path):
    task, path = write_case(name, tmp_path)
    task, examples = fitted(task, path, Path(small.model))
    # of another order of the classes, which are aligned by name
    is_reordered = name in ("classification", "multi-label", "tagging")
    other = task.with_settings({"labels": task.answer.labels[::-1]}) if is_reordered else task
    teacher = load_teacher(task, small, save_teacher(other), tokenizer)
    model = teacher.load_model()
    features = featurize(task.answer, examples, tokenizer, max_seq_length=40)
    flat = [feature for group in features for feature in group]
    targets = compute_targets(task, teacher, model, flat, max_tokens=100)
    assert len(targets) == len(flat)
    batch = to_device(replace(task.answer.batch(flat), teacher=np.concatenate(targets).astype(np.float32)))
    with torch.no_grad():
        logits = model(batch).float()
        if is_reordered:
            logits = logits.flip(-1)
        assert task.answer.distance(logits, batch, 2.0).item() == pytest.approx(0, abs=1e-5)
        assert task.answer.distance(logits.flip(0), batch, 2.0).item() > 2e-5


@pytest.mark.parametrize("name", TAUGHT)
def test_every_kind_of_answer_learns_from_labels_a_teacher_and_unlabeled_examples(
    name, small, save_teacher, tmp_path
):
    task, path = write_case(name, tmp_path)
    teacher = save_teacher(fitted(task, path, Path(small.model))[0])
    config = with_teacher(replace(small, train=str(path), dev=str(path)), teacher, unlabeled=str(path))
    finetune(task, config, tmp_path / "run")
    logged = rows(tmp_path / "run")[-1]
    assert np.isfinite([logged["loss"], logged["soft_loss"], logged["hard_loss"]]).all()
    outputs = TeacherOutputs.read(tmp_path / "run")
    half = (len(outputs.starts) - 1) // 2
    assert np.array_equal(outputs.rows(range(half)), outputs.rows(range(half, 2 * half)))


@pytest.mark.slow
def test_student_follows_the_teacher_where_labels_differ(config, trained, reviews, tmp_path):
    header, *lines = reviews.read_text().splitlines(keepends=True)
    other = {"yes": "no", "no": "yes"}
    cells = [line.rstrip("\n").split("\t") for line in lines]
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text(header + "".join(f"{text}\t{other[label]}\n" for text, label in cells[:20]))
    (tmp_path / "texts.txt").write_text("".join(line.partition("\t")[0] + "\n" for line in lines[20:]))
    config = replace(config, train=str(wrong), dev=str(wrong), epochs=12)
    assert finetune(REVIEWS, config, tmp_path / "without")["accuracy"] == 1.0
    settings = {"weight": 1.0, "unlabeled": str(tmp_path / "texts.txt")}
    config = with_teacher(replace(config, dev=str(reviews), epochs=8), trained, **settings)
    assert finetune(REVIEWS, config, tmp_path / "student")["accuracy"] == 1.0
    texts = ["the film was very awful .", "the book was fine ."]
    for run, expected in ((tmp_path / "without", ["yes", "no"]), (tmp_path / "student", ["no", "yes"])):
        answers = cloze.TextClassifier.load(run, device="cpu")(texts)
        assert [answer.label for answer in answers] == expected


def test_the_teacher_runs_once_unless_its_outputs_are_damaged(config, trained, tmp_path, capsys):
    finetune(REVIEWS, with_teacher(config, trained), tmp_path / "run")
    file = tmp_path / "run" / "teacher" / "outputs.npy"
    content, version = file.read_bytes(), file.stat().st_mtime_ns
    resume_finetuning(tmp_path / "run")
    assert file.stat().st_mtime_ns == version
    file.write_bytes(b"\0" * len(content))
    resume_finetuning(tmp_path / "run", progress=cloze.Progress())
    assert "computed again" in capsys.readouterr().err
    assert file.read_bytes() == content


@pytest.mark.slow
def test_interrupted_run_resumes_bit_identically(config, trained, reviews, tmp_path, monkeypatch):
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(line.partition("\t")[0] for line in reviews.read_text().splitlines()[1:30]))
    config = replace(config, epochs=2, micro_batch_tokens=40, checkpoints=CheckpointConfig(every_steps=3))
    config = with_teacher(config, trained, unlabeled=str(texts), student_layers=(1,))
    finetune(REVIEWS, config, tmp_path / "whole")
    run = tmp_path / "stopped"
    with monkeypatch.context() as patched:
        # before the outputs of the teacher are in place
        patched.setattr(preparation, "compute_targets", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            finetune(REVIEWS, config, run)
    interrupt_finetuning(monkeypatch, 23, 43)
    for _ in range(2):
        with pytest.raises(Interrupted):
            resume_finetuning(run)
    resume_finetuning(run)
    assert_same_run(tmp_path / "whole", run)


@pytest.mark.slow
def test_several_seeds_share_the_outputs(config, trained, tmp_path):
    finetune(REVIEWS, with_teacher(replace(config, seeds=2), trained), tmp_path / "run")
    assert (tmp_path / "run" / "teacher").is_dir()
    assert not list((tmp_path / "run" / "trials").glob("*/teacher"))
    for trial in (tmp_path / "run" / "trials").iterdir():
        assert "soft_loss" in rows(trial)[-1]


def test_student_with_some_layers_of_the_teacher(config, trained, tmp_path):
    config = replace(config, model=str(trained), epochs=1)
    config = with_teacher(config, trained, student_layers=(1,))
    config = replace(config, optimizer=replace(config.optimizer, learning_rate=1e-12))
    finetune(REVIEWS, config, tmp_path / "run")
    student = resolve_checkpoint(tmp_path / "run")
    assert load_config(student).num_hidden_layers == 1
    ours, theirs = load_model(student), load_model(resolve_checkpoint(trained))
    for parameter, of_teacher in zip(ours.layers[0].parameters(), theirs.layers[1].parameters(), strict=True):
        assert torch.allclose(parameter, of_teacher, atol=1e-6)
    other = with_teacher(config, trained, student_layers=(0, 2))
    for verb in (validate, partial(finetune, run=tmp_path / "other")):
        with pytest.raises(InputError, match=r"has no layer 2 for the student\. Take some of 0 to 1"):
            verb(REVIEWS, other)
    assert not (tmp_path / "other").exists()


def test_unlabeled_texts_are_counted_and_the_card_names_the_teacher(config, trained, tmp_path):
    teacher = Path(shutil.copytree(trained, tmp_path / "teacher"))
    card = resolve_checkpoint(teacher) / "README.md"
    card.write_text(card.read_text().replace("license: unknown", "license: cc-by-4.0"))
    (tmp_path / "texts.txt").write_text("a fine film .\n")
    config = with_teacher(config, teacher, unlabeled=str(tmp_path / "texts.txt"))
    summary = validate(REVIEWS, config)
    sizes = [summary[name] for name in ("train_examples", "unlabeled_examples", "train_sequences")]
    assert sizes == [56, 1, 57]
    assert plan_finetuning(REVIEWS, config).phases[0].steps == 2 * -(-57 // config.batch_size)
    finetune(REVIEWS, config, tmp_path / "run")
    text = (resolve_checkpoint(tmp_path / "run") / "README.md").read_text("utf-8")
    assert f"the teacher `{teacher}` (license: `cc-by-4.0`; SHA-256 `" in text
    assert f"| unlabeled | `{tmp_path / 'texts.txt'}` | 1 examples |" in text


@pytest.fixture
def refused(config: FinetuneConfig, tmp_path: Path) -> Callable[..., str]:
    """Return a function that fine-tunes with a teacher and returns the error."""

    def refused(teacher: Path | str, task: Task = REVIEWS, **settings: Any) -> str:
        with pytest.raises(InputError) as error:
            finetune(task, with_teacher(config, teacher, **settings), tmp_path / "refused")
        assert not (tmp_path / "refused").exists()
        return str(error.value)

    return refused


def test_teachers_that_are_missing_untrained_or_read_other_tokens(
    refused, config, save_teacher, tokenizer, tmp_path
):
    assert "no such" in refused(tmp_path / "nowhere")
    assert "its classes are not" not in (message := refused(config.model))
    assert "config.json names" in message or "no teacher" in message
    other = cloze.WordPieceTokenizer.from_tokens([*tokenizer.tokens[:5], *reversed(tokenizer.tokens[5:])])
    message = refused(save_teacher(LABELED, tokenizer=other))
    assert f"has another vocabulary than the student, {config.model}, or lowercases otherwise" in message
    teacher = save_teacher(LABELED)
    length = load_config(teacher).max_position_embeddings + 1
    long = replace(with_teacher(config, teacher), max_seq_length=length, micro_batch_tokens=1000)
    with pytest.raises(InputError, match=rf"max_seq_length {length}, the teacher takes {length - 1} tokens"):
        load_teacher(LABELED, long, teacher, tokenizer)


@pytest.mark.parametrize(
    ("task", "teacher", "message"),
    [
        (LABELED, task_of("regression", minimum=0, maximum=1), "'regression', whose outputs are others"),
        (LABELED, WITH_PERHAPS, "classes are no, perhaps, yes, those of the data are no, yes"),
        (task_of("squad_v1"), task_of("squad_v1"), "squad_v1 cannot learn from a teacher"),
        (SCORED, task_of("scored-pairs", prompt="query: "), "prompt is 'query: ', the student's ''"),
    ],
)
def test_teacher_of_another_task_or_with_other_settings(
    task, teacher, message, small, save_teacher, tokenizer
):
    with pytest.raises(InputError, match=message):
        load_teacher(task, small, save_teacher(teacher), tokenizer)


def test_changed_settings_texts_and_teacher_are_refused_on_resume(config, trained, save_teacher, tmp_path):
    shutil.copytree(trained, tmp_path / "copy")
    run, texts = tmp_path / "run", tmp_path / "texts.txt"
    texts.write_text("a fine film .\n")
    finetune(REVIEWS, with_teacher(config, tmp_path / "copy", unlabeled=str(texts)), run)
    settings = (run / "run.toml").read_text()
    (run / "run.toml").write_text(settings.replace("temperature = 2.0", "temperature = 3.0"))
    with pytest.raises(InputError, match=r"distillation\.temperature"):
        resume_finetuning(run)
    (run / "run.toml").write_text(settings)
    texts.write_text("an awful film .\n")
    with pytest.raises(InputError, match="not the data that the settings were made for"):
        resume_finetuning(run)
    texts.write_text("a fine film .\n")
    shutil.rmtree(tmp_path / "copy")
    save_teacher(LABELED, name="copy")
    with pytest.raises(InputError, match="not the teacher that the settings were made for"):
        resume_finetuning(run)


def test_unlabeled_files_without_text_are_refused(refused, trained, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    assert "contains no text" in refused(trained, unlabeled=str(tmp_path / "empty.txt"))
    assert "no such file" in refused(trained, unlabeled=str(tmp_path / "missing.txt"))


def test_model_of_another_program_as_teacher(config, build_encoder, tokenizer, tmp_path):
    """It has no task, and its classes have another order."""
    task = REVIEWS.with_settings({"labels": ("yes", "no")})
    with artifacts.write_directory(tmp_path / "saved", kind="checkpoint") as directory:
        save_model(directory, task.answer.head(build_encoder()), tokenizer, labels=task.answer.labels)
    (tmp_path / "saved" / MANIFEST).unlink()
    config = with_teacher(config, tmp_path / "saved")
    finetune(REVIEWS, config, tmp_path / "run")
    data = prepare(REVIEWS, config).data
    model = load_model(tmp_path / "saved", task.answer.head)
    with torch.no_grad():
        logits = model(to_device(REVIEWS.answer.batch(data.flat_train_features[:1])))
    learned = TeacherOutputs.read(tmp_path / "run").rows([0])
    assert np.allclose(learned, logits.flip(-1).numpy(), atol=1e-3)
