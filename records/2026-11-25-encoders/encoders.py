"""Time a forward pass and a training step of each encoder, compared with transformers.

PYTHONPATH=. python records/2026-11-25-encoders/encoders.py -o record
"""

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.commands import run_program
from benchmarks.harness import (
    Check,
    Contestant,
    EncoderSize,
    Peers,
    Result,
    TimedBenchmark,
    heading,
    import_peer,
    repeat,
    split_names,
)
from benchmarks.machine import describe_machine
from cloze import artifacts
from cloze.cli.options import Flag
from cloze.data.batch import collate
from cloze.errors import InputError
from cloze.models.batch import to_device
from cloze.models.checkpoint import save_model
from cloze.models.encoder import build_encoder, encoders
from cloze.models.heads import BertForSequenceClassification
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.training.optimizer import OptimizerConfig, build_optimizer

ENCODERS = ("bert", "distilbert", "roberta", "modernbert")
_VOCAB_SIZE = 8000
_TOLERANCE = 1e-4

Texts = Sequence[Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class Encoders(TimedBenchmark):
    """A forward pass and a training step of each encoder, in sequences per second."""

    name: ClassVar[str] = "encoders"
    peers_known: ClassVar[Collection[str]] = ("transformers",)

    vs: Peers = "transformers"
    """Compared programs: transformers, with its default attention."""
    encoders: Annotated[str, Flag(metavar="NAME[,NAME]")] = ",".join(ENCODERS)
    """Encoders, by the model_type of config.json."""
    parts: Annotated[str, Flag(metavar="PART[,PART]")] = "forward,step"
    """forward: the vectors of all tokens; step: classes, their gradients and AdamW."""
    size: EncoderSize = "mini"
    """Size of the encoder; ModernBERT has that of the same name."""
    batch: int = 32
    """Sequences."""
    max_seq_length: int = 128
    """Longest sequence; lengths are even from an eighth of it on."""

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Measure all encoders in turn, each beside transformers with the same weights."""
        names = split_names(self.encoders, ENCODERS, flag="--encoders")
        parts = split_names(self.parts, ("forward", "step"), flag="--parts")
        if self.batch < 2 or self.max_seq_length < 8:
            raise InputError("fewer than 2 sequences, or 8 tokens", where="--batch, --max-seq-length")
        texts = _draw(self.batch, self.max_seq_length)
        contestants: list[Contestant] = []
        checks: list[Check] = []
        for name in names:
            ours = _build(name, self.size)
            theirs = _load_transformers(ours, directory / name) if peers else None
            for part in parts:
                measured = {"cloze": _PARTS[part](ours, texts, "cloze")}
                if theirs is not None:
                    measured["transformers"] = _PARTS[part](theirs, texts, "transformers")
                    results = [work() for work in measured.values()]
                    difference = float((results[0] - results[1]).abs().max())
                    checks.append(Check(f"{name}, {part}", difference, _TOLERANCE))
                contestants += [
                    Contestant(f"{name}, {part}: {program}", _DOES[program], repeat(work))
                    for program, work in measured.items()
                ]
        timings = self.measure(contestants)
        settings = {"size": self.size, "batch": self.batch, "max_seq_length": self.max_seq_length}
        settings |= {"rounds": self.rounds}
        step = 1 + bool(peers)
        of_pair = [
            self.describe(
                timings[start : start + step], settings=settings, unit="sequences", amount=self.batch
            )
            for start in range(0, len(timings), step)
        ]
        sides = [side for result in of_pair for side in result.record["sides"]]
        tables = ["\n".join(result.text.splitlines()[2:]).split("\n\n")[0] for result in of_pair]
        record = {
            **of_pair[0].record,
            "sides": sides,
            "checks": [check.as_dict() for check in checks],
            "environment": describe_machine(peers=peers),
        }
        lines = [heading(self.name, settings), "", *tables, "", *map(str, checks)]
        return Result(self.name, record, "\n".join(lines), checks)


_DOES = {
    "cloze": "packed, the longest sequence first",
    "transformers": "padded to the longest sequence, default attention",
}


def _draw(count: int, max_seq_length: int) -> list[list[int]]:
    """Return sequences of random tokens, the longest first."""
    generator = np.random.default_rng(1)
    lengths = np.linspace(max_seq_length, max(max_seq_length // 8, 1), count).round().astype(int)
    return [generator.integers(len(SPECIAL_TOKENS), _VOCAB_SIZE, length).tolist() for length in lengths]


def _build(name: str, size: str) -> BertForSequenceClassification:
    """Return a classifier with random weights, without dropout."""
    encoder_class = encoders()[name]
    config = encoder_class.sizes()[f"{encoder_class.size_prefix}{size}"]
    config = replace(
        config, vocab_size=_VOCAB_SIZE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    generator = torch.Generator().manual_seed(1)
    encoder = build_encoder(config, generator=generator)
    return BertForSequenceClassification(encoder, num_labels=2, generator=generator).eval()


def _load_transformers(ours: BertForSequenceClassification, directory: Path) -> Any:
    transformers = import_peer("transformers")
    words = [f"w{number}" for number in range(_VOCAB_SIZE - len(SPECIAL_TOKENS))]
    with artifacts.write_directory(directory, kind="checkpoint") as temporary:
        tokenizer = WordPieceTokenizer.from_tokens([*SPECIAL_TOKENS, *words])
        save_model(temporary, ours, tokenizer, labels=("a", "b"))
    return transformers.AutoModelForSequenceClassification.from_pretrained(directory).eval()


def _forward(model: Any, texts: Texts, program: Literal["cloze", "transformers"]) -> Callable[[], Tensor]:
    """Return the work from lists of ids to the vectors of all tokens, end to end."""

    @torch.inference_mode()
    def ours() -> Tensor:
        vectors_TD: Tensor = model.bert(to_device(collate(texts))).sequence_output
        return vectors_TD

    @torch.inference_mode()
    def theirs() -> Tensor:
        input_ids, mask = _pad(texts)
        vectors_TD: Tensor = model.base_model(input_ids, attention_mask=mask).last_hidden_state[mask.bool()]
        return vectors_TD

    return ours if program == "cloze" else theirs


def _step(model: nn.Module, texts: Texts, program: Literal["cloze", "transformers"]) -> Callable[[], Tensor]:
    """Return the work of a training step, which returns the logits before it."""
    labels = torch.arange(len(texts)) % 2
    settings = OptimizerConfig(
        learning_rate=1e-9, bias_correction=True
    )  # so that all rounds compute the same
    optimizer: torch.optim.Optimizer
    if program == "cloze":
        optimizer = build_optimizer(model, settings)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.01)

    def logits() -> Tensor:
        if program == "cloze":
            ours: Tensor = model(to_device(collate(texts)))
            return ours
        input_ids, mask = _pad(texts)
        theirs: Tensor = model(input_ids, attention_mask=mask).logits
        return theirs

    def work() -> Tensor:
        logits_BC = logits()
        torch.autograd.backward(nn.functional.cross_entropy(logits_BC, labels))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return logits_BC.detach()

    return work


def _pad(texts: Texts) -> tuple[Tensor, Tensor]:
    lengths = [len(text) for text in texts]
    input_ids = torch.zeros(len(texts), max(lengths), dtype=torch.long)
    for row, text in zip(input_ids, texts, strict=True):
        row[: len(text)] = torch.tensor(text)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return input_ids, mask


_PARTS: dict[str, Callable[..., Callable[[], Tensor]]] = {"forward": _forward, "step": _step}


if __name__ == "__main__":
    sys.exit(run_program(Encoders, "encoders.py", sys.argv[1:]))
