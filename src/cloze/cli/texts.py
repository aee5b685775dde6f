"""Verbs of text and vocabularies: vocab, vocab extend, vocab inspect, corpus and corpus audit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloze.cli.parser import Shown, Verb, verb
from cloze.tables import format_count, text_table

if TYPE_CHECKING:  # not needed for --help
    from cloze.api.vocabularies import InspectedVocabulary
    from cloze.data.audit import Audit
    from cloze.data.build.input_shards import InputPreview, InputSummary
    from cloze.data.build.parts import BuildSummary
    from cloze.data.build.vocabulary import Extension

_MAX_LISTED = 20
_PREVIEW_LINES = 3
_PREVIEW_CHARACTERS = 200


def _show_preview(preview: "InputPreview") -> Shown:
    size = preview.size_bytes
    on_disk = "" if size is None else f", {size:,} bytes on disk"
    lines = [*preview.formats, f"{format_count(preview.input_shards, 'input shard')}{on_disk}"]
    result = {"formats": preview.formats, "bytes": size, "input_shards": preview.input_shards}
    document = preview.first_document
    if document is None:
        lines.append("no text in the input")
    else:
        lines.append(f"first document, at {document.where}, {len(document.lines):,} {document.kind}:")
        for line in (line.replace("\n", " ") for line in document.lines[:_PREVIEW_LINES]):
            cut = line if len(line) <= _PREVIEW_CHARACTERS else f"{line[:_PREVIEW_CHARACTERS]} …"
            lines.append(f"    {cut}")
    return {**result, "first_document": document and asdict(document)}, "\n".join(lines)


def _show_check(summary: "InputSummary") -> Shown:
    names = ("document", "line", "character")
    counts = ", ".join(format_count(getattr(summary, f"{name}s"), name) for name in names)
    lines = [*summary.cleaning.describe(), f"all input is readable: {counts}"]
    return asdict(summary), "\n".join(lines)


PREVIEWS = {
    "dry_run": Verb("preview_inputs", _show_preview),
    "validate": Verb("check_inputs", _show_check),
}


@verb("vocab", "train_vocabulary", PREVIEWS)
def _show_vocab(tokenizer: object, *, output: object) -> Shown:
    return {"directory": str(output)}, f"wrote {output}"


@verb("vocab extend", "extend_vocabulary")
def _show_vocab_extend(extension: "Extension", *, output: object) -> Shown:
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
    return {"directory": str(output), **asdict(extension)}, "\n".join(lines)


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


@verb("vocab inspect", "inspect_vocabulary")
def _show_vocab_inspect(inspected: "list[InspectedVocabulary]") -> Shown:
    results = [
        asdict(one, dict_factory=lambda items: {name: value for name, value in items if value is not None})
        for one in inspected
    ]
    return results if len(results) > 1 else results[0], "\n".join(_format(results))


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


@verb("corpus", "build_dataset", PREVIEWS)
def _show_corpus(summary: "BuildSummary", *, output: object) -> Shown:
    names = ("document", "sentence", "token", "unknown_token")
    text = ", ".join(format_count(getattr(summary, f"{name}s"), name.replace("_", " ")) for name in names)
    return {"directory": str(output), **asdict(summary)}, f"wrote {output}: {text}"


@verb("corpus audit", "audit")
def _show_corpus_audit(measured: "Audit") -> Shown:
    from cloze.reports.audit_page import format_audit

    return asdict(measured), format_audit(measured)
