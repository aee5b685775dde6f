"""Describe a checkpoint, data set, vocabulary or run and verify its files."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloze import artifacts
from cloze.artifacts import RUN_CONFIG
from cloze.config import read_toml
from cloze.data.dataset import Dataset, Documents
from cloze.errors import InputError
from cloze.file_io import read_json
from cloze.file_names import CARD_FILE, CONFIG_FILE, MANIFEST, TOKENIZER_FILE, TRAINING_FOLDER, VOCAB_FILE
from cloze.finetuning.config import FinetuneConfig
from cloze.finetuning.finetune import TRIALS, TRIALS_FOLDER
from cloze.finetuning.run import SCORES
from cloze.hub import name_of_snapshot
from cloze.inference.graph_model import read_graph_facts
from cloze.model_paths import RunLink, find_model_directory, follow_link, is_bundled
from cloze.models.checkpoint import verify_shared_weights
from cloze.models.config_file import load_config, load_labels
from cloze.models.encoder import get_encoder_class
from cloze.models.engine import GRAPH_KIND
from cloze.models.weight_files import read_weight_headers
from cloze.pretraining.config import PretrainConfig
from cloze.reports.run_report import read_run_metrics
from cloze.tokenization.loading import load_tokenizer
from cloze.training.checkpoints import STATE_FILE, copy_of_settings, read_state
from cloze.training.metrics_log import METRICS
from cloze.training.run_directory import ENVIRONMENT, check_settings, is_run

_REMEDY = "Give a directory that cloze wrote, or a Hugging Face model"


@dataclass(frozen=True, slots=True)
class Description:
    """Kind, facts and verification of a directory."""

    path: Path
    kind: str
    """checkpoint, dataset, vocabulary, run, or another kind that the manifest names."""
    facts: Mapping[str, Any]
    """Values by name; a value may be a table of values."""
    checked: Mapping[str, int] = field(default_factory=dict)
    """Number of verified files by directory with a manifest; the model card may be edited and is not counted."""

    def as_dict(self) -> dict[str, Any]:
        """Return a table for JSON."""
        checked = dict(self.checked) or None
        return {"path": str(self.path), "kind": self.kind, **self.facts, "files_checked": checked}


def describe(directory: Path | str) -> Description:
    """Describe a directory and verify the files that its manifest lists, as `cloze.info` does."""
    directory = find_model_directory(directory)
    if not directory.is_dir():
        raise InputError(
            "is a file" if directory.exists() else "no such directory", where=directory, remedy=_REMEDY
        )
    if (directory / METRICS).is_file() or (directory / RUN_CONFIG).is_file():
        return _describe_run(directory)
    checked = {}
    if (directory / MANIFEST).is_file():
        kind, checked = artifacts.read_manifest(directory).kind, {str(directory): _verify(directory)}
    elif (directory / CONFIG_FILE).is_file():
        kind = "checkpoint"
    elif (directory / VOCAB_FILE).is_file() or (directory / TOKENIZER_FILE).is_file():
        kind = "vocabulary"
    else:
        raise InputError("not a checkpoint, data set, vocabulary or run", where=directory, remedy=_REMEDY)
    path = directory.resolve()
    is_of_run = path.parent.name == "checkpoints" and is_run(path.parent.parent)
    # a checkpoint that cloze wrote: of a run, bundled, or with its training state
    if not checked and (is_of_run or is_bundled(path) or (path / TRAINING_FOLDER).is_dir()):
        what = f"missing, so that the files of {directory} cannot be verified"
        raise artifacts.IntegrityError(what, where=directory / MANIFEST, remedy="Copy it again")
    readers: dict[str, Callable[[Path], dict[str, Any]]] = {
        "checkpoint": _checkpoint_facts,
        GRAPH_KIND: _graph_facts,
        "dataset": _dataset_facts,
        "vocabulary": _tokenizer_facts,
    }
    return Description(directory, kind, readers[kind](directory) if kind in readers else {}, checked)


def _verify(directory: Path, kind: str | None = None) -> int:
    files = artifacts.verify(directory, kind=kind).files.keys()
    verify_shared_weights(directory)
    return len(files - {CARD_FILE})


def _checkpoint_facts(directory: Path) -> dict[str, Any]:
    config = load_config(directory)
    weights, formats = read_weight_headers(directory, get_encoder_class(config).names)
    head = read_json(directory / CONFIG_FILE).get("architectures")
    name = name_of_snapshot(directory)
    facts: dict[str, Any] = {
        **({} if name is None else {"source": str(name)}),
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


def _graph_facts(directory: Path) -> dict[str, Any]:
    facts = read_graph_facts(directory)
    labels = load_labels(directory)
    return {
        "model": facts.model,
        "outputs": list(facts.outputs),
        "layers": facts.encoder.num_hidden_layers,
        "hidden size": facts.encoder.hidden_size,
        "longest input": facts.encoder.max_position_embeddings,
        "parameters": facts.parameters,
        "number format": facts.precision,
        **({"labels": list(labels)} if labels else {}),
        **_tokenizer_facts(directory),
    }


def _tokenizer_facts(directory: Path) -> dict[str, Any]:
    if not any((directory / name).is_file() for name in (VOCAB_FILE, TOKENIZER_FILE)):
        return {"vocabulary": "none in this directory"}
    tokenizer = load_tokenizer(directory)
    unused = sum(token.startswith("[unused") for token in tokenizer.tokens)
    return {
        **({} if tokenizer.kind == "WordPiece" else {"tokenizer": tokenizer.kind}),
        "vocabulary": tokenizer.vocab_size,
        "of them unused": unused,
        "case": "lower-cased" if tokenizer.lowercase else "kept",
    }


def _dataset_facts(directory: Path) -> dict[str, Any]:
    dataset = Dataset.open(directory, verify=False)
    facts = dataset.info
    shards = list(directory.glob("*.arrow"))
    return {
        "documents": facts.documents,
        "sentences": facts.sentences,
        "tokens": facts.tokens,
        "unknown tokens": facts.unknown_tokens,
        "train": _split_facts(dataset.split("train")),
        "validation": _split_facts(dataset.split("validation")),
        "shards": len(shards),
        "bytes": sum(shard.stat().st_size for shard in shards),
        **_tokenizer_facts(directory),
    }


def _split_facts(documents: Documents) -> dict[str, int]:
    sentences = documents.end_sentence - documents.first_sentence
    return {"documents": len(documents), "sentences": int(sentences.sum()), "tokens": documents.num_tokens}


def _describe_run(run: Path) -> Description:
    rows = read_run_metrics(run) if (run / METRICS).is_file() else []
    checked: dict[str, int] = {}
    names = []
    links: tuple[RunLink, ...] = ("latest", "best")
    for folder in (run, *sorted((run / TRIALS_FOLDER).glob("*"))):
        for file in filter(Path.is_file, (folder / name for name in (ENVIRONMENT, SCORES, TRIALS))):
            read_json(file)  # or an error that names it
        if (folder / RUN_CONFIG).is_file():
            settings = read_toml(folder / RUN_CONFIG)
            config_class = FinetuneConfig if "task" in settings else PretrainConfig
            check_settings(folder, config_class, settings, copy_of_settings(folder))
        copies = (folder / link for link in links if not (folder / link).is_symlink())
        for path in (*sorted((folder / "checkpoints").glob("step-*")), *copies):
            if path.is_dir():
                checked[str(path)] = _verify(path, kind="checkpoint")
                names.append(path.name if folder == run else f"{folder.name}/{path.name}")
    facts: dict[str, Any] = {"checkpoints": names}
    for link in links:
        if os.path.lexists(run / link):
            facts[link] = follow_link(run, link).name
    if rows:
        facts["steps"] = rows[-1]["step"]
    for kind, name in (("train", "last training measures"), ("validation", "last held-out measures")):
        if last := next((row for row in reversed(rows) if row["kind"] == kind), None):
            facts[name] = {key: value for key, value in last.items() if key != "kind"}
    if (run / RUN_CONFIG).is_file():
        facts["settings"] = read_toml(run / RUN_CONFIG)
    return Description(run, "run", facts, checked)
