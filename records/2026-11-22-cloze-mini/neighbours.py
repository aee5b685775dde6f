"""Draw pairs of neighbouring sentences from the training articles: python neighbours.py DATASET enwiki2015."""

import lzma
import random
import sys
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path

from cloze.corpus.duplicates import digest_of
from cloze.corpus.store import Dataset
from cloze.text.sentences import split_sentences

LEARNED, TESTED, FEWEST_WORDS, MOST_WORDS = 20_000, 1_000, 8, 40


def documents(folder: Path) -> Iterator[list[str]]:
    """Yield each document's lines."""
    for file in sorted(folder.glob("*.txt.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as stream:
            for is_text, lines in groupby(map(str.strip, stream), key=bool):
                if is_text:
                    yield list(lines)


def pair_of(lines: list[str], draw: random.Random) -> tuple[str, str] | None:
    """Return two sentences of one paragraph that follow each other, if there are any of a fitting length."""
    for line in draw.sample(lines, min(len(lines), 20)):
        fitting = [
            pair
            for pair in pairwise(" ".join(each.split()) for each in split_sentences(line))
            if all(FEWEST_WORDS <= len(each.split()) <= MOST_WORDS for each in pair)
        ]
        if fitting:
            return draw.choice(fitting)
    return None


def main(dataset: Path, folder: Path) -> None:
    """Write train.tsv and dev.tsv: a pair a row, at most two of one article."""
    learned_from = set(Dataset.open(dataset).split("train").digests.tolist())
    draw = random.Random(2026)
    pairs = []
    for lines in documents(folder):
        if digest_of(lines) in learned_from:
            pairs += sorted({pair for pair in (pair_of(lines, draw), pair_of(lines, draw)) if pair})
    draw.shuffle(pairs)
    for name, part in (("train", pairs[TESTED:][:LEARNED]), ("dev", pairs[:TESTED])):
        rows = "".join(f"{one}\t{other}\n" for one, other in part)
        Path(f"{name}.tsv").write_text(f"text\tpair\n{rows}", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
