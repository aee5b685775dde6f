"""Small files and models for the tests of the command line, and settings of runs that take a second."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from cloze.cli import main
from cloze.models.bert import BertModel
from tiny_models import SPECIAL, tiny_config, write_checkpoint

REPOSITORY = Path(__file__).resolve().parents[2]
NANO = tuple(
    f"--set={setting}"
    for setting in (
        "precision=float32",
        "device=cpu",
        "micro_batch_tokens=256",
        "model.num_hidden_layers=1",
        "model.hidden_size=16",
        "model.num_attention_heads=2",
        "model.intermediate_size=24",
        "model.max_position_embeddings=32",
        "phases=[{max_seq_length=32, fraction=1, batch_size=8}]",
        "optimizer.learning_rate=1e-3",
        "evaluation.times=2",
        "evaluation.max_instances=16",
    )
)
"""Settings of pre-training."""
NANO_TASK = tuple(
    f"--set={setting}"
    for setting in ("precision=float32", "device=cpu", "max_seq_length=32", "micro_batch_tokens=256")
)
"""Settings of fine-tuning."""
PRETRAIN = f"pretrain -o {{out}} --steps 1 {shlex.join(NANO)} "
INIT = f"pretrain -o {{out}} --steps 1 {shlex.join(s for s in NANO if '=model.' not in s)} --init "
FINETUNE = f"finetune classification -o {{out}} {shlex.join(NANO_TASK)} "
CORPUS = "corpus {tmp}/text --vocabulary {vocab} -o {out} --workers 1"


@dataclass(frozen=True)
class Samples:
    """Paths of a text, a vocabulary, a data set, a run, labeled data and a classifier."""

    text: Path
    vocab: Path
    data: Path
    run: Path
    table: Path
    classifier: Path

    @property
    def checkpoint(self) -> Path:
        return sorted((self.run / "checkpoints").iterdir())[-1]


USES = {
    "vocab": "vocab {text} -o {tmp}/vocab --size 500 --workers 1",
    "vocab extend": "vocab extend {vocab} {text} -o {tmp}/extended --number 5 --workers 1",
    "vocab inspect": "vocab inspect {vocab} {text} --workers 1",
    "corpus": "corpus {text} --vocabulary {vocab} -o {tmp}/data --workers 1 --validation-fraction 0.1",
    "corpus audit": "corpus audit {data} -o {tmp}/audit.html",
    "pretrain": f"pretrain --data {{data}} -o {{tmp}}/run --steps 1 {shlex.join(NANO)}",
    "finetune": "finetune classification -m {run} -d {table} -o {tmp}/classifier --epochs 1 "
    + " ".join(NANO_TASK),
    "baseline": "baseline classification -d {table}",
    "tasks formats": "tasks formats tagging",
    "tasks": "tasks",
    "examples": "examples -o {tmp}/examples",
    "evaluate": "evaluate -m {classifier} -d {table} -o {tmp}/answers.csv",
    "predict": "predict -m {classifier} {table} -o {tmp}/predictions.jsonl",
    "score": "score classification {tmp}/predictions.jsonl {table}",
    "fill": "fill -m {run} 'It was a [MASK].'",
    "next": "next -m {run} 'It was dark.' 'It was night.'",
    "embed": "embed {text} -m {run} -o {tmp}/vectors.parquet",
    "neighbors": "neighbors night -m {run}",
    "search": "search {text} night -m {run}",
    "next-labels": "next-labels {table} -m {classifier} -k 3",
    "attention": "attention night -m {run} -o {tmp}/attention.html",
    "serve": "serve -m {checkpoint} --port 0",
    "import": "import {checkpoint} -o {tmp}/imported",
    "export": "export {classifier} -o {tmp}/graph",
    "info": "info {run}",
    "report": "report {run} -o {tmp}/report.html",
    "completion": "completion bash",
    "help": "help fill",
}
"""A small use of each verb but those in `NOT_USED`; later ones read what earlier ones write."""
NOT_USED = {"demo", "glue-submission", "push"}
"""They run the others (demo), need nine runs, or are for another machine (push)."""


def one_line_of(stderr: str) -> str:
    """Return the only line on stderr, which is an error that a user can mend."""
    line = stderr.removesuffix("\n")
    assert line.startswith("error: "), stderr
    assert "\n" not in line, stderr
    assert "bug in cloze" not in line, stderr
    return line


def fill_in(template: str, paths: dict[str, Path]) -> str:
    for name, path in paths.items():
        template = template.replace("{" + name + "}", str(path))
    return template


class Printed(NamedTuple):
    """Output of a command."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Cloze = Callable[..., Printed]
"""The fixture `cloze`."""
ErrorLine = Callable[..., str]
"""The fixture `error_line`."""


def command_runner(capsys: pytest.CaptureFixture[str]) -> Cloze:
    """Return a function that runs a command, given as a line and more arguments, and checks the exit code."""

    def run(command: str, *arguments: object, code: int = 0) -> Printed:
        words = [*shlex.split(command), *map(str, arguments)]
        capsys.readouterr()
        exit_code = main(words)
        printed = Printed(*capsys.readouterr())
        assert exit_code == code, (words, printed)
        return printed

    return run


FILM_TOKENS = (*SPECIAL, "good", "bad", "film", "book")


def save_film_encoder(directory: Path, **config: Any) -> None:
    """Save an encoder that learns within seconds whether a film or a book is good or bad."""
    sizes = {"num_attention_heads": 2, "max_position_embeddings": 16, "initializer_range": 0.2}
    encoder = BertModel(
        tiny_config(FILM_TOKENS, **sizes, **config), generator=torch.Generator().manual_seed(1)
    )
    write_checkpoint(directory, encoder, FILM_TOKENS)
