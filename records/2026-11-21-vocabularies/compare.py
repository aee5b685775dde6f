"""Fertility tables: vocabularies learned by cloze, by the tokenizers library on the same text, and Google's.

    python compare.py SHARED WORK    SHARED: the directory of real data; WORK: room for a split of 20 MB

It writes record.json and the tables of README.md beside itself.
"""

import json
import lzma
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from tokenizers import BertWordPieceTokenizer

from cloze.data.build.word_counts import count_input_words
from cloze.tokenization.special_tokens import SPECIAL_TOKENS
from cloze.tokenization.statistics import describe_text
from cloze.tokenization.tokenizer import Tokenizer
from cloze.tokenization.loading import load_tokenizer
from cloze.tokenization.wordpiece import WordPieceTokenizer
from cloze.tokenization.vocabulary import learn_vocabulary, reserved_tokens

SAME, FIVE = "tokenizers, the same reserved", "tokenizers, 5 reserved"


@dataclass(frozen=True)
class Comparison:
    """A language: files to learn from and to measure on, and how."""

    learned_from: tuple[str, ...]
    held_out: tuple[str, ...]
    size: int
    lowercase: bool
    published: tuple[str, ...]


MULTILINGUAL = ("bert-base-multilingual-cased", "bert-base-multilingual-uncased")
COMPARISONS = {
    "English": Comparison(
        learned_from=(
            *(f"enwiki2015/enwiki2015-{number:03}" for number in range(7)),
            *(f"novels100/novels100-{number:03}" for number in range(3)),
        ),
        held_out=("enwiki2015/enwiki2015-014", "novels100/novels100-003"),
        size=30_522,
        lowercase=True,
        published=("bert-base-uncased", "bert-base-cased", *MULTILINGUAL),
    ),
    "German": Comparison(("deu-train",), ("deu-held-out",), 20_000, lowercase=False, published=MULTILINGUAL),
    "Chinese": Comparison(
        ("zhwiki_sample/zhwiki_sample-000",),
        ("zhwiki_sample/zhwiki_sample-001",),
        21_128,
        lowercase=True,
        published=("bert-base-chinese", *MULTILINGUAL),
    ),
}


def main(shared: Path, work: Path) -> None:
    """Learn, measure, write."""
    data = shared / "data"
    cut_german(data / "pretrain", work)
    packages = {name: metadata.version(name) for name in ("cloze-bert", "tokenizers", "numpy")}
    record = {"versions": {"python": platform.python_version(), **packages}, "tables": {}}
    for language, comparison in COMPARISONS.items():
        rows = compare(comparison, data, work)
        record["tables"][language] = {"settings": asdict(comparison), "rows": rows}
        sys.stdout.write(as_text(language, comparison, rows))
        sys.stdout.flush()
    file = Path(__file__).with_name("record.json")
    file.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def compare(comparison: Comparison, data: Path, work: Path) -> dict[str, dict[str, object]]:
    """Return a row a vocabulary."""
    train, held_out = (
        [(work if name.startswith("deu") else data / "pretrain") / f"{name}.txt.xz" for name in names]
        for names in (comparison.learned_from, comparison.held_out)
    )
    size = comparison.size
    timed = {
        "cloze": learn(train, comparison),
        SAME: learn_by_library(train, comparison, reserved_tokens(size)),
        FIVE: learn_by_library(train, comparison, SPECIAL_TOKENS),
    }
    timed |= {name: (load_tokenizer(data / "vocab" / name), None) for name in comparison.published}
    counts, _ = count_input_words(held_out, [tokenizer for tokenizer, _ in timed.values()], workers=2)
    return {
        name: {"seconds": seconds, "vocabulary": tokenizer.vocab_size}
        | asdict(describe_text(tokenizer, words))
        for (name, (tokenizer, seconds)), words in zip(timed.items(), counts, strict=True)
    }


def learn(files: Sequence[Path], comparison: Comparison) -> tuple[Tokenizer, float]:
    """Learn a vocabulary as `cloze vocab` does, with two workers."""
    started = time.perf_counter()
    nothing = WordPieceTokenizer.from_tokens(SPECIAL_TOKENS, lowercase=comparison.lowercase)
    (counts,), _ = count_input_words(files, [nothing], workers=2)
    tokens = learn_vocabulary(counts, size=comparison.size)
    tokenizer = WordPieceTokenizer.from_tokens(tokens, lowercase=comparison.lowercase)
    return tokenizer, time.perf_counter() - started


def learn_by_library(
    files: Sequence[Path], comparison: Comparison, reserved: Sequence[str]
) -> tuple[Tokenizer, float]:
    """Learn a vocabulary by the library's WordPiece trainer, with its defaults but for what is reserved."""
    library = BertWordPieceTokenizer(lowercase=comparison.lowercase)
    started = time.perf_counter()
    library.train_from_iterator(
        lines(files), vocab_size=comparison.size, special_tokens=list(reserved), show_progress=False
    )
    seconds = time.perf_counter() - started
    ids = library.get_vocab()
    return WordPieceTokenizer.from_tokens(sorted(ids, key=ids.__getitem__), lowercase=comparison.lowercase), seconds


def lines(files: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of compressed files."""
    for file in files:
        with lzma.open(file, "rt", encoding="utf-8") as stream:
            yield from stream


def cut_german(pretrain: Path, work: Path) -> None:
    """Hold out the last tenth of the documents of the one German file."""
    with lzma.open(pretrain / "eltec_deu" / "eltec_deu-000.txt.xz", "rt", encoding="utf-8") as stream:
        documents = stream.read().split("\n\n")
    edge = len(documents) * 9 // 10
    for name, some in (("deu-train", documents[:edge]), ("deu-held-out", documents[edge:])):
        with lzma.open(work / f"{name}.txt.xz", "wt", encoding="utf-8", preset=1) as stream:
            stream.write("\n\n".join(some))


def as_text(language: str, comparison: Comparison, rows: dict[str, dict[str, object]]) -> str:
    """Return a table in Markdown."""
    held_out = f"{rows['cloze']['words']:,} words held out"
    told = [
        f"\n{language}, {'un' if comparison.lowercase else ''}cased, {held_out}\n",
        "| vocabulary | pieces | pieces per word | words cut | unknown words | never used | learned in |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        told.append(
            f"| {name} | {row['vocabulary']:,} | {row['tokens_per_word']:.4f} | {row['cut_words']:.2%} "
            f"| {row['unknown_words']:.4%} | {row['unused_tokens']:.1%} "
            f"| {'' if row['seconds'] is None else format(row['seconds'], '.0f') + ' s'} |"
        )
    ours, same, five = (rows[name]["tokens_per_word"] for name in ("cloze", SAME, FIVE))
    return "\n".join([*told, f"\nratios: {ours / same:.4f}, {ours / five:.4f}\n"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
