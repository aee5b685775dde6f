"""`cloze bench corpus`: a text file to a tokenised data set on disk, in megabytes a second."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from cloze.corpus.build import BuildConfig, build_dataset
from cloze.corpus.cleaning import STEPS, CleaningConfig
from cloze.corpus.documents import Document, Kind
from cloze.corpus.sources import ReadingConfig
from cloze.corpus.store import Dataset, Documents
from cloze.evidence.bench.harness import (
    LEAST_ROUNDS,
    Check,
    Comparison,
    Prepared,
    Side,
    alternate,
    environment_of,
    import_peer,
    peak_bytes,
    require_peers,
)
from cloze.evidence.bench.text import (
    THREADS,
    Excerpt,
    Pieces,
    TextBenchmark,
    excerpt,
    same_pieces,
    tokenizers_threads,
)
from cloze.progress import SILENT, Progress
from cloze.text.sentences import split_sentences

PEERS = ("transformers",)
_BATCH_SIZE = 1000
_LANGUAGE = "en"
_GOOGLE_BYTES_A_SECOND = 67_000.0
_GOOGLE_MEMORY = 40


def bench_corpus(
    benchmark: TextBenchmark,
    *,
    peers: Sequence[str] = PEERS,
    rounds: int = LEAST_ROUNDS,
    min_seconds: float = 1.0,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare `build_dataset` with what a user of transformers writes: read, split, tokenise in batches, save.

    Both sides read the same plain file and split it with the same splitter, so that the difference is the rest.

    Raises:
        InputError: the text or the vocabulary is wrong, a peer is unknown or not installed.
    """
    require_peers(peers, PEERS)
    with excerpt(benchmark, progress) as text:
        kind = text.documents[0].kind
        outputs = (text.directory / f"output-{number}" for number in count())
        sides = [_our_side(text, kind, outputs)]
        checks = []
        if "transformers" in peers:
            tokenizer = import_peer("transformers").AutoTokenizer.from_pretrained(
                text.vocabulary, split_special_tokens=True, model_max_length=10**9
            )
            pipeline = _TransformersPipeline(tokenizer, text.file, kind)
            sides += [_their_side(pipeline, outputs, threads) for threads in (1, THREADS)]
            checks.append(_compare(text, kind, pipeline, outputs))
        timings = alternate(sides, rounds=rounds, min_seconds=min_seconds, progress=progress)
        peak = _peak_of_a_build(text, kind, next(outputs))
    rate = text.num_bytes / timings[0].median
    return Comparison(
        name="corpus",
        settings={"megabytes": round(text.num_bytes / 1e6, 3), "format": kind, "rounds": rounds},
        amount=text.num_bytes / 1e6,
        unit="MB",
        timings=timings,
        checks=tuple(checks),
        environment=environment_of(torch.device("cpu"), torch.float32, peers),
        notes=(
            *text.notes,
            f"memory of a process that builds this data set and nothing else: {peak / 1e6:,.0f} MB at most, "
            f"{peak / text.num_bytes:.2g} bytes a byte of text",
            f"Google's create_pretraining_data.py was measured at {_GOOGLE_BYTES_A_SECOND / 1e3:.0f} kB/s and "
            f"{_GOOGLE_MEMORY} bytes a byte of text, on another machine: cloze is {rate / _GOOGLE_BYTES_A_SECOND:,.0f} "
            "times as fast; it draws pairs and masks later, when they are read",
        ),
        results={"peak_bytes": peak, "times_as_fast_as_google": rate / _GOOGLE_BYTES_A_SECOND},
    )


