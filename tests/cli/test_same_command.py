"""A command line that is repeated with --resume, as job scripts do, and tasks that are read from the model."""

import shlex

import pytest
from samples import NANO, NANO_TASK, fill_in

PRETRAIN = "pretrain -o {out} --data {data} --steps 2 --seed 7 --resume --quiet --json " + shlex.join(NANO)
FINETUNE = (
    "finetune classification -o {out} -m {run} -d {table} --epochs 1 --resume --quiet --json "
    + shlex.join(NANO_TASK)
)


@pytest.mark.parametrize("command", [PRETRAIN, FINETUNE], ids=["pretrain", "finetune"])
def test_the_same_command_starts_resumes_and_repeats(tmp_path, cloze, command):
    first = cloze(command)
    checkpoints = sorted((tmp_path / "out/checkpoints").iterdir())
    assert cloze(command).json == first.json
    assert sorted((tmp_path / "out/checkpoints").iterdir()) == checkpoints
    verb = command.split()[0]
    assert cloze(f"{verb} -o {{out}} --resume --quiet --json").json == first.json


DIFFERENT = {
    "--seed 8": "seed is 7, not 8",
    "--steps 2 --set optimizer.weight_decay=0.5": "optimizer.weight_decay is 0.01, not 0.5",
    "--model tiny": "model.size is 'base', not 'tiny'",
    "--budget 3m": "budget_seconds is None, not 180.0",
    "--init cloze-mini": "init is None, not 'cloze-mini'",
    "--config original": "google_instances.dupe_factor is None, not ",
    "--config {tmp}/recipe.toml": "precision is 'float32', not 'bfloat16'",
}


@pytest.mark.parametrize("flags", DIFFERENT)
def test_settings_that_differ_from_those_of_the_run_are_named(tmp_path, cloze, flags):
    (tmp_path / "recipe.toml").write_text('precision = "bfloat16"\n')
    cloze(PRETRAIN)
    printed = cloze(f"pretrain -o {{out}} --resume {flags}", code=2)
    assert printed.err.startswith(f"error: {tmp_path}/out: resume uses the settings of the run: ")
    assert DIFFERENT[flags] in printed.err
    assert printed.err.endswith(
        "Leave them out, or start a new run in another output, which may begin with this run's model.\n"
    )


def test_differences_of_a_fine_tuning_are_named(samples, tmp_path, cloze, error_line):
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.tsv").write_text(samples.table.read_text())
    line = fill_in(FINETUNE, {"table": data})
    cloze(line)
    cloze(line)  # run.toml has the file in the directory
    for flags, difference in {
        "--epochs 2": "epochs is 1, not 2",
        "--text-column words": "classification.text_column is 'text', not 'words'",
        "-m {checkpoint}": "model is ",
    }.items():
        assert difference in error_line(f"finetune -o {{out}} --resume {flags}")


def test_nothing_to_resume_and_no_settings(tmp_path, cloze):
    for verb in ("pretrain", "finetune", "finetune classification"):
        printed = cloze(f"{verb} -o {tmp_path}/none --resume", code=2)
        assert printed.err.startswith(f"error: {tmp_path}/none: no run to resume")


# The task of a model


def test_the_task_is_that_of_the_model(samples, tmp_path, cloze):
    model = f"-m {samples.classifier} --quiet"
    named = cloze(f"predict classification {model} {samples.table}")
    assert cloze(f"predict {model} {samples.table}") == named
    assert cloze(f"predict {samples.table} {model}") == named
    scores = cloze(f"evaluate classification {model} -d {samples.table} --json").json
    assert cloze(f"evaluate {model} -d {samples.table} --json").json == scores
    (tmp_path / "classification").write_text("text\nIt was dark.\n")
    assert "cells" not in cloze(f"predict {model} {tmp_path}/classification").err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "evaluate -m {run} -d {data}",
            "{run}: is not fine-tuned, and so has no task. Name what to evaluate",
        ),
        ("predict -m {classifier}", "TASK_OR_INPUT is missing. See cloze predict --help"),
        ("predict classification -m {classifier}", "the input is missing. Give a file"),
        ("predict classification {table} {table} -m {classifier}", "names a file, beside other inputs"),
        ("predict tagging {table} -m {classifier}", "a model for the task 'classification', not 'tagging'"),
        ("finetune -m {run} -d {table} -o {out}", "no task is named. Name one, as in cloze finetune classif"),
    ],
)
def test_a_task_or_an_input_that_is_missing_is_asked_for(paths, error_line, command, message):
    assert fill_in(message, paths) in error_line(command)


def test_a_recipe_names_the_task(cloze):
    settings = cloze("finetune -c mrpc-google -m {run} -d D --print-config").out
    assert settings.startswith('task = "mrpc"\n')


def test_settings_are_printed_without_data_and_model(tmp_path, cloze):
    for verb, names in (("finetune classification", ("model", "train")), ("pretrain", ("data", "steps"))):
        settings = cloze(f"{verb} --print-config").out
        assert not [
            line for line in settings.splitlines() if line.startswith(tuple(f"{n} = " for n in names))
        ]
        (tmp_path / "mine.toml").write_text(settings)
        given = {"finetune classification": "-m M -d D", "pretrain": "--data D --steps 3"}[verb]
        whole = cloze(f"{verb} {given} --print-config").out
        assert cloze(f"{verb} {given} -c {tmp_path}/mine.toml --print-config").out == whole
    assert "budget_seconds = 60" in cloze("pretrain --budget 1m --print-config").out


def test_default_lengths_adapt_to_the_model(samples, tmp_path, cloze, error_line):
    note = f"max_seq_length 32: {samples.run} takes no more tokens\n"
    for task in ("squad_v2", "classification"):
        printed = cloze(f"finetune {task} -m {samples.run} -d D --print-config")
        assert "max_seq_length = 32\n" in printed.out
        assert note in printed.err
    printed = cloze(f"finetune squad_v2 -m {samples.run} -d D --set max_seq_length=384 --print-config")
    assert "max_seq_length = 384\n" in printed.out
    assert "takes no more tokens" not in printed.err
    finetune = f"finetune classification -m {samples.run} -d {samples.table} -o {tmp_path}/out"
    cloze(f"{finetune} --epochs 1 --set device=cpu --quiet")
    assert "max_seq_length = 32\n" in (tmp_path / "out/run.toml").read_text()
    assert cloze(f"evaluate mlm -m {samples.run} -d {samples.data} --json").json["masked_words"] > 0
    evaluate = f"evaluate mlm -m {samples.run} -d {samples.data} --set"
    assert "Say --set max_seq_length=32" in error_line(f"{evaluate} max_seq_length=64")
