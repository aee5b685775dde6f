"""`cloze help`, `tasks` and `completion`, suggestions for flags, and the width of the terminal."""

import platform
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from cloze.cli import VERBS, main, split_verb
from cloze.tasks.registry import TASKS
from helpers import assert_help_is_complete


@pytest.mark.parametrize("name", sorted(TASKS))
def test_a_task_is_described_with_its_settings(cloze, name):
    description = cloze(f"tasks {name} --json").json
    assert description["metrics"][0] == TASKS[name].metrics[0]
    text = cloze(f"tasks {name}").out
    assert text.startswith(f"{name}: ")
    assert all(f"  {setting}\n" in text for setting in description["settings"])
    assert cloze(f"help {name}").out == text


@pytest.mark.parametrize("verb", ["fill", "vocab extend", "glue-submission"])
def test_help_of_a_verb_is_its_help(verb, capsys):
    shown = []
    for words in (["help", *verb.split()], [*verb.split(), "--help"]):
        assert main(words) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_help_alone_lists_the_verbs(cloze, error_line):
    assert cloze("help").out == cloze("--help").out
    assert "no verb or task 'fil'. Did you mean fill" in error_line("help fil")
    assert "cloze tasks the tasks" in error_line("help xyzzy")
    assert "no task 'clasification'. Did you mean" in error_line("tasks clasification")


@pytest.mark.parametrize("verb", VERBS)
def test_help_describes_every_flag(verb, capsys):
    assert_help_is_complete(main, verb.split(), f"cloze {verb}", capsys)


def test_help_lists_all_verbs(cloze):
    text = cloze("--help").out
    for verb, summary in VERBS.items():
        assert re.search(rf"^  {verb} +{re.escape(summary.split()[0])}", text, re.MULTILINE)
    cloze("", code=2)
    version = f"cloze {metadata.version('cloze-bert')}\n"
    assert cloze("--version").out == version
    report = cloze("--version --verbose").out
    assert report.startswith(version + f"Python {platform.python_version()} on ")
    assert f"\ntorch {metadata.version('torch')}\n" in report
    assert "\ntorch computes on " in report


def test_a_verb_of_two_words(capsys):
    assert split_verb(["vocab", "extend", "a", "b"]) == ("vocab extend", ["a", "b"])
    assert split_verb(["vocab", "flat"]) == ("vocab", ["flat"])
    assert split_verb(["extend"]) == (None, ["extend"])
    assert main(["vocab", "--help"]) == 0
    assert f"See also cloze vocab extend --help: {VERBS['vocab extend']}." in capsys.readouterr().out


@pytest.mark.parametrize(
    "usage", ["fill [TEXTS…] -m MODEL", "embed INPUT_FILE -m MODEL -o OUTPUT", "pretrain"]
)
def test_the_usage_has_the_flags_that_every_mode_requires(usage, cloze):
    assert f"Usage: cloze {usage} [flags]\n" in cloze(f"{usage.split()[0]} --help").out


LISTS = ("--help", "tasks", "tasks squad_v2")


@pytest.mark.parametrize(
    ("command", "columns"),
    [
        *((f"{verb} --help", 60) for verb in VERBS),
        *((command, columns) for command in (*LISTS, "finetune --help") for columns in (50, 80, 120)),
    ],
)
def test_output_fits_the_terminal(command, columns, cloze, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, cloze(command).out.splitlines())) <= columns


@pytest.mark.parametrize("command", [*LISTS, "fill --help", "fill --nothing"])
@pytest.mark.timeout(120)
def test_output_ends_in_narrow_terminals(command, capsys, monkeypatch):
    for columns in (1, 2, 19):
        monkeypatch.setenv("COLUMNS", str(columns))
        main(command.split())
        printed = capsys.readouterr()
        assert printed.out or printed.err.count("\n") == 1


def test_redirected_lists_are_not_wrapped(cloze, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert len(cloze("tasks").out.splitlines()) == len(TASKS)


# Completion

COMPLETIONS = {
    "cloze fin": {"finetune"},
    "cloze vocab ext": {"extend"},
    "cloze vocab extend --num": {"--number"},
    "cloze vocab --si": {"--size"},
    "cloze export --prec": {"--precision"},
    "cloze finetune classification --lear": {"--learning-rate"},
    "cloze finetune mult": {"multi-label", "multiple-choice"},
    "cloze help vo": {"vocab"},
    "cloze completion f": {"fish"},
}


def complete_in(shell: str, script: Path, line: str) -> set[str]:
    program = {
        "bash": f". {script}; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _cloze;"
        ' printf "%s\\n" "${COMPREPLY[@]}"',
        "fish": f"source {script}; complete -C '{line}'",
    }[shell]
    done = subprocess.run([shell, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return {match.split("\t")[0] for match in done.stdout.splitlines()}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_words_are_completed(cloze, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    script = tmp_path / "script"
    script.write_text(cloze(f"completion {shell}").out)
    for line, expected in COMPLETIONS.items():
        assert complete_in(shell, script, line) == expected, line


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_the_script_is_valid_in_zsh(cloze, tmp_path):
    (tmp_path / "script").write_text(cloze("completion zsh").out)
    program = f"source {tmp_path}/script; print ${{_comps[cloze]}}"
    done = subprocess.run(["zsh", "-fc", program], capture_output=True, text=True, check=True, timeout=60)
    assert "_cloze" in done.stdout


def test_scripts_name_every_flag(cloze, error_line):
    script = cloze("completion bash").out
    assert script.count("--quiet") >= len(VERBS)
    assert "tcsh" in error_line("completion tcsh")
