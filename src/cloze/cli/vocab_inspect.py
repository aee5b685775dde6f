"""`cloze vocab inspect`: show what is in a vocabulary and how it splits text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cloze.api.vocabularies import InspectedVocabulary, inspect_vocabulary
from cloze.cli.parser import verb
from cloze.tables import text_table

_VOCABULARY_ROWS = {
    "tokens": "tokens",
    "lowercase": "lower-cases",
    "words": "  words and starts of words",
    "continuations": "  continuations (##)",
    "characters": "  single characters",
    "reserved": "  reserved",
}
_TEXT_ROWS = {
    "words": "words of the text",
    "distinct_words": "  distinct",
    "tokens": "tokens of the text",
    "tokens_per_word": "tokens per word",
    "cut_words": "words split",
    "unknown_words": "words unknown ([UNK])",
    "continuations": "tokens that continue a word",
    "characters": "tokens that are one character of a split word",
    "unused_tokens": "vocabulary not used by the text",
}


@verb(inspect_vocabulary)
def show(inspected: list[InspectedVocabulary]) -> tuple[Any, str]:
    """Return a table with a column for each vocabulary, and examples."""
    results = [asdict(one, dict_factory=_without_nones) for one in inspected]
    return results if len(results) > 1 else results[0], "\n".join(_format(results))


def _without_nones(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in items if value is not None}


def _format(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = [Path(result["directory"]).name or result["directory"] for result in results]
    rows = [
        [label, *(_format_cell(result["vocabulary"][key]) for result in results)]
        for key, label in _VOCABULARY_ROWS.items()
    ]
    if "text" in results[0]:
        for key, label in _TEXT_ROWS.items():
            is_share = key != "tokens_per_word"
            cells = (_format_cell(result["text"][key], is_share=is_share) for result in results)
            rows.append([label, *cells])
    yield text_table(["", *names], rows)
    for name, result in zip(names, results, strict=True):
        if len(results) > 1:
            yield f"{name}:"
        yield f"  longest: {' '.join(result['vocabulary']['longest'])}"
        if "text" in result:
            yield from _format_words("split most", result["text"]["most_cut"])
            yield from _format_words("unknown", result["text"]["unknown"])
        yield from (f"  {' '.join(tokens)}" for tokens in result["tokens"])


def _format_words(label: str, words: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if words:
        parts = (f"{word['word']} ({word['count']:,}: {' '.join(word['tokens'])})" for word in words)
        yield f"  {label}: {', '.join(parts)}"


def _format_cell(value: float, *, is_share: bool = False) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3%}" if is_share else f"{value:.4f}"
