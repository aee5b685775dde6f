"""`cloze bench WHAT --vs PEER`: side-by-side speed measurements."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import tyro

from cloze.cli.common import (
    Corpus,
    Device,
    Flags,
    Model,
    OptionalName,
    OptionalNumber,
    OptionalPath,
    Settings,
    TaskName,
    find_recipe,
)
from cloze.errors import InputError

if TYPE_CHECKING:
    from cloze.evidence.bench.distribution import DistributionFinding
    from cloze.evidence.bench.harness import Comparison, Finding
    from cloze.evidence.bench.serve import ServeFinding

Peers: TypeAlias = Annotated[str, tyro.conf.arg(metavar="PEER[,PEER]")]


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Flags of every benchmark."""

    output: Annotated[OptionalPath, tyro.conf.arg(aliases=["-o"])] = None
    """Directory for a record of figures, machine and versions."""
    overwrite: bool = False
    """Replace the output where it exists."""
    flags: Flags


@dataclass(frozen=True, kw_only=True)
class Measuring(Recording):
    """Flags of benchmarks whose sides are measured in turn."""

    rounds: int = 5
    """How often each side has its turn; medians are over these."""


@dataclass(frozen=True, kw_only=True)
class Keeping(Measuring):
    """Flags of long benchmarks."""

    @property
    def parts(self) -> Path | None:
        """Where what is finished is kept until all is."""
        return None if self.output is None else self.output.with_name(f"{self.output.name}.bench-parts")


How: TypeAlias = Annotated[Measuring, tyro.conf.arg(name="")]
HowKept: TypeAlias = Annotated[Keeping, tyro.conf.arg(name="")]


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Whole optimizer steps of masked words and next sentence, in real tokens a second."""

    vs: Peers = "transformers"
    """Whom to measure beside cloze: transformers, transformers-float32, transformers-tuned, transformers-compiled."""
    model: Annotated[
        Literal["tiny", "mini", "small", "medium", "base", "large"], tyro.conf.arg(aliases=["-m"])
    ] = "mini"
    """Size of the encoder."""
    batch: int = 32
    """Sequence pairs a step."""
    max_seq_length: int = 128
    """Tokens of a pair at most."""
    dropout: float = 0.1
    """Probability of dropout, of hidden states and attention weights."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of matrix products, for both sides."""
    data: OptionalPath = None
    """A data set of cloze corpus; without one, lengths like those of English text are drawn."""
    device: Device = "cpu"
    """cpu, cuda, mps or auto."""
    how: How

    def measure(self) -> "Comparison":
        """Run the benchmark."""
        from cloze.evidence.bench.pretrain import PretrainBenchmark, bench_pretrain

        benchmark = PretrainBenchmark(
            data=self.data,
            size=self.model,
            batch_size=self.batch,
            max_seq_length=self.max_seq_length,
            dropout_prob=self.dropout,
            precision=self.dtype,
            device=self.device,
        )
        return bench_pretrain(
            benchmark, peers=_names(self.vs), rounds=self.how.rounds, progress=self.how.flags.progress
        )


@dataclass(frozen=True, kw_only=True)
class Tokenize:
    """Text to word pieces, in megabytes a second."""

    input: Corpus
    """Text files, folders or globs, plain or compressed."""
    vs: Peers = "tokenizers"
    """Whom to measure beside cloze: tokenizers."""
    vocab: OptionalPath = None
    """Directory of a vocabulary or model; without one, a small vocabulary is learned from the text."""
    megabytes: float = 10.0
    """How much of the text is taken."""
    how: How

    def measure(self) -> "Comparison":
        """Run the benchmark."""
        from cloze.evidence.bench.text import TextBenchmark
        from cloze.evidence.bench.tokenization import bench_tokenize

        benchmark = TextBenchmark(inputs=self.input, vocabulary=self.vocab, max_megabytes=self.megabytes)
        return bench_tokenize(
            benchmark, peers=_names(self.vs), rounds=self.how.rounds, progress=self.how.flags.progress
        )


