"""The remedy that an error line prints is followed as it is printed, and the command then succeeds."""

import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from samples import Samples
from test_bad_input import (
    CASES,
    LINE,
    PRETRAIN,
    Case,
    bad_prediction,
    bad_table,
    bad_text,
    case,
    changed_copy,
    fill_in,
    one_line_of,
    sample_paths,
    write_text,
)

from cloze.cli import main

pytestmark = pytest.mark.protected

Edit = Callable[[Path, tuple[str, ...]], object]


@dataclass(frozen=True)
class Remedy:
    """How to follow what a line says."""

    case: Case
    says: str
    """A pattern of the remedy in the line."""
    old: str = ""
    """The part of the command to replace; empty adds to its end."""
    new: str = ""
    """Its replacement; {0} is the first group of the pattern."""
    edit: Edit = lambda tmp, found: None
    """Follows it in the directory of the files."""


def copied(sample: str) -> Callable[[Path, Samples], object]:
    return changed_copy(sample, lambda directory: None)


def shell(name: str) -> Edit:
    """Run the printed shell command on a file, with OLD and NEW as it says."""

    def run(tmp: Path, found: tuple[str, ...]) -> None:
        (tmp / name).rename(tmp / "OLD")
        command = found[0] if "OLD" in found[0] else f"{found[0]} OLD > NEW"
        subprocess.run(command, shell=True, check=True, cwd=tmp)
        (tmp / "NEW").rename(tmp / name)

    return run


def replaced(name: str, old: str, new: str) -> Edit:
    """Replace a part of a file by what the line says."""

    def edit(tmp: Path, found: tuple[str, ...]) -> None:
        file = tmp / name
        file.write_text(file.read_text().replace(old, new.format(*found)))

    return edit


ICONV = r"(iconv .*? OLD > NEW)"
WORDS = b"text\tlabel\n" + b"It was\ta\nThe rain\tb\n" * 8

