"""`cloze bench growth`: how time and memory of a training step, and of building a data set, grow.

Every point is measured in a process of its own, so that its memory is its own; points that are finished are kept
beside the output, so that a measurement that was stopped goes on.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import torch
from matplotlib.axes import Axes

from cloze import artifacts
from cloze.corpus.build import BuildConfig, build_dataset
from cloze.errors import InputError
from cloze.evidence.bench.harness import LEAST_ROUNDS, environment_of, peak_bytes
from cloze.evidence.bench.parts import begin_parts
from cloze.evidence.bench.pretrain import PretrainBenchmark, begin_training
from cloze.evidence.bench.text import TextBenchmark, first_documents, plain_text
from cloze.evidence.pictures import BASELINE, TRAIN, draw_picture
from cloze.model.heads import BertForPreTraining
from cloze.pretraining.config import Size
from cloze.progress import SILENT, Progress
from cloze.training.cost import Workload, activation_bytes, pretraining_step_flops, transient_bytes
from cloze.training.memory import keep_freed_memory
from cloze.training.precision import Precision, resolve_device, resolve_dtype

LENGTHS = (32, 64, 128, 256, 512)
BATCHES = (8, 16, 32, 64, 128)
SIZES: tuple[Size, ...] = ("tiny", "mini", "small", "medium", "base")
THREADS = (1, 2)
MEGABYTES = (10.0, 30.0, 100.0, 300.0)

_STEP_TOKENS = 4096
_AVERAGES = 2


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement."""

    at: float
    """What is varied: tokens of a sequence, sequences, megabytes."""
    label: str
    amount: float
    """Tokens of the step, or bytes of text."""
    seconds: tuple[float, ...]
    peak_bytes: int
    """Taken at most, beside what the program took before it began."""
    formula_operations: float | None = None
    formula_bytes: float | None = None
    attention_share: float | None = None
    """Of the operations, by formula: what grows with the square of the length."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GrowthBenchmark:
    """What is measured."""

    parts: Sequence[str]
    model: Size = "mini"
    precision: Precision = "float32"
    data: Path | None = None
    """A data set of `cloze corpus`; without one, lengths like those of English text are drawn."""
    texts: Sequence[str] = ()
    """Text for the part `corpus`."""
    megabytes: Sequence[float] = MEGABYTES
    vocabulary: Path | None = None
    """For the part `corpus`."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What was found, by part."""

    settings: dict[str, Any]
    points: Mapping[str, Sequence[Point]]
    environment: dict[str, Any]
    name: str = field(default="growth")

    def as_dict(self) -> dict[str, Any]:
        """Return settings and figures as what JSON can say."""
        return {
            "benchmark": self.name,
            "settings": self.settings,
            "parts": {part: [asdict(point) for point in points] for part, points in self.points.items()},
            "environment": self.environment,
        }

    def as_text(self) -> str:
        """Return a table for each part."""
        settings = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        lines = [f"growth: {settings}"]
        for part, points in self.points.items():
            lines += ["", _HEADS[part], _COLUMNS, *(_row(point) for point in points), *_remarks(part, points)]
        return "\n".join(lines)

    def pictures(self) -> dict[str, str]:
        """Return a picture of each part: time, and memory, each with a straight line through its first point."""
        return {
            f"{part}-{what}": draw_picture(f"growth-{part}-{what}", _plot(part, points, what))
            for part, points in self.points.items()
            for what in ("seconds", "memory")
        }

    def require_agreement(self) -> None:
        """Nothing is compared."""


_HEADS: Mapping[str, str] = MappingProxyType(
    {
        "lengths": f"tokens of a sequence, {_STEP_TOKENS:,} tokens a step",
        "batches": "sequences of 128 tokens a step, at most 4,096 tokens at once",
        "sizes": "sizes of the encoder, 8 sequences of 128 tokens a step",
        "threads": "threads, 32 sequences of 128 tokens a step",
        "corpus": "megabytes of text to a data set, one worker",
    }
)
_COLUMNS = (
    f"{'':>10} {'seconds':>9} {'min':>9} {'max':>9} {'ns a unit':>10} {'MB':>8} "
    f"{'by formula: MB':>15} {'MFLOP a unit':>13}"
)


