"""Write the example tables: passages of the bundled novels with their author."""

import csv
from pathlib import Path

from cloze.demo.novels import NOVELISTS, Novel, read_chapters, split_passages

_WORDS = 20
_AUTHORS = ("Burnett", "Conrad", "Doyle")
_HERE = Path(__file__).parent


def _passages(novel: Novel, count: int) -> list[str]:
    """Return `count` passages of a novel, evenly spaced."""
    passages = [
        text for chapter in read_chapters(novel) for text in split_passages(chapter, min_words=_WORDS)
    ]
    return [passages[i * len(passages) // count] for i in range(count)]


def _write(name: str, rows: list[tuple[str, str]]) -> None:
    with (_HERE / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("text", "author"), *rows])


def main() -> None:
    """Write both tables next to this file."""
    chosen = [novelist for novelist in NOVELISTS if novelist.name in _AUTHORS]
    _write("authors.csv", [(t, n.name) for n in chosen for t in _passages(n.train_novel, 200)])
    _write("other-books.csv", [(t, n.name) for n in chosen for t in _passages(n.test_novel, 30)])


if __name__ == "__main__":
    main()
