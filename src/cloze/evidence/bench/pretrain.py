"""`cloze bench pretrain`: whole optimizer steps of masked words and next sentence, in real tokens a second."""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from cloze.corpus.batches import PackedBatch
from cloze.corpus.store import Dataset, Documents, Shard, write_shard
from cloze.evidence.bench.harness import (
    LEAST_ROUNDS,
    Check,
    Comparison,
    Limit,
    Side,
    alternate,
    environment_of,
    import_peer,
    matrix_product_rate,
    require_peers,
    wait_for,
)
from cloze.model.bert import BertModel
from cloze.model.heads import BertForPreTraining
from cloze.model.layouts import HUGGING_FACE
from cloze.pretraining.config import ModelConfig, PhaseConfig, PretrainConfig, Size
from cloze.pretraining.material import drawn_instances
from cloze.pretraining.objective import PretrainingStep, PretrainingWork
from cloze.progress import SILENT, Progress
from cloze.text.pieces import SPECIAL_PIECES
from cloze.text.tokenizer import Tokenizer
from cloze.training.checkpoints import Position
from cloze.training.cost import Workload, pretraining_step_flops
from cloze.training.distribution import World
from cloze.training.loop import add_up_gradients
from cloze.training.optimizer import build_optimizer, clip_gradients, set_learning_rate
from cloze.training.precision import Precision, autocast, resolve_device, resolve_dtype, training_arithmetic
from cloze.training.replicas import Alone, Replica

_TOLERANCES = MappingProxyType({torch.float32: (1e-4, 1e-3), torch.bfloat16: (2e-2, 5e-2)})
"""By number format: how far the losses, in nats, and the gradient norms, relatively, may be apart."""
_SYNTHETIC_DOCUMENTS = 400
_NOTHING_ASKED = -100  # transformers' label of a position that counts for nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainBenchmark:
    """What is measured."""

    data: Path | None = None
    """A data set of `cloze corpus`; without one, sentence lengths like those of English text are drawn."""
    size: Size = "mini"
    batch_size: int = 32
    max_seq_length: int = 128
    dropout_prob: float = 0.1
    """Of hidden states and of attention weights."""
    vocab_size: int = 30_522
    """Of drawn text; a data set brings its own."""
    precision: Precision = "float32"
    device: str = "cpu"
    seed: int = 12345

    def settings(self) -> PretrainConfig:
        """Return the settings of a run that would take such steps."""
        most = math.ceil(0.15 * self.max_seq_length)
        return PretrainConfig(
            data=str(self.data or ""),
            steps=1,
            seed=self.seed,
            model=ModelConfig(
                size=self.size,
                hidden_dropout_prob=self.dropout_prob,
                attention_probs_dropout_prob=self.dropout_prob,
            ),
            phases=(
                PhaseConfig(
                    max_seq_length=self.max_seq_length,
                    fraction=1.0,
                    batch_size=self.batch_size,
                    max_predictions_per_seq=most,
                ),
            ),
            precision=self.precision,
            device=self.device,
        )


class Trained(Protocol):
    """A model with its optimizer, ours or a peer's."""

    def step(self) -> None:
        """Take one optimizer step, dropout and all."""

    def loss_and_gradient_norm(self) -> tuple[float, float]:
        """Return what one step would see without dropout, and leave the weights as they are."""


