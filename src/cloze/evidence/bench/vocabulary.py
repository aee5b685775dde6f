"""`cloze bench vocab`: a text file to a vocabulary of word pieces, in megabytes a second."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers, trainers

from cloze.corpus.cleaning import STEPS, CleaningConfig
from cloze.corpus.documents import Document
from cloze.corpus.sources import ReadingConfig
from cloze.corpus.vocabulary import train_vocabulary
from cloze.evidence.bench.harness import (
    LEAST_ROUNDS,
    Check,
    Comparison,
    Prepared,
    Side,
    alternate,
    environment_of,
    require_peers,
)
from cloze.evidence.bench.text import (
    THREADS,
    TextBenchmark,
    first_documents,
    plain_text,
    tokenizers_threads,
)
from cloze.progress import SILENT, Progress
from cloze.text.pieces import SPECIAL_PIECES, UNK
from cloze.text.tokenizer import Tokenizer

PEERS = ("tokenizers",)
_TOLERANCE = 0.02
"""How far the numbers of pieces that the two vocabularies cut the text into may be apart, relatively."""
_CHECKED_LINES = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularyBenchmark:
    """What is measured."""

    text: TextBenchmark
    size: int = 30_522
    """Pieces, special ones included."""


def bench_vocabulary(
    benchmark: VocabularyBenchmark,
    *,
    peers: Sequence[str] = PEERS,
    rounds: int = LEAST_ROUNDS,
    min_seconds: float = 1.0,
    progress: Progress = SILENT,
) -> Comparison:
    """Compare learning a vocabulary from a plain file: reading, counting words, merging, writing.

    The two learners do not choose the same pieces, so what is compared is how few pieces the text takes with either.

    Raises:
        InputError: the text is wrong or too little, a peer is unknown.
    """
    require_peers(peers, PEERS)
    documents = first_documents(benchmark.text)
    with TemporaryDirectory() as name:
        directory = Path(name)
        text = _Text(documents, directory / "text.txt")
        text.file.write_text(plain_text(documents), "utf-8")
        num_bytes = text.file.stat().st_size
        outputs = (directory / f"vocabulary-{number}" for number in count())
        sides = [_our_side(text, benchmark.size, outputs)]
        checks = []
        if "tokenizers" in peers:
            sides += [_their_side(text, benchmark.size, outputs, threads) for threads in (1, THREADS)]
            checks.append(_compare(text, benchmark.size, outputs))
        timings = alternate(sides, rounds=rounds, min_seconds=min_seconds, progress=progress)
    return Comparison(
        name="vocab",
        settings={
            "megabytes": round(num_bytes / 1e6, 3),
            "size": benchmark.size,
            "rounds": rounds,
        },
        amount=num_bytes / 1e6,
        unit="MB",
        timings=timings,
        checks=tuple(checks),
        environment=environment_of(torch.device("cpu"), torch.float32, peers),
        notes=(f"text: {len(documents):,} documents of {', '.join(map(str, benchmark.text.inputs))}",),
    )


@dataclass(frozen=True, slots=True)
class _Text:
    documents: Sequence[Document]
    file: Path


def _our_side(text: _Text, size: int, outputs: Iterator[Path]) -> Side:
    def prepare() -> Prepared:
        output = next(outputs)
        return lambda: _learn(text, size, output)

    return Side("cloze, 1 worker", "train_vocabulary: reads, counts words, learns, writes", prepare)


def _learn(text: _Text, size: int, output: Path) -> None:
    reading = ReadingConfig(text_format=text.documents[0].kind, cleaning=CleaningConfig(without=STEPS))
    train_vocabulary([text.file], output, reading=reading, size=size)


def _their_side(text: _Text, size: int, outputs: Iterator[Path], threads: int) -> Side:
    def prepare() -> Prepared:
        output = next(outputs)

        def run() -> None:
            with tokenizers_threads(threads):
                _learn_theirs(text, size, output)

        return run

    plural = "" if threads == 1 else "s"
    does = "WordPieceTrainer with BERT's normaliser and splitter on the same file, and writes"
    return Side(f"tokenizers, {threads} thread{plural}", does, prepare)


def _learn_theirs(text: _Text, size: int, output: Path) -> None:
    library = tokenizers.Tokenizer(models.WordPiece(unk_token=UNK))
    library.normalizer = normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(SPECIAL_PIECES), show_progress=False
    )
    library.train([str(text.file)], trainer)
    output.mkdir()
    library.model.save(str(output))


def _compare(text: _Text, size: int, outputs: Iterator[Path]) -> Check:
    ours, theirs = next(outputs), next(outputs)
    _learn(text, size, ours)
    _learn_theirs(text, size, theirs)
    lines = [line for document in text.documents for line in document.lines][:_CHECKED_LINES]
    mine = Tokenizer.load(ours)
    pieces = (theirs / "vocab.txt").read_text("utf-8").splitlines()
    our_count, their_count = (
        len(tokenizer.ids(lines)[0]) for tokenizer in (mine, Tokenizer.from_pieces(pieces))
    )
    what = f"pieces that {len(lines):,} lines take, {our_count:,} and with tokenizers {their_count:,}, relatively"
    return Check(what, max(0.0, our_count / their_count - 1), _TOLERANCE)
