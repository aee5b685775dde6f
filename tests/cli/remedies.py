"""How the remedy that the line of a wrong input prints is followed, as it is printed."""

import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow
import pyarrow.parquet
from bad_inputs import COMPRESSED, GOOD_TEXT, LINE, edit_json, set_config
from samples import NANO, Samples

Edit = Callable[[Path, tuple[str, ...], Samples], object]


def nothing(tmp: Path, found: tuple[str, ...], samples: Samples) -> None:
    pass


@dataclass(frozen=True)
class Remedy:
    """The command then succeeds.

    Args:
        says: a pattern in the line; {0}, {1}, … are its groups.
        replace: parts of the command and what the line says instead; "" adds to its end.
        edit: changes the files, given the directory and the groups.
        first: a command that the line says to run before.
        command: one to run instead.
    """

    says: str
    replace: dict[str, str] = field(default_factory=dict)
    edit: Edit = nothing
    first: str = ""
    command: str = ""


def instead(says: str, old: str, new: str, **options: object) -> Remedy:
    return Remedy(says, {old: new}, **options)  # type: ignore[arg-type]


def more(says: str, new: str = " {0}", **options: object) -> Remedy:
    return Remedy(says, {"": new}, **options)  # type: ignore[arg-type]


def see_help() -> Remedy:
    """Follow "See cloze VERB --help"."""
    return Remedy(r"See cloze (\w+ --help)", command="{0}")


def file(says: str, name: str, content: str | bytes, **options: object) -> Remedy:
    """Write a file as the line says."""
    data = content.encode() if isinstance(content, str) else content
    return Remedy(says, edit=lambda tmp, found, samples: (tmp / name).write_bytes(data), **options)  # type: ignore[arg-type]


def with_groups(template: str, found: tuple[str, ...]) -> str:
    for number, group in enumerate(found):
        template = template.replace(f"{{{number}}}", group)
    return template


def replaced(name: str, old: str, new: str) -> Edit:
    def edit(tmp: Path, found: tuple[str, ...], samples: Samples) -> None:
        text = (tmp / name).read_text("utf-8")
        assert old in text
        (tmp / name).write_text(text.replace(old, with_groups(new, found)), "utf-8")

    return edit


def renamed(name: str) -> Edit:
    """Give a file the ending that the line says."""
    return lambda tmp, found, samples: (tmp / name).rename((tmp / name).with_suffix(found[0]))


def shell(name: str) -> Edit:
    """Run the printed shell command on a file, with OLD and NEW as it says."""

    def run(tmp: Path, found: tuple[str, ...], samples: Samples) -> None:
        (tmp / name).rename(tmp / "OLD")
        command = found[0] if "OLD" in found[0] else f"{found[0]} OLD > NEW"
        subprocess.run(command, shell=True, check=True, cwd=tmp)
        (tmp / "NEW").rename(tmp / name)

    return run


def copied(sample: str) -> Edit:
    """Copy a sample to {tmp}/copy, in place of what may be there."""

    def copy(tmp: Path, found: tuple[str, ...], samples: Samples) -> None:
        shutil.rmtree(tmp / "copy", ignore_errors=True)
        shutil.copytree(getattr(samples, sample), tmp / "copy")

    return copy


def in_copy(change: Callable[[Path], object]) -> Edit:
    return lambda tmp, found, samples: change(tmp / "copy")


def mark_as_special(tokenizer: dict) -> None:  # type: ignore[type-arg]
    tokenizer["added_tokens"][0]["special"] = True


def at_line(name: str, pattern_line: int) -> Edit:
    """Write the first group of the line into a line of a file."""

    def edit(tmp: Path, found: tuple[str, ...], samples: Samples) -> None:
        lines = (tmp / name).read_text().split("\n")
        lines[pattern_line - 1] = found[0]
        (tmp / name).write_text("\n".join(lines))

    return edit


def write_parquet(tmp: Path, found: tuple[str, ...], samples: Samples) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": [LINE.decode()] * 9}), tmp / "text.parquet")