def bench_pretrain(
    benchmark: PretrainBenchmark,
    *,
    peers: Sequence[str] = ("transformers",),
    rounds: int = LEAST_ROUNDS,
    min_seconds: float = 1.0,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare optimizer steps on the same weights and the same batch: forward, both losses, backward, clip, update.

    Raises:
        InputError: a setting is wrong, a peer is unknown or not installed.
    """
    require_peers(peers, PEERS)
    device = resolve_device(benchmark.device)
    dtype = resolve_dtype(benchmark.precision, device)
    work, data, vocab_size, note = draw_step(benchmark, World(device))
    model = build_model(benchmark, vocab_size)
    theirs = {peer: PEERS[peer].build(model, data.batches, device, dtype) for peer in peers}
    ours = begin_steps(benchmark, Alone(model.to(device)), work, data)

    checks = [check for peer in peers for check in _compare(ours, theirs[peer], peer, dtype)]
    limit_flops, size = matrix_product_rate(device, dtype)
    sides = [
        _side("cloze", "packed batch, products only where something is masked, fused AdamW", ours, device),
        *(_side(peer, PEERS[peer].does, theirs[peer], device) for peer in peers),
    ]
    timings = alternate(sides, rounds=rounds, min_seconds=min_seconds, progress=progress)

    workload = sum(map(Workload.of, data.batches[1:]), Workload.of(data.batches[0]))
    flops_a_token = pretraining_step_flops(model.config, workload) / workload.num_tokens
    longest = max(int(np.diff(batch.cu_seqlens).max()) for batch in data.batches)
    padded = longest * benchmark.batch_size
    return Comparison(
        name="pretrain",
        settings={
            "model": benchmark.size,
            "batch_size": benchmark.batch_size,
            "max_seq_length": benchmark.max_seq_length,
            "dropout": benchmark.dropout_prob,
            "vocab_size": vocab_size,
            "dtype": str(dtype).removeprefix("torch."),
            "device": str(device),
            "rounds": rounds,
        },
        amount=float(workload.num_tokens),
        unit="tokens",
        timings=timings,
        checks=tuple(checks),
        environment=environment_of(device, dtype, [peer.partition("-")[0] for peer in peers]),
        limit=Limit(
            f"{limit_flops / 1e12:.3g} TFLOP/s measured in products of {size} x {size}, "
            f"at {flops_a_token / 1e6:.4g} million operations a token",
            limit_flops / flops_a_token,
        ),
        notes=(
            f"{note}; {workload.num_tokens:,} real tokens, {padded:,} with padding to the longest ({longest}), "
            f"{workload.num_predictions:,} of them predicted",
        ),
    )


def _side(name: str, does: str, trained: Trained, device: torch.device) -> Side:
    def step() -> None:
        trained.step()
        wait_for(device)

    return Side(name, does, lambda: step)


def _compare(ours: Trained, theirs: Trained, peer: str, dtype: torch.dtype) -> tuple[Check, Check]:
    loss, norm = ours.loss_and_gradient_norm()
    their_loss, their_norm = theirs.loss_and_gradient_norm()
    loss_tolerance, norm_tolerance = _TOLERANCES[dtype]
    return (
        Check(f"loss beside {peer}, {loss:.4f} nats", abs(loss - their_loss), loss_tolerance),
        Check(f"gradient norm beside {peer}, relative", abs(norm / their_norm - 1), norm_tolerance),
    )


@dataclass(frozen=True, slots=True)
class OurSteps:
    """Steps made of the pieces that the training loop is made of."""

    replica: Replica
    optimizer: torch.optim.Optimizer
    work: PretrainingWork
    data: PretrainingStep
    max_grad_norm: float
    dtype: torch.dtype

    def step(self) -> None:
        """Take one optimizer step, dropout and all."""
        self.replica.model.train()
        with training_arithmetic():
            self._backward()
            self.optimizer.step()

    def loss_and_gradient_norm(self) -> tuple[float, float]:
        """Return what one step would see without dropout, and leave the weights as they are."""
        self.replica.model.eval()
        with training_arithmetic():
            return self._backward()

    def _backward(self) -> tuple[float, float]:
        self.optimizer.zero_grad(set_to_none=True)
        loss, _ = add_up_gradients(self.replica, self.work, self.data, self.dtype)
        norm = clip_gradients(self.replica.model.parameters(), self.max_grad_norm)
        return loss, norm.item()


def begin_training(benchmark: PretrainBenchmark, device: torch.device) -> OurSteps:
    """Draw a step and new weights."""
    work, data, vocab_size, _ = draw_step(benchmark, World(device))
    return begin_steps(benchmark, Alone(build_model(benchmark, vocab_size).to(device)), work, data)


def build_model(benchmark: PretrainBenchmark, vocab_size: int) -> BertForPreTraining:
    """Draw new weights, on the CPU: the same ones each time."""
    generator = torch.Generator().manual_seed(benchmark.seed)
    config = benchmark.settings().model.encoder(vocab_size=vocab_size)
    return BertForPreTraining(BertModel(config, generator=generator), generator=generator)


def begin_steps(
    benchmark: PretrainBenchmark, replica: Replica, work: PretrainingWork, data: PretrainingStep
) -> OurSteps:
    """Give a model an optimizer, and a step to take again and again."""
    settings = benchmark.settings()
    optimizer = build_optimizer(replica.model, settings.optimizer)
    set_learning_rate(optimizer, settings.optimizer.learning_rate)
    dtype = resolve_dtype(benchmark.precision, work.world.device)
    return OurSteps(replica, optimizer, work, data, settings.optimizer.max_grad_norm, dtype)


@dataclass(frozen=True, slots=True)
class _Transformers:
    """Steps as the documentation of transformers has them."""

    model: Any
    optimizer: torch.optim.Optimizer
    batches: Sequence[Mapping[str, Tensor]]
    device: torch.device
    dtype: torch.dtype

    def step(self) -> None:
        self.model.train()
        self._backward()
        self.optimizer.step()

    def loss_and_gradient_norm(self) -> tuple[float, float]:
        self.model.eval()
        return self._backward()

    def _backward(self) -> tuple[float, float]:
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        for batch in self.batches:
            with autocast(self.device, self.dtype):
                loss = self._loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        return total.item(), norm.item()

    def _loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the batch's share of the step's loss; of a step in one batch it is the model's own."""
        if len(self.batches) == 1:
            loss: Tensor = self.model(**batch).loss
            return loss
        inputs = {name: batch[name] for name in ("input_ids", "token_type_ids", "attention_mask")}
        output = self.model(**inputs)
        logits = (output.prediction_logits, output.seq_relationship_logits)
        return torch.stack(
            [
                nn.functional.cross_entropy(
                    scores.flatten(0, -2).float(), batch[name].flatten(), reduction="sum"
                )
                / sum(int((other[name] != _NOTHING_ASKED).sum()) for other in self.batches)
                for scores, name in zip(logits, ("labels", "next_sentence_label"), strict=True)
            ]
        ).sum()


def _build_transformers(
    model: BertForPreTraining,
    batches: Sequence[PackedBatch],
    device: torch.device,
    dtype: torch.dtype,
    *,
    float32: bool = False,
    sort: bool = False,
    compiled: bool = False,
) -> _Transformers:
    """Build their model with our weights.

    Args:
        model: ours.
        batches: the step, like lengths together.
        device: for both.
        dtype: ours.
        float32: have theirs compute in float32 whatever ours does.
        sort: pass the step through the model in the same micro-batches as ours, each padded to its own longest;
            otherwise all at once.
        compiled: through torch.compile.
    """
    transformers = import_peer("transformers")
    config = transformers.BertConfig(**asdict(model.config))
    theirs = transformers.AutoModelForPreTraining.from_config(config, attn_implementation="sdpa")
    weights = HUGGING_FACE.to_foreign(model.state_dict())
    missing, unexpected = theirs.load_state_dict(weights, strict=False)
    tied = {name for name in missing if name.startswith("cls.predictions.decoder.")}
    assert not unexpected, unexpected
    assert set(missing) == tied, missing
    theirs.tie_weights()
    theirs.to(device)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    padded = [
        {name: torch.from_numpy(array).to(device) for name, array in _pad(together).items()}
        for together in ([[batch] for batch in batches] if sort else [batches])
    ]
    runs = torch.compile(theirs, dynamic=True) if compiled else theirs
    return _Transformers(runs, optimizer, padded, device, torch.float32 if float32 else dtype)


def _pad(batches: Sequence[PackedBatch]) -> dict[str, Any]:
    """Lay instances out as transformers takes them: a row each, padded to the longest; -100 asks nothing."""
    longest = max(int(np.diff(batch.cu_seqlens).max()) for batch in batches)
    rows: dict[str, list[Any]] = {
        name: [] for name in ("input_ids", "token_type_ids", "attention_mask", "labels")
    }
    for batch in batches:
        labels = np.full(len(batch.input_ids), _NOTHING_ASKED)
        labels[batch.masked_lm_positions] = batch.masked_lm_ids
        columns = (
            (batch.input_ids, 0),
            (batch.token_type_ids, 0),
            (np.ones_like(batch.input_ids), 0),
            (labels, _NOTHING_ASKED),
        )
        for start, end in zip(batch.cu_seqlens, batch.cu_seqlens[1:], strict=False):
            for name, (values, padding) in zip(rows, columns, strict=True):
                padded = np.pad(values[start:end], (0, longest - (end - start)), constant_values=padding)
                rows[name].append(padded)
    next_sentence_label = np.concatenate([batch.next_sentence_labels for batch in batches])
    return {name: np.stack(row) for name, row in rows.items()} | {"next_sentence_label": next_sentence_label}


@dataclass(frozen=True, slots=True)
class _Peer:
    does: str
    build: Callable[[BertForPreTraining, Sequence[PackedBatch], torch.device, torch.dtype], Trained]


_PADDED = "BertForPreTraining on the batch padded to its longest, labels -100, sdpa attention, fused AdamW"
_SORTED = "the same in micro-batches of like lengths, each padded to its longest"

PEERS: Mapping[str, _Peer] = MappingProxyType(
    {
        "transformers": _Peer(_PADDED, _build_transformers),
        "transformers-float32": _Peer(f"{_PADDED}, in float32", partial(_build_transformers, float32=True)),
        "transformers-tuned": _Peer(_SORTED, partial(_build_transformers, sort=True)),
        "transformers-compiled": _Peer(
            f"{_SORTED}, through torch.compile", partial(_build_transformers, sort=True, compiled=True)
        ),
    }
)
"""Whom cloze is compared with."""


def draw_step(
    benchmark: PretrainBenchmark, world: World
) -> tuple[PretrainingWork, PretrainingStep, int, str]:
    """Draw a rank's share of the instances of one step.

    Returns:
        Who computes their loss, the share, the vocabulary's size, and where the text is from.
    """
    if benchmark.data is not None:
        dataset = Dataset.open(benchmark.data)
        documents, tokenizer = dataset.split("train"), Tokenizer.load(dataset.path)
        work, step = _first_step(benchmark, documents, tokenizer, world)
        return work, step, dataset.vocab_size, f"pairs of {benchmark.data}"
    with tempfile.TemporaryDirectory() as directory:
        documents, tokenizer = _invent_documents(benchmark, Path(directory) / "documents.arrow")
        work, step = _first_step(benchmark, documents, tokenizer, world)
    return work, step, benchmark.vocab_size, "pairs of drawn sentences (no --data was given)"


def _first_step(
    benchmark: PretrainBenchmark, documents: Documents, tokenizer: Tokenizer, world: World
) -> tuple[PretrainingWork, PretrainingStep]:
    settings = benchmark.settings()
    phase = settings.phases[0]
    source = drawn_instances(settings, phase, documents, tokenizer, seed=settings.seed, number=0)
    work = PretrainingWork(
        phases=[(phase, source)],
        held_out=(),
        unigram_nats=torch.empty(0),
        next_sentence=settings.pairs.next_sentence,
        world=world,
    )
    return work, work.step_data(0.0, Position(), settings.micro_batch_tokens)


def _invent_documents(benchmark: PretrainBenchmark, shard: Path) -> tuple[Documents, Tokenizer]:
    """Draw documents whose sentences are as long as English ones, of pieces as frequent as Zipf's law has them."""
    random = np.random.default_rng(benchmark.seed)
    pieces = [*SPECIAL_PIECES, *(f"piece{n}" for n in range(benchmark.vocab_size - len(SPECIAL_PIECES)))]
    tokenizer = Tokenizer.from_pieces(pieces)
    shares = 1.0 / np.arange(1, benchmark.vocab_size - len(SPECIAL_PIECES) + 1)
    cumulative = np.cumsum(shares / shares.sum())
    document_lengths = random.integers(4, 40, size=_SYNTHETIC_DOCUMENTS)
    sentence_lengths = np.maximum(3, random.lognormal(3.1, 0.55, size=document_lengths.sum())).astype(
        np.int64
    )
    drawn = np.searchsorted(cumulative, random.random(sentence_lengths.sum())) + len(SPECIAL_PIECES)
    documents = Shard.without_paragraphs(
        drawn, sentence_lengths, document_lengths, np.arange(len(document_lengths))
    )
    write_shard(shard, documents, vocab_size=benchmark.vocab_size)
    return Documents.from_shards([shard]), tokenizer
