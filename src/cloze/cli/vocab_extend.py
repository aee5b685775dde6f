"""`cloze vocab extend`: add words to a vocabulary that is there."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from cloze.cli.common import (
    Corpus,
    Flags,
    OptionalInteger,
    OptionalPath,
    Output,
    PoolFlags,
)
from cloze.cli.reading import ReadingFlags

if TYPE_CHECKING:
    from cloze.corpus.extension import Extension

_SHOWN = 20


def run(
    vocabulary: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="VOCAB")],
    corpus: Corpus = (),
    /,
    *,
    output: Output,
    words: OptionalPath = None,
    add: OptionalInteger = None,
    reading: ReadingFlags,
    pool: PoolFlags,
    overwrite: bool = False,
    flags: Flags,
) -> None:
    """Add words to a vocabulary: in its [unused] places first, then at its end. Every other piece keeps its id.

    Args:
        vocabulary: directory of a vocabulary, or of any model with a tokenizer.
        corpus: text to take words from, or to count them in.
        output: directory for the extended vocabulary.
        words: a file with a word a line, all to be added.
        add: add so many words, the most frequent of the text that are no piece.
        reading: what the text files hold.
        pool: where the work is done.
        overwrite: replace the output where it exists.
        flags: flags of every verb.
    """
    from cloze.corpus.extension import extend_vocabulary

    extension = extend_vocabulary(
        vocabulary,
        output,
        words=words,
        inputs=corpus,
        number=add,
        reading=reading.config,
        workers=pool(),
        overwrite=overwrite,
        progress=flags.progress,
    )
    flags.print({"directory": str(output), **asdict(extension)}, _as_text(output, extension))


def _as_text(output: Path, extension: "Extension") -> str:
    added = extension.added
    lines = [
        f"wrote {output}: {len(added):,} words added, {len(added) - extension.appended:,} of them in [unused] places; "
        f"{extension.pieces:,} pieces"
    ]
    if extension.known:
        more = len(extension.known) - _SHOWN
        known = ", ".join(extension.known[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
        lines.append(f"pieces already: {known}")
    if extension.pieces_per_word is not None:
        before, after = extension.pieces_per_word_before, extension.pieces_per_word
        lines.append(f"pieces per word of the text: {before:.4f} before, {after:.4f} now")
    cut = sum(len(word.before) for word in added) / len(added)
    lines.append(f"pieces of an added word: {cut:.2f} before, 1 now")
    for word in added[:_SHOWN]:
        times = "" if word.count is None else f"{word.count:>9,} times"
        lines.append(f"  {word.id:>7} {word.word:<24}{times}  was {' '.join(word.before)}")
    if len(added) > _SHOWN:
        lines.append(f"  and {len(added) - _SHOWN:,} more, all in --json")
    return "\n".join(lines)
