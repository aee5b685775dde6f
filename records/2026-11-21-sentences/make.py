"""Draw 1,000 sentences from the articles that a data set holds out: python make.py DATASET enwiki2015."""

import lzma
import random
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from cloze.data.dataset import Dataset
from cloze.data.build.duplicates import text_digest
from cloze.tokenization.sentences import split_sentences

SENTENCES, FEWEST_WORDS, MOST_WORDS = 1000, 8, 40
WORD = re.compile(r"(?<![\w'’-])[A-Za-z]+(?![\w'’-])")


def documents(folder: Path) -> Iterator[list[str]]:
    """Yield each document's lines."""
    for file in sorted(folder.glob("*.txt.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as stream:
            for is_text, lines in groupby(map(str.strip, stream), key=bool):
                if is_text:
                    yield list(lines)


def main(dataset: Path, folder: Path) -> None:
    """Write sentences.tsv: a sentence with one word hidden, and that word."""
    held_out = set(Dataset.open(dataset).split("validation").digests.tolist())
    own = [lines for lines in documents(folder) if text_digest(lines) in held_out]
    sentences = sorted(
        {
            sentence
            for lines in own
            for line in lines
            for sentence in split_sentences(line)
            if FEWEST_WORDS <= len(sentence.split()) <= MOST_WORDS and WORD.search(sentence)
        }
    )
    draw = random.Random(2026)
    rows = ["text\tanswer"]
    for sentence in draw.sample(sentences, SENTENCES):
        hidden = draw.choice(list(WORD.finditer(sentence)))
        text = f"{sentence[: hidden.start()]}[MASK]{sentence[hidden.end() :]}"
        rows.append(f"{' '.join(text.split())}\t{hidden[0].lower()}")
    Path("sentences.tsv").write_text("\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
