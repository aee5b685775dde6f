"""Wrong inputs of the command line: commands, and the parts of the one line that each prints.

In the command of a case, {tmp} is an empty directory, {out} an unused path in it, and {text}, {vocab}, {data}, {run},
{checkpoint}, {table} and {classifier} are valid samples. `prepare` makes the wrong input. `remedies.py` says how the
remedy of each line is followed.
"""

import bz2
import gzip
import json
import lzma
import os
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from samples import NANO, NANO_TASK, Samples

from helpers import compress_zstd, flip_bit

LINE = b"It was a dark and stormy night. The rain fell in torrents.\n"
GOOD_TEXT = LINE * 50
COMPRESSED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": compress_zstd}
SPECIAL = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
PRETRAIN = "pretrain -o {out} --steps 1 " + shlex.join(NANO) + " "
INIT = "pretrain -o {out} --steps 1 " + shlex.join(s for s in NANO if "=model." not in s) + " --init "
FINETUNE = "finetune classification -o {out} " + shlex.join(NANO_TASK) + " "
PAIRS = "finetune text-pairs -m {run} -o {out} --set max_seq_length=16 -d {tmp}/a.tsv"
CORPUS = "corpus {tmp}/text --vocabulary {vocab} -o {out} --workers 1"

FILL_COPY = "-m {tmp}/copy 'It was a [MASK] night.'"

Prepare = Callable[[Path, Samples], object]


@dataclass(frozen=True)
class Case:
    command: str
    messages: tuple[str, ...]
    """Parts of the line."""
    prepare: Prepare
    keeps_parts: bool
    """Word counts are kept for the next vocabulary size."""


def case(
    command: str, *messages: str, prepare: Prepare = lambda tmp, samples: None, keeps_parts: bool = False
) -> Case:
    return Case(command, messages, prepare, keeps_parts)


def write_text(content: bytes, name: str = "text") -> Prepare:
    return lambda tmp, samples: (tmp / name).write_bytes(content)


def write_vocabulary(content: bytes) -> Prepare:
    def prepare(tmp: Path, samples: Samples) -> None:
        (tmp / "vocab").mkdir()
        (tmp / "vocab" / "vocab.txt").write_bytes(content)

    return prepare


def changed_copy(sample: str, change: Callable[[Path], object]) -> Prepare:
    """Change a copy of a sample, {tmp}/copy."""
    return lambda tmp, samples: change(
        Path(shutil.copytree(getattr(samples, sample), tmp / "copy", symlinks=True))
    )


def external(change: Callable[[Path], object]) -> Prepare:
    """Change a copy of the checkpoint that has no manifest, as other tools write it."""

    def remove_manifest_and_change(directory: Path) -> None:
        (directory / "manifest.json").unlink()
        change(directory)

    return changed_copy("checkpoint", remove_manifest_and_change)