@dataclass(frozen=True, kw_only=True)
class BuildCorpus:
    """A text file to a tokenised data set on disk, in megabytes a second."""

    input: Corpus
    """Text files, folders or globs, plain or compressed."""
    vs: Peers = "transformers"
    """Whom to measure beside cloze: transformers."""
    vocab: OptionalPath = None
    """Directory of a vocabulary or model; without one, a small vocabulary is learned from the text."""
    megabytes: float = 10.0
    """How much of the text is taken."""
    how: How

    def measure(self) -> "Comparison":
        """Run the benchmark."""
        from cloze.evidence.bench.corpus import bench_corpus
        from cloze.evidence.bench.text import TextBenchmark

        benchmark = TextBenchmark(inputs=self.input, vocabulary=self.vocab, max_megabytes=self.megabytes)
        return bench_corpus(
            benchmark, peers=_names(self.vs), rounds=self.how.rounds, progress=self.how.flags.progress
        )


@dataclass(frozen=True, kw_only=True)
class Load:
    """A data set to packed, masked batches in memory, in tokens a second of one processor."""

    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATASET")]
    """A data set of cloze corpus."""
    vs: Peers = "transformers"
    """Whom to measure beside cloze: transformers."""
    batch: int = 256
    """Sequence pairs a step."""
    max_seq_length: int = 128
    """Tokens of a pair at most."""
    how: How

    def measure(self) -> "Comparison":
        """Run the benchmark."""
        from cloze.evidence.bench.load import LoadBenchmark, bench_load

        benchmark = LoadBenchmark(data=self.data, batch_size=self.batch, max_seq_length=self.max_seq_length)
        return bench_load(
            benchmark, peers=_names(self.vs), rounds=self.how.rounds, progress=self.how.flags.progress
        )


@dataclass(frozen=True, kw_only=True)
class Finetune:
    """Fine-tuning one encoder on one task, seed by seed: scores, and seconds an epoch."""

    task: TaskName
    """What is learned; cloze tasks lists what there is."""
    model: Model
    """The pre-trained checkpoint to start from."""
    data: Annotated[Path, tyro.conf.arg(aliases=["-d"], help_behavior_hint="(required)")]
    """A file in the task's format, or a directory with the files of a benchmark."""
    vs: Peers = "transformers"
    """Whom to measure beside cloze: transformers (float32), transformers-tuned (bfloat16, like lengths together)."""
    config: Annotated[OptionalName, tyro.conf.arg(aliases=["-c"])] = None
    """A TOML file, or the name of a recipe, as cloze finetune has it."""
    settings: Settings = ()
    """One setting, as in --set epochs=4; may be given several times."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format of cloze's matrix products; auto is bfloat16 where the machine is faster by it."""
    device: Device = "cpu"
    """cpu, cuda, mps or auto."""
    how: HowKept

    def measure(self) -> "Comparison":
        """Run the benchmark; a seed is a round. What is finished is kept beside the output until all is."""
        from cloze.evidence.bench.finetune import bench_finetune
        from cloze.tasks.config import load_finetuning

        overrides = [
            f"model={json.dumps(str(self.model))}",
            f"train={json.dumps(str(self.data))}",
            f"precision={self.dtype}",
            f"device={self.device}",
            *self.settings,
        ]
        recipe = None if self.config is None else find_recipe(self.config, "finetuning")
        task, config = load_finetuning(self.task, recipe, overrides)
        return bench_finetune(
            task,
            config,
            peers=_names(self.vs),
            rounds=self.how.rounds,
            parts=self.how.parts,
            progress=self.how.flags.progress,
        )


@dataclass(frozen=True, kw_only=True)
class Embed:
    """Texts to sentence vectors, in sentences a second."""

    input: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="INPUT")]
    """Text, a text a line, or a table with a column text."""
    model: Model
    """A directory of sentence-transformers."""
    vs: Peers = "sentence-transformers"
    """Whom to measure beside cloze: sentence-transformers, onnxruntime, onnxruntime-int8, each at its fastest."""
    texts: int = 1000
    """How many texts are taken, from all over the input."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of matrix products, for both sides."""
    device: Device = "cpu"
    """cpu, cuda, mps or auto."""
    how: How

    def measure(self) -> "Comparison":
        """Run the benchmark."""
        from cloze.evidence.bench.embed import EmbedBenchmark, bench_embed

        benchmark = EmbedBenchmark(
            model=self.model,
            texts=self.input,
            max_texts=self.texts,
            precision=self.dtype,
            device=self.device,
        )
        return bench_embed(
            benchmark, peers=_names(self.vs), rounds=self.how.rounds, progress=self.how.flags.progress
        )