def _peak_of_a_build(text: Excerpt, kind: Kind, output: Path) -> int:
    """Build once in a process of its own, and return the most memory that it had."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_build_and_look, replace(text, documents=[]), kind, output).result()


def _build_and_look(text: Excerpt, kind: Kind, output: Path) -> int:
    _build(text, kind, output)
    return peak_bytes()


def _our_side(text: Excerpt, kind: Kind, outputs: Iterator[Path]) -> Side:
    def prepare() -> Prepared:
        output = next(outputs)
        return lambda: _build(text, kind, output)

    does = "build_dataset, one worker: reads, splits, tokenises, writes shards and their checksums, syncs the disk"
    return Side("cloze, 1 worker", does, prepare)


def _build(text: Excerpt, kind: Kind, output: Path) -> None:
    build_dataset(
        [text.file],
        text.vocabulary,
        output,
        # Not cleaned, as on the other side: pieces are compared one by one.
        BuildConfig(
            reading=ReadingConfig(text_format=kind, cleaning=CleaningConfig(without=STEPS)),
            language=_LANGUAGE,
        ),
    )


class _TransformersPipeline:
    """A text file to an Arrow file of ids, as one writes it with transformers and pyarrow."""

    def __init__(self, tokenizer: Any, file: Path, kind: Kind) -> None:
        self._tokenizer = tokenizer
        self._file = file
        self._kind: Kind = kind

    def run(self, output: Path) -> None:
        schema = pa.schema([("input_ids", pa.list_(pa.uint32()))])
        with pa.OSFile(str(output), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            batch: list[str] = []
            for sentences in self._documents():
                batch.extend(sentences)
                while len(batch) >= _BATCH_SIZE:
                    self._write(writer, schema, batch[:_BATCH_SIZE])
                    batch = batch[_BATCH_SIZE:]
            if batch:
                self._write(writer, schema, batch)

    def _documents(self) -> Iterator[list[str]]:
        lines: list[str] = []
        with self._file.open(encoding="utf-8") as stream:
            for line in stream:
                if line := line.strip():
                    lines.append(line)
                elif lines:
                    yield self._split(lines)
                    lines = []
        if lines:
            yield self._split(lines)

    def _split(self, lines: list[str]) -> list[str]:
        document = Document(tuple(lines), str(self._file), self._kind)
        of_lines = document.sentences_of_lines(partial(split_sentences, language=_LANGUAGE))
        return [sentence for some in of_lines for sentence in some]

    def _write(self, writer: Any, schema: Any, sentences: list[str]) -> None:
        ids = self._tokenizer(
            sentences, add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False
        )["input_ids"]
        writer.write_batch(pa.record_batch([pa.array(ids, pa.list_(pa.uint32()))], schema=schema))


def _their_side(pipeline: _TransformersPipeline, outputs: Iterator[Path], threads: int) -> Side:
    def prepare() -> Prepared:
        output = next(outputs)

        def run() -> None:
            with tokenizers_threads(threads):
                pipeline.run(output)

        return run

    plural = "" if threads == 1 else "s"
    does = (
        f"reads, splits with the same splitter, AutoTokenizer on {_BATCH_SIZE:,} sentences at a time, Arrow"
    )
    return Side(f"transformers, {threads} thread{plural}", does, prepare)


def _compare(text: Excerpt, kind: Kind, pipeline: _TransformersPipeline, outputs: Iterator[Path]) -> Check:
    ours, theirs = next(outputs), next(outputs)
    _build(text, kind, ours)
    pipeline.run(theirs)
    return same_pieces("transformers", _our_pieces(ours), _their_pieces(theirs))


def _our_pieces(dataset: Path) -> Pieces:
    documents = Documents.from_shards(sorted(Dataset.open(dataset).path.glob("documents-*.arrow")))
    starts = documents.sentence_offsets[documents.first_sentence]
    ends = documents.sentence_offsets[documents.end_sentence]
    return np.concatenate(
        [documents.read(*span) for span in zip(starts.tolist(), ends.tolist(), strict=True)]
    )


def _their_pieces(file: Path) -> Pieces:
    column = pa.ipc.open_file(pa.memory_map(str(file))).read_all().column("input_ids")
    return np.concatenate([chunk.flatten().to_numpy() for chunk in column.chunks])
