"""What a directory is, and whether its files are as they were written."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cloze import artifacts
from cloze.artifacts import RUN_CONFIG
from cloze.config import read_toml
from cloze.corpus.store import Dataset, Documents
from cloze.errors import InputError
from cloze.evidence.report import read_run_metrics
from cloze.locate import find_shipped, follow
from cloze.model.checkpoint import CONFIG_FILE, load_config, load_labels, read_weight_headers
from cloze.tasks.trials import TRIALS_FOLDER
from cloze.text.tokenizer import TOKENIZER_FILE, VOCAB_FILE, Tokenizer
from cloze.training.checkpoints import STATE_FILE, read_state
from cloze.training.metrics_log import METRICS

_REMEDY = "Give a directory that cloze wrote, or a Hugging Face model"


@dataclass(frozen=True, slots=True)
class Description:
    """A directory in facts."""

    path: Path
    kind: str
    """checkpoint, dataset, vocabulary, run, or what else its manifest says."""
    facts: Mapping[str, Any]
    """By name; tables may hold tables."""
    checked: Mapping[str, int] = field(default_factory=dict)
    """By directory with a manifest: how many of its files are as they were written, which is all but the card."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as what JSON can say."""
        checked = dict(self.checked) or None
        return {"path": str(self.path), "kind": self.kind, **self.facts, "files_checked": checked}


def describe(directory: Path) -> Description:
    """Say what a checkpoint, data set, vocabulary or run is; check what its manifest lists.

    Directories of others, as Hugging Face tools write them, are described; nothing says what their files
    should be, so nothing is checked.

    Raises:
        InputError: it is none of these, or a file is not as it was written.
    """
    directory = find_shipped(directory)
    if not directory.is_dir():
        raise InputError(
            "is a file" if directory.exists() else "no such directory", where=directory, remedy=_REMEDY
        )
    if (directory / METRICS).is_file() or (directory / RUN_CONFIG).is_file():
        return _describe_run(directory)
    checked = {}
    if (directory / artifacts.MANIFEST).is_file():
        kind, checked = artifacts.read_manifest(directory).kind, {str(directory): _check(directory)}
    elif (directory / CONFIG_FILE).is_file():
        kind = "checkpoint"
    elif (directory / VOCAB_FILE).is_file() or (directory / TOKENIZER_FILE).is_file():
        kind = "vocabulary"
    else:
        raise InputError("not a checkpoint, data set, vocabulary or run", where=directory, remedy=_REMEDY)
    facts_of = _FACTS.get(kind, _no_facts)
    return Description(directory, kind, facts_of(directory), checked)


def _check(directory: Path, kind: str | None = None) -> int:
    """Check a directory against its manifest; return how many files were checked."""
    return len(artifacts.verify(directory, kind=kind).files.keys() - {artifacts.CARD})


def _checkpoint_facts(directory: Path) -> dict[str, Any]:
    config = load_config(directory)
    weights, formats = read_weight_headers(directory)
    head = json.loads((directory / CONFIG_FILE).read_text("utf-8")).get("architectures")
    facts: dict[str, Any] = {
        "model": head[0] if isinstance(head, list) and head else "BertModel",
        "layers": config.num_hidden_layers,
        "hidden size": config.hidden_size,
        "attention heads": config.num_attention_heads,
        "intermediate size": config.intermediate_size,
        "longest input": config.max_position_embeddings,
        "activation": config.hidden_act,
        "parameters": sum(weight.numel() for weight in weights.values()),  # tied ones once
        "number format": ", ".join(sorted(formats)),
    }
    if labels := load_labels(directory):
        facts["labels"] = list(labels)
    if (directory / STATE_FILE).is_file():
        state = read_state(directory)
        facts |= {"steps trained": state.step, "tokens trained": state.tokens}
    return facts | _tokenizer_facts(directory)


def _tokenizer_facts(directory: Path) -> dict[str, Any]:
    if not any((directory / name).is_file() for name in (VOCAB_FILE, TOKENIZER_FILE)):
        return {"vocabulary": "none in this directory"}
    tokenizer = Tokenizer.load(directory)
    unused = sum(piece.startswith("[unused") for piece in tokenizer.pieces)
    return {
        "word pieces": tokenizer.vocab_size,
        "of them unused": unused,
        "case": "lower-cased" if tokenizer.lowercase else "kept",
    }


def _dataset_facts(directory: Path) -> dict[str, Any]:
    dataset = Dataset.open(directory, verify=False)
    facts = dataset.facts
    shards = list(directory.glob("*.arrow"))
    return {
        "documents": facts.documents,
        "sentences": facts.sentences,
        "pieces": facts.pieces,
        "unknown pieces": facts.unknown_pieces,
        "train": _split_facts(dataset.split("train")),
        "validation": _split_facts(dataset.split("validation")),
        "shards": len(shards),
        "bytes": sum(shard.stat().st_size for shard in shards),
        **_tokenizer_facts(directory),
    }


def _split_facts(documents: Documents) -> dict[str, int]:
    starts, ends = documents.first_sentence, documents.end_sentence
    pieces = documents.sentence_offsets[ends] - documents.sentence_offsets[starts]
    return {"documents": len(documents), "sentences": int((ends - starts).sum()), "pieces": int(pieces.sum())}


def _describe_run(run: Path) -> Description:
    rows = read_run_metrics(run) if (run / METRICS).is_file() else []
    folders = [run, *sorted((run / TRIALS_FOLDER).glob("*"))]  # a run of several seeds holds a run of each
    checkpoints = [
        path for own in folders for path in sorted((own / "checkpoints").glob("step-*")) if path.is_dir()
    ]
    checked = {str(path): _check(path, kind="checkpoint") for path in checkpoints}
    facts: dict[str, Any] = {"checkpoints": [_name_in(run, path) for path in checkpoints]}
    for pointer in ("latest", "best"):
        if (run / pointer).is_file():
            facts[pointer] = follow(run, pointer).name
    if rows:
        facts["steps"] = rows[-1]["step"]
    for kind, name in (("train", "last training measures"), ("validation", "last held-out measures")):
        if last := next((row for row in reversed(rows) if row["kind"] == kind), None):
            facts[name] = {key: value for key, value in last.items() if key != "kind"}
    if (run / RUN_CONFIG).is_file():
        facts["settings"] = read_toml(run / RUN_CONFIG)
    return Description(run, "run", facts, checked)


def _name_in(run: Path, checkpoint: Path) -> str:
    """Return what a checkpoint is called, with its trial where it is of one."""
    inside = checkpoint.relative_to(run)
    return inside.name if inside.parts[0] == "checkpoints" else f"{inside.parts[1]}/{inside.name}"


def _no_facts(directory: Path) -> dict[str, Any]:
    return {}


_FACTS: Mapping[str, Callable[[Path], dict[str, Any]]] = MappingProxyType(
    {"checkpoint": _checkpoint_facts, "dataset": _dataset_facts, "vocabulary": _tokenizer_facts}
)
