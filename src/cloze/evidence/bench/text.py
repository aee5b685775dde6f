"""What the benchmarks over text share: an excerpt of it, a vocabulary, the threads of tokenizers."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from cloze.corpus.documents import Document
from cloze.corpus.readers import read_documents
from cloze.corpus.sources import ReadingConfig, plan_stretches
from cloze.corpus.vocabulary import train_vocabulary
from cloze.errors import InputError
from cloze.evidence.bench.harness import Check
from cloze.progress import SILENT, Progress
from cloze.text.tokenizer import Tokenizer

THREADS = 2
"""Of a peer that has threads, beside one."""
_LEARNED_PIECES = 8192

Pieces = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True, kw_only=True, slots=True)
class TextBenchmark:
    """What is measured."""

    inputs: Sequence[str | Path]
    """Text, as `cloze corpus` takes it."""
    vocabulary: Path | None = None
    """A directory with a tokenizer; without one, a small vocabulary is learned from the text."""
    max_megabytes: float = 10.0
    """The text that is read: whole documents up to this size."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The text of a benchmark, on disk: one plain file, and a tokenizer that all sides read."""

    documents: list[Document]
    file: Path
    vocabulary: Path
    num_bytes: int
    notes: tuple[str, ...]
    directory: Path
    """For what the sides write."""


@contextmanager
def excerpt(benchmark: TextBenchmark, progress: Progress) -> Iterator[Excerpt]:
    """Take the beginning of a text and get a vocabulary ready, in a directory that goes away afterwards.

    Raises:
        InputError: there is no such text or vocabulary, or nothing in it.
    """
    documents = first_documents(benchmark)
    text = plain_text(documents)
    with TemporaryDirectory() as name:
        directory = Path(name)
        file, vocabulary = directory / "text.txt", directory / "vocabulary"
        file.write_text(text, "utf-8")
        notes = [f"text: {len(documents):,} documents of {', '.join(map(str, benchmark.inputs))}"]
        if benchmark.vocabulary is None:
            tokenizer = _learn(file, vocabulary, progress)
            notes.append(
                f"vocabulary: {tokenizer.vocab_size:,} pieces learned from that text (no --vocab was given)"
            )
        else:
            tokenizer = Tokenizer.load(benchmark.vocabulary)
            vocabulary.mkdir()
            tokenizer.save(vocabulary)
            notes.append(f"vocabulary: {tokenizer.vocab_size:,} pieces of {benchmark.vocabulary}")
        yield Excerpt(documents, file, vocabulary, len(text.encode()), tuple(notes), directory)


def _learn(file: Path, vocabulary: Path, progress: Progress) -> Tokenizer:
    try:
        return train_vocabulary([file], vocabulary, size=_LEARNED_PIECES, progress=progress)
    except InputError as error:
        raise InputError(error.what, where="--vocab", remedy="Give a vocabulary, or more text") from error


def plain_text(documents: Sequence[Document]) -> str:
    """Return documents as a plain file has them, an empty line after each."""
    return "\n".join(line for document in documents for line in (*document.lines, ""))


def first_documents(benchmark: TextBenchmark) -> list[Document]:
    """Return whole documents from the beginning of a text, up to the size that is asked for.

    Raises:
        InputError: there is no text.
    """
    documents, size = [], 0
    with SILENT.bar("reading", total=None) as bar:
        stretches = plan_stretches(benchmark.inputs, ReadingConfig())
        for document in (each for stretch in stretches for each in read_documents(stretch, bar)):
            documents.append(document)
            size += sum(len(line.encode()) + 1 for line in document.lines)
            if size >= benchmark.max_megabytes * 1e6:
                break
    if not documents:
        raise InputError("no text in it", where=", ".join(map(str, benchmark.inputs)))
    return documents


@contextmanager
def tokenizers_threads(count: int) -> Iterator[None]:
    """Let the tokenizers library use so many threads; the number beyond one is fixed by its first use."""
    names = {"TOKENIZERS_PARALLELISM": "false" if count == 1 else "true", "RAYON_NUM_THREADS": str(THREADS)}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def same_pieces(peer: str, ours: Pieces, theirs: Pieces) -> Check:
    """Compare all pieces: the difference is the share of them that is not the same."""
    what = f"all {len(ours):,} pieces beside {peer}"
    if len(ours) != len(theirs):
        return Check(f"{what}, {len(theirs):,} there", 1.0, 0.0)
    return Check(what, float((ours != theirs).mean()), 0.0)
