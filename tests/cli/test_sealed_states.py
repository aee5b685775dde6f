"""Files whose checksums are right and whose content is wrong are refused in one line, and nothing is written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file, save_file
from samples import ErrorLine, Samples

from cloze import artifacts
from cloze.data.shards import Shard, write_shard
from helpers import read_tree

pytestmark = [pytest.mark.protected, pytest.mark.trials("corruption")]

Change = Callable[[Path], object]


def seal(directory: Path) -> None:
    """Write a manifest for the files as they are, as somebody could who wants them to be read."""
    kind = artifacts.read_manifest(directory).kind
    copy = directory.with_name("sealed")
    shutil.rmtree(copy, ignore_errors=True)
    with artifacts.write_directory(copy, kind=kind) as temporary:
        ignored = shutil.ignore_patterns("manifest.json")
        shutil.copytree(directory, temporary, dirs_exist_ok=True, ignore=ignored)
    shutil.rmtree(directory)
    copy.rename(directory)


def in_json(file: str, **values: Any) -> Change:
    """Set values of a JSON object, by dotted key with `__` for dots."""

    def change(directory: Path) -> None:
        table = inner = json.loads((directory / file).read_text())
        for key, value in values.items():
            *sections, last = key.split("__")
            for section in sections:
                inner = inner[section]
            inner[last] = value
        (directory / file).write_text(json.dumps(table))

    return change


def with_another_shape(directory: Path) -> None:
    tensors = load_file(directory / OPTIMIZER)
    name = min(name for name in tensors if name.startswith("exp_avg/"))
    save_file(tensors | {name: torch.zeros(3)}, directory / OPTIMIZER)


def with_negative_squares(directory: Path) -> None:
    tensors = load_file(directory / OPTIMIZER)
    name = min(name for name in tensors if name.startswith("exp_avg_sq/"))
    save_file(tensors | {name: -1 - tensors[name]}, directory / OPTIMIZER)


STATE, OPTIMIZER = "training/state.json", "training/optimizer.safetensors"
STATES: dict[str, Change] = {
    "a position that is a list": in_json(STATE, position=[0, 0, 0]),
    "a state without values": lambda path: (path / STATE).write_text("{}"),
    "an unknown value": in_json(STATE, more=1),
    "an average of another shape": with_another_shape,
    "a negative mean of squares": with_negative_squares,
    "another step": in_json(STATE, step=1),
    "another index": in_json(STATE, position__index=1),
    "an index beyond the epoch": in_json(STATE, position__index=10**6),
    "a negative index": in_json(STATE, position__index=-2),
    "an index that is a fraction": in_json(STATE, position__index=0.5),
    "a later epoch": in_json(STATE, position__epoch=5),
    "an epoch without end": in_json(STATE, position__epoch=10**18),
    "a phase that there is not": in_json(STATE, position__phase=2),
    "negative time": in_json(STATE, elapsed_seconds=-1.0),
    "a best step in the future": in_json(STATE, best_step=99),
}


def refusal(checkpoint: Path, wrong: Change) -> str:
    file = OPTIMIZER if wrong in (with_another_shape, with_negative_squares) else STATE
    what = "does not fit the run, as a file of another version"
    return f"error: {checkpoint / file}: {what}. Resume with the version that wrote it, or start a new run."


@pytest.mark.parametrize("wrong", STATES)
def test_a_state_of_another_version_is_refused_on_resume(
    samples: Samples, tmp_path: Path, error_line: ErrorLine, wrong: str
) -> None:
    run = Path(shutil.copytree(samples.run, tmp_path / "run"))
    shutil.rmtree(run / "checkpoints/step-00000004")
    checkpoint = run / "checkpoints/step-00000002"
    STATES[wrong](checkpoint)
    seal(checkpoint)
    before = read_tree(run / "checkpoints")
    assert error_line(f"pretrain -o {run} --resume") == refusal(checkpoint, STATES[wrong])
    assert read_tree(run / "checkpoints") == before


@pytest.mark.parametrize(
    "wrong", [in_json(STATE, position__index=1), in_json(STATE, position__epoch=7), with_negative_squares]
)
def test_a_state_of_another_step_is_refused_on_resume_of_fine_tuning(
    samples: Samples, tmp_path: Path, error_line: ErrorLine, wrong: Change
) -> None:
    run = Path(shutil.copytree(samples.classifier, tmp_path / "run"))
    checkpoint = max((run / "checkpoints").iterdir())
    wrong(checkpoint)
    seal(checkpoint)
    assert error_line(f"finetune classification -o {run} --resume") == refusal(checkpoint, wrong)


def shard_with(**changes: Any) -> Change:
    """Write the shard of a data set with other values, and the numbers that belong to it."""

    def change(directory: Path) -> None:
        (file,) = directory.glob("*.arrow")
        shard = Shard.open(file)
        values = {name: np.array(getattr(shard, name)) for name in shard.__slots__}
        for name, new in changes.items():
            values[name] = new(values[name])
        write_shard(file, Shard(**values), vocab_size=500)

    return change


def table_of(**columns: Any) -> Change:
    def change(directory: Path) -> None:
        (file,) = directory.glob("*.arrow")
        batch = pa.record_batch(columns)
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)

    return change


def in_manifest(**values: Any) -> Change:
    return in_json("manifest.json", **values)


DATASETS: dict[str, Change] = {
    "an ID beyond the vocabulary": shard_with(token_ids=lambda ids: np.where(np.arange(len(ids)) == 7, 999, ids)),
    "no rows": lambda path: [
        shard_with(
            token_ids=lambda ids: ids[:0],
            sentence_offsets=lambda offsets: offsets[:1],
            document_offsets=lambda offsets: offsets[:1],
            document_digests=lambda digests: digests[:0],
            paragraph_offsets=lambda offsets: offsets[:1],
            paragraph_digests=lambda digests: digests[:0],
            paragraph_starts=lambda starts: starts[:0],
            paragraph_ends=lambda ends: ends[:0],
        )(path),
        in_json("dataset.json", documents=0, sentences=0, tokens=0)(path),
    ],
    "tokens of no sentence": shard_with(sentence_offsets=lambda offsets: offsets + (offsets > 0)[::-1] * 0 - (
        np.arange(len(offsets)) == len(offsets) - 1
    )),
    "a document without sentences": shard_with(
        document_offsets=lambda offsets: np.where(np.arange(len(offsets)) == 1, 0, offsets)
    ),
    "a paragraph beyond the sentences": shard_with(paragraph_ends=lambda ends: ends + 10**6),
    "IDs that are numbers of another kind": table_of(
        sentences=pa.array([[[1.5]]]), digest=pa.array([1], pa.uint64()), long_paragraphs=pa.array([[]])
    ),
    "columns of other names": table_of(text=pa.array(["a"])),
    "another size of the vocabulary": in_json("dataset.json", vocab_size=499),
    "a negative number": in_json("dataset.json", documents=-1),
    "a number that is text": in_json("dataset.json", documents="40"),
}  # fmt: skip
REASONS = {
    "an ID beyond the vocabulary": "token ID 999, the vocabulary has 500 tokens",
    "no rows": "no counts of all tokens",
    "tokens of no sentence": "its numbers of documents and tokens are not those of the shards",
    "a document without sentences": "its documents and sentences do not cover its tokens",
    "a paragraph beyond the sentences": "its documents and sentences do not cover its tokens",
    "IDs that are numbers of another kind": "its columns have other types than those of a data set",
    "columns of other names": "not a file of sentences, digest, long_paragraphs",
    "another size of the vocabulary": "no counts of all tokens",
    "a negative number": "a number is negative or too large",
    "a number that is text": "documents must be of type int, not '40'",
}


@pytest.mark.parametrize("wrong", DATASETS)
def test_a_wrong_data_set_is_refused(
    samples: Samples, tmp_path: Path, error_line: ErrorLine, wrong: str
) -> None:
    data = Path(shutil.copytree(samples.data, tmp_path / "data"))
    DATASETS[wrong](data)
    seal(data)
    for command in (f"pretrain --data {data} --steps 1 -m tiny -o {tmp_path}/out", f"corpus audit {data}"):
        assert f": {REASONS[wrong]}" in error_line(command)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (in_manifest(kind=["checkpoint"]), "damaged manifest (no kind "),
        (in_manifest(kind=None), "damaged manifest (no kind "),
        (in_manifest(kind="dataset"), "dataset"),
        (in_manifest(kind="vocabulary"), "is a vocabulary"),
        (in_manifest(format_version="1"), "format_version must be a number)"),
        (in_manifest(format_version=True), "format_version must be a number)"),
        (in_manifest(files=[]), "damaged manifest ('list' object"),
        (in_manifest(files={"config.json": {"bytes": "9", "sha256": "0"}}), "bytes must be numbers"),
        (in_manifest(files={"config.json": 3}), "damaged manifest ('int' object"),
    ],
)
def test_a_manifest_of_another_kind_is_refused(
    samples: Samples, tmp_path: Path, error_line: ErrorLine, wrong: Change, reason: str
) -> None:
    model = Path(shutil.copytree(samples.checkpoint, tmp_path / "model"))
    wrong(model)
    for command in (f"info {model}", f"fill -m {model} 'a [MASK]'"):
        assert reason in error_line(command)
