"""`python -m benchmarks vocab`: a text file to a WordPiece vocabulary, compared with the tokenizers library."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from benchmarks.harness import Check, Contestant, Peers, Result
from benchmarks.text import Excerpt, TextBenchmark, with_threads
from cloze.data.build.vocabulary import train_vocabulary
from cloze.tokenization.special_tokens import SPECIAL_TOKENS, UNK
from cloze.tokenization.wordpiece import WordPieceTokenizer

_TOLERANCE = 0.02
"""Relative difference of the numbers of tokens that the two vocabularies split the text into."""
_CHECKED_LINES = 20_000


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
        if peers:
            does = "WordPieceTrainer with BERT's normalizer and splitter on the same file, and writes"
            prepare = text.with_new_path(_train_peer, text, self.size)
            contestants += with_threads("tokenizers", does, prepare)
            checks.append(_compare(text, self.size))
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
    train_vocabulary([text.file], output, reading=text.reading, size=size)


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
