"""Flags and output that commands share: results go to stdout, progress and logs to stderr."""

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from cloze.file_io import to_json_text
from cloze.progress import Progress
from cloze.text_encoding import escape_controls


@dataclass(frozen=True, kw_only=True)
class Flag:
    """How a parameter is shown, in the `Annotated` types of those that need more than its name and docstring."""

    metavar: str | None = None
    name: str | None = None
    is_positional: bool = False
    """A field of a dataclass that is no flag."""


Settings: TypeAlias = Annotated[tuple[str, ...], Flag(metavar="KEY=VALUE", name="set")]


@dataclass(frozen=True)
class CommonOptions:
    """Flags of every command."""

    quiet: bool = False
    """Hide progress and notes."""
    json: bool = False
    """Print the result as JSON."""
    debug: bool = False
    """Show the traceback of an error."""

    @property
    def progress(self) -> Progress:
        """Progress on stderr."""
        return Progress(quiet=self.quiet)

    def print(self, result: Any, text: str) -> None:
        """Print the result as text or, with `--json`, as JSON."""
        print(to_json_text(result) if self.json else escape_controls(text))


Flags: TypeAlias = Annotated[CommonOptions, Flag(name="")]