REMEDIES = {
    # files
    "another encoding of a text": Remedy(
        bad_text("text", (LINE * 9).decode().encode("utf-16"), ""), ICONV, edit=shell("text")
    ),
    "Latin-1": Remedy(CASES["Latin-1"], ICONV.replace("iconv", "iconv -f latin1"), edit=shell("text")),
    "another encoding of a table": Remedy(
        bad_table("a.tsv", WORDS.decode().encode("utf-16le"), ""), ICONV, edit=shell("a.tsv")
    ),
    "another encoding of questions": Remedy(
        bad_prediction("{tmp}/a.txt", prepare=write_text("It was né\n".encode("latin-1"), "a.txt")),
        ICONV,
        edit=shell("a.txt"),
    ),
    "a file of columns as text": Remedy(
        bad_text("text.tsv", b"review\tstars\n" + b"It was a dark night.\t1\n" * 9, ""),
        r"choose one with (--text-column)",
        new=" --text-column review",
    ),
    "lines of a file of columns": Remedy(
        bad_text("text.tsv", b"It was a dark and stormy night.\tb\n" * 9, ""), r"(--format lines)", new=" {0}"
    ),
    "a directory of vocabularies": Remedy(
        CASES["a file instead of its directory"], r"Give its (directory)", "/vocab.txt", ""
    ),
    "a weight file": Remedy(
        CASES["a model's file instead of its directory"],
        "Give the (directory) of a checkpoint",
        "/model.safetensors",
        "",
    ),
    "a data set instead of a vocabulary": Remedy(
        case(PRETRAIN + "--data {vocab}"), "that (cloze corpus) wrote", "{vocab}", "{data}"
    ),
    "a damaged checkpoint": Remedy(
        CASES["truncated weights"], "(Copy) or write it again", "{tmp}/copy", "{checkpoint}"
    ),
    # columns and cells
    "a field of JSON lines": Remedy(
        bad_text("text.jsonl", b'{"body": "It was dark. It rained."}\n' * 9, ""),
        r"--text-field: (\w+)",
        new=" --text-field {0}",
    ),
    "a column": Remedy(
        bad_table("a.tsv", WORDS.replace(b"text", b"texts"), ""),
        r"Did you mean '(\w+)'",
        new=" --text-column {0}",
    ),
    "a column to predict": Remedy(
        bad_prediction("{tmp}/a.tsv", prepare=write_text(b"words\nIt was\n", "a.tsv")),
        r"There are '(\w+)'",
        new=" --text-column {0}",
    ),
    "a label of the dev file": Remedy(
        CASES["an unknown label"], "The labels are (0), 1", edit=replaced("dev.tsv", "unheard", "{0}")
    ),
    "another label column": Remedy(
        bad_table("a.tsv", WORDS.replace(b"label", b"stars"), ""),
        r"say which it is with (--label-column) NAME",
        new=" {0} stars",
    ),
    "a row without a label": Remedy(
        bad_table("a.tsv", WORDS + b"The wind\tNaN\n", ""), r"(--missing-labels drop)", new=" {0}"
    ),
    "a row that cannot be read": Remedy(
        bad_table(
            "a.jsonl",
            b'{"text": "a", "label": 0}\n{"text": "b", "label": 1}\n' * 8 + b'{"text": null, "label": 1}\n',
            "",
        ),
        r"(--skip-bad-rows)",
        new=" {0}",
    ),
    "quoted lines in a TSV": Remedy(
        bad_table("a.tsv", WORDS + b'"The\nwind"\ta\n', ""),
        r"call the file (\.csv)",
        "a.tsv",
        "a{0}",
        lambda tmp, found: (tmp / "a.tsv").rename(tmp / "a.csv"),
    ),
    "a joined file": Remedy(
        bad_table("a.tsv", WORDS + WORDS + b"The wind\ta\n", ""),
        r"(Remove this line)",
        edit=lambda tmp, found: (tmp / "a.tsv").write_bytes(WORDS + WORDS.partition(b"\n")[2]),
    ),
    "a table called text": Remedy(
        bad_prediction("{tmp}/a.txt", prepare=write_text(b"id,text\n1,It was\n", "a.txt")),
        r"Call the file (\.csv)",
        "a.txt",
        "a{0}",
        lambda tmp, found: (tmp / "a.txt").rename(tmp / "a.csv"),
    ),
    "JSON lines called text": Remedy(
        bad_prediction("{tmp}/a.txt", prepare=write_text(b'{"text": "It was"}\n', "a.txt")),
        r"Call the file (\.jsonl)",
        "a.txt",
        "a{0}",
        lambda tmp, found: (tmp / "a.txt").rename(tmp / "a.jsonl"),
    ),
    "commas that may part thousands": Remedy(
        case(
            "baseline regression -d {tmp}/a.csv",
            prepare=write_text(b"text;label\n" + b"It was;1,250\nThe rain;2,500\n" * 8, "a.csv"),
        ),
        r"(--set regression\.decimal=),",
        new=" {0},",
    ),
    "tags of several columns": Remedy(
        case(
            "baseline tagging -d {tmp}/a.jsonl",
            prepare=write_text(
                b'{"tokens": ["It", "was"], "ner_tags": ["B-X", "O"], "pos_tags": ["A", "B"]}\n' * 9,
                "a.jsonl",
            ),
        ),
        r"Choose one of '(\w+)', .* with (--set tagging\.tags_field)=NAME",
        new=" {1}={0}",
    ),
    # values
    "a size of few words": Remedy(
        CASES["too little text for the vocabulary size"], r"Use ([\d,]+) tokens or fewer", new=" --size {0}"
    ),
    "a size of the alphabet": Remedy(
        CASES["a vocabulary smaller than its alphabet"], r"Use at least (\d+)", "--size 20", "--size {0}"
    ),
    "a length": Remedy(
        CASES["a length beyond the model"], "Say (--set max_seq_length=32)", "--set max_seq_length=64", "{0}"
    ),
    "a setting": Remedy(
        case(PRETRAIN + "--data {data} --set optimizer.learningrate=1e-3"),
        r"Did you mean ([\w.]+\w)",
        "optimizer.learningrate",
        "{0}",
    ),
    "a choice": Remedy(CASES["an unknown choice"], r"Did you mean (\w+)", "float31", "{0}"),
    "a verb": Remedy(case("basline classification -d {table}"), r"Did you mean (\w+)", "basline", "{0}"),
    "a flag": Remedy(
        case(PRETRAIN.replace("--steps", "--stebs") + "--data {data}"), r"meant: (--\w+)", "--stebs", "{0}"
    ),
    "a device": Remedy(CASES["no such device to fill on"], "Use (auto)", "abacus", "{0}"),
    "a part of a job array": Remedy(CASES["no task"], "(--task 3/8)", "--task 9/8", "{0}"),
    "a mask": Remedy(CASES["no [MASK] to fill"], r"Write (\[MASK\]) in place of a word", "dark", "{0}"),
    # flags that exclude each other
    "steps and a budget": Remedy(
        CASES["steps and a budget"], r"either steps or a budget", "--budget 30m", ""
    ),
    "a second vocabulary": Remedy(
        case("corpus {text} -o {tmp}/copy --append --vocab {tmp}/copy/none", prepare=copied("data")),
        "(Leave --vocab out|Give the directory)",
        "--vocab {tmp}/copy/none",
        "",
    ),
    "--model with --init": Remedy(CASES["--model with --init"], "(Leave out) one", "--model tiny", ""),
    # outputs
    "existing output": Remedy(
        case("vocab {text} -o {tmp}/copy --size 300 --workers 1", prepare=copied("vocab")),
        "pass (--overwrite)",
        new=" {0}",
    ),
    "an existing run": Remedy(
        case(PRETRAIN.replace("{out}", "{tmp}/copy") + "--data {data}", prepare=copied("run")),
        "pass (--overwrite)",
        new=" {0}",
    ),
    "vectors by name": Remedy(
        case("embed {text} -m {run} -o {out}"), r"must end in (\.npy)", "{out}", "{out}{0}"
    ),
    # models
    "an encoder to predict with": Remedy(
        CASES["predict with an encoder"], "(cloze finetune classification)", "-m {run}", "-m {classifier}"
    ),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_a_printed_remedy_works(
    name: str, samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remedy = REMEDIES[name]
    paths = sample_paths(tmp_path, samples)
    remedy.case.prepare(tmp_path, samples)
    assert main([*shlex.split(fill_in(remedy.case.command, paths)), "--quiet"]) == 2
    line = one_line_of(capsys.readouterr().err)
    found = re.search(remedy.says, line)
    assert found, line
    remedy.edit(tmp_path, found.groups())
    new = remedy.new
    for number, group in enumerate(found.groups()):
        new = new.replace(f"{{{number}}}", group.replace(",", ""))
    command = remedy.case.command
    assert remedy.old in command
    command = command.replace(remedy.old, new) if remedy.old else command + new
    code = main([*shlex.split(fill_in(command, paths)), "--quiet"])
    assert code == 0, (command, capsys.readouterr().err)
