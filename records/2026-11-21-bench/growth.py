"""Measure how time and memory of a training step and of building a data set grow.

    PYTHONPATH=. python records/2026-11-21-bench/growth.py -o growth
    PYTHONPATH=. python records/2026-11-21-bench/growth.py --parts corpus --text TEXT --vocab VOCAB -o growth-corpus

Each point is measured in a process of its own, so that memory is not shared. Finished points are kept next to the
output, so that the same command continues after a stop.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any, ClassVar

import torch
from matplotlib.figure import Figure

from benchmarks.commands import run_program
from benchmarks.harness import Benchmark, EncoderSize, FinishedParts, Result, heading, split_names
from benchmarks.machine import CPU, describe_machine, dtype_name, in_new_process, peak_bytes, resident_bytes
from benchmarks.pretrain import Pretrain, build_trainer, draw_step
from benchmarks.text import first_documents
from cloze.cli.options import Flag
from cloze.data.build.corpus import BuildConfig, build_dataset
from cloze.errors import InputError
from cloze.tables import text_table
from cloze.training.distributed import DistributedContext
from cloze.process import configure_memory
from cloze.training.precision import Precision, resolve_dtype
from experiments.step_cost import pretraining_step_flops
from experiments.plots import as_svg, styled

_TITLES: Mapping[str, str] = {
    "lengths": "tokens of a sequence, at equal tokens per step",
    "batches": "sequences of 128 tokens per step, at most 4,096 tokens at once",
    "sizes": "sizes of the encoder, 8 sequences of 128 tokens per step",
    "threads": "threads, 32 sequences of 128 tokens per step",
    "corpus": "megabytes of text to a data set, one worker",
}
_COLUMNS = ("", "seconds", "min", "max", "ns per unit", "MB", "MFLOP per unit")


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement."""

    at: float
    """Tokens of a sequence, sequences, megabytes, …"""
    label: str
    amount: float
    """Tokens of the step, or bytes of text."""
    seconds: tuple[float, ...]
    peak_bytes: int
    """Peak memory beyond that of the process before it started."""
    formula_operations: float | None = None
    attention_share: float | None = None
    """Share of the operations that grows with the square of the length, by formula."""

    @property
    def cells(self) -> list[str]:
        """The row of a table."""
        seconds = median(self.seconds)
        cells = [self.label, *(f"{value:.3f}" for value in (seconds, min(self.seconds), max(self.seconds)))]
        cells += [f"{seconds / self.amount * 1e9:,.0f}", f"{self.peak_bytes / 1e6:,.0f}"]
        if self.formula_operations is None:
            return [*cells, ""]
        operations = self.formula_operations / self.amount
        return [*cells, f"{operations / 1e6:,.1f}"]


