"""`cloze vocab extend`: add words to a vocabulary."""

from typing import TYPE_CHECKING, Any

from cloze.api.vocabularies import extend_vocabulary
from cloze.cli.parser import verb

if TYPE_CHECKING:
    from cloze.data.build.vocabulary_extension import Extension

_MAX_LISTED = 20


@verb(extend_vocabulary)
def show(extension: "Extension", *, output: object) -> tuple[dict[str, Any], str]:
    """Return the added words, with their counts and the tokens that they were split into."""
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
    return {"directory": str(output), **extension.as_dict()}, "\n".join(lines)