def _row(point: Point) -> str:
    seconds = median(point.seconds)
    figures = f"{seconds:>9.3f} {min(point.seconds):>9.3f} {max(point.seconds):>9.3f}"
    row = (
        f"{point.label:>10} {figures} {seconds / point.amount * 1e9:>10,.0f} {point.peak_bytes / 1e6:>8,.0f}"
    )
    if point.formula_bytes is None or point.formula_operations is None:
        return row
    return (
        f"{row} {point.formula_bytes / 1e6:>15,.0f} {point.formula_operations / point.amount / 1e6:>13,.1f}"
    )


def _remarks(part: str, points: Sequence[Point]) -> list[str]:
    """Say where growth is not that of a straight line, and what the formula says of it."""
    if len(points) < 2:
        return []
    first, last = points[0], points[-1]
    slower = (median(last.seconds) / last.amount) / (median(first.seconds) / first.amount)
    unit = "byte" if part == "corpus" else "token"
    said = [f"a {unit} takes {slower:.2f} times as long at {last.label} as at {first.label}"]
    if first.formula_operations and last.formula_operations:
        more = (last.formula_operations / last.amount) / (first.formula_operations / first.amount)
        said.append(f"its operations are {more:.2f} times as many by formula")
    if part == "lengths" and last.attention_share is not None and first.attention_share is not None:
        said.append(
            f"attention's products, which grow with the square of the length, are {first.attention_share:.0%} "
            f"of all at {first.label} and {last.attention_share:.0%} at {last.label}"
        )
    return ["; ".join(said)]


def _plot(part: str, points: Sequence[Point], what: str) -> Callable[[Axes], None]:
    def value(point: Point) -> float:
        return median(point.seconds) if what == "seconds" else point.peak_bytes / 1e6

    def plot(axes: Axes) -> None:
        places = [point.at for point in points]
        axes.plot(places, [value(point) for point in points], marker="o", color=TRAIN)
        if part in ("batches", "corpus"):
            straight = [value(points[0]) * place / places[0] for place in places]
            axes.plot(places, straight, color=BASELINE, linestyle="dashed")
        axes.set_xticks(places, [point.label for point in points])
        axes.set_ylim(bottom=0)
        axes.set_xlabel(_HEADS[part].partition(",")[0])
        axes.set_ylabel("seconds" if what == "seconds" else "MB")

    return plot


def bench_growth(
    benchmark: GrowthBenchmark,
    *,
    rounds: int = LEAST_ROUNDS,
    kept: Path | None = None,
    progress: Progress = SILENT,
) -> Growth:
    """Measure the points of the parts that are asked for.

    Args:
        benchmark: which.
        rounds: steps, or builds, that are timed at each point, after one that is not.
        kept: a directory for the points that are finished, and from which they are taken; it holds those of one
            setting.
        progress: where to tell how far it is.

    Raises:
        InputError: a part is unknown, `corpus` has no text, or points of other settings are kept there.
    """
    for part in benchmark.parts:
        if part not in _HEADS:
            raise InputError(f"no part {part!r}", where="--parts", remedy=f"Known are {', '.join(_HEADS)}")
    if "corpus" in benchmark.parts and (not benchmark.texts or benchmark.vocabulary is None):
        raise InputError("the part corpus needs text and --vocab", where="--parts")
    if rounds < 1:
        raise InputError(f"{rounds} times measure nothing", where="--rounds", remedy="Take 5")
    device = torch.device("cpu")
    dtype = resolve_dtype(benchmark.precision, device)
    settings: dict[str, Any] = {
        "model": benchmark.model,
        "dtype": str(dtype).removeprefix("torch."),
        "data": str(benchmark.data or "drawn"),
        "rounds": rounds,
    }
    if "corpus" in benchmark.parts:
        settings |= {"text": " ".join(benchmark.texts), "vocabulary": str(benchmark.vocabulary)}
    if kept is not None:
        begin_parts(kept, settings)
    found: dict[str, list[Point]] = {}
    for part in benchmark.parts:
        found[part] = []
        for name, measure in _points(part, benchmark, rounds).items():
            file = None if kept is None else kept / f"{part}-{name}.json"
            if file is not None and file.exists():
                raw = json.loads(file.read_text("utf-8"))
                point = Point(**{**raw, "seconds": tuple(raw["seconds"])})
            else:
                progress.note(f"measuring {part} {name}")
                point = _in_a_process(measure)
                if file is not None:
                    artifacts.write_text(file, json.dumps(asdict(point)) + "\n")
            found[part].append(point)
    return Growth(settings=settings, points=found, environment=environment_of(device, dtype, []))