@dataclass(frozen=True, kw_only=True)
class Growth(Benchmark):
    """How time and memory grow with sequence length, batch, encoder, threads, and amount of text."""

    name: ClassVar[str] = "growth"

    rounds: int = 5
    """Measurements of each point."""
    parts: Annotated[str, Flag(metavar="PART[,PART]")] = "lengths,batches,sizes,threads"
    """Varied quantities: lengths, batches, sizes, threads (of a pre-training step), corpus (building a data set)."""
    lengths: tuple[int, ...] = (32, 64, 128, 256, 512)
    """Tokens of a sequence."""
    step_tokens: int = 4096
    """Tokens of a step of the part lengths."""
    batches: tuple[int, ...] = (8, 16, 32, 64, 128)
    """Sequences per step."""
    sizes: tuple[str, ...] = ("tiny", "mini", "small", "medium", "base")
    """Sizes of the encoder."""
    threads: tuple[int, ...] = (1, 2)
    """Numbers of threads."""
    model: EncoderSize = "mini"
    """Size of the encoder in the other parts."""
    dtype: Precision = "float32"
    """Number format of matrix products."""
    data: Path | None = None
    """A data set of cloze corpus; otherwise text with the sentence lengths of English is drawn."""
    text: Annotated[tuple[str, ...], Flag(metavar="TEXT…")] = ()
    """For the part corpus: text files, folders or globs, plain or compressed."""
    vocab: Path | None = None
    """For the part corpus: directory of a vocabulary or model."""
    megabytes: tuple[float, ...] = (10.0, 30.0, 100.0, 300.0)
    """For the part corpus: sizes of the text."""

    def run(self) -> Result:
        """Measure the points of the parts; each is timed `rounds` times after once that does not count."""
        names = split_names(self.parts, _TITLES, flag="--parts")
        if "corpus" in names and (not self.text or self.vocab is None):
            raise InputError("the part corpus needs --text and --vocab", where="--parts")
        if self.rounds < 1:
            raise InputError(f"{self.rounds} rounds", where="--rounds", remedy="Choose 5 or more")
        dtype = resolve_dtype(self.dtype, CPU)
        settings: dict[str, Any] = {
            "model": self.model,
            "dtype": dtype_name(dtype),
            "data": str(self.data or "drawn"),
            "rounds": self.rounds,
        }
        if "corpus" in names:
            settings |= {"text": " ".join(self.text), "vocabulary": str(self.vocab)}
        finished = FinishedParts(self.parts_directory, settings)
        points: dict[str, list[Point]] = {}
        for part in names:
            points[part] = []
            for name, measure_point in self._points(part).items():
                raw = finished.get(f"{part}-{name}", partial(self._measure, part, name, measure_point))
                points[part].append(Point(**{**raw, "seconds": tuple(raw["seconds"])}))
        return describe_growth(settings, points, describe_machine(CPU, dtype))

    def _measure(self, part: str, name: str, measure_point: Callable[[], Point]) -> dict[str, Any]:
        self.progress.note(f"measuring {part} {name}")
        return asdict(measure_point())

    def _points(self, part: str) -> dict[str, Callable[[], Point]]:
        if part == "corpus":
            return {f"{size:g}": partial(self._measure_corpus, size) for size in self.megabytes}
        step = Pretrain(data=self.data, model=self.model, dtype=self.dtype)
        steps: Mapping[Any, Pretrain]
        if part == "lengths":
            batches = {length: self.step_tokens // length for length in self.lengths}
            steps = {n: replace(step, max_seq_length=n, batch=batch) for n, batch in batches.items()}
        elif part == "batches":
            steps = {size: replace(step, batch=size) for size in self.batches}
        elif part == "sizes":
            steps = {size: replace(step, model=size, batch=8) for size in self.sizes}
        else:
            steps = dict.fromkeys(self.threads, step)
        points: dict[str, Callable[[], Point]] = {}
        for number, (value, benchmark) in enumerate(steps.items()):
            at = float(number if part == "sizes" else value)
            num_threads = value if part == "threads" else torch.get_num_threads()
            measure_point = partial(_measure_step, at, str(value), benchmark, self.rounds, num_threads)
            points[str(value)] = partial(in_new_process, measure_point)
        return points

    def _measure_corpus(self, megabytes: float) -> Point:
        assert self.vocab is not None
        with TemporaryDirectory() as name:
            file = Path(name) / "text.txt"
            documents = first_documents(self.text, megabytes)
            lines = (line for document in documents for line in (*document.lines, ""))
            file.write_text("\n".join(lines), "utf-8")
            return in_new_process(partial(_measure_build, file, self.vocab, self.rounds))


def describe_growth(
    settings: Mapping[str, Any], points: Mapping[str, Sequence[Point]], environment: Mapping[str, Any]
) -> Result:
    """Return a table of each part."""
    lines = [heading("growth", settings)]
    for part, series in points.items():
        table = text_table(_COLUMNS, [point.cells for point in series])
        lines += ["", _TITLES[part], table, *_remarks(part, series)]
    record = {
        "benchmark": "growth",
        "settings": settings,
        "parts": {part: [asdict(point) for point in series] for part, series in points.items()},
        "environment": environment,
    }
    return Result("growth", record, "\n".join(lines))


def _remarks(part: str, points: Sequence[Point]) -> list[str]:
    """Compare the last point with the first: time, operations, and the share of attention."""
    if len(points) < 2:
        return []
    first, last = points[0], points[-1]
    slower = (median(last.seconds) / last.amount) / (median(first.seconds) / first.amount)
    unit = "byte" if part == "corpus" else "token"
    remarks = [f"a {unit} takes {slower:.2f} times as long at {last.label} as at {first.label}"]
    if first.formula_operations and last.formula_operations:
        more = (last.formula_operations / last.amount) / (first.formula_operations / first.amount)
        remarks.append(f"it needs {more:.2f} times as many operations by formula")
    if part == "lengths":
        remarks.append(
            f"attention's products, which grow with the square of the length, are {first.attention_share:.0%} "
            f"of all at {first.label} and {last.attention_share:.0%} at {last.label}"
        )
    return ["; ".join(remarks)]


@styled
def plot(part: str, points: Sequence[Mapping[str, Any]], quantity: str) -> str:
    """Plot a part of a record, with a straight line through its first point where growth should be linear."""
    figure = Figure(figsize=(4.6, 2.7), layout="constrained")
    axes = figure.add_subplot()
    places = [point["at"] for point in points]
    values = [median(p["seconds"]) if quantity == "seconds" else p["peak_bytes"] / 1e6 for p in points]
    axes.plot(places, values, marker="o")
    if part in ("batches", "corpus"):
        line = [values[0] * place / places[0] for place in places]
        axes.plot(places, line, color="gray", linestyle="dashed")
    axes.set_xticks(places, [point["label"] for point in points])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(_TITLES[part].partition(",")[0])
    axes.set_ylabel("seconds" if quantity == "seconds" else "MB")
    return as_svg(figure)


def write_plots(output: Path) -> None:
    """Plot time and memory of each part of a record, beside it."""
    for part, points in json.loads((output / "record.json").read_text("utf-8"))["parts"].items():
        for quantity in ("seconds", "memory"):
            (output / f"{part}-{quantity}.svg").write_text(plot(part, points, quantity), "utf-8")


def _measure_step(at: float, label: str, benchmark: Pretrain, rounds: int, num_threads: int) -> Point:
    configure_memory()
    torch.set_num_threads(num_threads)
    before = resident_bytes()
    data, tokenizer, _ = draw_step(benchmark, DistributedContext(CPU))
    trainer = build_trainer(benchmark, data, tokenizer, CPU)
    seconds = _time(trainer.step, rounds)
    model = trainer.model
    batches = trainer.data.batches
    step = {
        "num_tokens": sum(batch.num_tokens for batch in batches),
        "num_predictions": sum(len(batch.masked_lm_ids) for batch in batches),
    }
    squares = sum(group.count * group.length**2 for batch in batches for group in batch.length_groups)
    operations = pretraining_step_flops(model.config, **step, sum_of_squared_lengths=squares)
    linear = pretraining_step_flops(model.config, **step, sum_of_squared_lengths=0)
    return Point(
        at=at,
        label=label,
        amount=float(step["num_tokens"]),
        seconds=seconds,
        peak_bytes=peak_bytes() - before,
        formula_operations=float(operations),
        attention_share=1 - linear / operations,
    )


def _measure_build(file: Path, vocabulary: Path, rounds: int) -> Point:
    before = resident_bytes()
    with TemporaryDirectory() as name:
        outputs = (Path(name) / str(number) for number in range(1 + rounds))
        seconds = _time(lambda: build_dataset([file], vocabulary, next(outputs), BuildConfig()), rounds)
    size = file.stat().st_size
    return Point(size / 1e6, f"{size / 1e6:.3g}", float(size), seconds, peak_bytes() - before)


def _time(work: Callable[[], object], rounds: int) -> tuple[float, ...]:
    """Return the seconds of each call but the first."""
    seconds = []
    for _ in range(1 + rounds):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return tuple(seconds[1:])


if __name__ == "__main__":
    code = run_program(Growth, "growth.py", sys.argv[1:])
    if code == 0 and "-o" in sys.argv:
        write_plots(Path(sys.argv[sys.argv.index("-o") + 1]))
    sys.exit(code)
