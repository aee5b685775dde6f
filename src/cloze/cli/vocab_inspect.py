"""`cloze vocab inspect`: what a vocabulary is, and what it does to a text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import tyro

from cloze.cli.common import Corpus, Flags, PoolFlags
from cloze.cli.reading import ReadingFlags

_VOCABULARY_ROWS = {
    "pieces": "pieces",
    "lowercase": "lower-cases",
    "words": "  words and beginnings of words",
    "continuations": "  continuations (##)",
    "characters": "  single characters",
    "reserved": "  reserved",
}
_TEXT_ROWS = {
    "words": "words of the text",
    "distinct_words": "  distinct",
    "pieces": "pieces of the text",
    "pieces_per_word": "pieces per word",
    "cut_words": "words cut",
    "unknown_words": "words unknown ([UNK])",
    "continuations": "pieces that continue a word",
    "characters": "pieces that are one character of a cut word",
    "unused_pieces": "vocabulary that the text never uses",
}


def run(
    vocabulary: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="VOCAB")],
    corpus: Corpus = (),
    /,
    *,
    text: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="TEXT", help_behavior_hint="")
    ] = (),
    beside: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="VOCAB…", help_behavior_hint="")] = (),
    reading: ReadingFlags,
    pool: PoolFlags,
    flags: Flags,
) -> None:
    """Show what is in a vocabulary and what it does to a text.

    A word is what BERT's tokenizer looks up: cut at spaces and at punctuation, each mark a word, each Chinese
    character too.

    Args:
        vocabulary: directory of a vocabulary, or of any model with a tokenizer.
        corpus: text to measure it on: files, folders or globs; - is stdin.
        text: a text to show the pieces of; may be given again.
        beside: other vocabularies to show beside it.
        reading: what the text files hold.
        pool: where the work is done.
        flags: flags of every verb.
    """
    from cloze.corpus.word_counts import Normalization, count_text
    from cloze.text.inspection import describe_text, describe_vocabulary
    from cloze.text.tokenizer import Tokenizer

    directories = [vocabulary, *beside]
    tokenizers = [Tokenizer.load(directory) for directory in directories]
    counts = {}
    if corpus:
        counts = count_text(
            corpus, tokenizers, reading=reading.config, workers=pool(), progress=flags.progress
        )
    found: list[dict[str, Any]] = []
    for directory, tokenizer in zip(directories, tokenizers, strict=True):
        facts: dict[str, Any] = {
            "directory": str(directory),
            "vocabulary": asdict(describe_vocabulary(tokenizer)),
        }
        if counts:
            facts["text"] = asdict(describe_text(tokenizer, counts[Normalization.of(tokenizer)]))
        facts["pieces"] = [tokenizer.encode(some).tokens[1:-1] for some in text]
        found.append(facts)
    flags.print(found if beside else found[0], "\n".join(_as_text(found)))


def _as_text(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = [Path(facts["directory"]).name or facts["directory"] for facts in found]
    labels = [*_VOCABULARY_ROWS.values(), *_TEXT_ROWS.values()]
    wide, widths = max(map(len, labels)) + 2, [max(len(name), 12) + 2 for name in names]
    if len(found) > 1:
        yield " " * wide + _row(names, widths)
    for key, label in _VOCABULARY_ROWS.items():
        cells = [_cell(facts["vocabulary"][key]) for facts in found]
        yield f"{label:<{wide}}{_row(cells, widths)}"
    if "text" in found[0]:
        for key, label in _TEXT_ROWS.items():
            cells = [_cell(facts["text"][key], is_share=key != "pieces_per_word") for facts in found]
            yield f"{label:<{wide}}{_row(cells, widths)}"
    for name, facts in zip(names, found, strict=True):
        if len(found) > 1:
            yield f"{name}:"
        yield f"  longest: {' '.join(facts['vocabulary']['longest'])}"
        if "text" in facts:
            yield from _words("cut most", facts["text"]["most_cut"])
            yield from _words("unknown", facts["text"]["unknown"])
        yield from (f"  {' '.join(pieces)}" for pieces in facts["pieces"])


def _words(label: str, words: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if words:
        told = (f"{word['word']} ({word['count']:,}: {' '.join(word['pieces'])})" for word in words)
        yield f"  {label}: {', '.join(told)}"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _cell(value: float, *, is_share: bool = False) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3%}" if is_share else f"{value:.4f}"
