"""`python -m benchmarks pretrain`: whole optimizer steps of pre-training, in real tokens per second."""

import math
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness import (
    Check,
    Contestant,
    EncoderSize,
    Limit,
    Peers,
    Result,
    TimedBenchmark,
    describe_machine,
    dtype_name,
    import_peer,
    matrix_product_rate,
    repeat,
    synchronize,
)
from benchmarks.transformers_trainer import IGNORED, pad, pad_rows, token_labels
from cloze.choices import Precision
from cloze.data.batch import DataPosition, PretrainingBatch
from cloze.data.dataset import Dataset, Documents
from cloze.data.shards import Shard, to_offsets, write_shard
from cloze.models.batch import to_device
from cloze.models.bert import BertModel
from cloze.models.heads import BertForPreTraining
from cloze.pretraining.config import ModelConfig, PhaseConfig, PretrainConfig
from cloze.pretraining.data import PretrainingBatches, build_dynamic_instances
from cloze.pretraining.objective import PretrainingObjective
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.training.distributed import DistributedContext
from cloze.training.objective import Objective, StepData
from cloze.training.optimizer import AdamW, build_optimizer, clip_gradients, set_learning_rate
from cloze.training.precision import autocast, resolve_device, resolve_dtype, training_arithmetic
from cloze.training.step import accumulate_gradients
from experiments.step_cost import pretraining_step_flops

_TOLERANCES = {torch.float32: (1e-4, 1e-3), torch.bfloat16: (2e-2, 5e-2)}
"""By number format: maximum difference of losses, in nats, and of gradient norms, relative."""
_SEED = 12345
_SYNTHETIC_DOCUMENTS = 400
_PADDED = "BertForPreTraining on the batch padded to its longest, labels -100, sdpa attention, fused AdamW"
_SORTED = "the same in micro-batches of similar lengths, each padded to its longest"
_PEERS: Mapping[str, tuple[str, Mapping[str, bool]]] = {
    "transformers": (_PADDED, {}),
    "transformers-tuned": (_SORTED, {"sort": True}),
    "transformers-compiled": (f"{_SORTED}, with torch.compile", {"sort": True, "compiled": True}),
}
"""By peer, its work and the settings of `_build_transformers`."""


@dataclass(frozen=True, kw_only=True)
class Pretrain(TimedBenchmark):
    """Whole optimizer steps of masked words and next sentence, in real tokens per second."""

    name: ClassVar[str] = "pretrain"
    peers_known: ClassVar[Collection[str]] = _PEERS

    vs: Peers = "transformers"
    """Compared programs: transformers, transformers-tuned, transformers-compiled."""
    model: EncoderSize = "mini"
    """Size of the encoder."""
    batch: int = 32
    """Sequence pairs per step."""
    max_seq_length: int = 128
    """Maximum number of tokens of a pair."""
    micro_batch_tokens: int = 4096
    """Maximum number of tokens that pass through the model at once."""
    dropout: float = 0.1
    """Probability of dropout, of hidden states and attention weights."""
    vocab_size: int = 30_522
    """Size of the vocabulary of synthetic text; a data set has its own."""
    dtype: Precision = "float32"
    """Number format of matrix products, of all contestants."""
    data: Path | None = None
    """A data set of cloze corpus; otherwise text with the sentence lengths of English is drawn."""
    device: str = "cpu"
    """cpu, cuda, mps or auto."""

    def settings(self) -> PretrainConfig:
        """Return the settings of a run with such steps."""
        phase = PhaseConfig(
            max_seq_length=self.max_seq_length,
            fraction=1.0,
            batch_size=self.batch,
            max_predictions_per_seq=math.ceil(0.15 * self.max_seq_length),
        )
        return PretrainConfig(
            data=str(self.data or ""),
            steps=1,
            seed=_SEED,
            model=ModelConfig(
                size=self.model, hidden_dropout_prob=self.dropout, attention_probs_dropout_prob=self.dropout
            ),
            phases=(phase,),
            micro_batch_tokens=self.micro_batch_tokens,
            precision=self.dtype,
            device=self.device,
        )

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Compare optimizer steps on the same weights and batch: forward, both losses, backward, clip, update."""
        device = resolve_device(self.device)
        dtype = resolve_dtype(self.dtype, device)
        data, tokenizer, source = draw_step(self, DistributedContext(device))
        ours = build_trainer(self, data, tokenizer, device)
        contestants = [
            Contestant(
                "cloze", "packed batch, products only where a token is masked, fused AdamW", repeat(ours.step)
            )
        ]
        checks: list[Check] = []
        for name in peers:
            does, options = _PEERS[name]
            with self.attempt(name):
                theirs = _build_transformers(ours.model, data.batches, dtype, **options)
                checks += _compare(ours, theirs, name)
                contestants.append(Contestant(name, does, repeat(theirs.step)))
        limit_flops, size = matrix_product_rate(device, dtype)
        lengths = np.concatenate([np.diff(batch.cu_seqlens) for batch in data.batches]).astype(int)
        num_predictions = sum(len(batch.masked_lm_ids) for batch in data.batches)
        num_tokens, longest = int(lengths.sum()), int(lengths.max())
        step_flops = pretraining_step_flops(
            ours.model.config,
            num_tokens=num_tokens,
            sum_of_squared_lengths=int((lengths**2).sum()),
            num_predictions=num_predictions,
        )
        flops = step_flops / num_tokens
        return self.describe(
            self.measure(contestants),
            settings={
                "model": self.model,
                "batch_size": self.batch,
                "max_seq_length": self.max_seq_length,
                "dropout": self.dropout,
                "vocab_size": tokenizer.vocab_size,
                "dtype": dtype_name(dtype),
                "device": str(device),
                "rounds": self.rounds,
            },
            amount=float(num_tokens),
            unit="tokens",
            checks=checks,
            environment=describe_machine(device, dtype, peers),
            limit=Limit(
                f"{limit_flops / 1e12:.3g} TFLOP/s measured in products of {size} x {size}, "
                f"at {flops / 1e6:.4g} million operations per token",
                limit_flops / flops,
            ),
            notes=(
                f"{source}; {num_tokens:,} real tokens, {longest * self.batch:,} with padding to the longest "
                f"({longest}), {num_predictions:,} of them predicted",
            ),
        )


@dataclass(frozen=True)
class Trainer(ABC):
    """A model with its optimizer and one step's data, of cloze or of a peer."""

    model: Any
    optimizer: AdamW | torch.optim.Optimizer
    dtype: torch.dtype

    arithmetic: ClassVar[Callable[[], AbstractContextManager[None]]] = nullcontext

    @abstractmethod
    def backward(self) -> tuple[float, float]:
        """Compute and clip new gradients; return the loss and gradient norm."""

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def step(self) -> None:
        """Take one optimizer step with dropout, and wait for the device."""
        self.model.train()
        with type(self).arithmetic():
            self.backward()
            self.optimizer.step()
        synchronize(self.device)

    def loss_and_gradient_norm(self) -> tuple[float, float]:
        """Return the loss and gradient norm of a step without dropout; weights stay."""
        self.model.eval()
        with type(self).arithmetic():
            return self.backward()


