"""Benchmarks over text: `python -m benchmarks tokenize`, `vocab` and `corpus`."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any, ClassVar
from unittest import mock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from benchmarks.harness import (
    Check,
    Contestant,
    Peers,
    Result,
    TimedBenchmark,
    TimedFunction,
    import_peer,
    in_new_process,
    peak_bytes,
    repeat,
)
from cloze.api.vocabularies import load_tokenizer
from cloze.cli.parameters import POSITIONAL
from cloze.data.build.cleaning import STEPS, CleaningConfig
from cloze.data.build.corpus import build_dataset
from cloze.data.build.input_shards import BuildRun, ReadingConfig, plan_input_shards, read_documents
from cloze.data.build.parts import BuildConfig
from cloze.data.build.vocabulary import VocabularyConfig, train_vocabulary
from cloze.data.dataset import Dataset, Documents
from cloze.data.reading.documents import Document
from cloze.errors import InputError
from cloze.file_names import TOKENIZER_FILE
from cloze.progress import Progress
from cloze.tokenization.sentences import split_sentences
from cloze.tokenization.special_tokens import SPECIAL_TOKENS, UNK
from cloze.tokenization.wordpiece import WordPieceTokenizer

THREADS = 2
"""Threads of a peer that has threads, besides one."""
_TRAINED_VOCAB_SIZE = 8192
_BATCH_SIZE = 1000
"""Lines or sentences that a peer takes at a time."""
_TOLERANCE = 0.02
"""Relative difference of the numbers of tokens that the two vocabularies split the text into."""
_CHECKED_LINES = 20_000
_LANGUAGE = "en"
_GOOGLE_BYTES_PER_SECOND = 67_000.0
_GOOGLE_MEMORY = 40  # bytes per byte of text
_SCHEMA = pa.schema([("input_ids", pa.list_(pa.uint32()))])

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
        """Copy a vocabulary next to the text, or train one on it; return its directory and a note."""
        directory = self.file.with_name("vocabulary")
        if source is not None:
            tokenizer = load_tokenizer(source)
            directory.mkdir()
            tokenizer.save(directory)
            return directory, f"vocabulary: {tokenizer.vocab_size:,} tokens of {source}"
        try:
            tokenizer = train_vocabulary(
                [self.file],
                directory,
                VocabularyConfig(size=_TRAINED_VOCAB_SIZE),
                BuildRun(progress=progress),
            )
        except InputError as error:
            raise InputError(error.what, where="--vocab", remedy="Give a vocabulary, or more text") from error
        size = f"{tokenizer.vocab_size:,} tokens"
        return directory, f"vocabulary: {size} trained on that text (no --vocab was given)"


@dataclass(frozen=True, kw_only=True)
class TextBenchmark(TimedBenchmark):
    """A benchmark over plain text."""

    input: Annotated[tuple[str, ...], POSITIONAL]
    """Text files, folders or globs, plain or compressed."""
    megabytes: float = 10.0
    """Size of the excerpt: whole documents from the beginning of the text."""

    def excerpt(self, directory: Path) -> Excerpt:
        """Write the beginning of the text to a file in a directory."""
        documents = first_documents(self.input, self.megabytes)
        file = directory / "text.txt"
        lines = (line.replace("\n", " ") for document in documents for line in (*document.lines, ""))
        file.write_text("\n".join(lines), "utf-8")
        source = f"text: {len(documents):,} documents of {', '.join(map(str, self.input))}"
        return Excerpt(documents, file, file.stat().st_size, source)


def first_documents(inputs: Sequence[str | Path], megabytes: float) -> list[Document]:
    """Return documents from the beginning of a text until they have a size."""
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


@dataclass(frozen=True, kw_only=True)
class Tokenize(TextBenchmark):
    """Text to token IDs, in megabytes per second."""

    name: ClassVar[str] = "tokenize"
    peers_known: ClassVar[Sequence[str]] = ("tokenizers",)

    vs: Peers = "tokenizers"
    """Compared programs: tokenizers."""
    vocab: Path | None = None
    """Directory of a vocabulary or model; otherwise a small vocabulary is trained on the text."""

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Compare `Tokenizer.ids`, in one thread, with the tokenizers library on the same lines."""
        text = self.excerpt(directory)
        vocabulary, note = text.load_vocabulary(self.vocab, self.progress)
        all_lines = [line for document in text.documents for line in document.lines]
        earlier, lines = all_lines[: len(all_lines) // 2], all_lines[len(all_lines) // 2 :]
        does = "Tokenizer.ids over the second half of the text, every word for the first time, one thread"
        does_warm = "the same after the first half of the text, as in a corpus"
        contestants = [
            Contestant("cloze", does, partial(_prepare, vocabulary, [""], lines)),
            Contestant("cloze, warm cache", does_warm, partial(_prepare, vocabulary, earlier, lines)),
        ]
        checks: list[Check] = []
        for name in peers:
            with self.attempt(name):
                library = tokenizers.Tokenizer.from_file(str(vocabulary / TOKENIZER_FILE))
                library.encode_special_tokens = True  # a [MASK] in the text is text, as for cloze
                encode = partial(_encode, library, lines)
                ours, _ = load_tokenizer(vocabulary).ids(lines)
                theirs = np.fromiter(chain.from_iterable(encode()), np.uint32)
                checks.append(compare_tokens(name, ours, theirs))
                does = f"encode_batch_fast on {_BATCH_SIZE:,} lines at a time, IDs taken"
                contestants += with_threads(name, does, repeat(encode))
        megabytes = sum(len(line.encode()) for line in lines) / 1e6
        return self.describe(
            self.measure(contestants),
            settings={"megabytes": round(megabytes, 3), "lines": len(lines), "rounds": self.rounds},
            amount=megabytes,
            unit="MB",
            checks=checks,
            notes=(text.source, note),
        )


def _prepare(vocabulary: Path, earlier: Sequence[str], lines: Sequence[str]) -> TimedFunction:
    tokenizer = load_tokenizer(vocabulary)
    tokenizer.ids(earlier)  # builds its tables, as reading the file does for the library
    return lambda: tokenizer.ids(lines)


def _encode(library: tokenizers.Tokenizer, lines: Sequence[str]) -> list[list[int]]:
    ids = []
    for start in range(0, len(lines), _BATCH_SIZE):
        batch = lines[start : start + _BATCH_SIZE]
        ids += [encoding.ids for encoding in library.encode_batch_fast(batch, add_special_tokens=False)]
    return ids


@dataclass(frozen=True, kw_only=True)
class TrainVocabulary(TextBenchmark):
    """A text file to a WordPiece vocabulary, in megabytes per second."""

    name: ClassVar[str] = "vocab"
    peers_known: ClassVar[Sequence[str]] = ("tokenizers",)

    vs: Peers = "tokenizers"
    """Compared programs: tokenizers."""
    size: int = 30_522
    """Tokens of the vocabulary, special ones included."""

    def compare_in(self, directory: Path, peers: Sequence[str]) -> Result:
        """Compare training a vocabulary on a plain file: reading, counting words, merging, writing.

        The two trainers choose different tokens, so the check compares into how few tokens each splits the text.
        """
        text = self.excerpt(directory)
        does = "train_vocabulary: reads, counts words, trains, writes"
        contestants = [Contestant("cloze, 1 worker", does, text.with_new_path(_train, text, self.size))]
        checks: list[Check] = []
        for name in peers:
            with self.attempt(name):
                checks.append(_compare(text, self.size))
                does = "WordPieceTrainer with BERT's normalizer and splitter on the same file, and writes"
                contestants += with_threads(name, does, text.with_new_path(_train_peer, text, self.size))
        megabytes = text.num_bytes / 1e6
        return self.describe(
            self.measure(contestants),
            settings={"megabytes": round(megabytes, 3), "size": self.size, "rounds": self.rounds},
            amount=megabytes,
            unit="MB",
            checks=checks,
            notes=(text.source,),
        )


def _train(text: Excerpt, size: int, output: Path) -> None:
    train_vocabulary([text.file], output, VocabularyConfig(reading=text.reading, size=size))


def _train_peer(text: Excerpt, size: int, output: Path) -> None:
    library = tokenizers.Tokenizer(models.WordPiece(unk_token=UNK))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    library.train([str(text.file)], trainer)
    output.mkdir()
    library.model.save(str(output))


def _compare(text: Excerpt, size: int) -> Check:
    outputs = text.new_path(), text.new_path()
    _train(text, size, outputs[0])
    _train_peer(text, size, outputs[1])
    lines = [line for document in text.documents for line in document.lines][:_CHECKED_LINES]
    ours, theirs = (
        len(
            WordPieceTokenizer.from_tokens((output / "vocab.txt").read_text("utf-8").splitlines()).ids(lines)[
                0
            ]
        )
        for output in outputs
    )
    what = f"tokens of {len(lines):,} lines, {ours:,} and with tokenizers {theirs:,}, relative"
    return Check(what, max(0.0, ours / theirs - 1), _TOLERANCE)


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
        for name in peers:
            with self.attempt(name):
                tokenizer = import_peer(name).AutoTokenizer.from_pretrained(
                    vocabulary, split_special_tokens=True, model_max_length=10**9
                )
                ours, theirs = text.new_path(), text.new_path()
                build(ours)
                _run_transformers(text, tokenizer, theirs)
                checks.append(compare_tokens(name, _read_ours(ours), _read_theirs(theirs)))
                does = f"reads, splits likewise, AutoTokenizer on {_BATCH_SIZE:,} sentences at a time, Arrow"
                contestants += with_threads(
                    name, does, text.with_new_path(_run_transformers, text, tokenizer)
                )
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