ICONV = Remedy(r"(iconv .*? OLD > NEW)", edit=shell("text"))
AGAIN = "([Cc]opy) (it again|or write it again|or write the directory again)"
CHECKPOINT = Remedy(AGAIN, edit=copied("checkpoint"))
OTHER_MODEL = Remedy("(belong to different models)", edit=copied("checkpoint"))
DATA = Remedy(AGAIN, edit=copied("data"))
CORPUS_WROTE = "a directory that (cloze corpus) wrote"
A_CHECKPOINT = "Give the (directory) of a checkpoint"
OTHER_NAME = "(Choose another name)"
DEVICE = r"Choose from auto, (cpu)"
WROTE = "Give a (directory) that cloze wrote"
RANKER = "finetune ranking -m {run} -d {tmp}/judged.tsv -o {tmp}/ranker --epochs 1 --set max_seq_length=16"
DRY = " --dry-run"
TO_TRAIN = " --data {data} --steps 1 " + shlex.join(NANO) + DRY


def write_judged(tmp: Path, found: tuple[str, ...], samples: Samples) -> None:
    rows = "".join(f"film {i}\tA film {i}.\t1\nfilm {i}\tA book {i}.\t0\n" for i in range(8))
    (tmp / "judged.tsv").write_text("query\tpassage\tlabel\n" + rows)