def _compare(ours: Trainer, theirs: Trainer, peer: str) -> tuple[Check, Check]:
    loss, norm = ours.loss_and_gradient_norm()
    their_loss, their_norm = theirs.loss_and_gradient_norm()
    loss_tolerance, norm_tolerance = _TOLERANCES[ours.dtype]
    return (
        Check(f"loss compared with {peer}, {loss:.4f} nats", abs(loss - their_loss), loss_tolerance),
        Check(f"gradient norm compared with {peer}, relative", abs(norm / their_norm - 1), norm_tolerance),
    )


@dataclass(frozen=True)
class ClozeTrainer(Trainer):
    """Steps made of the parts of the training loop."""

    objective: Objective
    data: StepData[PretrainingBatch]
    max_grad_norm: float
    replicas: DistributedDataParallel | None = None
    """Sums gradients over the ranks, if there are several."""

    arithmetic = training_arithmetic

    def backward(self) -> tuple[float, float]:
        """Compute and clip new gradients; return the loss and gradient norm."""
        self.optimizer.zero_grad()
        loss, _ = accumulate_gradients(self.objective, self.data, self.dtype, replicas=self.replicas)
        norm = clip_gradients(self.model.parameters(), self.max_grad_norm)
        return loss.item(), norm.item()


def build_trainer(
    benchmark: Pretrain,
    data: StepData[PretrainingBatch],
    tokenizer: Tokenizer,
    device: torch.device,
) -> ClozeTrainer:
    """Return a trainer that repeats one step, with new weights that are always the same."""
    settings = benchmark.settings()
    generator = torch.Generator().manual_seed(_SEED)
    encoder = BertModel(settings.model.encoder(vocab_size=tokenizer.vocab_size), generator=generator)
    model = BertForPreTraining(encoder, generator=generator).to(device)
    objective = PretrainingObjective(
        model,
        tokenizer,
        held_out=(),
        unigram_nats=torch.empty(0),
        next_sentence=True,
        context=DistributedContext(device),
    )
    optimizer = build_optimizer(model, settings.optimizer)
    set_learning_rate(optimizer, settings.optimizer.learning_rate)
    dtype = resolve_dtype(benchmark.dtype, device)
    return ClozeTrainer(model, optimizer, dtype, objective, data, settings.optimizer.max_grad_norm)


