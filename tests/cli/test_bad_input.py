"""What is wrong with an input or a machine is said in one line, and nothing half-written is left.

A case is a command and what its one line must say. In a command, {tmp} is an empty directory, {out} a path in it that
is free, and {text}, {vocab}, {data}, {run}, {checkpoint}, {table}, {classifier} are whole and right; `spoil` makes
what is not. Exit code 2 says that the input was wrong, 1 that something failed while running.
"""

import bz2
import errno
import gzip
import io
import json
import lzma
import os
import shlex
import shutil
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
import torch
import zstandard
from safetensors.torch import load_file, save_file
from shop import NANO, NANO_TASK, Shop

from cloze import artifacts
from cloze.cli import main
from helpers import flip_a_bit

LIMIT_SECONDS = 5
LINE = b"It was a dark and stormy night. The rain fell in torrents.\n"
PRETRAIN = "pretrain -o {out} --steps 1 " + shlex.join(NANO) + " "
GO_ON = "pretrain -o {out} --steps 1 " + shlex.join(s for s in NANO if "=model." not in s) + " --init "
FINETUNE = "finetune classification -o {out} " + shlex.join(NANO_TASK) + " "
CORPUS = "corpus {tmp}/text --vocab {vocab} -o {out} --workers 1"


@dataclass(frozen=True)
class Case:
    command: str
    says: tuple[str, ...]
    spoil: Callable[[Path, Shop], object] = lambda tmp, shop: None
    exit_code: int = 2
    keeps_parts: bool = False
    """What was counted is kept, for the next try with another size."""


def text(content: bytes, name: str = "text") -> Callable[[Path, Shop], object]:
    return lambda tmp, shop: (tmp / name).write_bytes(content)


def of_text(name: str, content: bytes, *says: str) -> Case:
    """A text file that `cloze corpus` cannot read."""
    return Case(CORPUS.replace("{tmp}/text", "{tmp}/" + name), says, text(content, name))


def cut(packed: bytes) -> bytes:
    return packed[: len(packed) * 2 // 3]


def pieces(content: bytes) -> Callable[[Path, Shop], object]:
    def spoil(tmp: Path, shop: Shop) -> None:
        (tmp / "vocab").mkdir()
        (tmp / "vocab" / "vocab.txt").write_bytes(content)

    return spoil


def of_vocabulary(content: bytes, *says: str) -> Case:
    """A vocab.txt that no tokenizer can be made of."""
    return Case("corpus {text} --vocab {tmp}/vocab -o {out}", says, pieces(content))


def copy_of(what: str, change: Callable[[Path], object]) -> Callable[[Path, Shop], object]:
    def spoil(tmp: Path, shop: Shop) -> None:
        change(Path(shutil.copytree(getattr(shop, what), tmp / "copy")))

    return spoil


def cut_short(file: Path) -> None:
    file.write_bytes(cut(file.read_bytes()))


def foreign(change: Callable[[Path], object]) -> Callable[[Path, Shop], object]:
    """A checkpoint as other tools leave it: nothing vouches for its files."""

    def without_manifest(directory: Path) -> None:
        (directory / "manifest.json").unlink()
        change(directory)

    return copy_of("checkpoint", without_manifest)


def config(**changes: object) -> Callable[[Path], object]:
    def change(directory: Path) -> None:
        file = directory / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return change


def weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], object]:
    def rewrite(directory: Path) -> None:
        file = directory / "model.safetensors"
        tensors = load_file(file)
        change(tensors)
        save_file(tensors, file, metadata={"format": "pt"})

    return rewrite


def tokenizer_json(change: Callable[[dict[str, object]], object]) -> Callable[[Path], object]:
    def rewrite(directory: Path) -> None:
        file = directory / "tokenizer.json"
        table = json.loads(file.read_text())
        change(table)
        file.write_text(json.dumps(table))

    return rewrite


def of_model(change: Callable[[Path, Shop], object], *says: str) -> Case:
    """A checkpoint that cannot be used."""
    return Case("fill -m {tmp}/copy 'It was a [MASK] night.'", says, change)


def of_data(change: Callable[[Path], object], *says: str) -> Case:
    """A data set that cannot be used."""
    return Case(PRETRAIN + "--data {tmp}/copy", says, copy_of("data", change))


def of_settings(flags: str, *says: str) -> Case:
    return Case(PRETRAIN + "--data {data} " + flags, says)


def recipe(content: str, *says: str) -> Case:
    return Case(
        "pretrain -o {out} --data {data} --config {tmp}/mine.toml", says, text(content.encode(), "mine.toml")
    )


def labelled(name: str, content: bytes, *says: str) -> Case:
    """Labelled data that cannot be learned from."""
    return Case(FINETUNE + "-m {run} -d {tmp}/" + name, says, text(content, name))


def swap_data(run: Path) -> None:
    file = run / "run.toml"
    settings = file.read_text()
    digest = settings.split('data_sha256 = "')[1].split('"')[0]
    file.write_text(settings.replace(digest, "0" * 64))


def lose_data(run: Path) -> None:
    lines = (run / "run.toml").read_text().splitlines()
    lines[0] = f'data = "{run}/gone"'
    (run / "run.toml").write_text("\n".join(lines))


def damage_line(file: Path, number: int) -> None:
    lines = file.read_text().splitlines()
    lines[number - 1] = lines[number - 1][:10]
    file.write_text("\n".join(lines) + "\n")


def with_other_pieces(model: Path) -> None:
    lines = (model / "vocab.txt").read_text("utf-8").splitlines()
    (model / "vocab.txt").write_text("\n".join([*lines[:300], *reversed(lines[300:])]) + "\n", "utf-8")
    (model / "tokenizer.json").unlink()


def without_tokenizer(model: Path) -> None:
    for name in ("vocab.txt", "tokenizer.json"):
        (model / name).unlink()


SPECIAL = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
GOOD_TEXT = LINE * 50

