"""`python -m benchmarks corpus`: a text file to a tokenized data set on disk, compared with transformers."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.harness import Check, Contestant, Result, import_peer
from benchmarks.machine import in_new_process, peak_bytes
from benchmarks.text import Excerpt, TextBenchmark, TokenIds, compare_tokens, with_threads
from cloze.data.build.corpus import build_dataset
from cloze.data.build.input_shards import ReadingConfig
from cloze.data.build.parts import BuildConfig
from cloze.data.dataset import Dataset, Documents
from cloze.data.reading.documents import Document
from cloze.tokenization.sentences import split_sentences

_BATCH_SIZE = 1000
_LANGUAGE = "en"
_GOOGLE_BYTES_PER_SECOND = 67_000.0
_GOOGLE_MEMORY = 40  # bytes per byte of text
_SCHEMA = pa.schema([("input_ids", pa.list_(pa.uint32()))])


@dataclass(frozen=True, kw_only=True)
class BuildCorpus(TextBenchmark):
    """A text file to a tokenized data set on disk, in megabytes per second."""

    name: ClassVar[str] = "corpus"

    vocab: Path | None = None
    """Directory of a vocabulary or model; otherwise a small vocabulary is trained on the text."""

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Compare `build_dataset` with a user's script for transformers: read, split, tokenize in batches, save.

        Both read the same plain file and use the same sentence splitter, so that they differ in everything else.
        """
        text = self.excerpt(directory)
        vocabulary, note = text.load_vocabulary(self.vocab, self.progress)
        build = partial(_build, text.file, text.reading, vocabulary)
        does = (
            "build_dataset, one worker: reads, splits, tokenizes, writes shards and checksums, syncs the disk"
        )
        contestants = [Contestant("cloze, 1 worker", does, text.with_new_path(build))]
        checks: list[Check] = []
        if peers:
            tokenizer = import_peer("transformers").AutoTokenizer.from_pretrained(
                vocabulary, split_special_tokens=True, model_max_length=10**9
            )
            does = f"reads, splits likewise, AutoTokenizer on {_BATCH_SIZE:,} sentences at a time, Arrow"
            prepare = text.with_new_path(_run_transformers, text, tokenizer)
            contestants += with_threads("transformers", does, prepare)
            ours, theirs = text.new_path(), text.new_path()
            build(ours)
            _run_transformers(text, tokenizer, theirs)
            checks.append(compare_tokens("transformers", _read_ours(ours), _read_theirs(theirs)))
        timings = self.measure(contestants)
        peak = in_new_process(partial(_build_and_measure, build, text.new_path()))
        times_google = text.num_bytes / timings[0].median / _GOOGLE_BYTES_PER_SECOND
        megabytes = text.num_bytes / 1e6
        return self.describe(
            timings,
            settings={
                "megabytes": round(megabytes, 3),
                "format": text.documents[0].kind,
                "rounds": self.rounds,
            },
            amount=megabytes,
            unit="MB",
            checks=checks,
            notes=(
                text.source,
                note,
                f"memory of a process that builds only this data set: {peak / 1e6:,.0f} MB at most, "
                f"{peak / text.num_bytes:.2g} bytes per byte of text",
                f"Google's create_pretraining_data.py was measured at {_GOOGLE_BYTES_PER_SECOND / 1e3:.0f} kB/s and "
                f"{_GOOGLE_MEMORY} bytes per byte of text, on another machine: cloze is {times_google:,.0f} times as "
                "fast; it draws pairs and masks later, when they are read",
            ),
            more={"peak_bytes": peak, "times_as_fast_as_google": times_google},
        )


def _build(file: Path, reading: ReadingConfig, vocabulary: Path, output: Path) -> None:
    build_dataset([file], vocabulary, output, BuildConfig(reading=reading, language=_LANGUAGE))


def _build_and_measure(build: Callable[[Path], None], output: Path) -> int:
    """Return the peak memory of the process."""
    build(output)
    return peak_bytes()


def _run_transformers(text: Excerpt, tokenizer: Any, output: Path) -> None:
    """Convert a text file to an Arrow file of token IDs, as one does with transformers and pyarrow."""
    with pa.OSFile(str(output), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        sentences = chain.from_iterable(_documents_of_file(text))
        while batch := list(islice(sentences, _BATCH_SIZE)):
            ids = tokenizer(
                batch, add_special_tokens=False, return_attention_mask=False, return_token_type_ids=False
            )["input_ids"]
            writer.write_batch(pa.record_batch([pa.array(ids, pa.list_(pa.uint32()))], schema=_SCHEMA))


def _documents_of_file(text: Excerpt) -> Iterator[list[str]]:
    """Yield the sentences of each document."""
    lines: list[str] = []
    with text.file.open(encoding="utf-8") as stream:
        for line in (*stream, ""):
            if line := line.strip():
                lines.append(line)
            elif lines:
                document = Document(tuple(lines), str(text.file), text.documents[0].kind)
                by_line = document.split_lines(partial(split_sentences, language=_LANGUAGE))
                yield [sentence for sentences in by_line for sentence in sentences]
                lines = []


def _read_ours(dataset: Path) -> TokenIds:
    documents = Documents.from_shards(sorted(Dataset.open(dataset).path.glob("documents-*.arrow")))
    starts = documents.sentence_offsets[documents.first_sentence].tolist()
    ends = documents.sentence_offsets[documents.end_sentence].tolist()
    return np.concatenate([documents.read(*span) for span in zip(starts, ends, strict=True)])


def _read_theirs(file: Path) -> TokenIds:
    column = pa.ipc.open_file(pa.memory_map(str(file))).read_all().column("input_ids")
    return np.concatenate([chunk.flatten().to_numpy() for chunk in column.chunks])
