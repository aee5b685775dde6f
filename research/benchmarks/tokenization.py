"""`python -m benchmarks tokenize`: text to token IDs, compared with the tokenizers library."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np
import tokenizers

from benchmarks.harness import Check, Contestant, Peers, Result, TimedFunction, repeat
from benchmarks.text import TextBenchmark, compare_tokens, with_threads
from cloze.file_names import TOKENIZER_FILE
from cloze.tokenization.loading import load_tokenizer

_BATCH_SIZE = 1000


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
        if peers:
            library = tokenizers.Tokenizer.from_file(str(vocabulary / TOKENIZER_FILE))
            library.encode_special_tokens = True  # a [MASK] in the text is text, as for cloze
            encode = partial(_encode, library, lines)
            does = f"encode_batch_fast on {_BATCH_SIZE:,} lines at a time, IDs taken"
            contestants += with_threads("tokenizers", does, repeat(encode))
            ours, _ = load_tokenizer(vocabulary).ids(lines)
            theirs = np.fromiter(chain.from_iterable(encode()), np.uint32)
            checks.append(compare_tokens("tokenizers", ours, theirs))
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