@dataclass(frozen=True, kw_only=True)
class Latency:
    """One sentence at a time to its vector, in milliseconds."""

    input: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="INPUT")]
    """Text, a text a line, or a table with a column text; those of the length asked for are taken."""
    model: Model
    """A directory of sentence-transformers."""
    vs: Peers = "transformers"
    """Whom to measure beside cloze: transformers, in float32 with eager attention."""
    tokens: int = 32
    """Pieces of a sentence, special ones included."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of cloze's matrix products."""
    device: Device = "cpu"
    """cpu, cuda, mps or auto."""
    how: How

    def measure(self) -> "Comparison":
        """Run the benchmark."""
        from cloze.evidence.bench.latency import LatencyBenchmark, bench_latency

        benchmark = LatencyBenchmark(
            model=self.model,
            texts=self.input,
            tokens=self.tokens,
            precision=self.dtype,
            device=self.device,
        )
        return bench_latency(
            benchmark, peers=_names(self.vs), rounds=self.how.rounds, progress=self.how.flags.progress
        )


@dataclass(frozen=True, kw_only=True)
class Serve:
    """Requests a second over HTTP, how soon they are answered, overload and a soak; needs wrk and hey."""

    model: Model
    """A checkpoint; it is served and asked for vectors."""
    tokens: int = 32
    """Of a text, special ones included."""
    rate: OptionalNumber = None
    """Requests a second at which answers are timed; otherwise 70% of what it answers at most."""
    seconds: int = 60
    """Of each load."""
    soak: int = 100_000
    """Requests of the soak, a fifth of them bad."""
    how: Annotated[Recording, tyro.conf.arg(name="")]

    def measure(self) -> "ServeFinding":
        """Run the benchmark."""
        from cloze.evidence.bench.serve import ServeBenchmark, bench_serve

        benchmark = ServeBenchmark(
            model=self.model, tokens=self.tokens, rate=self.rate, seconds=self.seconds, soak=self.soak
        )
        return bench_serve(benchmark, progress=self.how.flags.progress)


@dataclass(frozen=True, kw_only=True)
class LearnVocabulary:
    """A text file to a vocabulary of word pieces, in megabytes a second."""

    input: Corpus
    """Text files, folders or globs, plain or compressed."""
    vs: Peers = "tokenizers"
    """Whom to measure beside cloze: tokenizers."""
    size: int = 30_522
    """Pieces, special ones included."""
    megabytes: float = 10.0
    """How much of the text is taken."""
    how: How

    def measure(self) -> "Comparison":
        """Run the benchmark."""
        from cloze.evidence.bench.text import TextBenchmark
        from cloze.evidence.bench.vocabulary import VocabularyBenchmark, bench_vocabulary

        text = TextBenchmark(inputs=self.input, max_megabytes=self.megabytes)
        benchmark = VocabularyBenchmark(text=text, size=self.size)
        return bench_vocabulary(
            benchmark, peers=_names(self.vs), rounds=self.how.rounds, progress=self.how.flags.progress
        )


@dataclass(frozen=True, kw_only=True)
class Start:
    """Whole processes, from their start to their answer: cloze fill and cloze --help."""

    model: Model
    """A checkpoint or run with a masked-word head."""
    vs: Peers = "transformers"
    """Whom to measure beside cloze: transformers."""
    how: How

    def measure(self) -> "Comparison":
        """Run the benchmark."""
        from cloze.evidence.bench.start import StartBenchmark, bench_start

        benchmark = StartBenchmark(model=self.model)
        return bench_start(
            benchmark, peers=_names(self.vs), rounds=self.how.rounds, progress=self.how.flags.progress
        )


