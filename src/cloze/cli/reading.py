"""The flags of the verbs that read text, and a look at the text in place of their work."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import tyro

from cloze.cli.common import Common, OptionalInteger
from cloze.corpus.cleaning import STEPS, CleaningConfig, Step
from cloze.corpus.formats import TextFormat

if TYPE_CHECKING:  # it imports what --help can do without
    from cloze.corpus.sources import ReadingConfig
    from cloze.executor import Workers

_LINES_SHOWN = 3
_CHARACTERS_SHOWN = 200


@dataclass(frozen=True)
class Reading:
    """What the inputs hold and how they are cleaned."""

    text_format: Annotated[TextFormat, tyro.conf.arg(name="format")] = "auto"
    """What text files hold; auto looks."""
    text_field: Annotated[str, tyro.conf.arg(metavar="NAME")] = "text"
    """Where JSON lines and tables have the text."""
    limit: OptionalInteger = None
    """Read this many documents."""
    without: Annotated[
        tyro.conf.UseAppendAction[tuple[Step, ...]],
        tyro.conf.arg(metavar="STEP", help_behavior_hint=f"({', '.join(STEPS)})"),
    ] = ()
    """Leave out a step of the cleaning."""

    @property
    def config(self) -> "ReadingConfig":
        """The same, as the library takes it."""
        from cloze.corpus.sources import ReadingConfig

        cleaning = CleaningConfig(without=self.without)
        return ReadingConfig(
            text_format=self.text_format, text_field=self.text_field, limit=self.limit, cleaning=cleaning
        )


@dataclass(frozen=True)
class ReadingOrLook(Reading):
    """The same, or a look at the text in place of work on it."""

    dry_run: bool = False
    """Say what would be read and how, and write nothing."""
    validate: bool = False
    """Read everything, name the first thing that is wrong, and write nothing."""


ReadingFlags: TypeAlias = Annotated[Reading, tyro.conf.arg(name="")]
ReadingOrLookFlags: TypeAlias = Annotated[ReadingOrLook, tyro.conf.arg(name="")]


def look(inputs: Sequence[str], reading: ReadingOrLook, *, workers: "Workers", flags: Common) -> None:
    """Do what --dry-run or --validate asks for.

    Raises:
        InputError: the text cannot be read.
    """
    from cloze.corpus.sources import describe_formats, plan_stretches, total_bytes

    config = reading.config
    stretches = plan_stretches(inputs, config)
    formats = describe_formats(stretches)
    size = total_bytes(stretches)
    result: dict[str, object] = {"formats": formats, "bytes": size, "stretches": len(stretches)}
    text = [*formats, f"{len(stretches):,} stretches" + ("" if size is None else f", {size:,} bytes on disk")]
    if reading.validate:
        from cloze.corpus.survey import survey

        found = survey(stretches, config.cleaning, workers=workers, progress=flags.progress)
        result |= asdict(found)
        counts = f"{found.documents:,} documents, {found.lines:,} lines, {found.characters:,} characters"
        text += [*found.cleaning.in_words(), f"all of it can be read: {counts}"]
    else:
        from cloze.corpus.survey import first_document

        document = first_document(stretches)
        result["first_document"] = document and asdict(document)
        if document is None:
            text.append("no text in it")
        else:
            text.append(f"first document, at {document.where}, {len(document.lines):,} {document.kind}:")
            text += [f"    {line[:_CHARACTERS_SHOWN]}" for line in document.lines[:_LINES_SHOWN]]
    flags.print(result, "\n".join(text))