REMEDIES = {
    # text
    "no workers": instead("Choose the number of cores", "--workers 0", "--workers 1"),
    "no text named": instead("Name (files)", "corpus ", "corpus {text} --workers 1 "),
    "NUL bytes": file("Give (UTF-8) text", "text", GOOD_TEXT),
    "UTF-16": ICONV,
    "Latin-1": ICONV,
    "a line of 11 MB": file(
        "Put (line breaks) between its paragraphs", "text", LINE + b"\n".join([b"a" * 99] * 99)
    ),
    "JSON lines without the field": more(r"--text-field: (\w+)", " --text-field {0}"),
    "a line that is not JSON": Remedy(
        "JSON lines have a (whole object) each",
        edit=replaced("text.jsonl", "{text}", '{"text": "It rained."}'),
    ),
    "a lone surrogate in JSON": Remedy(
        r"Write (\\ufffd) in its place", edit=replaced("text.jsonl", "\\ud83d", "{0}")
    ),
    "a text named .parquet": Remedy(AGAIN, edit=write_parquet),
    "an article cut short": file(
        AGAIN, "wiki_00", b'<doc id="1">\nText.\n\nIt was dark. It rained.\n</doc>\n'
    ),
    "a table instead of a text": more(r"(--format lines)"),
    "--validate of wrong text": ICONV,
    "an unknown cleaning step": instead(r"Choose from (\w+)", "spelling", "{0}"),
    **{
        f"a {damage} {suffix}": file(AGAIN, f"text{suffix}", compress(GOOD_TEXT))
        for damage in ("truncated", "damaged")
        for suffix, compress in COMPRESSED.items()
    },
    "no such language": instead(r"Choose from am, (ar), bg,", "qqq", "{0}"),
    # vocabularies
    "too little text for the vocabulary size": more(r"Use ([\d,]+) tokens or fewer", " --size {0}"),
    "a vocabulary smaller than its alphabet": instead(r"Use at least (\d+)", "--size 20", "--size {0}"),
    "a vocabulary of negative size": instead("Use several (thousand)", "--size=-5", "--size=1000"),
    "no task": instead("Write (3/8)", "--task 9/8", "--task {0}"),
    "nothing to append to": Remedy(CORPUS_WROTE, {"{out}": "{tmp}/copy"}, copied("data")),
    "no vocabulary named": Remedy("(Name its) directory", {"": " --vocabulary {vocab} --workers 1"}),
    "another vocabulary to append with": Remedy(
        "(Leave out --vocabulary)",
        {"-o {data}": "-o {tmp}/copy", "--vocabulary {tmp}/vocab": ""},
        copied("data"),
    ),
    "no vocabulary": instead("Give the (directory) of a vocabulary", "{tmp}/none", "{vocab}"),
    "no [MASK]": Remedy(
        r"BERT needs .*(\[MASK\])", edit=replaced("vocab/vocab.txt", "[SEP]\n", "[SEP]\n{0}\n")
    ),
    "a token twice": Remedy(r"Write (\S+) in line 6", edit=at_line("vocab/vocab.txt", 6)),
    "an empty token": Remedy(r"Write (\S+) in line 7", edit=at_line("vocab/vocab.txt", 7)),
    "a vocabulary in Latin-1": Remedy(ICONV.says, edit=shell("vocab/vocab.txt")),
    "ids with gaps": CHECKPOINT,
    "a tokenizer of another type than its parts": CHECKPOINT,
    "a tokenizer that is not JSON": CHECKPOINT,
    "a special token that is not special": Remedy(
        '(Set its "special" to true)', edit=in_copy(edit_json("tokenizer.json", mark_as_special))
    ),
    # checkpoints
    "weights of two encoders": OTHER_MODEL,
    "weights of another model": OTHER_MODEL,
    "names of weights without dots": OTHER_MODEL,
    "a model without the head of the verb": instead(
        "Give a pre-trained (model) that has it", "{tmp}/copy", "{checkpoint}"
    ),
    "a file of weights to import": instead("Give a (directory)", "/model.safetensors", ""),
    "a ranker of three classes": Remedy(
        "(cloze finetune ranking)",
        {"{tmp}/copy": "{tmp}/ranker", "{table}": "{tmp}/judged.tsv"},
        write_judged,
        first=RANKER,
    ),
    "no such model": instead(A_CHECKPOINT, "{tmp}/none", "{checkpoint}"),
    "a model's file instead of its directory": instead(A_CHECKPOINT, "/model.safetensors", ""),
    "a vocabulary instead of a model": instead(A_CHECKPOINT, "{vocab}", "{checkpoint}"),
    **dict.fromkeys(
        (
            *("truncated weights", "a bit of the weights flipped", "a bit of the vocabulary flipped"),
            *("weights missing", "a damaged manifest", "truncated weights without a manifest"),
            *("a tokenizer too deep", "a manifest too deep", "a manifest of other types"),
        ),
        CHECKPOINT,
    ),
    **dict.fromkeys(("another hidden size", "more layers", "more tokens than embeddings"), OTHER_MODEL),
    **dict.fromkeys(
        (
            *("a run whose best is damaged", "a run whose latest is damaged"),
            "a run whose best checkpoint is gone",
        ),
        Remedy("(Copy the run again)", edit=copied("run")),
    ),
    "a config that is not JSON": instead(A_CHECKPOINT, "{tmp}/copy", "{checkpoint}"),
    "a config too deep": instead(A_CHECKPOINT, "{tmp}/copy", "{checkpoint}"),
    "weights that are not numbers": instead(
        "Use an (earlier) checkpoint", "{tmp}/copy", "{run}/checkpoints/step-00000002"
    ),
    "an activation that is a list": Remedy(
        "Did you mean (gelu)", edit=in_copy(set_config(hidden_act="gelu"))
    ),
    "labels without numbers": instead("(cloze finetune classification)", "{tmp}/copy", "{classifier}"),
    # data sets
    "no data set": Remedy(CORPUS_WROTE, {"{tmp}/none": "{data}", "": DRY}),
    "a data set of another kind": Remedy(CORPUS_WROTE, {"{vocab}": "{data}", "": DRY}),
    "a text instead of a data set": Remedy(CORPUS_WROTE, {"{text}": "{data}", "": DRY}),
    "a truncated shard": DATA,
    "a bit of a shard flipped": DATA,
    "a shard missing": DATA,
    "no manifest": Remedy(CORPUS_WROTE, {"{tmp}/copy": "{data}", "": DRY}),
    "a manifest of another kind": DATA,
    "a newer format": Remedy("or (write it again)", edit=copied("data")),
    # settings
    "an unknown setting": Remedy(
        r"Did you mean ([\w.]+\w)", {"optimizer.learningrate=1": "{0}=1e-3", "": DRY}
    ),
    "an unknown choice": Remedy(r"Did you mean (\w+)", {"float31": "{0}", "": DRY}),
    "a setting without a value": Remedy("Write (section.key=value)", {"--set seed": "--set seed=1", "": DRY}),
    "steps and a budget": Remedy("set either (steps) or a budget", {"--budget 30m": "", "": DRY}),
    "neither steps nor a budget": more("(--steps 10000) or --budget 30m", " {0} " + shlex.join(NANO) + DRY),
    "a budget that is not a time": Remedy(r"Write (\w+)", {"--steps 1 ": "", "soon": "{0}", "": DRY}),
    "a budget of 0": Remedy(r"Write (\w+)", {"--steps 1 ": "", "0m": "{0}", "": DRY}),
    "no such device": Remedy(DEVICE, {"abacus": "{0}", "": DRY}),
    "a device that computes nothing": Remedy(DEVICE, {"meta": "{0}", "": DRY}),
    "no such recipe": Remedy(r"Did you mean (\w+)\?", {"fest": "{0}", "": DRY}),
    "a recipe like no other": Remedy(r"or one of \w+, \w+, (fast), ", {"zzz": "{0}", "": DRY}),
    "a recipe that is not TOML": file(
        "Write lines (KEY = VALUE)", "mine.toml", "steps = 3\n", replace={"": " " + shlex.join(NANO) + DRY}
    ),
    "a recipe in Latin-1": Remedy(
        ICONV.says, {"": " --data {data} --steps 1 " + shlex.join(NANO) + DRY}, shell("mine.toml")
    ),
    "a recipe with an unknown key": Remedy(
        r"Did you mean (\w+)", {"": " " + shlex.join(NANO) + DRY}, replaced("mine.toml", "stebs", "{0}")
    ),
    "--model with --init": Remedy("(Leave it out)", {"--model tiny": "", "": DRY}),
    "other layers with --init": Remedy("(Leave it out)", {"--set model.num_hidden_layers=7": "", "": DRY}),
    "another size with --init": Remedy("(Leave it out)", {"--set 'model={size=\"tiny\"}'": "", "": DRY}),
    "--append with --validation-fraction": Remedy(
        "(Leave out) one", {"-o {data}": "-o {tmp}/copy", "--validation-fraction 0.5": ""}, copied("data")
    ),
    "--append with --overwrite": Remedy(
        "(Leave out) one", {"-o {data}": "-o {tmp}/copy", "--overwrite": ""}, copied("data")
    ),
    "a classifier to fill with": instead("Give a (pre-trained) model", "{classifier}", "{run}"),
    "a run without checkpoints to fill with": Remedy(
        "Continue it with (--resume)", first="pretrain -o {tmp}/copy {0}"
    ),
    "--init with another vocabulary": Remedy(
        "(cloze corpus --vocabulary) MODEL",
        {"--data {data}": "--data {tmp}/d", "": DRY},
        first="corpus {text} --vocabulary {tmp}/copy -o {tmp}/d --workers 1 --format paragraphs",
    ),
    "--init without a tokenizer": Remedy(
        "the directory of a vocabulary, or of a (model)", {"{tmp}/copy": "{run}", "": DRY}
    ),
    "--init with infinite weights": Remedy(
        "Use an (earlier) checkpoint", {"{tmp}/copy": "{run}/checkpoints/step-00000002", "": DRY}
    ),
    "--overwrite with settings that cannot run": Remedy(
        DEVICE, {"-o {run}": "-o {tmp}/copy", "abacus": "{0}", "": DRY}, copied("run")
    ),
    # usage
    "no such verb": Remedy(r"Did you mean (\w+)", {"pretrian": "{0}", "": TO_TRAIN}),
    "an unknown choice of a flag": instead(r"Choose from \w+, (\w+)", "--format x", "--format {0}"),
    "no such flag": Remedy(
        r"Did you mean (--\w+)", {"--stebs 3": "{0} 3", "": TO_TRAIN.replace("--steps 1", "")}
    ),
    **dict.fromkeys(
        (
            *("a required flag is missing", "a value of another type", "a flag without its value"),
            *("one sentence for next", "a part of a class"),
        ),
        see_help(),
    ),
    # output
    "existing output": Remedy(OTHER_NAME, {"-o {data}": "-o {out} --workers 1"}),
    "an existing run": Remedy(OTHER_NAME, {"-o {run}": "-o {out}"}),
    "--overwrite of another directory": instead(OTHER_NAME, "-o {tmp} ", "-o {out} --size 300 --workers 1 "),
    "a vocabulary where a file is": instead(OTHER_NAME, "{tmp}/file", "{out} --size 300 --workers 1"),
    "a run where a file is": instead(OTHER_NAME, "{tmp}/file", "{out}"),
    "a fine-tuning run where a file is": Remedy(OTHER_NAME, {"{tmp}/file": "{out}", "": " --validate"}),
    "a vocabulary below a file": instead(OTHER_NAME, "{text}/vocab", "{out} --size 300 --workers 1"),
    "a data set below a file": instead(OTHER_NAME, "{text}/a/b", "{out} --workers 1"),
    "this directory": instead(OTHER_NAME, "-o .", "-o {out} --workers 1"),
    "a URL for a local path": Remedy(
        "(Copy the output) afterwards",
        {"s3://bucket/vocab": "{out}", "{text}": "{tmp}/words"},
        lambda tmp, found, samples: (tmp / "words").write_text("zebrafish\n"),
    ),
    "a URL for a local output": instead("(Copy the output) afterwards", "s3://bucket/page.html", "{out}"),
    "a file instead of its directory": instead("Give its (directory)", "/vocab.txt", " --workers 1"),
    "a run below a file": Remedy(OTHER_NAME, {"{text}/run": "{out}", "": DRY}),
    "a report below a file": instead(OTHER_NAME, "{text}/report.html", "{out}"),
    "predictions under a compressed name": instead("(Leave out) the last suffix", "a.jsonl.GZ", "a.jsonl"),
    "evaluated predictions under a compressed name": Remedy(
        "(Leave out) the last suffix", {"a.jsonl.gz": "a.jsonl", "{tmp}/none": "{classifier}"}
    ),
    "predict on a missing file": instead("end (a text) with a period", "{tmp}/none.txt -o {out}", "'{0}.'"),
    "predictions below a file": instead(OTHER_NAME, "{text}/a.jsonl", "{out}"),
    "a report over a directory": instead(OTHER_NAME, "-o {data}", "-o {out}"),
    # resume
    "resume nothing": Remedy("Give the (settings) of a new run", {"--resume": "", "": TO_TRAIN}),
    "--resume with --dry-run": Remedy(
        "(Leave out) one", {" --resume --dry-run": " --resume", "{run}": "{tmp}/copy"}, copied("run")
    ),
    "--resume with --overwrite": Remedy(
        "(Leave out) one",
        {" --overwrite": "", "{run}": "{tmp}/copy", "sst2": "classification"},
        copied("classifier"),
    ),
    "resume a data set": Remedy("a free (--output)", {"-o {data} --resume": "-o {out}", "": TO_TRAIN}),
    "resume with other settings": Remedy(
        "(Leave them out)", {" --steps 9": "", "{run}": "{tmp}/copy"}, copied("run")
    ),
    "resume a fine-tuning as a pre-training": Remedy(
        "Resume it with cloze (finetune)",
        {"pretrain -o {classifier}": "{0} classification -o {tmp}/copy"},
        copied("classifier"),
    ),
    "resume a pre-training as a fine-tuning": Remedy(
        "Resume it with cloze (pretrain)",
        {"finetune classification -o {run}": "{0} -o {tmp}/copy"},
        copied("run"),
    ),
    "resume with another data set": Remedy("(Restore) the run's data", edit=copied("run")),
    "resume without the data set": Remedy(CORPUS_WROTE, edit=copied("run")),
    # answers
    "no [MASK] to fill": instead(r"Write (\[MASK\]) in place of a word", "dark", "{0}"),
    "an empty text": instead(r"Write (\[MASK\]) in place of a word", "''", "'It was {0}.'"),
    "no text to fill": more("Give a (text) in quotes", " 'It was [MASK].'"),
    "a text too long to fill": instead("Give a (shorter) text", "night " * 40, "night"),
    "a pair too long": instead("Give (shorter) sentences", "night " * 40, "night"),
    "no such device to fill on": instead(DEVICE, "abacus", "{0}"),
    "info on a text": instead(WROTE, "{text}", "{data}"),
    "info on a missing directory": instead(WROTE, "{tmp}/none", "{vocab}"),
    "info on another directory": instead(WROTE, "{tmp}", "{run}"),
    "info on a damaged run": Remedy(AGAIN, edit=copied("run")),
    "a report of a missing run": instead("Give the (directory) of a run", "{tmp}/none", "{run} -o {out}"),
    "a report of a data set": instead("Give the (directory) of a run", "{data}", "{run} -o {out}"),
    # labeled data
    "a table of another kind": Remedy(
        r"Its name must end in (\.tsv)",
        {"a.ods": "a{0}", "": " --validate"},
        lambda tmp, found, samples: shutil.copy(samples.table, tmp / "a.tsv"),
    ),
    "no such column": Remedy(
        r"There are '(\w+)', .*say which it is with --text-column NAME",
        {"": " --text-column {0} --validate"},
        replaced("a.tsv", "a\tb\n", "a\tb\nc\td\n" * 9),
    ),
}


NOT_RUN = {
    "a binary file": "the file has no text in any encoding",
    "a pipe instead of a text": "another process must write into the pipe",
    "missing weights without a manifest": "another program has to save them",
}
"""Rows whose remedy no test can follow, and why."""
