"""The flags `--dry-run` and `--validate` of the commands that build something of text."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cloze.api.datasets import check_inputs, preview_inputs
from cloze.cli.parser import Verb
from cloze.tables import format_count

if TYPE_CHECKING:  # not needed for --help
    from cloze.data.build.survey import InputPreview

_PREVIEW_LINES = 3
_PREVIEW_CHARACTERS = 200


def show_preview(preview: "InputPreview") -> tuple[dict[str, Any], str]:
    """Return the formats of inputs and the beginning of the first document."""
    result, lines = _describe(preview)
    document = preview.first_document
    if document is None:
        lines.append("no text in the input")
    else:
        lines.append(f"first document, at {document.where}, {len(document.lines):,} {document.kind}:")
        lines += [f"    {_shorten(line)}" for line in document.lines[:_PREVIEW_LINES]]
    return {**result, "first_document": document and asdict(document)}, "\n".join(lines)


def show_check(preview: "InputPreview") -> tuple[dict[str, Any], str]:
    """Return the formats of inputs and the counts of their text."""
    result, lines = _describe(preview)
    summary = preview.summary
    assert summary is not None
    counts = f"{summary.documents:,} documents, {summary.lines:,} lines, {summary.characters:,} characters"
    lines += [*summary.cleaning.describe(), f"all input is readable: {counts}"]
    return {**result, **asdict(summary)}, "\n".join(lines)


def _describe(preview: "InputPreview") -> tuple[dict[str, Any], list[str]]:
    size = preview.size_bytes
    on_disk = "" if size is None else f", {size:,} bytes on disk"
    lines = [*preview.formats, f"{format_count(preview.input_shards, 'input shard')}{on_disk}"]
    return {"formats": preview.formats, "bytes": size, "input_shards": preview.input_shards}, lines


def _shorten(line: str) -> str:
    line = line.replace("\n", " ")
    return line if len(line) <= _PREVIEW_CHARACTERS else f"{line[:_PREVIEW_CHARACTERS]} …"


PREVIEWS = {"dry_run": Verb(preview_inputs, show_preview), "validate": Verb(check_inputs, show_check)}
