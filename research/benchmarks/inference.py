"""`python -m benchmarks inference`: every comparison of inference on this machine, as one table."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from benchmarks.embed import Embed, Latency, describe_cosines
from benchmarks.finetune import Finetune
from benchmarks.harness import Benchmark, Result, Timing, describe_machine, describe_side, heading
from benchmarks.serve import Client, server, text_of_length
from benchmarks.start import Start
from cloze.cli.parameters import POSITIONAL
from cloze.model_paths import resolve_checkpoint
from cloze.process import processor
from cloze.tables import text_table

_SERVED_TOKENS = 32


@dataclass(frozen=True, kw_only=True)
class Inference(Benchmark):
    """All comparisons of inference in one table: vectors, single texts, server and start, in float32 and int8."""

    name: ClassVar[str] = "inference"

    input: Annotated[Path, POSITIONAL]
    """Text with one text per line."""
    model: str
    """A directory of sentence-transformers."""
    fill: str = "cloze-mini"
    """A model with a masked-word head, for the rows of whole processes."""
    mrpc: Path | None = None
    """Directory of MRPC: adds the rows of fine-tuning."""
    texts: int = 1000
    """Number of texts, from all over the input."""
    rounds: int = 5
    """Number of rounds; each round times every contestant once."""
    min_seconds: float = 1.0
    """Repeat the work of a turn for at least this long."""
    busy: int = 0
    """Compare vectors beside this number of busy processes, too."""

    def run(self) -> Result:
        """Run the comparisons one after the other."""
        parts: dict[str, Result] = {}
        rows: list[tuple[str, ...]] = []
        with tempfile.TemporaryDirectory(prefix="cloze-bench-") as directory:
            for work, bars, benchmark in self._comparisons(Path(directory)):
                self.progress.note(work)
                result = parts[work] = benchmark.run()
                rows += _rows(work, bars, result.record)
                rows += [(work, peer, "not compared", "", "", "", "") for peer in result.failures]
                if "busy" in result.record:
                    rows += _rows(f"{work}, beside {self.busy} busy processes", bars, result.record["busy"])
        rows += self._server_rows()
        columns = ("work", "peer", "cloze is", "95% interval", "bar", "of product rate", "cosine")
        environment = describe_machine()
        settings = {"processor": processor(), "texts": self.texts, "rounds": self.rounds, "busy": self.busy}
        record = {
            "benchmark": self.name,
            "settings": settings,
            "rows": [dict(zip(columns, row, strict=True)) for row in rows],
            "parts": {work: result.record for work, result in parts.items()},
            "environment": environment,
        }
        checks = [check for result in parts.values() for check in result.checks]
        failures = self.failures.copy()
        for result in parts.values():
            failures |= result.failures
        text = "\n\n".join(
            [heading(self.name, settings), text_table(columns, rows), *(part.text for part in parts.values())]
        )
        return Result(self.name, record, text, checks, failures)

    def _comparisons(self, directory: Path) -> Iterator[tuple[str, Mapping[str, float], Benchmark]]:
        """Yield the work, the ratio aimed at beside each peer, and the benchmark."""
        timing: dict[str, Any] = {
            "rounds": self.rounds,
            "min_seconds": self.min_seconds,
            "flags": self.flags,
        }
        shared: dict[str, Any] = {"input": self.input, "model": self.model, "busy": self.busy, **timing}
        int8, floats = shared | {"dtype": "int8"}, shared | {"dtype": "float32"}
        bars = {"sentence-transformers": 3.0, "onnxruntime-int8": 1.0, "openvino-int8": 1.4}
        yield "vectors, int8", bars, Embed(texts=self.texts, vs=",".join([*bars, "openvino"]), **int8)
        peers = "sentence-transformers,onnxruntime,openvino"
        yield "vectors, float32", {}, Embed(texts=self.texts, vs=peers, **floats)
        bars = {"transformers": 1.2, "sentence-transformers": 1.2}
        yield "one text, float32", bars, Latency(vs=",".join(bars), **floats)
        bars = {"onnxruntime-int8": 0.9, "openvino-int8": 1.1}
        yield "one text, int8", bars, Latency(vs=",".join(bars), **int8)
        with self.attempt("onnxruntime, by a graph"):
            from cloze.export.onnx import export_onnx

            graph = directory / "graph"
            export_onnx(resolve_checkpoint(self.model), graph, precision="int8")
            alone = Latency(vs="onnxruntime", **(int8 | {"model": str(graph)}))
            yield "one text, int8, by a graph", {"onnxruntime": 0.9}, alone
        start = Start(model=self.fill, **timing)
        yield "whole processes", {"transformers": 3.0}, start
        if self.mrpc is not None:
            bar = {"transformers-tuned": 1.1}
            finetune = Finetune(
                task="mrpc", model=self.model, data=self.mrpc, vs="transformers-tuned", rounds=self.rounds
            )
            yield "MRPC, seconds of an epoch in bfloat16", bar, finetune

    def _server_rows(self) -> list[tuple[str, ...]]:
        """Compare servers in int8 and in bfloat16 with one in float32, on requests of one short text."""
        peer = "the same in float32"
        bars = {"int8": {peer: 1.6}, "bfloat16": {}}
        works = {precision: f"server, {_SERVED_TOKENS} tokens a text, {precision}" for precision in bars}
        if shutil.which("wrk") is None:
            what = "not measured: wrk is not installed"
            return [(work, peer, what, "", "", "", "") for work in works.values()]
        body = json.dumps({"inputs": text_of_length(self.model, _SERVED_TOKENS)})
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            urls = {
                precision: stack.enter_context(server(self.model, "--precision", precision))[1]
                for precision in (*bars, "float32")
            }
            seconds_of: dict[str, list[float]] = {precision: [] for precision in urls}
            for number in range(1 + self.rounds):
                for precision, url in urls.items():
                    seconds = max(1, round(2 * self.min_seconds))
                    rate, _ = Client(f"{url}/embed", folder).closed_loop(body, seconds=seconds)
                    if number:
                        seconds_of[precision].append(1 / rate)
        rows: list[tuple[str, ...]] = []
        theirs = Timing(peer, "", tuple(seconds_of["float32"]))
        for precision, work in works.items():
            ours = Timing(precision, "", tuple(seconds_of[precision]))
            rows += _rows(
                work, bars[precision], {"sides": [describe_side(one, ours) for one in (ours, theirs)]}
            )
        return rows


def _rows(work: str, bars: Mapping[str, float], record: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each peer of a comparison."""
    if "sides" not in record:
        return
    ours, *others = record["sides"]
    cosines = record.get("cosines", {})
    for side in others:
        name = side["name"]
        interval = "{:.2f} to {:.2f}".format(*side["interval"]) if "interval" in side else ""
        share = f"{ours['share_of_limit']:.0%}" if "share_of_limit" in ours else ""
        compared = {key: cosines[key] for key in ("cloze", name) if key in cosines}
        cosine = "; ".join(f"{key} {describe_cosines({'all': of['all']})}" for key, of in compared.items())
        bar = f"{bars[name]:g}" if name in bars else ""
        yield work, name, f"{side['cloze_is_times_as_fast']:.2f}x", interval, bar, share, cosine
