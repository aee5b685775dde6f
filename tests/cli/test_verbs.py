"""The verbs in order, the checkpoint that a run stands for, and the settings of a run."""

import io
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from samples import NANO, NANO_TASK, REPOSITORY, USES, fill_in

from cloze import artifacts
from cloze.config import read_toml
from cloze.file_io import write_link
from cloze.inference.answerer import load_encoder
from cloze.inference.embedder import Embedder
from cloze.inference.pretrained_heads import FillMask, NextSentence
from cloze.serving.served_model import ServedModel
from helpers import read_tree


def test_from_text_to_answers(samples, tmp_path, cloze):
    text, table = samples.text, samples.table
    vocab, data, run, classifier = (tmp_path / name for name in ("vocab", "data", "run", "classifier"))
    steps = [
        (f"vocab {text} -o {vocab} --size 500 --workers 1", "counting words", f"wrote {vocab}"),
        (f"corpus {text} --vocabulary {vocab} -o {data} --workers 1", "tokenizing", f"wrote {data}: 40 doc"),
        (
            f"pretrain --data {data} -o {run} --steps 4 {shlex.join(NANO)}",
            "training: 4/4 steps",
            f"wrote {run}\n  loss",
        ),
        (f"pretrain -o {run} --resume", "training: 4/4 steps", f"wrote {run}"),
        (f"fill -m {run} 'It was a [MASK].'", "", "It was a [MASK].\n  [MASK] 1: "),
        (f"next -m {run} 'It was dark.' 'It was night.'", "", "B follows A with probability 0."),
        (f"info {run}", "", f"{run}: a run\n"),
        (f"info {vocab}", "", f"{vocab}: a vocabulary\n"),
        (f"info {data}", "", f"{data}: a dataset\n"),
        (f"report {run}", "", f"wrote {run}/report.html"),
        (
            f"finetune classification -m {run} -d {table} -o {classifier} {shlex.join(NANO_TASK)}",
            "training: ",
            f"wrote {classifier}\n  accuracy",
        ),
        (f"finetune classification -o {classifier} --resume", "training: ", f"wrote {classifier}"),
        (f"predict classification -m {classifier} {table}", "predicting: 40", '{"row": 1, "text": '),
    ]
    for command, progress, result in steps:
        printed = cloze(command)
        assert progress in printed.err, command
        assert printed.out.startswith(result), command
        assert "error" not in printed.err


