"""Flags of the commands that read text, and a preview of the text."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cloze.cli import options
from cloze.data.cleaning import CleaningConfig, Step
from cloze.data.formats import format_names
from cloze.tables import format_count

if TYPE_CHECKING:  # not needed for --help
    from cloze.data.input_shards import ReadingConfig
    from cloze.parallel_map import Workers

    _TextFormat: TypeAlias = str
else:
    _TextFormat = Literal[format_names()]

_PREVIEW_LINES = 3
_PREVIEW_CHARACTERS = 200


@dataclass(frozen=True)
class ReadingOptions:
    """Format and cleaning of the input."""

    text_format: Annotated[_TextFormat, options.Flag(name="format")] = "auto"
    """Format of text files; auto detects it."""
    text_field: Annotated[str, options.Flag(aliases=["--text-column"], metavar="NAME")] = "text"
    """Field of JSON lines or column of tables with the text."""
    limit: options.OptionalInteger = None
    """Maximum number of documents to read."""
    without: Annotated[
        tuple[Step, ...],
        options.Flag(metavar="STEP"),
    ] = ()
    """Cleaning step to skip; may be repeated."""

    @property
    def keywords(self) -> dict[str, Any]:
        """Keyword arguments of the functions that read text."""
        return {
            "format": self.text_format,
            "text_field": self.text_field,
            "limit": self.limit,
            "without": self.without,
        }

    @property
    def config(self) -> "ReadingConfig":
        """Settings of the readers."""
        from cloze.data.input_shards import ReadingConfig

        cleaning = CleaningConfig(without=self.without)
        return ReadingConfig(
            text_format=self.text_format, text_field=self.text_field, limit=self.limit, cleaning=cleaning
        )


@dataclass(frozen=True)
class ReadingOrPreviewOptions(ReadingOptions):
    """Format and cleaning of the input, or a preview of it."""

    dry_run: options.Switch = False
    """Show what would be read, and write nothing."""
    validate: options.Switch = False
    """Read all input, report the first error, and write nothing."""


ReadingFlags: TypeAlias = Annotated[ReadingOptions, options.Flag(name="")]
ReadingOrPreviewFlags: TypeAlias = Annotated[ReadingOrPreviewOptions, options.Flag(name="")]


def preview(
    inputs: Sequence[str],
    reading: ReadingOrPreviewOptions,
    *,
    workers: "Workers",
    flags: options.CommonOptions,
) -> None:
    """Print the result of `--dry-run` or `--validate`.

    Raises:
        InputError: the text cannot be read.
    """
    from cloze.data.input_shards import describe_input_formats, plan_input_shards, total_bytes
    from cloze.data.survey import check_inputs, first_document

    config = reading.config
    input_shards = plan_input_shards(inputs, config)
    formats = describe_input_formats(input_shards)
    size = total_bytes(input_shards)
    result: dict[str, object] = {"formats": formats, "bytes": size, "input_shards": len(input_shards)}
    on_disk = "" if size is None else f", {size:,} bytes on disk"
    lines = [*formats, f"{format_count(len(input_shards), 'input shard')}{on_disk}"]
    if reading.validate:
        survey = check_inputs(input_shards, config.cleaning, workers=workers, progress=flags.progress)
        result |= asdict(survey)
        counts = f"{survey.documents:,} documents, {survey.lines:,} lines, {survey.characters:,} characters"
        lines += [*survey.cleaning.describe(), f"all input is readable: {counts}"]
    else:
        document = first_document(input_shards)
        result["first_document"] = document and asdict(document)
        if document is None:
            lines.append("no text in the input")
        else:
            lines.append(f"first document, at {document.where}, {len(document.lines):,} {document.kind}:")
            lines += [f"    {_shorten(line)}" for line in document.lines[:_PREVIEW_LINES]]
    flags.print(result, "\n".join(lines))


def _shorten(line: str) -> str:
    return line if len(line) <= _PREVIEW_CHARACTERS else f"{line[:_PREVIEW_CHARACTERS]} …"