CASES = {
    # text
    "no text at all": of_text("text", b"", "{tmp}/text: no text in it"),
    "only white space": of_text("text", b" \n\t\n\n", "{tmp}/text: no text in it"),
    "only a byte order mark": of_text("text", b"\xef\xbb\xbf", "{tmp}/text: no text in it"),
    "a folder without files": Case(
        CORPUS, ("{tmp}/text: no file in this folder",), lambda tmp, shop: (tmp / "text").mkdir()
    ),
    "no such text": Case(CORPUS, ("{tmp}/text: no such file",)),
    "no text named": Case("corpus --vocab {vocab} -o {out}", ("no input was given", "Name files")),
    "a glob that matches nothing": Case(CORPUS.replace("text", "*.txt", 1), ("{tmp}/*.txt: no such file",)),
    "a binary file": of_text("text", b"\x7fELF\x02\xff\xfe" * 99, "{tmp}/text:1: not UTF-8"),
    "NUL bytes": of_text("text", LINE + b"a\0b\n", "{tmp}/text:2: a NUL byte", "Give UTF-8"),
    "UTF-16": of_text("text", "Ein Text\n".encode("utf-16"), "{tmp}/text: text in UTF-16", "iconv"),
    "Latin-1": of_text("text", LINE + "caf\xe9\n".encode("latin-1"), "{tmp}/text:2: not UTF-8", "iconv"),
    "a line of 11 MB": of_text("text", LINE + b"a" * 11_000_000, "{tmp}/text:2", "over 10 MB", "line break"),
    "JSON lines without the field": of_text(
        "text.jsonl", b'{"body": "It was."}\n', "{tmp}/text.jsonl:1: no field 'text'", "--text-field", "body"
    ),
    "a line that is no JSON": of_text(
        "text.jsonl", b'{"text": "It was dark."}\n{text}\n', "{tmp}/text.jsonl:2: not JSON"
    ),
    "half a character in JSON": of_text(
        "text.jsonl", b'{"text": "It was \\ud83d"}\n', "{tmp}/text.jsonl:1: half a character"
    ),
    "a text named .parquet": of_text("text.parquet", GOOD_TEXT, "{tmp}/text.parquet: cannot be read"),
    "an article cut short": of_text("wiki_00", b'<doc id="1">\nText.\n', "{tmp}/wiki_00:1: this <doc"),
    "a table instead of a text": of_text("text.tsv", b"a\tb\n", "{tmp}/text.tsv: a table of columns"),
    "a pipe instead of a text": Case(
        CORPUS, ("{tmp}/text: is a pipe",), lambda tmp, shop: os.mkfifo(tmp / "text")
    ),
    "text that is wrong, looked at": Case(
        "corpus {tmp}/text --validate", ("{tmp}/text:2: not UTF-8",), text(LINE + b"caf\xe9\n")
    ),
    "text that is not there, looked at": Case("vocab {tmp}/none --dry-run", ("{tmp}/none: no such file",)),
    "no documents asked for": Case(
        "corpus {text} --vocab {vocab} -o {out} --limit 0", ("limit: 0 is less than 1",)
    ),
    "no such step of cleaning": Case(
        "corpus {text} --vocab {vocab} -o {out} --without spelling", ("--without", "'spelling'")
    ),
    "a cut .gz": of_text("text.gz", cut(gzip.compress(GOOD_TEXT)), "{tmp}/text.gz", "cut short"),
    "a cut .bz2": of_text("text.bz2", cut(bz2.compress(GOOD_TEXT)), "{tmp}/text.bz2", "cut short"),
    "a cut .xz": of_text("text.xz", cut(lzma.compress(GOOD_TEXT)), "{tmp}/text.xz", "cut short"),
    "a cut .zst": of_text("text.zst", cut(zstandard.compress(GOOD_TEXT)), "{tmp}/text.zst", "cut short"),
    "a .gz that is none": of_text("text.gz", GOOD_TEXT, "{tmp}/text.gz: cannot be read", "damaged"),
    "a .xz that is none": of_text("text.xz", GOOD_TEXT, "{tmp}/text.xz: cannot be read", "damaged"),
    "a .zst that is none": of_text("text.zst", GOOD_TEXT, "{tmp}/text.zst: cannot be read", "damaged"),
    "no such language": Case("corpus {text} --vocab {vocab} -o {out} --language qqq", ("'qqq'",)),
    "no workers": Case("corpus {text} --vocab {vocab} -o {out} --workers 0", ("workers: 0 is less than 1",)),
    "no share to hold out": Case(
        "corpus {text} --vocab {vocab} -o {out} --validation-fraction nan", ("--validation-fraction",)
    ),
    # vocabularies
    "too little text for so many pieces": Case(
        "vocab {tmp}/text -o {out}",
        ("size: 30,522 pieces asked for", "Use a smaller one"),
        text(GOOD_TEXT),
        keeps_parts=True,
    ),
    "a vocabulary smaller than its alphabet": Case(
        "vocab {text} -o {out} --size 20",
        ("size: 20 pieces cannot hold", "Use at least"),
        keeps_parts=True,
    ),
    "a vocabulary of negative size": Case(
        "vocab {text} -o {out} --size=-5", ("size: -5 pieces leave no room beside the 5 reserved ones",)
    ),
    "a vocabulary of nothing": Case("vocab {tmp}/text -o {out}", ("{tmp}/text: no text in it",), text(b"\n")),
    "no task": Case("corpus {text} --vocab {vocab} -o {out} --task 9/8", ("--task: 9/8 is no task", "3/8")),
    "nothing to merge": Case("corpus merge {out}", ("{out}.parts: no parts of a data set",)),
    "nothing to append to": Case("corpus {text} -o {out} --append", ("{out}: no such directory",)),
    "no vocabulary named": Case("corpus {text} -o {out}", ("--vocab is missing",)),
    "another vocabulary to append with": Case(
        "corpus {text} -o {data} --append --vocab {tmp}/vocab",
        ("{tmp}/vocab: is not the vocabulary of {data}", "Leave --vocab out"),
        pieces(SPECIAL + b"a\n"),
    ),
    "no such splitter": Case(
        "corpus {text} --vocab {vocab} -o {out} --splitter nowhere:split",
        ("--splitter nowhere:split", "nowhere"),
    ),
    "no vocabulary": Case("corpus {text} --vocab {tmp}/none -o {out}", ("{tmp}/none: no tokenizer here",)),
    "no [MASK]": of_vocabulary(
        SPECIAL.replace(b"[MASK]\n", b"") + b"a\n", "{tmp}/vocab/vocab.txt: the vocabulary has no [MASK]"
    ),
    "a piece twice": of_vocabulary(SPECIAL + b"a\nb\na\n", "vocab.txt:8: 'a' stands in line 6 already"),
    "an empty vocabulary": of_vocabulary(b"", "{tmp}/vocab/vocab.txt: the vocabulary is empty"),
    "an empty piece": of_vocabulary(SPECIAL + b"a\n\nb\n", "vocab.txt:7: empty line"),
    "a vocabulary in Latin-1": of_vocabulary(SPECIAL + b"caf\xe9\n", "vocab.txt:6: not UTF-8"),
    "ids with gaps": of_model(
        foreign(tokenizer_json(lambda t: t["model"]["vocab"].update(zzz=9999))), "copy/tokenizer.json", "gaps"
    ),
    "a tokenizer that is not BERT's": of_model(
        foreign(tokenizer_json(lambda t: t["model"].update(type="BPE"))),
        "copy/tokenizer.json: not a BERT",
        "BPE",
    ),
    "a tokenizer that is no JSON": of_model(
        foreign(lambda d: (d / "tokenizer.json").write_text("{")), "copy/tokenizer.json: not JSON"
    ),
    # checkpoints
    "no such model": Case("fill -m {tmp}/none 'a [MASK]'", ("{tmp}/none",)),
    "a model's file instead of its directory": Case(
        "fill -m {checkpoint}/model.safetensors 'a [MASK]'", ("model.safetensors",)
    ),
    "a vocabulary instead of a model": Case("fill -m {vocab} 'a [MASK]'", ("{vocab}", "is a vocabulary")),
    "weights cut short": of_model(
        copy_of("checkpoint", lambda d: cut_short(d / "model.safetensors")),
        "copy/model.safetensors:",
        "bytes, the manifest says",
        "copy or write it anew",
    ),
    "a bit of the weights flipped": of_model(
        copy_of("checkpoint", lambda d: flip_a_bit(d / "model.safetensors")),
        "copy/model.safetensors: its SHA-256 is not the manifest's",
    ),
    "a bit of the vocabulary flipped": of_model(
        copy_of("checkpoint", lambda d: flip_a_bit(d / "vocab.txt")), "copy/vocab.txt: its SHA-256"
    ),
    "weights missing": of_model(
        copy_of("checkpoint", lambda d: (d / "model.safetensors").unlink()), "copy/model.safetensors: missing"
    ),
    "a damaged manifest": of_model(
        copy_of("checkpoint", lambda d: cut_short(d / "manifest.json")),
        "copy/manifest.json: damaged manifest",
    ),
    "a run whose latest checkpoint is gone": of_model(
        copy_of("run", lambda d: shutil.rmtree(d / "checkpoints")), "copy/latest"
    ),
    "a run whose latest is damaged": of_model(
        copy_of("run", lambda d: (d / "latest").write_bytes(b"\xff\0")), "copy/latest"
    ),
    "foreign weights cut short": of_model(
        foreign(lambda d: cut_short(d / "model.safetensors")), "copy/model.safetensors: cannot be read"
    ),
    "foreign weights missing": of_model(
        foreign(lambda d: (d / "model.safetensors").unlink()), "copy/model.safetensors: no such file"
    ),
    "another hidden size": of_model(foreign(config(hidden_size=24)), "copy/model.safetensors", "16", "24"),
    "more layers": of_model(foreign(config(num_hidden_layers=2)), "copy/model.safetensors", "layer.1"),
    "fewer layers": of_model(
        foreign(weights(lambda t: t.update({"bert.encoder.layer.7.output.dense.bias": torch.zeros(16)}))),
        "copy/model.safetensors: unexpected weight bert.encoder.layer.7",
    ),
    "more pieces than embeddings": of_model(
        foreign(config(vocab_size=400)), "copy/vocab.txt: 500 pieces", "vocab_size = 400"
    ),
    "heads that do not divide": of_model(
        foreign(config(num_attention_heads=3)), "copy/config.json", "multiple of num_attention_heads = 3"
    ),
    "no layers": of_model(foreign(config(num_hidden_layers=0)), "copy/config.json", "num_hidden_layers = 0"),
    "a size that is a text": of_model(foreign(config(hidden_size="16")), "copy/config.json", "hidden_size"),
    "a config that is no JSON": of_model(
        foreign(lambda d: (d / "config.json").write_text("{,")), "copy/config.json: not a JSON file"
    ),
    "another kind of model": of_model(
        foreign(config(model_type="roberta")), "copy/config.json: model_type 'roberta', cloze reads 'bert'"
    ),
    "weights that are not numbers": of_model(
        foreign(weights(lambda t: t["bert.pooler.dense.bias"].fill_(float("nan")))),
        "copy/model.safetensors: the weight bert.pooler.dense.bias holds NaN",
    ),
    "a config too deep": of_model(
        foreign(lambda d: (d / "config.json").write_text("[" * 10**5)), "copy/config.json"
    ),
    "a tokenizer too deep": of_model(
        foreign(lambda d: (d / "tokenizer.json").write_text("[" * 10**5)), "copy/tokenizer.json: not JSON"
    ),
    "a manifest too deep": of_model(
        copy_of("checkpoint", lambda d: (d / "manifest.json").write_text("[" * 10**5)), "damaged manifest"
    ),
    "a manifest of other types": of_model(
        copy_of(
            "checkpoint",
            lambda d: (d / "manifest.json").write_text(
                '{"kind": "checkpoint", "format_version": 1, "files": {"vocab.txt": {"bytes": "9", "sha256": 3}}}'
            ),
        ),
        "copy/manifest.json: damaged manifest",
    ),
    "a million layers": of_model(
        foreign(config(num_hidden_layers=10**6)), "config.json", "is more than 1,000"
    ),
    "a size beyond all memory": of_model(
        foreign(config(hidden_size=2**60)), "config.json", "is more than 10,000,000"
    ),
    "an activation that is a list": of_model(
        foreign(config(hidden_act=["gelu"])), "copy/config.json", "hidden_act"
    ),
    "labels without numbers": Case(
        "predict classification -m {tmp}/copy {table}",
        ("copy/config.json: id2label",),
        foreign(config(id2label={"good": 0})),
    ),
    # data sets
    "no data set": Case(PRETRAIN + "--data {tmp}/none", ("{tmp}/none: no such directory",)),
    "a data set of another kind": Case(
        PRETRAIN + "--data {vocab}", ("{vocab}: is a vocabulary, not a dataset",)
    ),
    "a text instead of a data set": Case(PRETRAIN + "--data {text}", ("{text}",)),
    "a shard cut short": of_data(
        lambda d: cut_short(d / "documents-00000.arrow"), "copy/documents-00000.arrow:", "the manifest says"
    ),
    "a bit of a shard flipped": of_data(
        lambda d: flip_a_bit(d / "documents-00000.arrow"), "copy/documents-00000.arrow: its SHA-256"
    ),
    "a shard missing": of_data(
        lambda d: (d / "documents-00000.arrow").unlink(), "copy/documents-00000.arrow: missing"
    ),
    "no manifest": of_data(
        lambda d: (d / "manifest.json").unlink(), "copy: not a dataset", "no manifest.json"
    ),
    "a manifest of another kind": of_data(
        lambda d: (d / "manifest.json").write_text('["a"]'), "copy/manifest.json: damaged manifest"
    ),
    "a newer format": of_data(
        lambda d: (d / "manifest.json").write_text('{"kind": "dataset", "format_version": 99, "files": {}}'),
        "copy/manifest.json: format version 99",
    ),
    # settings
    "a setting that is not there": of_settings(
        "--set optimizer.learningrate=1",
        "unknown key optimizer.learningrate",
        "Did you mean optimizer.learning_rate",
    ),
    "a setting of another type": of_settings("--set seed=often", "seed must be of type int, not 'often'"),
    "a choice that is none": of_settings(
        "--set precision=float31", "precision = 'float31'", "Did you mean float32"
    ),
    "a setting that is no setting": of_settings(
        "--set seed", "--set: cannot read 'seed'", "section.key=value"
    ),
    "a setting under a value": of_settings("--set seed.much=1", "seed", "must be of type int"),
    "a size that does not divide": of_settings("--set model.hidden_size=17", "model", "multiple of"),
    "a length beyond the positions": of_settings(
        "--set model.max_position_embeddings=16",
        "max_seq_length 32 is more than model.max_position_embeddings 16",
    ),
    "steps and a budget": of_settings("--budget 30m", "either steps or a budget"),
    "neither steps nor a budget": Case("pretrain -o {out} --data {data}", ("--steps 10000 or --budget 30m",)),
    "a budget that is none": of_settings("--budget soon", "--budget: cannot read 'soon' as a time", "30m"),
    "a budget of nothing": of_settings("--budget 0m", "--budget: cannot read '0m'"),
    "no steps": of_settings("--steps 0", "steps 0 is not positive"),
    "a negative seed": of_settings("--seed=-1", "seed -1 is not in 0..2147483647"),
    "no such device": of_settings("--set device=abacus", "device 'abacus' is not to be had", "cpu, cuda"),
    "a device that computes nothing": of_settings("--set device=meta", "device 'meta' is not to be had"),
    "no masks": of_settings(
        "--set 'phases=[{max_seq_length=32, fraction=1, max_predictions_per_seq=0}]'",
        "phases[0]: max_predictions_per_seq 0 is not positive",
    ),
    "weights of infinite spread": of_settings("--set model.initializer_range=inf", "initializer_range = inf"),
    "no such recipe": of_settings("--config fest", "--config: no recipe 'fest'", "fast"),
    "a recipe that is not there": of_settings("--config {tmp}/none.toml", "{tmp}/none.toml: no such file"),
    "a recipe that is no TOML": recipe("steps = = 3\n", "{tmp}/mine.toml: not a TOML file", "line 1"),
    "a recipe in Latin-1": Case(
        "pretrain -o {out} --config {tmp}/mine.toml", ("{tmp}/mine.toml",), text(b"# caf\xe9\n", "mine.toml")
    ),
    "a recipe with an unknown key": recipe(
        "stebs = 3\n", "{tmp}/mine.toml and flags: unknown key stebs", "Did you mean steps"
    ),
    "a recipe with a wrong type": recipe(
        'steps = "many"\n', "{tmp}/mine.toml and flags: steps must be of type int"
    ),
    "a size beside a model to start from": Case(
        GO_ON + "{run} --model tiny --data {data}", ("--model: does not go with --init",)
    ),
    "another encoder beside a model to start from": Case(
        GO_ON + "{run} --set model.num_hidden_layers=7 --data {data}",
        ("model.num_hidden_layers: does not go with --init: it is the checkpoint's",),
    ),
    "another size beside a model to start from": Case(
        GO_ON + "{run} --set 'model={size=\"tiny\"}' --data {data}",
        ("model.size: does not go with --init: it is the checkpoint's",),
    ),
    "appending with another share held out": Case(
        "corpus {text} -o {data} --append --validation-fraction 0.5",
        ("--validation-fraction: what is held out was settled",),
    ),
    "appending and overwriting": Case(
        "corpus {text} -o {data} --append --overwrite", ("--overwrite: does not go with --append",)
    ),
    "a classifier to fill with": Case(
        "fill -m {classifier} 'a [MASK]'",
        ("a model for the task 'classification': no weight", "Give a pre-trained one"),
    ),
    "a run that has not begun to fill with": Case(
        "fill -m {tmp}/copy 'a [MASK]'",
        ("{tmp}/copy: is a run without a checkpoint", "--resume"),
        copy_of("run", lambda d: (d / "latest").unlink()),
    ),
    "a model to start from with other pieces": Case(
        GO_ON + "{tmp}/copy --data {data}",
        ("{data}: its vocabulary is neither the model's", "piece 300 is", "cloze vocab extend"),
        foreign(with_other_pieces),
    ),
    "a model to start from without a tokenizer": Case(
        GO_ON + "{tmp}/copy --data {data}",
        ("{tmp}/copy: no tokenizer here",),
        foreign(without_tokenizer),
    ),
    "a data set of the old text that is not there": Case(
        PRETRAIN + "--data {data} --set old_data={tmp}/none", ("{tmp}/none",)
    ),
    "a model to start from that is broken": Case(
        GO_ON + "{tmp}/copy --data {data}",
        ("holds NaN or infinite values",),
        foreign(weights(lambda t: t["bert.pooler.dense.bias"].fill_(float("inf")))),
    ),
    "overwriting with settings that cannot run": Case(
        PRETRAIN.replace("{out}", "{run}") + "--data {data} --overwrite --set device=abacus",
        ("device 'abacus'",),
    ),
    # usage
    "no such verb": Case("pretrian -o {out}", ("no verb 'pretrian'", "Did you mean pretrain")),
    "no such flag": Case("pretrain -o {out} --stebs 3", ("--stebs", "--steps", "cloze pretrain --help")),
    "a required flag is missing": Case("fill 'a [MASK]'", ("--model", "cloze fill --help")),
    "a value of another type": Case("pretrain -o {out} --steps many", ("--steps", "'many'")),
    "a flag without its value": Case("pretrain -o {out} --steps", ("--steps",)),
    "a choice of a flag that is none": Case(
        "corpus {text} --vocab {vocab} -o {out} --format x", ("--format", "'x'")
    ),
    "one sentence of two": Case("next -m {run} 'Only one.'", ("B", "cloze next --help")),
    # output
    "output that is there": Case(
        "corpus {text} --vocab {vocab} -o {data}", ("{data}: exists already", "--overwrite")
    ),
    "a run that is there": Case(
        PRETRAIN.replace("{out}", "{run}") + "--data {data}",
        ("{run}: exists already", "--resume", "--overwrite"),
    ),
    "output that is not ours": Case(
        "vocab {text} -o {tmp} --overwrite",
        ("{tmp}: is not a directory that cloze wrote",),
        text(b"precious", "thesis.txt"),
    ),
    "a vocabulary where a file is": Case(
        "vocab {text} -o {tmp}/file --overwrite", ("{tmp}/file",), text(b"precious", "file")
    ),
    "a run where a file is": Case(
        PRETRAIN.replace("{out}", "{tmp}/file") + "--data {data} --overwrite",
        ("{tmp}/file",),
        text(b"", "file"),
    ),
    "a fine-tuning run where a file is": Case(
        FINETUNE.replace("{out}", "{tmp}/file") + "-m {run} -d {table} --overwrite",
        ("{tmp}/file",),
        text(b"", "file"),
    ),
    "a vocabulary below a file": Case("vocab {text} -o {text}/vocab", ("{text}", "is a file")),
    "a data set below a file": Case("corpus {text} --vocab {vocab} -o {text}/a/b", ("{text}", "is a file")),
    "this directory": Case("corpus {text} --vocab {vocab} -o .", (".: exists already", "--overwrite")),
    "parts of this directory": Case("corpus merge .", (".parts: no parts of a data set",)),
    "a store where a path is wanted": Case(
        "vocab extend {vocab} --words {text} -o s3://bucket/vocab",
        ("s3://bucket/vocab: no path of this machine. Give a path",),
    ),
    "a file in place of its directory": Case(
        "corpus {text} --vocab {vocab}/vocab.txt -o {out}",
        ("{vocab}/vocab.txt: is a file. Give the directory",),
    ),
    "plan nothing": Case("plan --steps nan", ("--steps: nan is not above 0",)),
    "plan without a network": Case("plan --network 0", ("--network: 0.0 is not above 0",)),
    "a run below a file": Case(
        PRETRAIN.replace("{out}", "{text}/run") + "--data {data}", ("{text}", "is a file")
    ),
    "a report below a file": Case("report {run} -o {text}/report.html", ("{text}", "is a file")),
    "predictions under a compressed name": Case(
        "predict classification -m {classifier} {table} -o {tmp}/a.jsonl.GZ",
        ("{tmp}/a.jsonl.GZ: lines are written as they are, not compressed",),
    ),
    "predictions that are scored, under one": Case(
        "evaluate classification -m {tmp}/none -d {table} -o {tmp}/a.jsonl.gz",
        ("{tmp}/a.jsonl.gz: lines are written as they are, not compressed",),
    ),
    "predictions below a file": Case(
        "predict classification -m {classifier} {table} -o {text}/a.jsonl", ("{text}", "is a file")
    ),
    "a report in place of a directory": Case("report {run} -o {data} --overwrite", ("{data}",)),
    # resume
    "resume nothing": Case("pretrain -o {out} --resume", ("{out}: no run to resume",)),
    "resume and look": Case(
        "pretrain -o {run} --resume --dry-run",
        ("--dry-run: does not go with --resume. Leave one of them out",),
    ),
    "resume and begin anew": Case(
        "finetune sst2 -o {run} --resume --overwrite", ("--overwrite: does not go with --resume",)
    ),
    "sizes that are none": Case(
        "bench growth --megabytes 10,x", ("--megabytes: '10,x' is no list of sizes",)
    ),
    "resume a data set": Case("pretrain -o {data} --resume", ("{data}: no run to resume",)),
    "resume with other settings": Case(
        "pretrain -o {run} --resume --steps 9", ("{run}", "run's own settings")
    ),
    "resume a fine-tuning as a pre-training": Case(
        "pretrain -o {classifier} --resume", ("{classifier}/run.toml",)
    ),
    "resume a pre-training as a fine-tuning": Case(
        "finetune classification -o {run} --resume", ("{run}/run.toml",)
    ),
    "resume with another data set": Case(
        "pretrain -o {tmp}/copy --resume",
        ("is not the data set that the settings were made for",),
        copy_of("run", lambda d: swap_data(d)),
    ),
    "resume without the data set": Case(
        "pretrain -o {tmp}/copy --resume", ("{tmp}/copy/gone",), copy_of("run", lambda d: lose_data(d))
    ),
    # answers
    "no [MASK] to fill": Case(
        "fill -m {run} 'It was dark.'", ("no [MASK] in 'It was dark.'", "Write [MASK]")
    ),
    "an empty text": Case("fill -m {run} ''", ("no [MASK] in ''",)),
    "no text to fill": Case("fill -m {run}", ("no text was given", "- to read lines from stdin")),
    "a text too long to fill": Case(
        "fill -m {run} '[MASK] " + "night " * 40 + "'",
        ("the model takes 32", "tokens", "Give a shorter text"),
    ),
    "a pair too long": Case("next -m {run} '" + "night " * 40 + "' b", ("the model takes 32", "tokens")),
    "no candidates": Case("fill -m {run} -k 0 'a [MASK]'", ("top_k", "0")),
    "no such device to fill on": Case("fill -m {run} --device abacus 'a [MASK]'", ("device 'abacus'", "cpu")),
    "info on a text": Case("info {text}", ("{text}: is a file", "Give a directory")),
    "info on nothing": Case("info {tmp}/none", ("{tmp}/none: no such directory",)),
    "info on a folder": Case("info {tmp}", ("{tmp}: not a checkpoint, data set, vocabulary or run",)),
    "info on a damaged run": Case(
        "info {tmp}/copy",
        ("copy/checkpoints/step-00000002/model.safetensors: its SHA-256",),
        copy_of("run", lambda d: flip_a_bit(d / "checkpoints/step-00000002/model.safetensors")),
    ),
    "a report of nothing": Case("report {tmp}/none", ("{tmp}/none: no such directory",)),
    "a report of a data set": Case("report {data}", ("{data}: not a run",)),
    "a report of damaged metrics": Case(
        "report {tmp}/copy",
        ("copy/metrics.jsonl:2: not a JSON object",),
        copy_of("run", lambda d: damage_line(d / "metrics.jsonl", 2)),
    ),
    "a report of metrics that are no text": Case(
        "report {tmp}/copy",
        ("copy/metrics.jsonl:1: not a JSON object",),
        copy_of("run", lambda d: (d / "metrics.jsonl").write_bytes(b"\xff\n{}\n")),
    ),
    "a resume with metrics of another kind": Case(
        "pretrain -o {tmp}/copy --resume",
        ("copy/metrics.jsonl:1: not a row of metrics",),
        copy_of("run", lambda d: (d / "metrics.jsonl").write_text("{}\n{}\n")),
    ),
    # labelled data
    "more seeds than there are": Case(
        FINETUNE + "-m {run} -d {table} --set seed=2147483647 --seeds 2", ("seeds 2 from seed 2147483647",)
    ),
    "no such table": Case(FINETUNE + "-m {run} -d {tmp}/none.tsv", ("{tmp}/none.tsv: no such file",)),
    "a table of another kind": labelled(
        "a.xlsx", b"PK\3\4", "{tmp}/a.xlsx: not a table", ".tsv, .csv, .jsonl"
    ),
    "an empty table": labelled("a.tsv", b"", "{tmp}/a.tsv: holds no rows"),
    "a table of names alone": labelled("a.tsv", b"text\tlabel\n", "{tmp}/a.tsv: holds no rows"),
    "no such column": labelled(
        "a.tsv", b"texts\tlabel\na\tb\n", "a.tsv:2: no column 'text'. Did you mean 'texts'"
    ),
    "a row too short": labelled(
        "a.tsv", b"text\tlabel\na\n", "a.tsv:2: 1 cells, the first line names 2 columns"
    ),
    "an empty label": labelled("a.tsv", b"text\tlabel\na\t\n", "a.tsv:2: the cell 'label' is empty"),
    "an open quotation": labelled(
        "a.csv", b'text,label\n"a,b\n', "a.csv:2: a quotation mark is never closed"
    ),
    "a row that is no JSON": labelled("a.jsonl", b'{"text": "a"\n', "a.jsonl:1: not JSON"),
    "a row that is a list": labelled("a.jsonl", b'["a"]\n', "a.jsonl:1: not a JSON object"),
    "a cell that is a table": labelled("a.jsonl", b'{"text": {}, "label": "b"}\n', "a.jsonl:1: 'text' is {}"),
    "a table in UTF-16": labelled("a.tsv", "text\tlabel\n".encode("utf-16"), "a.tsv:1: a NUL byte"),
    "a table in Latin-1": labelled("a.tsv", b"text\tlabel\ncaf\xe9\tb\n", "a.tsv:2: not UTF-8 at byte 4"),
    "a row of 11 MB": labelled(
        "a.tsv", b"text\tlabel\n" + b"a" * 11_000_000, "a.tsv:2: a line of over 10 MB"
    ),
    "one label": labelled("a.tsv", b"text\tlabel\n" + b"a\tb\n" * 20, "a.tsv", "label"),
    "one example": labelled("a.tsv", b"text\tlabel\na\tb\n", "a.tsv"),
    "a label unseen": Case(
        FINETUNE + "-m {run} -d {table} --dev {tmp}/dev.tsv",
        ("{tmp}/dev.tsv:2: ", "'unheard'"),
        text(b"text\tlabel\na\tunheard\n", "dev.tsv"),
    ),
    "a length beyond the model": Case(
        FINETUNE + "-m {run} -d {table} --set max_seq_length=64",
        ("{run}: max_seq_length 64, the model takes 32 tokens", "--set max_seq_length=32"),
    ),
    "predict with an encoder": Case(
        "predict classification -m {run} {table}", ("no classifier", "Fine-tune one")
    ),
    "predict without the column": Case(
        "predict classification -m {classifier} {tmp}/a.tsv -o {out}",
        ("a.tsv:2: no column 'text'",),
        text(b"words\nIt was\n", "a.tsv"),
    ),
    "predict from nothing": Case(
        "predict classification -m {classifier} {tmp}/none.txt -o {out}", ("{tmp}/none.txt: no such file",)
    ),
    "predict from a folder": Case(
        "predict classification -m {classifier} {tmp} -o {out}", ("{tmp}: is a directory",)
    ),
}