@dataclass(frozen=True, kw_only=True)
class GrowthOfCost:
    """How time and memory grow: with length, batch, size of the encoder, threads, and text."""

    parts: Annotated[str, tyro.conf.arg(metavar="PART[,PART]")] = "lengths,batches,sizes,threads"
    """What is varied: lengths, batches, sizes, threads (of a pre-training step), corpus (building a data set)."""
    model: Annotated[
        Literal["tiny", "mini", "small", "medium", "base", "large"], tyro.conf.arg(aliases=["-m"])
    ] = "mini"
    """Size of the encoder, where the size is not what is varied."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of matrix products."""
    data: OptionalPath = None
    """A data set of cloze corpus; without one, lengths like those of English text are drawn."""
    text: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT…")] = ()
    """For the part corpus: text files, folders or globs, plain or compressed."""
    vocab: OptionalPath = None
    """For the part corpus: directory of a vocabulary or model."""
    megabytes: Annotated[str, tyro.conf.arg(metavar="SIZE[,SIZE]")] = "10,30,100,300"
    """For the part corpus: how much of the text is taken."""
    how: HowKept

    def measure(self) -> "Finding":
        """Measure the points; those that are finished are kept beside the output until all are."""
        from cloze.evidence.bench.growth import GrowthBenchmark, bench_growth

        benchmark = GrowthBenchmark(
            parts=_names(self.parts),
            model=self.model,
            precision=self.dtype,
            data=self.data,
            texts=self.text,
            vocabulary=self.vocab,
            megabytes=_sizes(self.megabytes),
        )
        progress = self.how.flags.progress
        return bench_growth(benchmark, rounds=self.how.rounds, kept=self.how.parts, progress=progress)


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Pre-training steps of several ranks on this machine: what sending gradients takes, overlapped or not."""

    sizes: tuple[Literal["tiny", "mini", "small", "medium", "base", "large"], ...] = ("mini", "base")
    """Sizes of the encoder."""
    ranks: int = 2
    """Processes, each with its share of every batch and of the cores."""
    batch: int = 32
    """Sequence pairs a step, of all ranks."""
    max_seq_length: int = 128
    """Tokens of a pair at most."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format of matrix products."""
    device: Device = "cpu"
    """cpu, cuda or auto; of an accelerator each rank takes one."""
    how: How

    def measure(self) -> "DistributionFinding":
        """Run the benchmark."""
        from cloze.evidence.bench.distribution import DistributionBenchmark, bench_distribution

        benchmark = DistributionBenchmark(
            sizes=self.sizes,
            ranks=self.ranks,
            batch_size=self.batch,
            max_seq_length=self.max_seq_length,
            precision=self.dtype,
            device=self.device,
        )
        return bench_distribution(benchmark, rounds=self.how.rounds, progress=self.how.flags.progress)


What: TypeAlias = (
    Annotated[Pretrain, tyro.conf.subcommand("pretrain", prefix_name=False)]
    | Annotated[Tokenize, tyro.conf.subcommand("tokenize", prefix_name=False)]
    | Annotated[BuildCorpus, tyro.conf.subcommand("corpus", prefix_name=False)]
    | Annotated[Load, tyro.conf.subcommand("load", prefix_name=False)]
    | Annotated[Finetune, tyro.conf.subcommand("finetune", prefix_name=False)]
    | Annotated[Embed, tyro.conf.subcommand("embed", prefix_name=False)]
    | Annotated[Latency, tyro.conf.subcommand("latency", prefix_name=False)]
    | Annotated[Serve, tyro.conf.subcommand("serve", prefix_name=False)]
    | Annotated[LearnVocabulary, tyro.conf.subcommand("vocab", prefix_name=False)]
    | Annotated[Start, tyro.conf.subcommand("start", prefix_name=False)]
    | Annotated[GrowthOfCost, tyro.conf.subcommand("growth", prefix_name=False)]
    | Annotated[Distribution, tyro.conf.subcommand("distribution", prefix_name=False)]
)


def run(what: Annotated[What, tyro.conf.arg(name="")]) -> None:
    """Measure cloze beside its peers: in turn, in one process, on the same work, with a check that both did it.

    Args:
        what: what is measured.
    """
    from cloze import artifacts
    from cloze.evidence.bench.harness import write_record
    from cloze.training.memory import keep_freed_memory

    keep_freed_memory()  # as `cloze pretrain` does; it holds for both sides

    how = what.how
    if how.output is not None:
        inputs = [getattr(what, name, None) for name in ("model", "data", "vocab")]
        artifacts.refuse_existing(how.output, overwrite=how.overwrite, inputs=inputs)
    found: Finding = what.measure()
    if how.output is not None:
        write_record(found, how.output, overwrite=how.overwrite)
        if isinstance(how, Keeping) and how.parts is not None:
            shutil.rmtree(how.parts)
    how.flags.print(found.as_dict(), found.as_text())
    found.require_agreement()


def _names(text: str) -> list[str]:
    """Return what a flag lists, each once."""
    return list(dict.fromkeys(text.split(",")))


def _sizes(text: str) -> list[float]:
    try:
        return [float(size) for size in text.split(",")]
    except ValueError:
        raise InputError(
            f"{text!r} is no list of sizes", where="--megabytes", remedy="Write 10,100"
        ) from None