@dataclass(frozen=True)
class _TransformersTrainer(Trainer):
    """Steps as in the documentation of transformers."""

    batches: Sequence[Mapping[str, Tensor]]

    def backward(self) -> tuple[float, float]:
        self.optimizer.zero_grad()
        total = torch.zeros((), device=self.device)
        for batch in self.batches:
            with autocast(self.device, self.dtype):
                loss = self._loss(batch)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        return total.item(), norm.item()

    def _loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the batch's share of the step's loss; a step in one batch uses the model's own loss."""
        if len(self.batches) == 1:
            loss: Tensor = self.model(**batch).loss
            return loss
        output = self.model(**{key: batch[key] for key in ("input_ids", "token_type_ids", "attention_mask")})
        losses = []
        for key, logits in (
            ("labels", output.prediction_logits),
            ("next_sentence_label", output.seq_relationship_logits),
        ):
            scores, labels = logits.flatten(0, -2).float(), batch[key].flatten()
            count = sum(int((other[key] != IGNORED).sum()) for other in self.batches)
            losses.append(nn.functional.cross_entropy(scores, labels, reduction="sum") / count)
        return torch.stack(losses).sum()


def _build_transformers(
    model: BertForPreTraining,
    batches: Sequence[PretrainingBatch],
    dtype: torch.dtype,
    *,
    sort: bool = False,
    compiled: bool = False,
) -> _TransformersTrainer:
    """Build transformers' model with the weights of cloze's.

    Args:
        batches: the step, similar lengths together.
        sort: use the same micro-batches as cloze, each padded to its longest sequence, instead of one batch.
    """
    transformers = import_peer("transformers")
    device = next(model.parameters()).device
    config = transformers.BertConfig(**asdict(model.config))
    theirs = transformers.AutoModelForPreTraining.from_config(config, attn_implementation="sdpa")
    missing, unexpected = theirs.load_state_dict(
        BertModel.names.mapping.to_external(model.state_dict()), strict=False
    )
    assert not unexpected, unexpected
    assert all(name.startswith("cls.predictions.decoder.") for name in missing), missing  # tied weights
    theirs.tie_weights()
    theirs.to(device)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    on_device = [to_device(batch, device) for batch in batches]
    padded = [_pad(together) for together in ([[batch] for batch in on_device] if sort else [on_device])]
    runnable = torch.compile(theirs, dynamic=True) if compiled else theirs
    return _TransformersTrainer(runnable, optimizer, dtype, padded)


def _pad(batches: Sequence[Any]) -> dict[str, Tensor]:
    """Return instances with their labels as transformers takes them."""
    labels = [token_labels(batch, batch.masked_lm_positions, batch.masked_lm_ids) for batch in batches]
    return {
        **pad(*batches),
        "labels": pad_rows(batches, labels, padding=IGNORED),
        "next_sentence_label": torch.cat([batch.next_sentence_labels for batch in batches]),
    }


def draw_step(
    benchmark: Pretrain, context: DistributedContext
) -> tuple[StepData[PretrainingBatch], Tokenizer, str]:
    """Draw a rank's share of the instances of one step; return it, the tokenizer, and the source of the text."""
    settings = benchmark.settings()
    with tempfile.TemporaryDirectory() as directory:
        if benchmark.data is None:
            documents, tokenizer = _synthetic_documents(
                benchmark.vocab_size, Path(directory) / "documents.arrow"
            )
            source = "pairs of drawn sentences (no --data was given)"
        else:
            dataset = Dataset.open(benchmark.data)
            documents, tokenizer = dataset.split("train"), load_tokenizer(dataset.path)
            source = f"pairs of {benchmark.data}"
        phase = settings.phases[0]
        instances = build_dynamic_instances(settings, phase, documents, tokenizer, seed=_SEED, number=0)
        batches = PretrainingBatches([(phase, instances)], context)
        return (
            batches.step_data(0.0, DataPosition(), settings.micro_batch_on(context.device)),
            tokenizer,
            source,
        )


def _synthetic_documents(vocab_size: int, shard: Path) -> tuple[Documents, Tokenizer]:
    """Draw documents with the sentence lengths of English and token frequencies of Zipf's law."""
    random = np.random.default_rng(_SEED)
    num_words = vocab_size - len(SPECIAL_TOKENS)
    tokenizer = WordPieceTokenizer.from_tokens([*SPECIAL_TOKENS, *(f"piece{n}" for n in range(num_words))])
    shares = 1.0 / np.arange(1, num_words + 1)
    cumulative = np.cumsum(shares / shares.sum())
    document_lengths = random.integers(4, 40, size=_SYNTHETIC_DOCUMENTS)
    lengths = np.maximum(3, random.lognormal(3.1, 0.55, size=document_lengths.sum())).astype(np.int64)
    tokens = np.searchsorted(cumulative, random.random(lengths.sum())) + len(SPECIAL_TOKENS)
    nothing = np.zeros(0, np.int64)
    documents = Shard(
        token_ids=tokens,
        sentence_offsets=to_offsets(lengths),
        document_offsets=to_offsets(document_lengths),
        document_digests=np.arange(len(document_lengths), dtype=np.uint64),
        paragraph_offsets=np.zeros(len(document_lengths) + 1, np.int64),
        paragraph_digests=nothing.astype(np.uint64),
        paragraph_starts=nothing,
        paragraph_ends=nothing,
    )
    write_shard(shard, documents, vocab_size=vocab_size)
    return Documents.from_shards([shard]), tokenizer