def edit_json(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def rewrite(directory: Path) -> None:
        table = json.loads((directory / name).read_text())
        change(table)
        (directory / name).write_text(json.dumps(table))

    return rewrite


def set_config(**changes: object) -> Callable[[Path], object]:
    return edit_json("config.json", lambda table: table.update(changes))


def edit_tokenizer(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    return edit_json("tokenizer.json", change)


def edit_weights(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], object]:
    def rewrite(directory: Path) -> None:
        file = directory / "model.safetensors"
        tensors = load_file(file)
        change(tensors)
        save_file(tensors, file, metadata={"format": "pt"})

    return rewrite


def truncated(content: bytes) -> bytes:
    return content[: len(content) * 2 // 3]


def truncate(file: Path) -> None:
    file.write_bytes(truncated(file.read_bytes()))


def truncate_second_line(file: Path) -> None:
    first, second, *others = file.read_text().splitlines()
    file.write_text("\n".join([first, second[:10], *others]) + "\n")


def on(name: str, change: Callable[[Path], object]) -> Callable[[Path], object]:
    """Change a file of a directory."""
    return lambda directory: change(directory / name)


def written(name: str, content: str | bytes) -> Callable[[Path], object]:
    """Replace a file of a directory."""
    data = content.encode() if isinstance(content, str) else content
    return lambda directory: (directory / name).write_bytes(data)


def as_a_file(name: str) -> Callable[[Path], object]:
    """Replace a link by a file."""
    return lambda directory: ((directory / name).unlink(), (directory / name).write_bytes(b"\xff\x00"))


def without_best(change: Callable[[Path], object]) -> Callable[[Path], object]:
    """Change a run that was not evaluated."""
    return lambda run: ((run / "best").unlink(), change(run))


def change_data_digest(run: Path) -> None:
    file = run / "run.toml"
    settings = file.read_text()
    digest = settings.split('data_sha256 = "')[1].split('"')[0]
    file.write_text(settings.replace(digest, "0" * 64))


def lose_data(run: Path) -> None:
    lines = (run / "run.toml").read_text().splitlines()
    (number,) = (n for n, line in enumerate(lines) if line.startswith("data = "))
    lines[number] = f'data = "{run}/gone"'
    (run / "run.toml").write_text("\n".join(lines))


def reverse_vocabulary(model: Path) -> None:
    lines = (model / "vocab.txt").read_text("utf-8").splitlines()
    (model / "vocab.txt").write_text("\n".join([*lines[:300], *reversed(lines[300:])]) + "\n", "utf-8")
    (model / "tokenizer.json").unlink()


def remove_tokenizer(model: Path) -> None:
    for name in ("vocab.txt", "tokenizer.json"):
        (model / name).unlink()


def fill_pooler(value: str) -> Callable[[Path], object]:
    return edit_weights(lambda tensors: tensors["bert.pooler.dense.bias"].fill_(float(value)))


def bad_text(name: str, content: bytes, message: str, *messages: str) -> Case:
    file = "{tmp}/" + name
    command = CORPUS.replace("{tmp}/text", file)
    return case(command, file + message, *messages, prepare=write_text(content, name))


def bad_corpus(flags: str, *messages: str) -> Case:
    return case("corpus {text} --vocabulary {vocab} -o {out} --workers 1 " + flags, *messages)


def bad_vocabulary(content: bytes, *messages: str) -> Case:
    return case(
        "corpus {text} --vocabulary {tmp}/vocab -o {out} --workers 1",
        *messages,
        prepare=write_vocabulary(content),
    )


def bad_run(change: Callable[[Path], object], *messages: str, sample: str = "run") -> Case:
    return case(f"fill {FILL_COPY}", *messages, prepare=changed_copy(sample, change))


def bad_checkpoint(change: Callable[[Path], object], *messages: str) -> Case:
    return bad_run(change, *messages, sample="checkpoint")


def bad_model(change: Callable[[Path], object], *messages: str) -> Case:
    return case(f"fill {FILL_COPY}", *messages, prepare=external(change))


def bad_dataset(change: Callable[[Path], object], *messages: str) -> Case:
    return case(PRETRAIN + "--data {tmp}/copy", *messages, prepare=changed_copy("data", change))


def bad_settings(flags: str, *messages: str) -> Case:
    return case(PRETRAIN + "--data {data} " + flags, *messages)


def bad_init(flags: str, *messages: str, **options: Any) -> Case:
    return case(INIT + flags + " --data {data}", *messages, **options)


def bad_recipe(content: str, *messages: str) -> Case:
    command = "pretrain -o {out} --data {data} --config {tmp}/mine.toml"
    return case(command, *messages, prepare=write_text(content.encode(), "mine.toml"))


def bad_table(
    name: str, content: str | bytes, *messages: str, task: str = "classification", flags: str = ""
) -> Case:
    """Fine-tune a task on a wrong file."""
    data = content.encode() if isinstance(content, str) else content
    command = FINETUNE.replace("classification", task) + "-m {run} -d {tmp}/" + name + flags
    return case(command, *messages, prepare=write_text(data, name))


def bad_tags(name: str, content: str | bytes, *messages: str, flags: str = "") -> Case:
    return bad_table(name, content, *messages, task="tagging", flags=flags)


def bad_prediction(flags: str, *messages: str, **options: Any) -> Case:
    return case("predict classification -m {classifier} " + flags, *messages, **options)


def rename_weights(rename: Callable[[str], list[str]]) -> Callable[[Path], object]:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            weight = tensors.pop(name)
            tensors.update({new: weight.clone() for new in rename(name)})

    return edit_weights(change)


CASES = {
    # text
    "empty text": bad_text("text", b"", ": no text in it"),
    "only white space": bad_text("text", b" \n\t\n\n", ": no text in it"),
    "only a byte order mark": bad_text("text", b"\xef\xbb\xbf", ": no text in it"),
    "a folder without files": case(
        CORPUS, "{tmp}/text: no file in this folder", prepare=lambda tmp, samples: (tmp / "text").mkdir()
    ),
    "no such text": case(CORPUS, "{tmp}/text: no such file"),
    "no text named": case("corpus --vocabulary {vocab} -o {out}", "no input was given", "Name files"),
    "a glob that matches nothing": case(CORPUS.replace("text", "*.txt", 1), "{tmp}/*.txt: no such file"),
    "a binary file": bad_text("text", b"\x7fELF\x02\xff\xfe" * 99, ":1: not UTF-8"),
    "NUL bytes": bad_text("text", LINE + b"a\x00b\n", ":2: a NUL byte", "Give UTF-8"),
    "UTF-16": bad_text("text", "Ein Text\n".encode("utf-16"), ": text in UTF-16", "iconv"),
    "Latin-1": bad_text("text", LINE + "café\n".encode("latin-1"), ":2: not UTF-8", "iconv"),
    "a line of 11 MB": bad_text("text", LINE + b"a" * 11000000, ":2", "over 10 MB", "line break"),
    "JSON lines without the field": bad_text(
        "text.jsonl", b'{"body": "%s"}\n' % LINE.strip(), ":1: no field 'text'", "--text-field", "body"
    ),
    "a line that is not JSON": bad_text(
        "text.jsonl", b'{"text": "%s"}\n{text}\n' % LINE.strip(), ":2: not JSON"
    ),
    "a lone surrogate in JSON": bad_text(
        "text.jsonl", b'{"text": "%s \\ud83d"}\n' % LINE.strip(), ":1: half a character"
    ),
    "a text named .parquet": bad_text("text.parquet", GOOD_TEXT, ": cannot be read"),
    "an article cut short": bad_text("wiki_00", b'<doc id="1">\nText.\n', ":1: this <doc"),
    "a table instead of a text": bad_text(
        "text.tsv",
        b"a\tb\n" + LINE.replace(b"\n", b"\td\n") * 9,
        ":2: no column 'text'. There are 'a', 'b'; say which it is with --text-field",
    ),
    "a pipe instead of a text": case(
        CORPUS, "{tmp}/text: is a pipe", prepare=lambda tmp, samples: os.mkfifo(tmp / "text")
    ),
    "--validate of wrong text": case(
        "corpus {tmp}/text --validate --workers 1",
        "{tmp}/text:2: not UTF-8",
        prepare=write_text(LINE + b"caf\xe9\n"),
    ),
    "--dry-run of missing text": case("vocab {tmp}/none --dry-run", "{tmp}/none: no such file"),
    "--limit 0": bad_corpus("--limit 0", "limit: 0 is less than 1"),
    "an unknown cleaning step": bad_corpus("--without spelling", "--without", "'spelling'"),
    **{
        f"a truncated {suffix}": bad_text(f"text{suffix}", truncated(compress(GOOD_TEXT)), "", "cut short")
        for suffix, compress in COMPRESSED.items()
    },
    **{
        f"a damaged {suffix}": bad_text(f"text{suffix}", GOOD_TEXT, ": cannot be read", "damaged")
        for suffix in COMPRESSED
    },
    "no such language": bad_corpus("--language qqq", "'qqq'"),
    "no workers": case(
        "corpus {text} --vocabulary {vocab} -o {out} --workers 0", "workers: 0 is less than 1"
    ),
    "a validation fraction of NaN": bad_corpus("--validation-fraction nan", "--validation-fraction"),
    # vocabularies
    "too little text for the vocabulary size": case(
        "vocab {tmp}/text -o {out} --workers 1",
        "size: 30,522 tokens requested",
        " tokens or fewer",
        prepare=write_text(GOOD_TEXT),
        keeps_parts=True,
    ),
    "a vocabulary smaller than its alphabet": case(
        "vocab {text} -o {out} --workers 1 --size 20",
        "size: 20 is too small for",
        "Use at least",
        keeps_parts=True,
    ),
    "a vocabulary of negative size": case(
        "vocab {text} -o {out} --workers 1 --size=-5", "size: -5 tokens are too few: 5 are reserved"
    ),
    "a vocabulary of empty text": case(
        "vocab {tmp}/text -o {out}", "{tmp}/text: no text in it", prepare=write_text(b"\n")
    ),
    "nothing to append to": case("corpus {text} -o {out} --append --workers 1", "{out}: no such directory"),
    "no vocabulary named": case(
        "corpus {text} -o {out}", "the flag --vocabulary is missing", "Name its directory"
    ),
    "another vocabulary to append with": case(
        "corpus {text} -o {data} --append --workers 1 --vocabulary {tmp}/vocab",
        "{tmp}/vocab: is not the vocabulary of {data}",
        "Leave out --vocabulary",
        prepare=write_vocabulary(SPECIAL + b"a\n"),
    ),
    "no such splitter": bad_corpus("--splitter nowhere:split", "--splitter: nowhere:split", "nowhere"),
    "no vocabulary": case(
        "corpus {text} --vocabulary {tmp}/none -o {out} --workers 1", "{tmp}/none: no tokenizer: neither"
    ),
    "no [MASK]": bad_vocabulary(
        SPECIAL.replace(b"[MASK]\n", b"") + b"a\n", "{tmp}/vocab/vocab.txt: the vocabulary has no [MASK]"
    ),
    "a token twice": bad_vocabulary(SPECIAL + b"a\nb\na\n", "vocab.txt:8: 'a' is in line 6 already"),
    "an empty vocabulary": bad_vocabulary(b"", "{tmp}/vocab/vocab.txt: the vocabulary is empty"),
    "an empty token": bad_vocabulary(SPECIAL + b"a\n\nb\n", "vocab.txt:7: empty line"),
    "a vocabulary in Latin-1": bad_vocabulary(SPECIAL + b"caf\xe9\n", "vocab.txt:6: not UTF-8"),
    "ids with gaps": bad_model(
        edit_tokenizer(lambda t: t["model"]["vocab"].update(zzz=9999)), "copy/tokenizer.json", "gaps"
    ),
    "a tokenizer of another type than its parts": bad_model(
        edit_tokenizer(lambda t: t["model"].update(type="BPE")), "copy/tokenizer.json: damaged", "merges"
    ),
    "a tokenizer that is not JSON": bad_model(
        written("tokenizer.json", "{"), "copy/tokenizer.json: not a JSON"
    ),
    "a special token that is not special": bad_model(
        edit_tokenizer(lambda t: t["added_tokens"][0].update(special=False)),
        "copy/tokenizer.json: [PAD] is not marked as special",
        'Set its "special" to true',
    ),
    # checkpoints
    "weights of two encoders": bad_model(
        rename_weights(lambda name: [f"query.{name}", f"passage.{name}"]),
        "copy/model.safetensors: no weight bert.embeddings.word_embeddings.weight",
        "but has passage.bert.embeddings.LayerNorm.bias",
    ),
    "weights of another model": bad_model(
        rename_weights(lambda name: [name.replace("bert.", "roberta.")]),
        "no weight bert.embeddings.word_embeddings.weight",
        "but has roberta.embeddings.LayerNorm.bias",
        "Configuration and weights belong to different models",
    ),
    "names of weights without dots": bad_model(
        rename_weights(lambda name: [name.replace(".", "_")]),
        "no weight bert.embeddings.word_embeddings.weight",
        "but has bert_embeddings_LayerNorm_bias",
    ),
    "a model without the head of the verb": case(
        "next -m {tmp}/copy a b",
        "copy: a model without the next-sentence head",
        "Give a pre-trained model that has it",
        prepare=external(rename_weights(lambda name: [] if "seq_relationship" in name else [name])),
    ),
    "a file of weights to import": case(
        "import {checkpoint}/model.safetensors -o {out}",
        "{checkpoint}/model.safetensors: is a file, not the directory of a model",
        "Give a directory with this file as model.safetensors, config.json and vocab.txt",
    ),
    "a ranker of three classes": case(
        "predict ranking -m {tmp}/copy {table}",
        "no ranker: config.json names 3 classes, not one, or two that exclude each other",
        prepare=external(set_config(id2label={"0": "a", "1": "b", "2": "c"})),
    ),
    "no such model": case("fill -m {tmp}/none 'a [MASK]'", "{tmp}/none"),
    "a model's file instead of its directory": case(
        "fill -m {checkpoint}/model.safetensors 'a [MASK]'", "model.safetensors"
    ),
    "a vocabulary instead of a model": case("fill -m {vocab} 'a [MASK]'", "{vocab}", "is a vocabulary"),
    "truncated weights": bad_checkpoint(
        on("model.safetensors", truncate),
        "copy/model.safetensors:",
        "in the manifest",
        "Copy or write it again",
    ),
    "a bit of the weights flipped": bad_checkpoint(
        on("model.safetensors", flip_bit), "copy/model.safetensors: damaged: its SHA-256 differs"
    ),
    "a bit of the vocabulary flipped": bad_checkpoint(
        on("vocab.txt", flip_bit), "copy/vocab.txt: damaged: its SHA-256"
    ),
    "weights missing": bad_checkpoint(
        on("model.safetensors", Path.unlink), "copy/model.safetensors: missing"
    ),
    "a damaged manifest": bad_checkpoint(
        on("manifest.json", truncate), "copy/manifest.json: damaged manifest"
    ),
    "a run whose best checkpoint is gone": bad_run(lambda d: shutil.rmtree(d / "checkpoints"), "copy/best"),
    "a run whose best is damaged": bad_run(as_a_file("best"), "copy/best: names"),
    "a run whose latest is damaged": bad_run(without_best(as_a_file("latest")), "copy/latest: names"),
    "truncated weights without a manifest": bad_model(
        on("model.safetensors", truncate), "copy/model.safetensors: cannot be read"
    ),
    "missing weights without a manifest": bad_model(
        on("model.safetensors", Path.unlink), "copy/model.safetensors: no such file"
    ),
    "another hidden size": bad_model(set_config(hidden_size=24), "copy/model.safetensors", "16", "24"),
    "more layers": bad_model(set_config(num_hidden_layers=2), "copy/model.safetensors", "layer.1"),
    "fewer layers": bad_model(
        edit_weights(lambda t: t.update({"bert.encoder.layer.7.output.dense.bias": torch.zeros(16)})),
        "copy/model.safetensors: unexpected weight bert.encoder.layer.7",
    ),
    "more tokens than embeddings": bad_model(
        set_config(vocab_size=400), "copy: 500 tokens, the model has 400 embeddings", "different models"
    ),
    "heads that do not divide": bad_model(
        set_config(num_attention_heads=3), "copy/config.json", "multiple of num_attention_heads = 3"
    ),
    "no layers": bad_model(set_config(num_hidden_layers=0), "copy/config.json", "num_hidden_layers = 0"),
    "a size that is a string": bad_model(set_config(hidden_size="16"), "copy/config.json", "hidden_size"),
    "a config that is not JSON": bad_model(written("config.json", "{,"), "copy/config.json: not a JSON file"),
    "another kind of model": bad_model(
        set_config(model_type="electra"), "copy/config.json: model_type 'electra', cloze reads bert, "
    ),
    "weights that are not numbers": bad_model(
        fill_pooler("nan"), "copy/model.safetensors: the weight bert.pooler.dense.bias holds NaN"
    ),
    "a config too deep": bad_model(written("config.json", "[" * 10**5), "copy/config.json"),
    "a tokenizer too deep": bad_model(
        written("tokenizer.json", "[" * 10**5), "copy/tokenizer.json: not a JSON"
    ),
    "a manifest too deep": bad_checkpoint(written("manifest.json", "[" * 10**5), "damaged manifest"),
    "a manifest of other types": bad_checkpoint(
        written(
            "manifest.json",
            '{"kind": "checkpoint", "format_version": 1, "files": {"vocab.txt": {"bytes": "9", "sha256": 3}}}',
        ),
        "copy/manifest.json: damaged manifest",
    ),
    "a million layers": bad_model(set_config(num_hidden_layers=10**6), "config.json", "is more than 1,000"),
    "a size beyond all memory": bad_model(
        set_config(hidden_size=2**60), "config.json", "is more than 10,000,000"
    ),
    "an activation that is a list": bad_model(
        set_config(hidden_act=["gelu"]), "copy/config.json", "hidden_act"
    ),
    "labels without numbers": case(
        "predict classification -m {tmp}/copy {table}",
        "copy/config.json: id2label",
        prepare=external(set_config(id2label={"good": 0})),
    ),
    # data sets
    "no data set": case(PRETRAIN + "--data {tmp}/none", "{tmp}/none: no such directory"),
    "a data set of another kind": case(
        PRETRAIN + "--data {vocab}", "{vocab}: is a vocabulary, not a dataset"
    ),
    "a text instead of a data set": case(PRETRAIN + "--data {text}", "{text}"),
    "a truncated shard": bad_dataset(
        on("documents-00000.arrow", truncate), "copy/documents-00000.arrow:", "in the manifest"
    ),
    "a bit of a shard flipped": bad_dataset(
        on("documents-00000.arrow", flip_bit), "copy/documents-00000.arrow: damaged: its SHA-256"
    ),
    "a shard missing": bad_dataset(
        on("documents-00000.arrow", Path.unlink), "copy/documents-00000.arrow: missing"
    ),
    "no manifest": bad_dataset(on("manifest.json", Path.unlink), "copy: not a dataset", "no manifest.json"),
    "a manifest of another kind": bad_dataset(
        written("manifest.json", '["a"]'), "copy/manifest.json: damaged manifest"
    ),
    "a newer format": bad_dataset(
        written("manifest.json", '{"kind": "dataset", "format_version": 99, "files": {}}'),
        "copy/manifest.json: format version 99",
    ),
    # settings
    "an unknown setting": bad_settings(
        "--set optimizer.learningrate=1",
        "unknown key optimizer.learningrate",
        "Did you mean optimizer.learning_rate",
    ),
    "a setting of another type": bad_settings("--set seed=often", "seed must be of type int, not 'often'"),
    "an unknown choice": bad_settings(
        "--set precision=float31", "precision = 'float31'", "Did you mean float32"
    ),
    "a setting without a value": bad_settings("--set seed", "--set: cannot read 'seed'", "section.key=value"),
    "a setting under a value": bad_settings("--set seed.much=1", "seed", "must be of type int"),
    "a size that does not divide": bad_settings("--set model.hidden_size=17", "model", "multiple of"),
    "a length beyond the positions": bad_settings(
        "--set model.max_position_embeddings=16",
        "max_seq_length 32 is more than model.max_position_embeddings 16",
    ),
    "steps and a budget": bad_settings("--budget 30m", "either steps or a budget"),
    "neither steps nor a budget": case("pretrain -o {out} --data {data}", "--steps 10000 or --budget 30m"),
    "a budget that is not a time": bad_settings(
        "--budget soon", "--budget: cannot read 'soon' as a time", "30m"
    ),
    "a budget of 0": bad_settings("--budget 0m", "--budget: cannot read '0m'"),
    "no steps": bad_settings("--steps 0", "--steps: 0 is not positive"),
    "a negative seed": bad_settings("--seed=-1", "--seed: -1 is not at least 0 and at most 2147483647"),
    "no such device": bad_settings("--set device=abacus", "device 'abacus' is not available", "auto, cpu"),
    "a device that computes nothing": bad_settings("--set device=meta", "device 'meta' is not available"),
    "no masks": bad_settings(
        "--set 'phases=[{max_seq_length=32, fraction=1, max_predictions_per_seq=0}]'",
        "phases[0].max_predictions_per_seq: 0 is not positive",
    ),
    "weights of infinite spread": bad_settings(
        "--set model.initializer_range=inf", "initializer_range = inf"
    ),
    "no such recipe": bad_settings("--config fest", "--config: no recipe 'fest'", "fast"),
    "a recipe like no other": bad_settings(
        "--config zzz", "--config: no recipe 'zzz'", "a TOML file, or one of"
    ),
    "a missing recipe": bad_settings("--config {tmp}/none.toml", "{tmp}/none.toml: no such file"),
    "a recipe that is not TOML": bad_recipe("steps = = 3\n", "{tmp}/mine.toml: not a TOML file", "line 1"),
    "a recipe in Latin-1": case(
        "pretrain -o {out} --config {tmp}/mine.toml",
        "{tmp}/mine.toml",
        prepare=write_text(b"# caf\xe9\n", "mine.toml"),
    ),
    "a recipe with an unknown key": bad_recipe(
        "stebs = 3\n", "{tmp}/mine.toml and settings: unknown key stebs", "Did you mean steps"
    ),
    "a recipe with a wrong type": bad_recipe(
        'steps = "many"\n', "{tmp}/mine.toml and settings: steps must be of type int"
    ),
    "--model with --init": bad_init("{run} --model tiny", "model.size: init takes it from the checkpoint"),
    "other layers with --init": bad_init(
        "{run} --set model.num_hidden_layers=7",
        "model.num_hidden_layers: init takes it from the checkpoint",
    ),
    "another size with --init": bad_init(
        "{run} --set 'model={size=\"tiny\"}'", "model.size: init takes it from the checkpoint"
    ),
    "--append with --validation-fraction": case(
        "corpus {text} -o {data} --append --workers 1 --validation-fraction 0.5",
        "--validation-fraction: cannot be combined with --append",
    ),
    "--append with --overwrite": case(
        "corpus {text} -o {data} --append --workers 1 --overwrite",
        "--overwrite: cannot be combined with --append",
    ),
    "a classifier to fill with": case(
        "fill -m {classifier} 'a [MASK]'",
        "a model without the masked-word head",
        "Give a pre-trained model",
    ),
    "a run without checkpoints to fill with": case(
        "fill -m {tmp}/copy 'a [MASK]'",
        "{tmp}/copy: is a run without a checkpoint",
        "--resume",
        prepare=changed_copy("run", without_best(on("latest", Path.unlink))),
    ),
    "--init with another vocabulary": bad_init(
        "{tmp}/copy",
        "{data}: its vocabulary is neither the model's",
        "token 300 is",
        "cloze vocab extend",
        prepare=external(reverse_vocabulary),
    ),
    "--init without a tokenizer": bad_init(
        "{tmp}/copy", "{tmp}/copy: no tokenizer: neither", prepare=external(remove_tokenizer)
    ),
    "--init with infinite weights": bad_init(
        "{tmp}/copy", "holds NaN or infinite values", prepare=external(fill_pooler("inf"))
    ),
    "--overwrite with settings that cannot run": case(
        PRETRAIN.replace("{out}", "{run}") + "--data {data} --overwrite --set device=abacus",
        "device 'abacus'",
    ),
    # usage
    "no such verb": case("pretrian -o {out}", "no verb 'pretrian'", "Did you mean pretrain"),
    "no such flag": case("pretrain -o {out} --stebs 3", "--stebs", "--steps", "cloze pretrain --help"),
    "a required flag is missing": case("fill 'a [MASK]'", "--model", "cloze fill --help"),
    "a value of another type": case("pretrain -o {out} --steps many", "--steps", "'many'"),
    "a flag without its value": case("pretrain -o {out} --steps", "--steps"),
    "an unknown choice of a flag": bad_corpus("--format x", "--format", "'x'"),
    "one sentence for next": case("next -m {run} 'Only one.'", "B", "cloze next --help"),
    # output
    "existing output": case(
        "corpus {text} --vocabulary {vocab} -o {data}", "{data}: already exists", "--overwrite"
    ),
    "an existing run": case(
        PRETRAIN.replace("{out}", "{run}") + "--data {data}",
        "{run}: already exists",
        "--resume",
        "--overwrite",
    ),
    "--overwrite of another directory": case(
        "vocab {text} -o {tmp} --overwrite",
        "{tmp}: is not a directory that cloze wrote",
        prepare=write_text(b"precious", "thesis.txt"),
    ),
    "a vocabulary where a file is": case(
        "vocab {text} -o {tmp}/file --overwrite", "{tmp}/file", prepare=write_text(b"precious", "file")
    ),
    "a run where a file is": case(
        PRETRAIN.replace("{out}", "{tmp}/file") + "--data {data} --overwrite",
        "{tmp}/file",
        prepare=write_text(b"", "file"),
    ),
    "a fine-tuning run where a file is": case(
        FINETUNE.replace("{out}", "{tmp}/file") + "-m {run} -d {table} --overwrite",
        "{tmp}/file",
        prepare=write_text(b"", "file"),
    ),
    "a vocabulary below a file": case("vocab {text} -o {text}/vocab", "{text}", "is a file"),
    "a data set below a file": case(
        "corpus {text} --vocabulary {vocab} -o {text}/a/b", "{text}", "is a file"
    ),
    "this directory": case(
        "corpus {text} --vocabulary {vocab} -o .", ".: already exists", "Choose another name"
    ),
    "a URL for a local path": case(
        "vocab extend {vocab} --words {text} -o s3://bucket/vocab",
        "s3://bucket/vocab: only a local path can be written. Copy the output afterwards",
    ),
    "a URL for a local output": case(
        "attention -m {run} a -o s3://bucket/page.html",
        "s3://bucket/page.html: only a local path can be written. Copy the output afterwards",
    ),
    "a file instead of its directory": case(
        "corpus {text} --vocabulary {vocab}/vocab.txt -o {out}",
        "{vocab}/vocab.txt: is a file. Give its directory",
    ),
    "a run below a file": case(
        PRETRAIN.replace("{out}", "{text}/run") + "--data {data}", "{text}", "is a file"
    ),
    "a report below a file": case("report {run} -o {text}/report.html", "{text}", "is a file"),
    "predictions under a compressed name": bad_prediction(
        "{table} -o {tmp}/a.jsonl.GZ", "{tmp}/a.jsonl.GZ: output is not compressed"
    ),
    "evaluated predictions under a compressed name": case(
        "evaluate classification -m {tmp}/none -d {table} -o {tmp}/a.jsonl.gz",
        "{tmp}/a.jsonl.gz: output is not compressed",
    ),
    "predictions below a file": bad_prediction("{table} -o {text}/a.jsonl", "{text}", "is a file"),
    "a report over a directory": case("report {run} -o {data} --overwrite", "{data}"),
    # resume
    "resume nothing": case("pretrain -o {out} --resume", "{out}: no run to resume"),
    "--resume with --dry-run": case(
        "pretrain -o {run} --resume --dry-run",
        "--dry-run: cannot be combined with --resume. Leave out one of them",
    ),
    "--resume with --overwrite": case(
        "finetune sst2 -o {run} --resume --overwrite", "--overwrite: cannot be combined with --resume"
    ),
    "resume a data set": case("pretrain -o {data} --resume", "{data}: no run to resume"),
    "resume with other settings": case(
        "pretrain -o {run} --resume --steps 9", "{run}", "uses the settings of the run"
    ),
    "resume a fine-tuning as a pre-training": case(
        "pretrain -o {classifier} --resume", "{classifier}/run.toml"
    ),
    "resume a pre-training as a fine-tuning": case(
        "finetune classification -o {run} --resume", "{run}/run.toml"
    ),
    "resume with another data set": case(
        "pretrain -o {tmp}/copy --resume",
        "is not the data set that the settings were made for",
        prepare=changed_copy("run", change_data_digest),
    ),
    "resume without the data set": case(
        "pretrain -o {tmp}/copy --resume", "{tmp}/copy/gone", prepare=changed_copy("run", lose_data)
    ),
    # answers
    "no [MASK] to fill": case("fill -m {run} 'It was dark.'", "no [MASK] in 'It was dark.'", "Write [MASK]"),
    "an empty text": case("fill -m {run} ''", "no [MASK] in ''"),
    "no text to fill": case("fill -m {run}", "no text was given", "- to read lines from stdin"),
    "a text too long to fill": case(
        "fill -m {run} '[MASK] " + "night " * 40 + "'", "the model takes 32", "tokens", "Give a shorter text"
    ),
    "a pair too long": case("next -m {run} '" + "night " * 40 + "' b", "the model takes 32", "tokens"),
    "no candidates": case("fill -m {run} -k 0 'a [MASK]'", "--top-k", "0"),
    "no such device to fill on": case("fill -m {run} --device abacus 'a [MASK]'", "device 'abacus'", "cpu"),
    "info on a text": case("info {text}", "{text}: is a file", "Give a directory"),
    "info on a missing directory": case("info {tmp}/none", "{tmp}/none: no such directory"),
    "info on another directory": case("info {tmp}", "{tmp}: not a checkpoint, data set, vocabulary or run"),
    "info on a damaged run": case(
        "info {tmp}/copy",
        "copy/checkpoints/step-00000002/model.safetensors: damaged: its SHA-256",
        prepare=changed_copy("run", on("checkpoints/step-00000002/model.safetensors", flip_bit)),
    ),
    "a report of a missing run": case("report {tmp}/none", "{tmp}/none: no such directory"),
    "a report of a data set": case("report {data}", "{data}: not a run"),
    "a report of damaged metrics": case(
        "report {tmp}/copy",
        "copy/metrics.jsonl:2: not a JSON object",
        prepare=changed_copy("run", on("metrics.jsonl", truncate_second_line)),
    ),
    "a report of metrics that are not text": case(
        "report {tmp}/copy",
        "copy/metrics.jsonl:1: not a JSON object",
        prepare=changed_copy("run", written("metrics.jsonl", b"\xff\n{}\n")),
    ),
    "a resume with metrics of another kind": case(
        "pretrain -o {tmp}/copy --resume",
        "copy/metrics.jsonl:1: not a row of metrics",
        prepare=changed_copy("run", written("metrics.jsonl", "{}\n{}\n")),
    ),
    # labeled data
    "too many seeds": case(
        FINETUNE + "-m {run} -d {table} --set seed=2147483647 --seeds 2", "seeds 2 from seed 2147483647"
    ),
    "no such table": case(FINETUNE + "-m {run} -d {tmp}/none.tsv", "{tmp}/none.tsv: no such file"),
    "a table of another kind": bad_table(
        "a.ods", b"PK\x03\x04", "{tmp}/a.ods: not a table", ".tsv, .csv, .jsonl"
    ),
    "an empty table": bad_table("a.tsv", b"", "{tmp}/a.tsv: holds no rows"),
    "a table without rows": bad_table("a.tsv", b"text\tlabel\n", "{tmp}/a.tsv: holds no rows"),
    "no such column": bad_table(
        "a.tsv", b"texts\tlabel\na\tb\n", "a.tsv:2: no column 'text'. There are 'texts', 'label'"
    ),
    "a row too short": bad_table(
        "a.tsv", b"text\tlabel\na\n", "a.tsv:2: 1 cells, the first line names 2 columns"
    ),
    "an empty label": bad_table("a.tsv", b"text\tlabel\na\t\n", "a.tsv:2: the cell 'label' is empty"),
    "an open quotation": bad_table(
        "a.csv", b'text,label\n"a,b\n', "a.csv:2: a quotation mark is never closed"
    ),
    "a row that is not JSON": bad_table("a.jsonl", b'{"text": "a"\n', "a.jsonl:1: not JSON"),
    "a row that is a list": bad_table("a.jsonl", b'["a"]\n', "a.jsonl:1: not a JSON object"),
    "a cell that is an object": bad_table(
        "a.jsonl", b'{"text": {}, "label": "b"}\n', "a.jsonl:1: 'text' is {}"
    ),
    "a table in UTF-16": bad_table(
        "a.tsv", ("text\tlabel\n" + "a\tx\nb\ty\n" * 8).encode("utf-16"), "a.tsv: text in UTF-16", "iconv"
    ),
    "a table in Latin-1": bad_table(
        "a.tsv", b"text\tlabel\ncaf\xe9\tb\n" + b"a\tx\nb\tb\n" * 8, "a.tsv:2: not UTF-8 at byte 4"
    ),
    "a row of 11 MB": bad_table("a.tsv", b"text\tlabel\n" + b"a" * 11000000, "a.tsv:2: a line of over 10 MB"),
    "one label": bad_table("a.tsv", b"text\tlabel\n" + b"a\tb\n" * 20, "a.tsv", "label"),
    "one example": bad_table("a.tsv", b"text\tlabel\na\tb\n", "a.tsv"),
    "sentences without tags": bad_tags(
        "a.txt", b"Ada lives in Oslo now.\nBo went to Rome today.\n", "a.txt:1: 'now.' is not a tag"
    ),
    "tags without a scheme beside O": bad_tags(
        "a.conll", b"Ada PER\nran O\n", "a.conll:1: 'PER' is not a tag", "--set tagging.scheme=plain"
    ),
    "a stray tag": bad_tags(
        "a.conll", b"a B-A\n\nb O\nc I-A\n", "a.conll:4: I-A after O", "--set tagging.stray=as-conlleval"
    ),
    "tags in a table with commas": bad_tags(
        "a.csv", b"Ada,B-PER\nran,O\n", "{tmp}/a.csv: the first line does not name the columns"
    ),
    "a text without spans": bad_tags(
        "a.jsonl", b'{"text": "Ada"}\n', "{tmp}/a.jsonl:1: no field has the spans"
    ),
    "a span beyond the text": bad_tags(
        "a.jsonl", b'{"text": "Ada", "label": [[0, 9, "PER"]]}\n', "a.jsonl:1: ", "which has 3 characters"
    ),
    "spans that overlap": bad_tags(
        "a.jsonl", b'{"text": "Ada B", "label": [[0, 5, "X"], [0, 3, "Y"]]}\n', "a.jsonl:1: ", "overlap"
    ),
    "numbers without names": bad_tags(
        "a.jsonl", b'{"tokens": ["Ada"], "ner_tags": [1]}\n', "a.jsonl:1: ", "tagging.tag_names="
    ),
    "two fields of tags": bad_tags(
        "a.jsonl",
        b'{"tokens": ["a"], "pos_tags": ["X"], "ner_tags": ["O"]}\n',
        "--set tagging.tags_field=NAME",
    ),
    "an unknown label": case(
        FINETUNE + "-m {run} -d {table} --dev {tmp}/dev.tsv",
        "{tmp}/dev.tsv:2: ",
        "'unheard'",
        prepare=write_text(b"text\tlabel\na\tunheard\n", "dev.tsv"),
    ),
    "a length beyond the model": case(
        FINETUNE + "-m {run} -d {table} --set max_seq_length=64",
        "{run}: max_seq_length 64, the model takes 32 tokens",
        "--max-seq-length 32",
    ),
    "a negative that belongs to its text": case(
        PAIRS,
        "a.tsv:3: 'd' is both the second text and among the negatives",
        "leave its cell empty",
        prepare=write_text(b"text\tpair\tnegative\na\tb\tc\ne\td\td\n", "a.tsv"),
    ),
    "no column of negatives": case(
        PAIRS + " --set text-pairs.negative_column=bad",
        "a.tsv:2: no column 'bad'",
        "There are 'text', 'pair'",
        prepare=write_text(b"text\tpair\na\tb\n", "a.tsv"),
    ),
    "pairs and negatives that are all equal": case(
        PAIRS,
        "every row has the same second text",
        "give two different second texts",
        prepare=write_text(b"text\tpair\na\tb\nc\tb\n", "a.tsv"),
    ),
    "no class at all": bad_prediction("{table} -o {out} --top-k 0", "--top-k: 0 is less than 1"),
    "a part of a class": bad_prediction("{table} -o {out} --top-k 1.5", "1.5"),
    "classes of vectors": case(
        "predict text-pairs -m {run} {tmp}/a.tsv -o {out} --top-k 2",
        "--top-k: the predictions have no classes",
        "Leave it out",
        prepare=write_text(b"text\tpair\na\tb\n", "a.tsv"),
    ),
    "a server without classes": case("serve -m {classifier} --top-k 0", "--top-k: 0 is less than 1"),
    "predict with an encoder": case(
        "predict classification -m {run} {table}", "no classifier", "Fine-tune one"
    ),
    "predict without the column": bad_prediction(
        "{tmp}/a.tsv -o {out}", "a.tsv:2: no column 'text'", prepare=write_text(b"words\nIt was\n", "a.tsv")
    ),
    "predict on a missing file": bad_prediction("{tmp}/none.txt -o {out}", "{tmp}/none.txt: no such file"),
    "predict on a directory": bad_prediction("{tmp} -o {out}", "{tmp}: is a directory"),
}
