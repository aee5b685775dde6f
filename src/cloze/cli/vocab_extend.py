"""`cloze vocab extend`: add words to a vocabulary."""

from pathlib import Path
from typing import TYPE_CHECKING

from cloze.cli import options
from cloze.cli.reading_options import ReadingFlags

if TYPE_CHECKING:
    from cloze.data.vocabulary_extension import Extension

_MAX_LISTED = 20


def run(
    vocabulary: options.Vocabulary,
    corpus: options.TextInputs = (),
    /,
    *,
    output: options.Output,
    words: options.OptionalPath = None,
    add: options.OptionalInteger = None,
    reading: ReadingFlags,
    pool: options.WorkerFlags,
    overwrite: options.Overwrite = False,
    flags: options.Flags,
) -> None:
    """Add words to a vocabulary: first in its [unused] tokens, then at its end.

    All other tokens keep their ids.

    Args:
        corpus: Text to take words from, or to count words in.
        output: Directory of the extended vocabulary.
        words: File of words to add, one per line.
        add: Number of words to add: the most frequent ones of the text that are not tokens yet.
    """
    from cloze.api.pretraining import extend_vocabulary

    extension = extend_vocabulary(
        vocabulary,
        output,
        words=words,
        inputs=corpus,
        number=add,
        reading=reading.config,
        workers=pool.resolve(),
        overwrite=overwrite,
        progress=flags.progress,
    )
    flags.print({"directory": str(output), **extension.as_dict()}, _format(output, extension))


def _format(output: Path, extension: "Extension") -> str:
    added = extension.added
    lines = [
        f"wrote {output}: {len(added):,} words added, {len(added) - extension.appended:,} of them in [unused] tokens; "
        f"{extension.tokens:,} tokens"
    ]
    if extension.known:
        more = len(extension.known) - _MAX_LISTED
        known = ", ".join(extension.known[:_MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")
        lines.append(f"tokens already: {known}")
    if extension.tokens_per_word is not None:
        before, after = extension.tokens_per_word_before, extension.tokens_per_word
        lines.append(f"tokens per word of the text: {before:.4f} before, {after:.4f} now")
    tokens_before = sum(len(word.before) for word in added) / len(added)
    lines.append(f"tokens per added word: {tokens_before:.2f} before, 1 now")
    for word in added[:_MAX_LISTED]:
        count = "" if word.count is None else f"{word.count:>9,} times"
        lines.append(f"  {word.id:>7} {word.word:<24}{count}  was {' '.join(word.before)}")
    if len(added) > _MAX_LISTED:
        lines.append(f"  and {len(added) - _MAX_LISTED:,} more; --json lists all")
    return "\n".join(lines)
