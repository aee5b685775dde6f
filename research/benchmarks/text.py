"""Benchmarks over text: an excerpt of it on disk, a vocabulary, and the threads of the tokenizers library."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Check, Contestant, TimedBenchmark, TimedFunction
from cloze.api.vocabularies import load_tokenizer
from cloze.cli.options import Flag
from cloze.data.build.cleaning import STEPS, CleaningConfig
from cloze.data.build.input_shards import ReadingConfig, plan_input_shards, read_documents
from cloze.data.build.vocabulary import train_vocabulary
from cloze.data.reading.documents import Document
from cloze.errors import InputError
from cloze.progress import Progress

THREADS = 2
"""Threads of a peer that has threads, besides one."""
_TRAINED_VOCAB_SIZE = 8192

TokenIds = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The text of a benchmark as one plain file."""

    documents: Sequence[Document]
    file: Path
    num_bytes: int
    source: str
    """The text and its number of documents, for people."""

    def new_path(self) -> Path:
        """Return an unused path for an output, which is deleted with the file."""
        return Path(mkdtemp(dir=self.file.parent)) / "output"

    def with_new_path(
        self, function: Callable[..., object], *arguments: object
    ) -> Callable[[], TimedFunction]:
        """Return a preparation of a function; each call gets a new path as its last argument."""
        return lambda: partial(function, *arguments, self.new_path())

    @property
    def reading(self) -> ReadingConfig:
        """How to read the file: without cleaning, as the peers do, since tokens are compared one by one."""
        return ReadingConfig(text_format=self.documents[0].kind, cleaning=CleaningConfig(without=STEPS))

    def load_vocabulary(self, source: Path | None, progress: Progress) -> tuple[Path, str]:
        """Copy a vocabulary next to the text, or train one on it; return its directory and a note.

        Raises:
            InputError: `source` has no vocabulary, or the text is too small to train one.
        """
        directory = self.file.with_name("vocabulary")
        if source is not None:
            tokenizer = load_tokenizer(source)
            directory.mkdir()
            tokenizer.save(directory)
            return directory, f"vocabulary: {tokenizer.vocab_size:,} tokens of {source}"
        try:
            tokenizer = train_vocabulary([self.file], directory, size=_TRAINED_VOCAB_SIZE, progress=progress)
        except InputError as error:
            raise InputError(error.what, where="--vocab", remedy="Give a vocabulary, or more text") from error
        size = f"{tokenizer.vocab_size:,} tokens"
        return directory, f"vocabulary: {size} trained on that text (no --vocab was given)"


@dataclass(frozen=True, kw_only=True)
class TextBenchmark(TimedBenchmark):
    """A benchmark over plain text."""

    input: Annotated[tuple[str, ...], Flag(is_positional=True)]
    """Text files, folders or globs, plain or compressed."""
    megabytes: float = 10.0
    """Size of the excerpt: whole documents from the beginning of the text."""

    def excerpt(self, directory: Path) -> Excerpt:
        """Write the beginning of the text to a file in a directory.

        Raises:
            InputError: there is no text.
        """
        documents = first_documents(self.input, self.megabytes)
        file = directory / "text.txt"
        lines = (line.replace("\n", " ") for document in documents for line in (*document.lines, ""))
        file.write_text("\n".join(lines), "utf-8")
        source = f"text: {len(documents):,} documents of {', '.join(map(str, self.input))}"
        return Excerpt(documents, file, file.stat().st_size, source)


def first_documents(inputs: Sequence[str | Path], megabytes: float) -> list[Document]:
    """Return documents from the beginning of a text until they have a size.

    Raises:
        InputError: there is no text.
    """
    documents, size = [], 0
    input_shards = plan_input_shards(inputs, ReadingConfig())
    for document in (document for shard in input_shards for document in read_documents(shard)):
        documents.append(document)
        size += sum(len(line.encode()) + 1 for line in document.lines)
        if size >= megabytes * 1e6:
            break
    if not documents:
        raise InputError("has no text", where=", ".join(map(str, inputs)))
    return documents


def with_threads(name: str, does: str, prepare: Callable[[], TimedFunction]) -> list[Contestant]:
    """Return a contestant that uses the tokenizers library with one thread, and one with several."""

    def prepare_with(count: int) -> TimedFunction:
        limited: TimedFunction = tokenizers_threads(count)(prepare())
        return limited

    return [
        Contestant(f"{name}, {label}", does, partial(prepare_with, count))
        for count, label in ((1, "1 thread"), (THREADS, f"{THREADS} threads"))
    ]


def tokenizers_threads(count: int) -> Any:
    """Return a context and decorator that sets the threads of tokenizers, fixed beyond one at their first use."""
    parallel = "false" if count == 1 else "true"
    return mock.patch.dict(os.environ, TOKENIZERS_PARALLELISM=parallel, RAYON_NUM_THREADS=str(THREADS))


def compare_tokens(peer: str, ours: TokenIds, theirs: TokenIds) -> Check:
    """Check that all tokens are the same; the difference is the share that differs."""
    what = f"all {len(ours):,} tokens compared with {peer}"
    if len(ours) != len(theirs):
        return Check(f"{what}, which has {len(theirs):,}", 1.0, 0.0)
    return Check(what, float((ours != theirs).mean()), 0.0)