def test_every_mask_of_every_line_is_filled(cloze, monkeypatch):
    lines = ["It was a [MASK] and [MASK] night.", "[MASK]"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    answers = cloze("fill -m {run} 'One [MASK].' - -k 3 --json").rows
    assert [answer["text"] for answer in answers] == ["One [MASK].", *lines]
    assert [len(answer["masks"]) for answer in answers] == [1, 2, 1]
    for mask in (mask for answer in answers for mask in answer["masks"]):
        probabilities = [candidate["probability"] for candidate in mask]
        assert len(mask) == 3
        assert probabilities == sorted(probabilities, reverse=True)
        assert 0 < sum(probabilities) <= 1


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("neighbors TEXT -m {run}", "night"),
        ("attention TEXT -m {run} --json", "It was dark."),
        ("attention 'It was.' --pair TEXT -m {run} --json", "It was dark."),
        ("next -m {run} TEXT 'It was night.'", "It was dark."),
        ("next -m {run} 'It was dark.' TEXT", "It was night."),
    ],
)
def test_a_text_is_read_from_stdin(command, text, cloze, monkeypatch):
    def send(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    from_stdin = command.replace("TEXT", "-")
    send(f"{text}\n")
    assert cloze(from_stdin).out == cloze(command.replace("TEXT", shlex.quote(text))).out
    send("night\nday\n")
    error = cloze(from_stdin, code=2).err
    assert error.endswith("error: stdin: 2 lines, expected one text. Send it one line.\n")


USES_OF_A_RUN = {
    **{verb: USES[verb] for verb in ("fill", "next", "embed", "neighbors", "attention", "finetune")},
    "evaluate": "evaluate mlm -m {run} -d {data} --set max_seq_length=32",
    "vocab": "vocab inspect {run}",
    "import": "import {run} -o {tmp}/out",
    "pretrain": "pretrain --init {run} --data {data} -o {tmp}/out --steps 1 "
    + shlex.join(setting for setting in NANO if "=model." not in setting),
}


@pytest.mark.parametrize("verb", USES_OF_A_RUN)
def test_a_run_means_its_best_checkpoint(samples, tmp_path, cloze, verb):
    run = Path(shutil.copytree(samples.run, tmp_path / "run", symlinks=True))
    write_link(run / "best", "checkpoints/step-00000002")
    shutil.rmtree(run / "checkpoints/step-00000004")
    note = f"{run}: best checkpoint, checkpoints/step-00000002\n"
    assert cloze(fill_in(USES_OF_A_RUN[verb], {"run": run})).err.count(note) == 1


def test_a_run_means_its_best_checkpoint_in_python(samples, tmp_path):
    run = Path(shutil.copytree(samples.run, tmp_path / "run", symlinks=True))
    write_link(run / "best", "checkpoints/step-00000002")
    name = "embeddings.word_embeddings.weight"
    expected = load_encoder(run / "checkpoints/step-00000002").state_dict()[name]
    assert not torch.equal(expected, load_encoder(run / "checkpoints/step-00000004").state_dict()[name])
    encoders = [load_encoder(run), Embedder.load(run).encoder]
    encoders += [cls.load(run).encoder for cls in (FillMask, NextSentence)]
    encoders.append(ServedModel.load("run", run).model.encoder)
    assert all(torch.equal(encoder.state_dict()[name].cpu(), expected) for encoder in encoders)


def test_a_run_without_a_best_checkpoint_means_its_latest(samples, tmp_path, cloze):
    run = Path(shutil.copytree(samples.run, tmp_path / "run", symlinks=True))
    (run / "best").unlink()
    note = f"{run}: latest checkpoint, checkpoints/step-00000004\n"
    assert cloze(f"fill -m {run} [MASK]").err == note
    assert cloze(f"fill -m {run} [MASK] --quiet").err == ""


@pytest.mark.parametrize(
    ("flag", "setting"), [("--budget 90s", "budget_seconds = 90.0"), ("--steps 90", "steps = 90")]
)
@pytest.mark.parametrize("recipe", ["steps = 7\n", "budget_seconds = 7\n"])
def test_a_length_by_flag_replaces_that_of_the_recipe(tmp_path, cloze, flag, setting, recipe):
    (tmp_path / "recipe.toml").write_text(recipe)
    printed = cloze(f"pretrain -o none --data D --config {tmp_path}/recipe.toml --print-config {flag}")
    lines = printed.out.splitlines()
    assert setting in lines
    assert sum(line.startswith(("steps =", "budget_seconds =")) for line in lines) == 1


@pytest.mark.parametrize(("flags", "rate"), [("", "7e-05"), ("--config fast", "0.0007")])
def test_the_recipe_for_init_is_adapt(flags, rate, cloze):
    printed = cloze(f"pretrain --data D --steps 9 --init cloze-mini --print-config {flags}")
    assert f"learning_rate = {rate}" in printed.out
    assert ("recipe adapt" in printed.err) == (not flags)


def test_only_a_run_needs_an_output(cloze, error_line):
    command = f"pretrain --data {{data}} --steps 2 {shlex.join(NANO)} --quiet"
    cloze(f"{command} --print-config")
    cloze(f"{command} --dry-run")
    for incomplete in (command, "pretrain --resume"):
        assert "the flag --output is missing" in error_line(incomplete)


@pytest.mark.parametrize(
    "recipe", sorted((REPOSITORY / "src/cloze/recipes").rglob("*.toml")), ids=lambda path: path.stem
)
def test_recipes_are_found_by_name(recipe, cloze):
    if recipe.parent.name == "finetuning":
        task = read_toml(recipe).get("task", "cola")
        assert f'task = "{task}"' in cloze(f"finetune {task} -c {recipe.stem} --print-config").out
    else:
        assert "learning_rate" in cloze(f"pretrain --config {recipe.stem} --print-config").out


@pytest.mark.slow
@pytest.mark.parametrize("verb", [verb for verb, command in USES.items() if " -o " in command])
def test_an_output_is_replaced_only_with_overwrite(verb, tmp_path, cloze, error_line):
    command = USES[verb]
    cloze(command)
    before, names = read_tree(tmp_path), {*tmp_path.iterdir()}
    assert "already exists" in error_line(command)
    assert read_tree(tmp_path) == before
    cloze(f"{command} --overwrite")
    assert {*tmp_path.iterdir()} == names


def test_overwrite_replaces_all_of_a_run(tmp_path, cloze):
    command = f"pretrain --data {{data}} -o {{out}} {shlex.join(NANO)} --quiet"
    cloze(f"{command} --steps 2")
    cloze(f"{command} --steps 1 --overwrite")
    assert [path.name for path in (tmp_path / "out/checkpoints").iterdir()] == ["step-00000001"]
    artifacts.verify(tmp_path / "out/checkpoints/step-00000001", kind="checkpoint")


def test_rank_is_ignored_without_torchrun(monkeypatch, tmp_path, cloze):
    monkeypatch.setenv("RANK", "1")  # schedulers set it, too
    assert cloze(f"pretrain --data {{data}} -o {{out}} {shlex.join(NANO)} --steps 1").out


def test_verbs_that_train_print_on_rank_zero_alone_and_others_on_all(monkeypatch, cloze):
    """Every container of a Kubernetes PyTorchJob has these variables, whatever it runs."""
    for name, value in {"RANK": 1, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}.items():
        monkeypatch.setenv(name, str(value))
    assert "sst2" in cloze("tasks").out
    assert all(cloze("fill 'the [MASK] was dark' -m {run}"))  # the answer, and which checkpoint gave it
    assert "learning_rate" in cloze("pretrain --print-config").out
    command = f"pretrain --data {{data}} -o {{out}} {shlex.join(NANO)} --steps 1 --quiet"
    assert not any(cloze(command))
    monkeypatch.setenv("RANK", "0")
    assert cloze(f"{command} --overwrite").out
