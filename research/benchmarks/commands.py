"""The benchmarks by name, and the command that runs one."""

from collections.abc import Sequence

from benchmarks.embed import Embed, Latency
from benchmarks.finetune import Finetune
from benchmarks.harness import Benchmark
from benchmarks.inference import Inference
from benchmarks.pretrain import Pretrain
from benchmarks.serve import Serve
from benchmarks.start import Start
from benchmarks.text import BuildCorpus, Tokenize, TrainVocabulary
from cloze import artifacts
from cloze.cli import run_command
from cloze.cli.parser import Verb
from cloze.process import configure_memory

BENCHMARKS: dict[str, type[Benchmark]] = {
    benchmark.name: benchmark
    for benchmark in (
        Pretrain, Finetune, Embed, Latency, Inference, Serve, Start, Tokenize, BuildCorpus, TrainVocabulary,
    )
}  # fmt: skip


def run(benchmark: Benchmark) -> None:
    """Run a benchmark and print its figures, or write a record of them."""
    configure_memory()  # as `cloze pretrain` does, for all contestants
    output = benchmark.output
    if output is not None:
        inputs = [getattr(benchmark, name, None) for name in ("model", "data", "vocab")]
        artifacts.check_output_path(output, overwrite=benchmark.overwrite, inputs=inputs)
    result = benchmark.run()
    if output is not None:
        result.write(output, overwrite=benchmark.overwrite)
    benchmark.flags.print(result.record, result.text)
    result.require_agreement()


def run_program(kind: type[Benchmark], program: str, arguments: Sequence[str]) -> int:
    """Run a benchmark with command-line arguments; return the exit code, as `cloze` does. Scripts of records use it."""
    return run_command(program, lambda: Verb(kind, run), list(arguments))
