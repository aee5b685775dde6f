"""What many tests do: read an excerpt of a novel, count, compare and spoil files."""

import lzma
from pathlib import Path

NOVEL = Path(__file__).resolve().parents[1] / "src/cloze/demo/data/Doyle_Hound_1902.txt.xz"


def novel_paragraphs(count: int) -> list[str]:
    """Return the first paragraphs of a novel that are longer than a line."""
    with lzma.open(NOVEL, "rt", encoding="utf-8-sig") as stream:
        return [line.strip() for line in stream if len(line) > 80][:count]


def grouped(paragraphs: list[str]) -> list[str]:
    """Return documents of five paragraphs, a line each."""
    return ["\n".join(paragraphs[i : i + 5]) for i in range(0, len(paragraphs), 5)]


def write_novel(path: Path, num_paragraphs: int) -> Path:
    """Write an excerpt as documents with blank lines between them."""
    path.write_text("\n\n".join(grouped(novel_paragraphs(num_paragraphs))) + "\n", encoding="utf-8")
    return path


class CountingBar:
    """A progress bar that only counts."""

    def __init__(self) -> None:
        self.done = 0.0

    def advance(self, amount: float) -> None:
        self.done += amount

    def show(self, **fields: object) -> None:
        pass


def files_of(directory: Path) -> dict[str, bytes]:
    """Return the content of every file."""
    return {file.name: file.read_bytes() for file in directory.iterdir()}


def flip_a_bit(file: Path) -> None:
    """Damage a file in its middle."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)