@dataclass(frozen=True, slots=True)
class _Step:
    """A step to be timed, in a process of its own."""

    at: float
    label: str
    benchmark: PretrainBenchmark
    rounds: int
    threads: int

    def __call__(self) -> Point:
        keep_freed_memory()
        torch.set_num_threads(self.threads)
        device = resolve_device(self.benchmark.device)
        dtype = resolve_dtype(self.benchmark.precision, device)
        before = _resident_bytes()
        trained = begin_training(self.benchmark, device)
        trained.step()
        seconds = []
        for _ in range(self.rounds):
            started = time.perf_counter()
            trained.step()
            seconds.append(time.perf_counter() - started)
        model = trained.replica.model
        assert isinstance(model, BertForPreTraining)
        config, works = model.config, [Workload.of(batch) for batch in trained.data.batches]
        whole = sum(works[1:], works[0])
        operations = pretraining_step_flops(config, whole)
        without = pretraining_step_flops(config, replace(whole, sum_of_squared_lengths=0))
        weights = sum(parameter.numel() for parameter in model.parameters()) * 4
        most = max(
            activation_bytes(config, work, dtype) + transient_bytes(config, work, dtype) for work in works
        )
        return Point(
            at=self.at,
            label=self.label,
            amount=float(whole.num_tokens),
            seconds=tuple(seconds),
            peak_bytes=peak_bytes() - before,
            formula_operations=float(operations),
            formula_bytes=float((2 + _AVERAGES) * weights + most),
            attention_share=1 - without / operations,
        )


@dataclass(frozen=True, slots=True)
class _Build:
    """A data set to be built, in a process of its own."""

    file: Path
    vocabulary: Path
    rounds: int

    def __call__(self) -> Point:
        before = _resident_bytes()
        seconds = []
        with TemporaryDirectory() as name:
            for number in range(1 + self.rounds):
                started = time.perf_counter()
                build_dataset([self.file], self.vocabulary, Path(name) / str(number), BuildConfig())
                seconds.append(time.perf_counter() - started)
        size = self.file.stat().st_size
        return Point(size / 1e6, f"{size / 1e6:.3g}", float(size), tuple(seconds[1:]), peak_bytes() - before)


@dataclass(frozen=True, slots=True)
class _Excerpt:
    """The same, from the beginning of a text."""

    benchmark: TextBenchmark
    rounds: int

    def __call__(self) -> Point:
        assert self.benchmark.vocabulary is not None
        with TemporaryDirectory() as name:
            file = Path(name) / "text.txt"
            file.write_text(plain_text(first_documents(self.benchmark)), "utf-8")
            build = _Build(file, self.benchmark.vocabulary, self.rounds)
            return _in_a_process(build)


def _points(part: str, benchmark: GrowthBenchmark, rounds: int) -> dict[str, Callable[[], Point]]:
    step = PretrainBenchmark(data=benchmark.data, size=benchmark.model, precision=benchmark.precision)
    threads = torch.get_num_threads()
    if part == "corpus":
        texts = TextBenchmark(inputs=benchmark.texts, vocabulary=benchmark.vocabulary)
        return {
            f"{size:g}": _Excerpt(replace(texts, max_megabytes=size), rounds) for size in benchmark.megabytes
        }
    varied: dict[str, dict[str, tuple[float, PretrainBenchmark, int]]] = {
        "lengths": {
            str(length): (
                length,
                replace(step, max_seq_length=length, batch_size=_STEP_TOKENS // length),
                threads,
            )
            for length in LENGTHS
        },
        "batches": {str(size): (size, replace(step, batch_size=size), threads) for size in BATCHES},
        "sizes": {
            size: (number, replace(step, size=size, batch_size=8), threads)
            for number, size in enumerate(SIZES)
        },
        "threads": {str(count): (count, step, count) for count in THREADS},
    }
    return {
        name: _Step(float(at), name, own, rounds, own_threads)
        for name, (at, own, own_threads) in varied[part].items()
    }


def _in_a_process(measure: Callable[[], Point]) -> Point:
    if isinstance(measure, _Excerpt):
        return measure()  # which writes the text, and builds in a process
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure).result()


def _resident_bytes() -> int:
    """Return what the process has now; 0 where the system does not say."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0