def places(tmp: Path, shop: Shop) -> dict[str, Path]:
    return {"tmp": tmp, "out": tmp / "out", "checkpoint": shop.checkpoint, **asdict(shop)}


def fill_in(template: str, names: dict[str, Path]) -> str:
    for name, path in names.items():
        template = template.replace("{" + name + "}", str(path))
    return template


def one_line_of(stderr: str) -> str:
    line = stderr.removesuffix("\n")
    assert line.startswith("error: "), stderr
    assert "\n" not in line, stderr
    assert "bug in cloze" not in line, stderr
    return line


def contents(directory: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in directory.rglob("*") if file.is_file()}


@pytest.mark.parametrize("name", CASES)
def test_one_line_says_what_is_wrong(
    name: str, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    names = places(tmp_path, shop)
    case.spoil(tmp_path, shop)
    capsys.readouterr()
    before, shop_before = contents(tmp_path), contents(shop.text.parent)
    arguments = shlex.split(fill_in(case.command, names))
    started = time.monotonic()
    code = main([*arguments, "--quiet"])
    assert time.monotonic() - started < LIMIT_SECONDS
    printed = capsys.readouterr()
    line = one_line_of(printed.err)
    for words in case.says:
        assert fill_in(words, names) in line
    assert code == case.exit_code
    assert printed.out == ""
    assert not names["out"].exists()
    if case.keeps_parts:
        shutil.rmtree(tmp_path / "out.parts")
    assert contents(tmp_path) == before, "something half-written is left"
    assert contents(shop.text.parent) == shop_before, "the input was written to"


@pytest.mark.parametrize(
    "name", ["a cut .xz", "a bit of the weights flipped", "no such flag", "no text to fill"]
)
def test_debug_shows_the_traceback_and_then_the_same_line(
    name: str, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = CASES[name]
    case.spoil(tmp_path, shop)
    arguments = shlex.split(fill_in(case.command, places(tmp_path, shop)))
    assert main([*arguments, "--quiet"]) == case.exit_code
    line = capsys.readouterr().err
    assert main([*arguments, "--quiet", "--debug"]) == case.exit_code
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.endswith(line)


FINE = {
    "line ends of Windows": LINE.replace(b"\n", b"\r\n") * 9,
    "a byte order mark": b"\xef\xbb\xbf" + LINE * 9,
    "no last line end": (LINE * 9).rstrip(),
    "many blank lines": b"\n\n\n" + (LINE + b"\n \n\n") * 9,
    "a line of 9 MB": LINE + b"night " * 1_500_000,
    "control characters": LINE.replace(b"dark", b"d\x01a\x1brk") * 9,
    "every plane of Unicode": "日本語 \U0001f600 \U000e0041 ﷽\n".encode() * 9,
}


@pytest.mark.parametrize("name", FINE)
def test_odd_text_is_text(name: str, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_bytes(FINE[name])
    assert main(shlex.split(fill_in(CORPUS + " --quiet --json", places(tmp_path, shop)))) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["pieces"] > 0
    assert printed.err == ""


def test_a_line_of_100_mb_is_not_read_whole(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "text").open("wb") as stream:
        for _ in range(100):
            stream.write(b"a" * 1_000_000)
    for command in (CORPUS, "predict classification -m {classifier} {tmp}/text -o {out}"):
        arguments = shlex.split(fill_in(command, places(tmp_path, shop)))
        tracemalloc.start()
        code = main([*arguments, "--quiet"])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert code == 2
        assert "text:1: a line of over 10 MB" in one_line_of(capsys.readouterr().err)
        assert peak < 40_000_000
        assert not (tmp_path / "out").exists()


def test_lines_of_stdin_are_named_too(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"It was a [MASK].\ncaf\xe9 [MASK]\n"
    for command in ("fill -m {run} -", "predict classification -m {classifier} -"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert main([*shlex.split(fill_in(command, asdict(shop))), "--quiet"]) == 2
        assert "stdin:2: not UTF-8 at byte 4" in one_line_of(capsys.readouterr().err)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"It was a [MASK].\n\n")))
    assert main(["fill", "-m", str(shop.run), "-", "--quiet"]) == 2
    assert "stdin:2: no [MASK] in ''" in one_line_of(capsys.readouterr().err)


def test_words_that_are_no_unicode_are_answered(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Python hands over bytes of the command line that are not UTF-8 as lone surrogates."""
    assert main(["fill", "-m", str(shop.run), "caf\udce9 [MASK]", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "caf\udce9 [MASK]"
    assert main(["next", "-m", str(shop.run), "\udce9", ""]) == 0
    assert main(["next", "-m", str(shop.run), "", ""]) == 0
    capsys.readouterr()
    assert main(["info", "caf\udce9"]) == 2
    assert "nothing here has this name" in one_line_of(capsys.readouterr().err)


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_weights(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "cloze.training.loop.learning_rate_at", lambda progress, config: 1e38 * (progress > 0.1)
    )
    more = PRETRAIN.replace("--steps 1", "--steps 20 --set checkpoints.every_steps=1")
    assert main([*shlex.split(fill_in(more + "--data {data}", places(tmp_path, shop))), "--quiet"]) == 1
    line = one_line_of(capsys.readouterr().err)
    assert f"{tmp_path}/out: loss nan" in line
    assert "at step 7 (phase 1, epoch 0, instances from" in line
    assert "3 times in a row" in line
    assert "Lower optimizer.learning_rate in run.toml and go on with --resume" in line
    assert "; step 4 was saved right before and may be spoilt" in line
    kept = sorted((tmp_path / "out/checkpoints").iterdir())
    assert kept
    for checkpoint in kept:
        artifacts.verify(checkpoint, kind="checkpoint")
    rows = [json.loads(row) for row in (tmp_path / "out/metrics.jsonl").read_text().splitlines()]
    assert sum(row["kind"] == "skipped" for row in rows) == 3


REFUSALS_OF_MEMORY = (
    MemoryError(),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: you tried to"
    ),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
)


@pytest.mark.parametrize("refusal", REFUSALS_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_too_little_memory_is_said(
    refusal: Exception,
    shop: Shop,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise refusal

    monkeypatch.setattr("cloze.pretraining.objective.PretrainingWork.loss", fail)
    command = PRETRAIN + "--data {data} --quiet"
    assert main(shlex.split(fill_in(command, places(tmp_path, shop)))) == 1
    assert "out of memory at step 1 with one sequence at a time" in one_line_of(capsys.readouterr().err)
    monkeypatch.setattr("cloze.inference.fill.FillMask.load", fail)
    assert main(["fill", "-m", str(shop.run), "a [MASK]"]) == 1
    assert "out of memory" in one_line_of(capsys.readouterr().err)


def test_the_system_is_blamed_for_what_it_refuses_and_we_for_the_rest(
    shop: Shop, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failure: Exception = PermissionError(13, "Permission denied", "/some/where")

    def fail(directory: Path) -> None:
        raise failure

    monkeypatch.setattr("cloze.evidence.describe.describe", fail)
    assert main(["info", str(shop.run)]) == 1
    assert one_line_of(capsys.readouterr().err) == "error: /some/where: Permission denied"
    failure = ZeroDivisionError("division\nby zero")
    assert main(["info", str(shop.run)]) == 1
    shown = capsys.readouterr().err
    assert (
        shown == "error: ZeroDivisionError: division by zero. This is a bug in cloze: --debug shows where.\n"
    )


def run_cloze(
    command: str,
    names: dict[str, Path],
    *,
    most_bytes: int | None = None,
    stdout: int | io.BufferedWriter = -1,
) -> "subprocess.CompletedProcess[str]":
    """Run a real process; no file that it writes may grow over `most_bytes`, as on a full disk."""

    def limit() -> None:
        import resource  # not on Windows

        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    return subprocess.run(
        [sys.executable, "-m", "cloze", *shlex.split(fill_in(command, names))],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
        check=False,
        timeout=60,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE and /dev/full")
@pytest.mark.parametrize(
    ("command", "most_bytes"),
    [
        ("vocab {text} -o {out} --size 500 --workers 1 --quiet", 2000),
        ("corpus {text} --vocab {vocab} -o {out} --workers 1 --quiet", 30_000),
        ("corpus {text} --vocab {vocab} -o {out} --workers 2 --quiet", 30_000),
        (PRETRAIN + "--data {data} --quiet", 500),
        ("report {run} -o {out} --quiet", 3000),
        ("predict classification -m {classifier} {table} -o {out} --quiet", 1000),
    ],
)
def test_a_full_disk_leaves_nothing(command: str, most_bytes: int, shop: Shop, tmp_path: Path) -> None:
    names = places(tmp_path, shop)
    done = run_cloze(command, names, most_bytes=most_bytes)
    assert done.returncode == 1
    assert "File too large" in one_line_of(done.stderr)
    assert str(names["out"]) in done.stderr
    assert contents(tmp_path) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_FSIZE")
def test_a_full_disk_spares_the_checkpoints_that_are_there(shop: Shop, tmp_path: Path) -> None:
    names = places(tmp_path, shop)
    run = Path(shutil.copytree(shop.run, tmp_path / "out"))
    shutil.rmtree(run / "checkpoints/step-00000004")
    done = run_cloze("pretrain -o {out} --resume --quiet", names, most_bytes=30_000)
    assert done.returncode == 1
    assert "model.safetensors: cannot write" in one_line_of(done.stderr)
    assert os.listdir(run / "checkpoints") == ["step-00000002"]
    artifacts.verify(run / "checkpoints/step-00000002")
    assert main(["pretrain", "-o", str(run), "--resume", "--quiet"]) == 0
    wanted, got = (d / "checkpoints/step-00000004/model.safetensors" for d in (shop.run, run))
    assert got.read_bytes() == wanted.read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_stdout_that_takes_nothing(shop: Shop, tmp_path: Path) -> None:
    command, names = "corpus {text} --vocab {vocab} -o {out} --workers 1 --quiet", places(tmp_path, shop)
    with open("/dev/full", "wb") as full:
        done = run_cloze(command, names, stdout=full)
    assert done.returncode == 1
    assert one_line_of(done.stderr) == "error: No space left on device"
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = run_cloze(command + " --overwrite", names, stdout=nobody)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_data_set_of_the_hub_without_its_package(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)  # nor is it asked for where it is installed
    assert (
        main(["corpus", "hf:imdb", "--vocab", str(shop.vocab), "-o", str(tmp_path / "out"), "--quiet"]) == 2
    )
    line = one_line_of(capsys.readouterr().err)
    assert "hf:imdb: needs the package datasets" in line
    assert "cloze-bert[hub]" in line
    assert not (tmp_path / "out").exists()


def test_a_pipe_within_the_work_that_breaks_is_a_failure(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def break_off(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("cloze.evidence.describe.describe", break_off)
    assert main(["info", str(shop.vocab)]) == 1
    assert one_line_of(capsys.readouterr().err) == "error: Broken pipe"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_may_not_be_written(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o500)
    command = "corpus {text} --vocab {vocab} -o {out} --workers 1 --quiet"
    assert main(shlex.split(fill_in(command, places(tmp_path, shop)))) == 1
    assert f"{tmp_path}/out: cannot write: Permission denied" in one_line_of(capsys.readouterr().err)


def test_a_real_process_says_the_same(shop: Shop, tmp_path: Path) -> None:
    names = places(tmp_path, shop)
    for command, code, words in (
        ("corpus {tmp}/none --vocab {vocab} -o {out}", 2, "{tmp}/none: no such file"),
        ("pretrain -o {out} --bogus", 2, "--bogus"),
        ("vocab {text} -o {text}/out", 2, "{text}: is a file"),
    ):
        done = run_cloze(command, names)
        assert (done.returncode, done.stdout) == (code, "")
        assert fill_in(words, names) in one_line_of(done.stderr)
