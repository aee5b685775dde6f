"""Write the example tables: passages of the bundled novels with their author.

python examples/make_examples.py
"""

import csv
from pathlib import Path

from cloze.demo.novels import NOVELISTS, Novel, read_chapters, split_passages

_AUTHORS = ("Burnett", "Conrad", "Doyle")
_WORDS = 20


def main(output: Path) -> None:
    """Write 200 passages of one novel and 30 of another by each author."""
    chosen = [novelist for novelist in NOVELISTS if novelist.name in _AUTHORS]
    tables = {
        "authors.csv": [(text, n.name) for n in chosen for text in _passages(n.train_novel, 200)],
        "other-books.csv": [(text, n.name) for n in chosen for text in _passages(n.test_novel, 30)],
    }
    for name, rows in tables.items():
        with (output / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([("text", "author"), *rows])


def _passages(novel: Novel, count: int) -> list[str]:
    """Return `count` passages of a novel, evenly spaced."""
    passages = [
        text for chapter in read_chapters(novel) for text in split_passages(chapter, min_words=_WORDS)
    ]
    return [passages[i * len(passages) // count] for i in range(count)]


if __name__ == "__main__":
    main(Path(__file__).parent)
